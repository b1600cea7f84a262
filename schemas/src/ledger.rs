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
        self.recorded.saturating_add(self.degraded)
    }

    /// The right-hand side of the balance. A ledger is read from files too, and one with absurd
    /// counts must not stop the reader: sums end at the largest number.
    pub fn accounted(&self) -> u64 {
        let reasons = self.excluded.values().chain(self.dropped.values());
        reasons.copied().fold(
            self.rows().saturating_add(self.sampled_out),
            u64::saturating_add,
        )
    }

    /// Adds the account of another segment.
    pub fn merge(&mut self, other: &Self) {
        let add = |sum: &mut u64, n: u64| *sum = sum.saturating_add(n);
        add(&mut self.offered, other.offered);
        add(&mut self.recorded, other.recorded);
        add(&mut self.degraded, other.degraded);
        add(&mut self.sampled_out, other.sampled_out);
        for (reason, n) in &other.excluded {
            add(self.excluded.entry(reason.clone()).or_default(), *n);
        }
        for (reason, n) in &other.dropped {
            add(self.dropped.entry(reason.clone()).or_default(), *n);
        }
    }
}
