//! Latencies of a run, on both clocks, with and without its failures.

use serde::{Deserialize, Serialize};
use truetape_schemas::run::Dispatch;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Dispatches planned.
    pub due: u64,
}

/// Summarizes dispatches.
pub fn summarize(dispatches: &[Dispatch]) -> Summary {
    Summary {
        due: dispatches.len() as u64,
    }
}
