//! What sessions are called.

use super::super::ingest::Secret;
use super::super::reading::hash;
use super::super::row::{Name, Row};
use super::link::Link;
use std::collections::HashMap;

/// Characters of a client's own session id that is kept as it is.
const KEY_CHARS_MAX: usize = 64;

/// Generations of sub-agents that are followed to the session that started them.
const GENERATIONS_MAX: usize = 16;

/// Gives every row its session: its client's key, its parent's session, or one of its own.
///
/// A sub-agent is part of the session that its client names as the one that started it: a session
/// is a tree. Returns the names by index, and the index of each row.
pub(super) fn sessions(rows: &[Row], links: &[Link], secret: &Secret) -> (Vec<String>, Vec<u32>) {
    let families = Families::of(rows);
    let mut names = Vec::new();
    let mut by_key: HashMap<&Name, u32> = HashMap::new();
    let mut of_row: Vec<u32> = Vec::with_capacity(rows.len());
    for (row, link) in rows.iter().zip(links) {
        let tied = link.tied_to().and_then(|at| of_row.get(at).copied());
        let next = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let key = row.session_key.as_ref().map(|key| families.root(key));
        let session = match (key, tied) {
            (Some(key), _) => *by_key.entry(key).or_insert(next),
            (None, Some(session)) => session,
            (None, None) => next,
        };
        if session == next {
            names.push(name(key, row, secret));
        }
        of_row.push(session);
    }
    (names, of_row)
}

/// Which session started which, as clients say it.
struct Families<'a>(HashMap<&'a Name, &'a Name>);

impl<'a> Families<'a> {
    fn of(rows: &'a [Row]) -> Self {
        let pairs = rows.iter().filter_map(|row| {
            let (key, parent) = (row.session_key.as_ref()?, row.parent_session_key.as_ref()?);
            (key != parent).then_some((key, parent))
        });
        let mut started = HashMap::new();
        for (key, parent) in pairs {
            // A key that names two is taken by its first word.
            started.entry(key).or_insert(parent);
        }
        Self(started)
    }

    /// The session at the root. Clients that name each other in a ring stay apart.
    fn root(&self, key: &'a Name) -> &'a Name {
        let mut root = key;
        for _ in 0..GENERATIONS_MAX {
            match self.0.get(root) {
                Some(parent) => root = parent,
                None => return root,
            }
        }
        key
    }
}

fn name(key: Option<&Name>, row: &Row, secret: &Secret) -> String {
    match key {
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
