//! Which sessions are recorded, when not all are. A session is recorded with all its turns or with
//! none: a sample of requests has no sessions, and no prefix that two of them share.

use crate::config::Sampling;
use crate::limits;
use std::collections::{HashMap, VecDeque};
use truetape_schemas::wire::session::{Confidence, Rule, SessionFacts};
use truetape_schemas::wire::{Message, PROMPT_ROLE};

/// What a request is told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key([u8; 32]);

/// Decides.
#[derive(Debug)]
pub struct Sampler {
    /// Sessions whose key is below are recorded: the rate, as a share of 2^64.
    below: u128,
    salt: String,
    answers: Answers,
}

/// What a decision is made of.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// What the request says about its session.
    pub session: &'a SessionFacts,
    /// Its messages, where it has any.
    pub messages: &'a [Message],
    /// Its own id: what has no session is one of its own.
    pub exchange_id: &'a str,
    /// The id of its answer, where there was one.
    pub response_id: Option<&'a str>,
}

impl Sampler {
    /// Records a share of all sessions. Recorders with one salt choose the same sessions.
    pub fn new(rate: f64, salt: &str) -> Self {
        let share = rate.clamp(0.0, 1.0) * 2_f64.powi(64);
        Self {
            // A float of at most 2^64 fits.
            below: share as u128,
            salt: salt.to_owned(),
            answers: Answers::default(),
        }
    }

    /// One that is set, or none: then all are recorded.
    pub fn of(sampling: Option<&Sampling>) -> Option<Self> {
        sampling.map(|sampling| Self::new(sampling.rate, &sampling.salt))
    }

    /// Whether an exchange is recorded.
    pub fn takes(&mut self, seen: Seen<'_>) -> bool {
        let key = self.key(seen);
        if let Some(id) = seen.response_id {
            self.answers.remember(self.hash("response", id), key);
        }
        let word = key.0.first_chunk::<8>().copied().unwrap_or_default();
        u128::from(u64::from_le_bytes(word)) < self.below
    }

    fn key(&self, seen: Seen<'_>) -> Key {
        let session = seen.session;
        if let Some(key) = session
            .session_key
            .as_deref()
            .filter(|_| is_strong(session))
        {
            return self.hash("session", key);
        }
        if let Some(id) = session.previous_response_id.as_deref() {
            // One whose answer is not remembered starts a session here, as far as can be known.
            let answer = self.hash("response", id);
            return self.answers.session_of(answer).unwrap_or(answer);
        }
        match root(seen.messages) {
            Some(root) => self.hash_bytes("root", &root),
            None => self.hash("request", seen.exchange_id),
        }
    }

    fn hash(&self, kind: &str, text: &str) -> Key {
        self.hash_bytes(kind, text.as_bytes())
    }

    fn hash_bytes(&self, kind: &str, bytes: &[u8]) -> Key {
        let mut hasher = blake3::Hasher::new_derive_key("truetape 2026 session sample v1");
        for part in [self.salt.as_bytes(), kind.as_bytes(), bytes] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Key(*hasher.finalize().as_bytes())
    }
}

/// Whether the key is the same for every turn. A trace or a request id often is new for each, and
/// would split what it names.
fn is_strong(session: &SessionFacts) -> bool {
    let rule = session.session_rule.as_deref().and_then(Rule::from_name);
    rule.is_some_and(|rule| rule.confidence() >= Confidence::Strong)
}

/// What all turns of a conversation begin with: what the system says, and the first message after.
fn root(messages: &[Message]) -> Option<Vec<u8>> {
    let system = |message: &&Message| matches!(message.role.as_str(), "system" | "developer");
    let first = messages.iter().find(|message| !system(message))?;
    let mut root: Vec<u8> = Vec::new();
    for message in messages.iter().take_while(system) {
        root.extend_from_slice(&message.canonical);
        root.push(0);
    }
    if first.role == PROMPT_ROLE {
        // The prompt of a completion is the history itself, and grows at its end.
        let length = first.raw.len().min(limits::SAMPLE_PROMPT_BYTES);
        root.extend_from_slice(first.raw.get(..length)?);
    } else {
        root.extend_from_slice(&first.canonical);
    }
    Some(root)
}

/// The sessions of the last answers, by their ids: who continues one belongs to its session.
#[derive(Debug, Default)]
struct Answers {
    sessions: HashMap<[u8; 32], Key>,
    order: VecDeque<[u8; 32]>,
}

impl Answers {
    fn session_of(&self, answer: Key) -> Option<Key> {
        self.sessions.get(&answer.0).copied()
    }

    fn remember(&mut self, answer: Key, session: Key) {
        if self.sessions.insert(answer.0, session).is_some() {
            return;
        }
        self.order.push_back(answer.0);
        if self.order.len() > limits::SAMPLE_ANSWERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.sessions.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
