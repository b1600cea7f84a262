//! The account of a stage: `read = taken + left`, by reason.

use truetape_schemas::set::manifest::Stage;

/// An account that is being kept.
#[derive(Debug)]
pub(crate) struct Account(Stage);

impl Account {
    /// Opens the account of a stage that was given `read` rows.
    pub(crate) fn new(name: &str, read: usize) -> Self {
        Self(Stage {
            name: name.to_owned(),
            read: read as u64,
            ..Stage::default()
        })
    }

    /// Keeps the rows for which `keep` holds; the others are left for `reason`.
    pub(crate) fn keep<T>(
        &mut self,
        rows: &mut Vec<T>,
        reason: &str,
        mut keep: impl FnMut(&T) -> bool,
    ) {
        let before = rows.len();
        rows.retain(|row| keep(row));
        self.leave(reason, before - rows.len());
    }

    /// Notes rows that were left.
    pub(crate) fn leave(&mut self, reason: &str, n: usize) {
        add(&mut self.0.left, reason, n);
    }

    /// Notes rows that were marked and passed on.
    pub(crate) fn mark(&mut self, mark: &str, n: usize) {
        add(&mut self.0.marked, mark, n);
    }

    /// Closes the account with the rows that were passed on.
    pub(crate) fn close(mut self, taken: usize) -> Stage {
        self.0.taken = taken as u64;
        debug_assert_eq!(
            self.0.read,
            self.0.taken + self.0.left.values().sum::<u64>()
        );
        self.0
    }
}

fn add(counts: &mut std::collections::BTreeMap<String, u64>, key: &str, n: usize) {
    if n > 0 {
        *counts.entry(key.to_owned()).or_default() += n as u64;
    }
}
