//! What came back, when, and how it ended.

use super::{Dialect, ResponseFacts};
use crate::capture::Outcome;

/// How the body of an answer came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// The transport ended it as the protocol says: last chunk, full length, or close where the
    /// length was not given.
    Clean,
    /// The upstream went away before.
    Cut,
    /// The client went away before.
    ClientAborted,
    /// A time limit of ours passed before.
    Timeout,
    /// The recording process ended before.
    ProxyShutdown,
}

/// Reads one answer as it passes by.
#[derive(Debug)]
pub struct ResponseReader {
    dialect: Dialect,
    status: u16,
}

impl ResponseReader {
    /// Starts to read an answer, once its head is known.
    pub fn new(
        dialect: Dialect,
        status: u16,
        content_type: Option<&str>,
        content_encoding: Option<&str>,
    ) -> Self {
        let (_, _) = (content_type, content_encoding);
        Self { dialect, status }
    }

    /// Takes the bytes of one read, and when it was.
    pub fn push(&mut self, at_us: i64, bytes: &[u8]) {
        let (_, _) = (at_us, bytes);
    }

    /// Whether the dialect's end marker was seen: what follows is not part of the answer.
    pub fn done_seen(&self) -> bool {
        false
    }

    /// Ends the reading.
    pub fn finish(self, end: BodyEnd) -> ResponseFacts {
        let outcome = match end {
            BodyEnd::Clean if self.status < 400 => Outcome::Complete,
            BodyEnd::Clean => Outcome::Error,
            BodyEnd::Cut => Outcome::Truncated,
            BodyEnd::ClientAborted => Outcome::ClientAborted,
            BodyEnd::Timeout => Outcome::Timeout,
            BodyEnd::ProxyShutdown => Outcome::ProxyShutdown,
        };
        let _ = self.dialect;
        ResponseFacts {
            outcome,
            ..ResponseFacts::default()
        }
    }
}
