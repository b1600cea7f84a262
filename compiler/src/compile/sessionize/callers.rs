//! Who called: what keeps strangers apart.

use super::super::row::{Name, Row};

/// Whether two requests come from the same caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SameClient {
    No,
    Unknown,
    Yes,
}

/// Compares callers.
pub(super) fn same_client(a: &Row, b: &Row) -> SameClient {
    match (a.client, b.client) {
        (Some(a), Some(b)) if a == b => SameClient::Yes,
        // Each process hashes with a key of its own: one caller has a name in each.
        (Some(a), Some(b))
            if a.recorder != b.recorder && a.recorder.is_some() && b.recorder.is_some() =>
        {
            SameClient::Unknown
        }
        (Some(_), Some(_)) => SameClient::No,
        _ => SameClient::Unknown,
    }
}

/// Whether a row may be tied to another at all, as far as sessions that clients named go.
pub(super) fn keys_agree(child: Option<&Name>, parent: Option<&Name>) -> bool {
    child.is_none() || child == parent
}

/// Whether two rows may belong to one conversation: no session that a client named is left, and
/// the callers are not known to be two.
pub(super) fn may_continue(row: &Row, other: &Row) -> bool {
    keys_agree(row.session_key.as_ref(), other.session_key.as_ref())
        && same_client(row, other) != SameClient::No
}

/// Whether `other` had ended when `row` began, as far as anybody knows.
pub(super) fn ended_before(other: &Row, row: &Row) -> bool {
    other.end().is_none_or(|end| end <= row.arrival)
}
