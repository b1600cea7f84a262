//! Who said what: a paragraph of an answer that begins another conversation.
//!
//! A model's words come from one place. Where they stand in the first request of a conversation,
//! that conversation was started from there: a sub-agent was given its task, a history was summed
//! up, or another agent was answered. A paragraph that two conversations said ties nobody.

use super::super::row::Row;
use truetape_fidelity::mix::MixMap;

/// The paragraphs that were said so far.
#[derive(Debug, Default)]
pub(super) struct Said(MixMap<Speaker>);

#[derive(Clone, Copy, Debug)]
struct Speaker {
    latest: u32,
    /// The first row of its session.
    root: u32,
    /// Whether another session said it too.
    ambiguous: bool,
}

impl Said {
    /// Adds what a row's answer said. `root` is the first row of its session.
    pub(super) fn remember(&mut self, at: usize, root: usize, row: &Row) {
        let Some(text) = &row.text else {
            return;
        };
        let latest = u32::try_from(at).unwrap_or(u32::MAX);
        let root = u32::try_from(root).unwrap_or(u32::MAX);
        for paragraph in &text.said {
            let speaker = self.0.entry(*paragraph).or_insert(Speaker {
                latest,
                root,
                ambiguous: false,
            });
            speaker.ambiguous |= speaker.root != root;
            speaker.latest = latest;
        }
    }

    /// The row that said a paragraph last, where one session did.
    pub(super) fn by(&self, paragraph: u64) -> Option<usize> {
        let speaker = self.0.get(&paragraph)?;
        (!speaker.ambiguous).then_some(speaker.latest as usize)
    }

    /// The latest row that said something of what a request heard.
    pub(super) fn by_any(&self, row: &Row) -> Option<usize> {
        let heard = &row.text.as_ref()?.heard;
        heard.iter().filter_map(|heard| self.by(*heard)).max()
    }
}
