//! Changed history: a request goes on with the last words of an earlier one, but what comes before
//! them is not what it was.
//!
//! Clients drop the oldest messages (a sliding window), cut out old tool results, or put a summary
//! before the latest messages. What is left of the conversation is still there: the question and
//! the answer that the parent got, or the messages that it ended with. Strangers share beginnings,
//! never endings.

use super::super::row::{MessageHash, Role, Row};
use super::callers::may_continue;
use super::link::{Evidence, Tie};
use super::messages::step;
use truetape_fidelity::mix::MixMap;

/// Messages shorter than this, taken together, may be anybody's.
const TELLING_BYTES_MIN: u32 = 64;

/// Messages looked at from the end of a request: an agent adds a few with each step.
const LOOK_BACK_MAX: usize = 64;

/// Messages of an ending at most: an answer, and the results of the calls in it.
const ENDING_MAX: usize = 8;

/// Confidence where the child goes on with the parent's own answer.
const ANSWERED: f64 = 0.85;

/// Confidence where it only holds the messages that the parent ended with.
const HELD: f64 = 0.6;

/// The last words of the rows so far.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    /// The latest row that ended with these messages and got this answer.
    answered: MixMap<u32>,
    /// The latest row that ended with these messages, from the model's last one on.
    endings: MixMap<u32>,
}

impl Overlaps {
    /// Adds a row to what was seen.
    pub(super) fn remember(&mut self, at: usize, row: &Row) {
        let Some(text) = row.text.as_ref().filter(|_| row.is_chat()) else {
            return;
        };
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        if let (Some(answer), Some(last)) = (&text.answer, text.messages.last()) {
            let answer = MessageHash {
                hash: answer.hash,
                bytes: answer.bytes,
                role: Role::Assistant,
                ..MessageHash::default()
            };
            if let Some(key) = key(&[*last, answer]) {
                self.answered.insert(key, at);
            }
        }
        let spoke = |message: &MessageHash| message.role == Role::Assistant;
        let from = text.messages.iter().rposition(spoke);
        let ending = from.and_then(|from| text.messages.get(from..));
        if let Some(key) = ending.and_then(key) {
            self.endings.insert(key, at);
        }
    }

    /// The row that `row` continues.
    pub(super) fn parent(&self, row: &Row, rows: &[Row]) -> Option<Tie> {
        let text = row.text.as_ref().filter(|_| row.is_chat())?;
        let messages = &text.messages;
        let tie = |at: &u32, confidence| {
            let parent = *at as usize;
            may_continue(row, rows.get(parent)?).then_some(Tie {
                parent,
                evidence: Evidence::Overlap,
                confidence,
            })
        };
        let spoke = |at: &usize| messages.get(*at).is_some_and(|m| m.role == Role::Assistant);
        let latest = (0..messages.len()).rev().take(LOOK_BACK_MAX).filter(spoke);
        latest.into_iter().find_map(|at| {
            let exchange = at.checked_sub(1).and_then(|from| messages.get(from..=at));
            let answered = exchange
                .and_then(key)
                .and_then(|key| self.answered.get(&key));
            answered.and_then(|row| tie(row, ANSWERED)).or_else(|| {
                self.ending(messages.get(at..)?)
                    .and_then(|row| tie(row, HELD))
            })
        })
    }

    /// The row whose ending these messages begin with.
    fn ending(&self, messages: &[MessageHash]) -> Option<&u32> {
        let lengths = (2..=ENDING_MAX.min(messages.len().saturating_sub(1))).rev();
        let mut keys = lengths.filter_map(|length| key(messages.get(..length)?));
        keys.find_map(|key| self.endings.get(&key))
    }
}

/// What names some messages in a row; none where they may be anybody's.
fn key(messages: &[MessageHash]) -> Option<u64> {
    let bytes = messages.iter().map(|message| message.bytes);
    let telling = bytes.fold(0, u32::saturating_add) >= TELLING_BYTES_MIN;
    let told = messages.len() >= 2 && !messages.iter().any(MessageHash::is_system);
    (telling && told).then(|| {
        let hashes = messages.iter().map(|message| message.hash);
        hashes.fold(0, step)
    })
}
