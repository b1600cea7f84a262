//! The same request again after a failure: an arrival, not a turn of the conversation.

use super::super::row::Row;
use super::callers::{SameClient, keys_agree, same_client};
use super::messages::full_chain;
use truetape_fidelity::mix::MixMap;

/// Time from the end of a failed attempt to its repetition at most. SDKs wait up to 8 s between
/// attempts, and a `retry-after` of a minute is common.
const RETRY_GAP_US_MAX: i64 = 120_000_000;

/// Earlier attempts that are looked at, the latest first.
const CANDIDATES_MAX: usize = 64;

/// Requests seen so far, by what they said.
#[derive(Debug, Default)]
pub(super) struct Attempts(MixMap<Vec<usize>>);

impl Attempts {
    /// Adds a row to what was seen.
    pub(super) fn remember(&mut self, at: usize, row: &Row) {
        if let Some(chain) = full_chain(row) {
            self.0.entry(chain).or_default().push(at);
        }
    }

    /// The attempt that `row` repeats.
    ///
    /// The same words after a whole answer are somebody who asks again, not a retry; the client's
    /// own retry header decides otherwise.
    pub(super) fn repeated_by(&self, row: &Row, rows: &[Row]) -> Option<usize> {
        let earlier = self.0.get(&full_chain(row)?)?;
        let mut latest = earlier.iter().rev().take(CANDIDATES_MAX);
        latest
            .find(|at| rows.get(**at).is_some_and(|other| repeats(row, other)))
            .copied()
    }
}

fn repeats(row: &Row, earlier: &Row) -> bool {
    let same_caller = match same_client(row, earlier) {
        SameClient::Yes => true,
        SameClient::No => false,
        // Neither is known, or two recorders know them by names that cannot be compared.
        SameClient::Unknown => row.client.is_some() == earlier.client.is_some(),
    };
    let same_session = keys_agree(row.session_key.as_ref(), earlier.session_key.as_ref())
        && row.session_key.is_some() == earlier.session_key.is_some();
    let said_so = row.retry_count > earlier.retry_count;
    let failed = !earlier.complete();
    let end = earlier.end().unwrap_or(earlier.arrival);
    let gap = row.arrival.saturating_sub(end);
    // A header can announce a retry before the proxy saw the first attempt end.
    let in_time = gap <= RETRY_GAP_US_MAX && (gap >= 0 || said_so);
    same_caller && same_session && (failed || said_so) && in_time
}
