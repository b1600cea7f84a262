//! Message history: a request continues the one whose whole list of messages it begins with.

use super::super::row::{AnswerHash, MessageHash, Role, Row};
use super::callers::{SameClient, ended_before, keys_agree, same_client};
use super::link::{Evidence, Tie};
use truetape_fidelity::mix::{MixMap, mix};

/// Candidates at one depth that are looked at, the latest first.
const CANDIDATES_MAX: usize = 64;

/// A prompt that this many requests and [`HOT_SHARE_MIN`] of all have sent says nothing about who
/// continues it.
pub(super) const HOT_ROWS_MIN: usize = 20;
/// See [`HOT_ROWS_MIN`].
pub(super) const HOT_SHARE_MIN: f64 = 0.01;

/// Bytes of an answer at least that two chains of loose messages may meet over: without its
/// numbers, a short one is anybody's.
const LOOSE_ANSWER_BYTES_MIN: u32 = 64;

/// What messages are compared by, the strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Every message, as it is.
    Full,
    /// Without those of the system: a value that changes in the system prompt must not hide a
    /// conversation.
    Conversation,
    /// Without them, and without ids, numbers and dates in the others. Only the parent's answer,
    /// read the same way, makes it a tie.
    Loose,
}

impl Reading {
    const ALL: [Self; 3] = [Self::Full, Self::Conversation, Self::Loose];

    fn reads(self, message: &MessageHash) -> bool {
        self == Self::Full || !message.is_system()
    }

    fn hash(self, message: &MessageHash) -> u64 {
        if self == Self::Loose {
            message.loose
        } else {
            message.hash
        }
    }

    fn answer(self, answer: &AnswerHash) -> u64 {
        if self == Self::Loose {
            answer.loose
        } else {
            answer.hash
        }
    }

    /// What a tie by this reading is worth, of one by every message.
    fn trust(self) -> f64 {
        match self {
            Self::Full => 1.0,
            Self::Conversation => 0.8,
            Self::Loose => 0.6,
        }
    }
}

/// The lists of messages seen so far, by their chain.
#[derive(Debug, Default)]
pub(super) struct MessageChains {
    /// Rows by the chain over their messages, for each reading.
    seen: [MixMap<Vec<u32>>; 3],
    rows: usize,
}

/// A step of a chain: it depends on every message before.
pub(crate) fn step(chain: u64, message: u64) -> u64 {
    mix(chain ^ message).rotate_left(17) ^ mix(message)
}

/// The chain over all messages; none when only the system speaks, which ties nobody together.
pub(crate) fn full_chain(row: &Row) -> Option<u64> {
    let messages = &row.text.as_ref()?.messages;
    chain_of(messages, Reading::Full)
}

fn chain_of(messages: &[MessageHash], reading: Reading) -> Option<u64> {
    let speaks = messages.iter().any(|message| !message.is_system());
    let read = messages.iter().filter(|message| reading.reads(message));
    speaks.then(|| read.fold(0, |chain, message| step(chain, reading.hash(message))))
}

/// The chain over the messages of the system: what two conversations of one kind share.
pub(super) fn system_chain(messages: &[MessageHash]) -> u64 {
    let system = messages.iter().filter(|message| message.is_system());
    system.fold(0, |chain, message| step(chain, message.hash))
}

/// A prefix of a request's messages.
struct Prefix {
    chain: u64,
    /// The message after it.
    next: u64,
    /// Whether the model speaks in it: strangers ask the same question, and go on differently.
    deep: bool,
}

/// The prefixes of a list of messages, the deepest first; the whole list is none of them.
fn prefixes(messages: &[MessageHash], reading: Reading) -> Vec<Prefix> {
    let mut prefixes = Vec::new();
    let (mut chain, mut speaks, mut deep) = (0, false, false);
    for message in messages.iter().filter(|message| reading.reads(message)) {
        let next = reading.hash(message);
        if speaks {
            prefixes.push(Prefix { chain, next, deep });
        }
        chain = step(chain, next);
        speaks |= !message.is_system();
        deep |= message.role == Role::Assistant;
    }
    prefixes.reverse();
    prefixes
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
        let Some(text) = row.text.as_ref().filter(|_| row.is_chat()) else {
            return;
        };
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        for (seen, reading) in self.seen.iter_mut().zip(Reading::ALL) {
            if let Some(chain) = chain_of(&text.messages, reading) {
                seen.entry(chain).or_default().push(at);
            }
        }
    }

    /// The row that `row` continues, and whether its answer is another one than the message that
    /// follows: other rules may know better then.
    pub(super) fn parent(&self, row: &Row, rows: &[Row]) -> Option<(Tie, bool)> {
        let full = self.read(Reading::Full, row, rows);
        match full {
            Some((_, false)) => full,
            unsure => match self.read(Reading::Conversation, row, rows) {
                sure @ Some((_, false)) => sure,
                other => unsure.or(other),
            },
        }
    }

    /// The same without ids, numbers and dates: only where nothing stricter tells.
    pub(super) fn loose_parent(&self, row: &Row, rows: &[Row]) -> Option<Tie> {
        self.read(Reading::Loose, row, rows).map(|(tie, _)| tie)
    }

    fn read(&self, reading: Reading, row: &Row, rows: &[Row]) -> Option<(Tie, bool)> {
        let text = row.text.as_ref().filter(|_| row.is_chat())?;
        let mut readings = self.seen.iter().zip(Reading::ALL);
        let (seen, _) = readings.find(|(_, one)| *one == reading)?;
        let mut deepest = prefixes(&text.messages, reading).into_iter();
        deepest.find_map(|prefix| self.best(seen, reading, &prefix, row, rows))
    }

    /// The best of the rows whose whole list of messages is this prefix, and whether its answer is
    /// another one than the message that follows.
    fn best(
        &self,
        seen: &MixMap<Vec<u32>>,
        reading: Reading,
        prefix: &Prefix,
        row: &Row,
        rows: &[Row],
    ) -> Option<(Tie, bool)> {
        let candidates = seen.get(&prefix.chain)?;
        let hot = candidates.len() >= HOT_ROWS_MIN
            && candidates.len() as f64 >= HOT_SHARE_MIN * self.rows as f64;
        let latest = candidates.iter().rev().take(CANDIDATES_MAX);
        let judged = latest.filter_map(|at| {
            let at = *at as usize;
            Some((judge(rows.get(at)?, reading, prefix, row, hot)?, at))
        });
        // The latest wins a tie, so `at` comes last.
        let (judged, parent) = judged.max_by_key(|(judged, at)| (judged.rank(), *at))?;
        let evidence = if judged.answered {
            Evidence::Answer
        } else {
            Evidence::History
        };
        let tie = Tie {
            parent,
            evidence,
            confidence: judged.confidence() * reading.trust(),
        };
        Some((tie, judged.contradicted))
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

fn judge(other: &Row, reading: Reading, prefix: &Prefix, row: &Row, hot: bool) -> Option<Judged> {
    if !keys_agree(row.session_key.as_ref(), other.session_key.as_ref()) {
        return None;
    }
    let answer = other.text.as_ref().and_then(|text| text.answer);
    let said = answer.map(|answer| reading.answer(&answer));
    let judged = Judged {
        answered: said == Some(prefix.next),
        contradicted: said.is_some_and(|said| said != prefix.next),
        client: same_client(row, other),
        same_conn: row.conn.is_some() && row.conn == other.conn,
        ended_before: ended_before(other, row),
    };
    // Strangers who said the same words are strangers, unless one goes on with the other's answer.
    let stranger = judged.client == SameClient::No && !judged.answered;
    let named = row.session_key.is_some() || judged.client == SameClient::Yes;
    let crowd = judged.contradicted && !named && (hot || !prefix.deep);
    let long = answer.is_some_and(|answer| answer.bytes >= LOOSE_ANSWER_BYTES_MIN);
    let unsure = reading == Reading::Loose && !(judged.answered && long);
    (!stranger && !crowd && !unsure).then_some(judged)
}
