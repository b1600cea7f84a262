//! Prompts that are one text: one continues the other that it begins with, up to a blank line.
//!
//! A short beginning is anybody's. It ties where what follows it was said before, by this prompt's
//! own answer or by somebody in its session: two agents that talk with each other send their
//! halves of one conversation, each without the other's words in between.

use super::super::row::Row;
use super::callers::{ended_before, may_continue};
use super::link::{Evidence, Tie};
use super::messages::{HOT_ROWS_MIN, HOT_SHARE_MIN};
use super::said::Said;
use truetape_fidelity::mix::MixMap;

/// A beginning of this length is nobody else's.
const LONG_BYTES_MIN: u64 = 256;

/// Candidates with the same text that are looked at, the latest first.
const CANDIDATES_MAX: usize = 64;

/// Time from one sending of a prompt to the next at most, for the next to be of the same session.
const REPEAT_GAP_US_MAX: i64 = 120_000_000;

/// The prompts seen so far, by the chain over their paragraphs.
#[derive(Debug, Default)]
pub(super) struct PromptChains {
    by_full: MixMap<Vec<u32>>,
    rows: usize,
}

impl PromptChains {
    /// Starts with nothing seen.
    pub(super) fn new(rows: &[Row]) -> Self {
        Self {
            rows: rows.len(),
            ..Self::default()
        }
    }

    /// Adds a row to what was seen.
    pub(super) fn remember(&mut self, at: usize, row: &Row) {
        if let Some(prompt) = row.text.as_ref().and_then(|text| text.prompt.as_ref()) {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            self.by_full.entry(prompt.full).or_default().push(at);
        }
    }

    /// The row that `row` continues. `root` gives the first row of a row's session.
    pub(super) fn parent(
        &self,
        row: &Row,
        rows: &[Row],
        said: &Said,
        root: impl Fn(usize) -> usize,
    ) -> Option<Tie> {
        let prompt = row.text.as_ref()?.prompt.as_ref()?;
        prompt.ends.iter().rev().find_map(|end| {
            let candidates = self.by_full.get(&end.chain)?;
            let speaker = said.by(end.next).map(&root);
            let latest = candidates.iter().rev().take(CANDIDATES_MAX);
            let judged = latest.filter_map(|at| {
                let at = *at as usize;
                let other = rows.get(at).filter(|other| may_continue(row, other))?;
                let text = other.text.as_ref()?;
                let first = text.answer.and_then(|answer| answer.first);
                let answered = first == Some(end.next);
                let within = speaker == Some(root(at));
                let long = text.rendered_bytes >= LONG_BYTES_MIN && !self.is_hot(candidates);
                (answered || within || long).then_some((answered, within, at))
            });
            let (answered, within, parent) = judged.max()?;
            Some(Tie {
                parent,
                evidence: if answered {
                    Evidence::Answer
                } else {
                    Evidence::History
                },
                confidence: if answered || within { 0.9 } else { 0.8 },
            })
        })
    }

    /// The row whose prompt `row` sends again, right after it.
    ///
    /// A loop around a model whose tools are not in the prompt looks like this: what the model says
    /// is a call, not words. Short prompts are told by what was said before, as above.
    pub(super) fn repeated(&self, row: &Row, rows: &[Row], said: &Said) -> Option<usize> {
        let text = row.text.as_ref()?;
        let prompt = text.prompt.as_ref()?;
        let candidates = self.by_full.get(&prompt.full)?;
        let known = text.rendered_bytes >= LONG_BYTES_MIN || said.by(prompt.last).is_some();
        if !known || self.is_hot(candidates) {
            return None;
        }
        let latest = *candidates.last()? as usize;
        let other = rows.get(latest)?;
        let answer = other.text.as_ref().and_then(|text| text.answer);
        if answer.is_some_and(|answer| answer.first.is_some()) {
            // Who got an answer in words has no reason to ask again: this is somebody else.
            return None;
        }
        let gap = row
            .arrival
            .saturating_sub(other.end().unwrap_or(other.arrival));
        let soon = gap <= REPEAT_GAP_US_MAX && ended_before(other, row);
        (soon && may_continue(row, other)).then_some(latest)
    }

    fn is_hot(&self, candidates: &[u32]) -> bool {
        candidates.len() >= HOT_ROWS_MIN
            && candidates.len() as f64 >= HOT_SHARE_MIN * self.rows as f64
    }
}
