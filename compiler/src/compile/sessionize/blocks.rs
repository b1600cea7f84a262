//! Block chains: a prompt continues the one whose blocks it begins with.
//!
//! Block ids are chained, so one id stands for the whole prefix up to it. For a trace, all full
//! blocks of the parent must be there: its last full block is looked up among the blocks of later
//! prompts. For text without messages, a template may end a prompt with words that the next one
//! does not repeat, so its last full block may differ, but the child must be longer.

use super::super::row::Row;
use super::callers::keys_agree;
use super::link::{Evidence, Tie};
use truetape_fidelity::mix::{MixMap, MixSet};
use truetape_fidelity::prefix::handed::handed_on;

/// Confidence of a tie by blocks: they are a prefix of the prompt, but not the answer.
const CONFIDENCE: f64 = 0.8;

/// Full blocks at the end of a text that the next prompt may not repeat: the words in which a
/// template asks for the answer. More would tie those who share a long prompt and ask differently.
const TAIL_BLOCKS_MAX: usize = 1;

/// A block that this many prompts and [`HOT_SHARE_MIN`] of all hold is a shared system prompt.
const HOT_ROWS_MIN: u32 = 20;
/// See [`HOT_ROWS_MIN`].
const HOT_SHARE_MIN: f64 = 0.01;

/// Candidates with the same full blocks that are looked at, the latest first.
const CANDIDATES_MAX: usize = 16;

/// The prompts seen so far.
#[derive(Debug)]
pub(super) struct BlockChains {
    hot: MixSet,
    /// Rows of traces, by their last full block.
    by_last_full: MixMap<Vec<usize>>,
    /// The latest row of text that holds a block.
    by_block: MixMap<usize>,
}

impl BlockChains {
    /// Looks for blocks that say nothing about who continues whom.
    pub(super) fn new(rows: &[Row]) -> Self {
        let prompts = (0_u32..).zip(rows).filter(|(_, row)| chained(row));
        let prompts = prompts.map(|(at, row)| (at, row.blocks.as_slice()));
        let least = f64::from(HOT_ROWS_MIN).max(HOT_SHARE_MIN * rows.len() as f64);
        Self {
            // Every prompt is a hand of its own, and the first is nobody's to pass on.
            hot: handed_on(prompts, least - 1.0),
            by_last_full: MixMap::default(),
            by_block: MixMap::default(),
        }
    }

    /// Adds a row to what was seen.
    pub(super) fn remember(&mut self, at: usize, row: &Row) {
        if !chained(row) {
            return;
        }
        let full = row.blocks.iter().take(row.full_blocks);
        let mut cold = full.filter(|id| !self.hot.contains(*id));
        if row.text.is_some() {
            self.by_block.extend(cold.map(|id| (*id, at)));
        } else if let Some(last) = cold.next_back() {
            self.by_last_full.entry(*last).or_default().push(at);
        }
    }

    /// The row that `row` continues.
    pub(super) fn parent(&self, row: &Row, rows: &[Row]) -> Option<Tie> {
        if !chained(row) {
            return None;
        }
        let parent = match &row.text {
            Some(_) => self.longest_covered(row, rows)?,
            None => self.latest_within(row, rows)?,
        };
        Some(Tie {
            parent,
            evidence: Evidence::Blocks,
            confidence: CONFIDENCE,
        })
    }

    /// The latest trace row all of whose full blocks `row` begins with, the deepest first.
    fn latest_within(&self, row: &Row, rows: &[Row]) -> Option<usize> {
        let ids = row.blocks.iter().rev();
        ids.filter_map(|id| self.by_last_full.get(id))
            .find_map(|candidates| {
                let mut latest = candidates.iter().rev().take(CANDIDATES_MAX);
                latest.find(|at| rows.get(**at).is_some_and(|other| agree(row, other)))
            })
            .copied()
    }

    /// The text row that shares the most blocks, where they are all of it but its tail.
    fn longest_covered(&self, row: &Row, rows: &[Row]) -> Option<usize> {
        let deepest = row.blocks.iter().enumerate().rev();
        let (depth, at) = deepest
            .into_iter()
            .find_map(|(depth, id)| Some((depth, *self.by_block.get(id)?)))?;
        let other = rows.get(at).filter(|other| agree(row, other))?;
        let covered = depth + 1 + TAIL_BLOCKS_MAX >= other.full_blocks;
        let bytes = |row: &Row| row.text.as_ref().map_or(0, |text| text.rendered_bytes);
        // The same words again are another's, or the same caller's who asks again.
        (covered && bytes(row) > bytes(other)).then_some(at)
    }
}

fn agree(row: &Row, other: &Row) -> bool {
    keys_agree(row.session_key.as_ref(), other.session_key.as_ref())
}

/// Chats have messages, which say more.
fn chained(row: &Row) -> bool {
    !row.is_chat() && !row.blocks.is_empty()
}
