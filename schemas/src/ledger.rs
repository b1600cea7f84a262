//! The account that proves what a capture holds.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Accounts for every exchange that was ever offered to a recorder.
///
/// The ledger balances: `offered = recorded + degraded + sampled_out + excluded + dropped`.
/// A degraded exchange is in the capture too, with its `degraded` column saying what was given
/// up, so a capture has `recorded + degraded` rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Exchanges that reached the recorder.
    pub offered: u64,
    /// Exchanges recorded whole.
    pub recorded: u64,
    /// Exchanges recorded with something given up.
    pub degraded: u64,
    /// Exchanges left out by session sampling.
    pub sampled_out: u64,
    /// Exchanges left out by a rule, by reason (`not_inference`, `upgrade`, `replay_probe`).
    pub excluded: BTreeMap<String, u64>,
    /// Exchanges lost, by reason (`memory`, `queue_full`, `disk`, `bug`, `killed`, `shutdown`).
    pub dropped: BTreeMap<String, u64>,
}

impl Ledger {
    /// Whether every exchange offered is accounted for.
    pub fn balances(&self) -> bool {
        self.offered == self.accounted()
    }

    /// Rows that a capture with this ledger holds.
    pub fn rows(&self) -> u64 {
        self.recorded + self.degraded
    }

    /// The right-hand side of the balance.
    pub fn accounted(&self) -> u64 {
        let excluded: u64 = self.excluded.values().sum();
        let dropped: u64 = self.dropped.values().sum();
        self.rows() + self.sampled_out + excluded + dropped
    }

    /// Adds the account of another segment.
    pub fn merge(&mut self, other: &Self) {
        self.offered += other.offered;
        self.recorded += other.recorded;
        self.degraded += other.degraded;
        self.sampled_out += other.sampled_out;
        for (reason, n) in &other.excluded {
            *self.excluded.entry(reason.clone()).or_default() += n;
        }
        for (reason, n) in &other.dropped {
            *self.dropped.entry(reason.clone()).or_default() += n;
        }
    }
}
