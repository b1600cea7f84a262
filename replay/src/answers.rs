//! Names that the target gave to its answers: a later turn of `openai_responses` continues one of them,
//! and the name that production's server gave means nothing to the target.

use crate::plan::{Plan, Planned};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Names of the answers that somebody continues.
#[derive(Debug, Default)]
pub struct Answers {
    continued: HashSet<i64>,
    names: Mutex<HashMap<i64, String>>,
    nameless: AtomicU64,
}

impl Answers {
    /// Of which answers a plan needs the names.
    pub fn of(plan: &Plan) -> Self {
        let continued = plan
            .dispatches
            .iter()
            .filter_map(|planned| planned.continues);
        Self {
            continued: continued.collect(),
            ..Self::default()
        }
    }

    /// Keeps the name of a turn's answer, where it is needed.
    pub fn keep(&self, turn_id: i64, name: Option<&str>) {
        let Some(name) = name.filter(|_| self.continued.contains(&turn_id)) else {
            return;
        };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(turn_id, name.to_owned());
    }

    /// The name of the answer that a turn continues, as far as it is known.
    pub fn name_for(&self, planned: &Planned) -> Option<String> {
        let parent = planned.continues?;
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&parent).cloned()
    }

    /// The same of a turn that is sent now. One that has none is sent without, and counted.
    pub fn continued_by(&self, planned: &Planned) -> Option<String> {
        let name = self.name_for(planned);
        let nameless = planned.continues.is_some() && name.is_none();
        self.nameless
            .fetch_add(u64::from(nameless), Ordering::Relaxed);
        name
    }

    /// What a user should know.
    pub fn finding(&self) -> Option<String> {
        let nameless = self.nameless.load(Ordering::Relaxed);
        (nameless != 0).then(|| {
            format!(
                "history: {nameless} turns continue an answer that the target did not give: sent \
                 without previous_response_id, and so without their history (optimistic)"
            )
        })
    }
}
