//! When turns are due: sessions are placed, and their turns keep their distance to the first.

use super::Settings;
use crate::arrivals::{Placed, Step};
use std::collections::HashMap;
use truetape_schemas::set::Turn;

/// A turn with its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due<'a> {
    /// When it is due.
    pub(super) due_us: i64,
    /// The turn.
    pub(super) turn: &'a Turn,
    /// Whether its session is left out, to lower the rate.
    pub(super) is_left_out: bool,
}

/// All turns, in the order of sending.
#[derive(Debug, Default)]
pub(super) struct Timeline<'a> {
    /// Turns by due time; ties keep the order of the set.
    pub(super) due: Vec<Due<'a>>,
    /// The steps of the rate, where it has any.
    pub(super) steps: Vec<Step>,
    /// Things a user should know.
    pub(super) findings: Vec<String>,
}

/// Only the start of a session moves.
pub(super) fn timeline<'a>(turns: &'a [Turn], settings: &Settings) -> Timeline<'a> {
    let mut first: HashMap<&str, (i64, i64)> = HashMap::new();
    for turn in turns {
        let own = (turn.start_us, turn.turn_id);
        let start = first.entry(turn.session.as_str()).or_insert(own);
        *start = own.min(*start);
    }
    let mut sessions: Vec<(&str, i64, i64)> = first
        .into_iter()
        .map(|(session, (start_us, turn_id))| (session, start_us, turn_id))
        .collect();
    sessions.sort_unstable_by_key(|(_, start_us, turn_id)| (*start_us, *turn_id));
    let starts_us: Vec<i64> = sessions.iter().map(|(_, start_us, _)| *start_us).collect();
    let Placed {
        starts_us: placed,
        steps,
    } = settings.placing.place(&starts_us, settings.duration_us);
    let left_out = placed.iter().filter(|start| start.is_none()).count();
    let findings = settings.placing.findings(sessions.len(), left_out);
    let moved: HashMap<&str, (i64, Option<i64>)> = sessions
        .into_iter()
        .zip(placed)
        .map(|((session, start_us, _), placed)| (session, (start_us, placed)))
        .collect();
    let mut due: Vec<Due<'a>> = turns.iter().map(|turn| own(turn, &moved)).collect();
    due.sort_by_key(|due| (due.due_us, due.turn.turn_id));
    Timeline {
        due,
        steps,
        findings,
    }
}

/// A turn that is left out keeps the time that the set has.
fn own<'a>(turn: &'a Turn, moved: &HashMap<&str, (i64, Option<i64>)>) -> Due<'a> {
    let session = moved.get(turn.session.as_str()).copied();
    let (start_us, placed) = session.unwrap_or((turn.start_us, Some(turn.start_us)));
    Due {
        due_us: placed.unwrap_or(start_us) + (turn.start_us - start_us),
        turn,
        is_left_out: placed.is_none(),
    }
}
