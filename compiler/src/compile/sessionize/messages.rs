//! Message history: a request continues the one whose whole list of messages it begins with.

use super::super::row::{MessageHash, Name, Row};
use super::link::{Evidence, Tie};
use truetape_fidelity::mix::{MixMap, mix};

/// Candidates at one depth that are looked at, the latest first.
const CANDIDATES_MAX: usize = 64;

/// A prompt that this many requests and [`HOT_SHARE_MIN`] of all have sent says nothing about who
/// continues it.
const HOT_ROWS_MIN: usize = 20;
/// See [`HOT_ROWS_MIN`].
const HOT_SHARE_MIN: f64 = 0.01;

/// The lists of messages seen so far, by their chain.
#[derive(Debug, Default)]
pub(super) struct MessageChains {
    /// Rows by the chain over all their messages.
    full: MixMap<Vec<usize>>,
    /// Rows by the chain over their messages without those of the system: a value that changes in
    /// the system prompt must not hide a conversation.
    conversation: MixMap<Vec<usize>>,
    rows: usize,
}

/// A step of a chain: it depends on every message before.
fn step(chain: u64, message: MessageHash) -> u64 {
    mix(chain ^ message.hash).rotate_left(17) ^ mix(message.hash)
}

/// The chain over all messages; none when only the system speaks, which ties nobody together.
pub(super) fn full_chain(row: &Row) -> Option<u64> {
    let messages = &row.text.as_ref()?.messages;
    let speaks = messages.iter().any(|message| !message.system);
    speaks.then(|| {
        messages
            .iter()
            .fold(0, |chain, message| step(chain, *message))
    })
}

/// A prefix of a request's messages.
struct Prefix {
    chain: u64,
    /// The message after it.
    next: u64,
}

/// The prefixes of a list of messages, the deepest first; the whole list is none of them.
fn prefixes(messages: impl Iterator<Item = MessageHash>) -> Vec<Prefix> {
    let mut prefixes = Vec::new();
    let (mut chain, mut speaks) = (0, false);
    for message in messages {
        if speaks {
            prefixes.push(Prefix {
                chain,
                next: message.hash,
            });
        }
        chain = step(chain, message);
        speaks |= !message.system;
    }
    prefixes.reverse();
    prefixes
}

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

impl MessageChains {
    /// Starts with nothing seen.
    pub(super) fn new(rows: &[Row]) -> Self {
        Self {
            rows: rows.len(),
            ..Self::default()
        }
    }

    /// Adds a row to what was seen.
    pub(super) fn remember(&mut self, at: usize, row: &Row) {
        if !row.is_chat() {
            return;
        }
        if let (Some(chain), Some(text)) = (full_chain(row), &row.text) {
            self.full.entry(chain).or_default().push(at);
            let spoken = text.messages.iter().filter(|message| !message.system);
            let chain = spoken.fold(0, |chain, message| step(chain, *message));
            self.conversation.entry(chain).or_default().push(at);
        }
    }

    /// The row that `row` continues.
    pub(super) fn parent(&self, row: &Row, rows: &[Row]) -> Option<Tie> {
        if !row.is_chat() {
            return None;
        }
        let messages = &row.text.as_ref()?.messages;
        let exact = self.deepest(&self.full, prefixes(messages.iter().copied()), row, rows);
        exact.or_else(|| {
            let spoken = messages.iter().copied().filter(|message| !message.system);
            let tie = self.deepest(&self.conversation, prefixes(spoken), row, rows)?;
            Some(Tie {
                confidence: tie.confidence * 0.8,
                ..tie
            })
        })
    }

    fn deepest(
        &self,
        seen: &MixMap<Vec<usize>>,
        prefixes: Vec<Prefix>,
        row: &Row,
        rows: &[Row],
    ) -> Option<Tie> {
        prefixes.into_iter().find_map(|prefix| {
            let candidates = seen.get(&prefix.chain)?;
            self.best(candidates, &prefix, row, rows)
        })
    }

    /// The best of the rows whose whole list of messages is this prefix.
    fn best(&self, candidates: &[usize], prefix: &Prefix, row: &Row, rows: &[Row]) -> Option<Tie> {
        let hot = candidates.len() >= HOT_ROWS_MIN
            && candidates.len() as f64 >= HOT_SHARE_MIN * self.rows as f64;
        let latest = candidates.iter().rev().take(CANDIDATES_MAX);
        let judged = latest.filter_map(|at| {
            let other = rows.get(*at)?;
            let judged = judge(other, prefix, row, hot)?;
            Some((judged, *at))
        });
        // The latest wins a tie, so `at` comes last.
        let (judged, parent) = judged.max_by_key(|(judged, at)| (judged.rank(), *at))?;
        let evidence = if judged.answered {
            Evidence::Answer
        } else {
            Evidence::History
        };
        Some(Tie {
            parent,
            evidence,
            confidence: judged.confidence(),
        })
    }
}

/// What speaks for a candidate.
struct Judged {
    /// The child goes on with the very answer that the candidate got.
    answered: bool,
    /// The candidate's answer is known, and is another one.
    contradicted: bool,
    client: SameClient,
    same_conn: bool,
    ended_before: bool,
}

impl Judged {
    fn rank(&self) -> (bool, bool, SameClient, bool, bool) {
        (
            self.answered,
            !self.contradicted,
            self.client,
            self.ended_before,
            self.same_conn,
        )
    }

    fn confidence(&self) -> f64 {
        match (self.answered, self.contradicted, self.client) {
            (true, _, SameClient::Yes) => 0.99,
            (true, _, SameClient::Unknown) => 0.95,
            (true, _, SameClient::No) => 0.7,
            (false, false, SameClient::Yes) => 0.9,
            (false, false, _) => 0.8,
            (false, true, SameClient::Yes) => 0.6,
            (false, true, _) => 0.5,
        }
    }
}

fn judge(other: &Row, prefix: &Prefix, row: &Row, hot: bool) -> Option<Judged> {
    if !keys_agree(row.session_key.as_ref(), other.session_key.as_ref()) {
        return None;
    }
    let answer = other.text.as_ref().and_then(|text| text.answer);
    let judged = Judged {
        answered: answer == Some(prefix.next),
        contradicted: answer.is_some_and(|answer| answer != prefix.next),
        client: same_client(row, other),
        same_conn: row.conn.is_some() && row.conn == other.conn,
        ended_before: other.end().is_none_or(|end| end <= row.arrival),
    };
    // Strangers who said the same words are strangers, unless one goes on with the other's answer.
    let stranger = judged.client == SameClient::No && !judged.answered;
    let crowd = hot && judged.contradicted && judged.client != SameClient::Yes;
    (!stranger && !crowd).then_some(judged)
}
