//! Block chains: a prompt continues the one whose full blocks it begins with.
//!
//! Block ids are chained, so one id stands for the whole prefix up to it: the last full block of
//! a prompt is looked up among the blocks of later ones.

use super::super::row::Row;
use super::link::{Evidence, Tie};
use super::messages::keys_agree;
use truetape_fidelity::mix::{MixMap, MixSet};

/// Confidence of a tie by blocks: they are a prefix of the prompt, but not the answer.
const CONFIDENCE: f64 = 0.8;

/// A block that this many prompts and [`HOT_SHARE_MIN`] of all hold is a shared system prompt.
const HOT_ROWS_MIN: u32 = 20;
/// See [`HOT_ROWS_MIN`].
const HOT_SHARE_MIN: f64 = 0.01;

/// Candidates with the same full blocks that are looked at, the latest first.
const CANDIDATES_MAX: usize = 16;

/// The prompts seen so far, by their last full block.
#[derive(Debug)]
pub(super) struct BlockChains {
    hot: MixSet,
    by_last_full: MixMap<Vec<usize>>,
}

impl BlockChains {
    /// Looks for blocks that say nothing about who continues whom.
    pub(super) fn new(rows: &[Row]) -> Self {
        let mut uses: MixMap<u32> = MixMap::default();
        // Ids are chained, so no prompt holds one twice.
        for id in rows
            .iter()
            .filter(|row| chained(row))
            .flat_map(|row| &row.blocks)
        {
            *uses.entry(*id).or_default() += 1;
        }
        let least = f64::from(HOT_ROWS_MIN).max(HOT_SHARE_MIN * rows.len() as f64);
        let hot = uses
            .into_iter()
            .filter(|(_, uses)| f64::from(*uses) >= least);
        Self {
            hot: hot.map(|(id, _)| id).collect(),
            by_last_full: MixMap::default(),
        }
    }

    /// Adds a row to what was seen.
    pub(super) fn remember(&mut self, at: usize, row: &Row) {
        if !chained(row) {
            return;
        }
        let last = full_blocks(row)
            .checked_sub(1)
            .and_then(|last| row.blocks.get(last));
        if let Some(id) = last.filter(|id| !self.hot.contains(*id)) {
            self.by_last_full.entry(*id).or_default().push(at);
        }
    }

    /// The latest row all of whose full blocks `row` begins with, the deepest first.
    pub(super) fn parent(&self, row: &Row, rows: &[Row]) -> Option<Tie> {
        if !chained(row) {
            return None;
        }
        let candidates = row
            .blocks
            .iter()
            .rev()
            .filter_map(|id| self.by_last_full.get(id));
        let parent = candidates.into_iter().find_map(|candidates| {
            let mut latest = candidates.iter().rev().take(CANDIDATES_MAX);
            latest.find(|at| {
                rows.get(**at).is_some_and(|other| {
                    keys_agree(row.session_key.as_ref(), other.session_key.as_ref())
                })
            })
        })?;
        Some(Tie {
            parent: *parent,
            evidence: Evidence::Blocks,
            confidence: CONFIDENCE,
        })
    }
}

/// Chats have messages, which say more.
fn chained(row: &Row) -> bool {
    !row.is_chat() && !row.blocks.is_empty()
}

/// Blocks that hold as many tokens as a block can.
fn full_blocks(row: &Row) -> usize {
    let tokens = row
        .input_tokens
        .and_then(|tokens| usize::try_from(tokens).ok());
    match (tokens, row.block_tokens) {
        (Some(tokens), Some(block)) if block > 0 => (tokens / block as usize).min(row.blocks.len()),
        _ => row.blocks.len(),
    }
}
