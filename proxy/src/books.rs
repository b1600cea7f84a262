//! Which part of what a process counted belongs to which segment.

use crate::account::{Account, since};
use std::sync::Arc;
use truetape_schemas::ledger::Ledger;

/// The accounts of the segment in progress: what the process counted, less what is in earlier ones.
#[derive(Debug)]
pub struct Books {
    account: Arc<Account>,
    before: Ledger,
    accounted_before: u64,
}

impl Books {
    /// The books of the first segment of a process.
    pub fn new(account: Arc<Account>) -> Self {
        Self {
            account,
            before: Ledger::default(),
            accounted_before: 0,
        }
    }

    /// What the process counts.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The segment's ledger while it is open: `offered` holds what is in progress too.
    pub fn open(&self) -> Ledger {
        let now = self.account.snapshot();
        let mut ledger = since(&now, &self.before);
        ledger.offered = now.offered.saturating_sub(self.accounted_before);
        ledger
    }

    /// The segment's ledger when it is closed, and the books of the next. What is in progress goes
    /// over to the next segment; with the last one nothing is, and the offers are as they were
    /// counted, so that an exchange that was forgotten would show.
    pub fn close(&self, last: bool) -> (Ledger, Self) {
        let now = self.account.snapshot();
        let mut ledger = since(&now, &self.before);
        let accounted = ledger.accounted();
        ledger.offered = if last {
            now.offered.saturating_sub(self.accounted_before)
        } else {
            accounted
        };
        let next = Self {
            account: Arc::clone(&self.account),
            before: now,
            accounted_before: self.accounted_before + accounted,
        };
        (ledger, next)
    }
}
