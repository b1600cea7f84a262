//! The digest of a plan: what several processes that share a run must agree on.

use super::Due;
use crate::lengths::Ask;
use truetape_schemas::ids::Digester;

/// Digests a plan, turn by turn.
#[derive(Debug, Default)]
pub(super) struct Agreed(Digester);

impl Agreed {
    /// Takes in one turn, sent or not, whoever sends it.
    pub(super) fn turn(
        &mut self,
        due: &Due<'_>,
        think_us: Option<i64>,
        ask: &Ask,
        reason: Option<&str>,
    ) {
        for number in [due.turn.turn_id, due.due_us, think_us.unwrap_or(-1)] {
            self.0.add(&number.to_le_bytes());
        }
        self.0.add(ask.enforcement.name().as_bytes());
        self.0.add(reason.unwrap_or_default().as_bytes());
    }

    /// The digest of all of it.
    pub(super) fn finish(&self) -> String {
        self.0.finish()
    }
}
