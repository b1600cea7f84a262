//! What sessions are called.

use super::super::ingest::Secret;
use super::super::reading::hash;
use super::super::row::{Name, Row};
use super::link::Link;
use std::collections::HashMap;

/// Characters of a client's own session id that is kept as it is.
const KEY_CHARS_MAX: usize = 64;

/// Gives every row its session: its client's key, its parent's session, or one of its own.
///
/// Returns the names by index, and the index of each row.
pub(super) fn sessions(rows: &[Row], links: &[Link], secret: &Secret) -> (Vec<String>, Vec<u32>) {
    let mut names = Vec::new();
    let mut by_key: HashMap<&Name, u32> = HashMap::new();
    let mut of_row: Vec<u32> = Vec::with_capacity(rows.len());
    for (row, link) in rows.iter().zip(links) {
        let tied = link
            .parent
            .or(link.retry_of)
            .and_then(|at| of_row.get(at).copied());
        let next = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let session = match (&row.session_key, tied) {
            (Some(key), _) => *by_key.entry(key).or_insert(next),
            (None, Some(session)) => session,
            (None, None) => next,
        };
        if session == next {
            names.push(name(row, secret));
        }
        of_row.push(session);
    }
    (names, of_row)
}

fn name(row: &Row, secret: &Secret) -> String {
    match &row.session_key {
        Some(key) if is_opaque(key) => key.to_string(),
        // Keyed: a name or an address could be guessed from a plain hash.
        Some(key) => format!("k-{:016x}", secret.hash(key.as_bytes())),
        None => format!("s-{:016x}", hash(row.exchange_id.as_bytes())),
    }
}

/// An id, not something that a person wrote or is called by.
fn is_opaque(key: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let ours = key.starts_with("s-") || key.starts_with("k-");
    key.len() <= KEY_CHARS_MAX && !ours && key.chars().all(plain)
}
