//! Raw and canonical chains, beside each other.
//!
//! A conversation goes on from turn to turn (the canonical chain: messages as they are meant), and
//! a cache goes by the prompt as it was sent (the raw chain: its blocks). Where a client writes a
//! date, a request id or a header of its own before them, the first holds and the second breaks:
//! that gap is prefix reuse that nobody gets, and the user may not know.

use super::super::row::{MessageHash, Row};
use super::link::{Evidence, Link};
use truetape_schemas::set::manifest::Chains;

/// Share of the reuse that must be lost before the user is told.
const LOST_SHARE_MIN: f64 = 0.10;

/// Prompt tokens, weighed in bytes where no server said how many.
const BYTES_PER_TOKEN: f64 = 4.0;

/// Measures the links of all rows, whose blocks are still there.
pub(super) fn of(rows: &[Row], links: &[Link]) -> (Chains, Vec<String>) {
    let mut sums = Sums::default();
    for (row, link) in rows.iter().zip(links) {
        sums.add(row, link, rows);
    }
    let findings = sums.findings();
    (sums.chains, findings)
}

#[derive(Default)]
struct Sums {
    chains: Chains,
    /// Linked turns whose sharing ends within the system prompt.
    in_system: u64,
}

impl Sums {
    fn add(&mut self, row: &Row, link: &Link, rows: &[Row]) {
        let chains = &mut self.chains;
        let tokens = tokens(row);
        // The same prompt again holds more of itself than of its parent.
        let parent = link.beside.or(link.parent).and_then(|at| rows.get(at));
        chains.turns += 1;
        if brings_history(row) || parent.is_some() {
            chains.history_turns += 1;
            chains.history_tokens += tokens.round() as u64;
        }
        let Some(parent) = parent else {
            return;
        };
        chains.linked_turns += 1;
        let raw = raw(row, parent);
        let shared = match canonical_share(row, parent) {
            Some(share) => (share * tokens).max(raw.unwrap_or(0.0)),
            None => raw.unwrap_or(0.0),
        };
        chains.explained_tokens += shared.min(tokens).round() as u64;
        // A summary begins anew on purpose, and what is told by blocks alone has no other chain.
        let compares = link.evidence != Some(Evidence::Compacted) && !row.refused();
        if let (Some(raw), Some(_), true) = (raw, canonical_share(row, parent), compares) {
            chains.canonical_tokens += shared.min(tokens).round() as u64;
            chains.raw_tokens += raw.min(shared).round() as u64;
            self.in_system += u64::from(ends_in_system(row, raw));
        }
    }

    fn findings(&self) -> Vec<String> {
        let Chains {
            raw_tokens,
            canonical_tokens,
            linked_turns,
            ..
        } = self.chains;
        let lost = lost_share(raw_tokens, canonical_tokens);
        if lost < LOST_SHARE_MIN {
            return Vec::new();
        }
        let place = if 2 * self.in_system > linked_turns {
            "in the system prompt or the tools"
        } else {
            "in the messages"
        };
        vec![format!(
            "something that changes with every request, {place}, removes {:.0} % of the prefix \
             reuse that these conversations have: {raw_tokens} of {canonical_tokens} tokens shared \
             with the turn before are still a common prefix as they were sent; sessions are told \
             without it, cache hits with it",
            100.0 * lost
        )]
    }
}

fn lost_share(raw: u64, canonical: u64) -> f64 {
    if canonical == 0 {
        return 0.0;
    }
    1.0 - raw as f64 / canonical as f64
}

fn tokens(row: &Row) -> f64 {
    let reported = row.input_tokens.filter(|tokens| *tokens > 0);
    reported.map_or_else(
        || {
            let bytes = row.text.as_ref().map_or(0, |text| text.rendered_bytes);
            bytes as f64 / BYTES_PER_TOKEN
        },
        |tokens| tokens as f64,
    )
}

/// Whether a request brings an answer of the model along.
pub(super) fn brings_history(row: &Row) -> bool {
    use super::super::row::Role;
    let text = row.text.as_ref().filter(|_| row.is_chat());
    text.is_some_and(|text| {
        text.messages
            .iter()
            .any(|message| message.role == Role::Assistant)
    })
}

/// Tokens of the blocks that two prompts begin with; none where either has none.
fn raw(row: &Row, parent: &Row) -> Option<f64> {
    let block_tokens = f64::from(row.block_tokens?);
    if row.blocks.is_empty() || parent.blocks.is_empty() {
        return None;
    }
    let pairs = row.blocks.iter().zip(&parent.blocks);
    let shared = pairs.take_while(|(a, b)| a == b).count();
    Some(shared as f64 * block_tokens)
}

/// The share of a prompt that its parent's messages are, the system's counting as the same.
fn canonical_share(row: &Row, parent: &Row) -> Option<f64> {
    let (own, others) = (&row.text.as_ref()?, &parent.text.as_ref()?);
    if !row.is_chat() {
        return None;
    }
    let bytes = |message: &MessageHash| f64::from(message.bytes);
    let all: f64 = own.messages.iter().map(bytes).sum();
    if all == 0.0 {
        return None;
    }
    let same = |(a, b): &(&MessageHash, &MessageHash)| {
        a.hash == b.hash || a.loose == b.loose || (a.is_system() && b.is_system())
    };
    let pairs = own.messages.iter().zip(&others.messages);
    let shared = pairs.take_while(same).map(|(message, _)| bytes(message));
    Some(shared.sum::<f64>() / all)
}

/// Whether two prompts part before the system has finished.
fn ends_in_system(row: &Row, raw_tokens: f64) -> bool {
    let Some(text) = &row.text else {
        return false;
    };
    let bytes = |message: &MessageHash| f64::from(message.bytes);
    let all: f64 = text.messages.iter().map(bytes).sum();
    let system = text.messages.iter().filter(|message| message.is_system());
    let system: f64 = system.map(bytes).sum();
    all > 0.0 && system > 0.0 && raw_tokens < tokens(row) * system / all
}
