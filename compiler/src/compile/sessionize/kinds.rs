//! What a turn is besides an ordinary one. All of them are load, and all are kept.

use super::super::row::{Name, Row};
use super::link::Link;
use std::collections::HashMap;
use truetape_schemas::set::TurnKind;

/// Generated tokens at most of a call that may be a title or a suggestion.
const UTILITY_TOKENS_MAX: i64 = 64;

/// How many there are of each kind.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    pub(super) retries: usize,
    pub(super) probes: usize,
    pub(super) utilities: usize,
}

/// Marks probes and utility calls; retries are marked already.
pub(super) fn mark(rows: &[Row], links: &mut [Link]) -> Kinds {
    let mut kinds = Kinds::default();
    let mut children = vec![false; links.len()];
    for link in links.iter() {
        if let Some(parent) = link.parent.and_then(|parent| children.get_mut(parent)) {
            *parent = true;
        }
    }
    let mut of_key: HashMap<&Name, usize> = HashMap::new();
    for key in rows.iter().filter_map(|row| row.session_key.as_ref()) {
        *of_key.entry(key).or_default() += 1;
    }
    for ((row, link), has_children) in rows.iter().zip(links.iter_mut()).zip(children) {
        if link.kind == TurnKind::Retry {
            kinds.retries += 1;
            continue;
        }
        let alone = link.parent.is_none() && !has_children;
        let key = row.session_key.as_ref();
        let beside = key.is_some_and(|key| of_key.get(key).is_some_and(|turns| *turns > 1));
        let text = row.text.as_deref();
        if alone && text.is_some_and(|text| text.probe) {
            link.kind = TurnKind::Probe;
            kinds.probes += 1;
        } else if (alone && beside && is_small(row))
            || (!has_children && text.is_some_and(|text| text.aside))
        {
            link.kind = TurnKind::Utility;
            kinds.utilities += 1;
        }
    }
    kinds
}

/// A call that may be beside a conversation: a short answer, and no tools.
fn is_small(row: &Row) -> bool {
    row.is_chat()
        && row.params.as_ref().is_some_and(|params| {
            params
                .max_tokens
                .is_some_and(|max| max <= UTILITY_TOKENS_MAX)
                && params.tool_count.unwrap_or(0) == 0
        })
}
