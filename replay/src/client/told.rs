//! What is learnt about an exchange while it goes on.

use super::exchanged::{Exchanged, Failure, NOT_AN_ANSWER, is_answer};
use super::pulse::Pulse;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;
use truetape_schemas::capture::Outcome;
use truetape_schemas::wire::{BodyEnd, Dialect, ResponseFacts, ResponseReader};

/// Bytes of an answer that [`Client::fetch`](super::Client::fetch) keeps at most.
const FETCH_BYTES_MAX: usize = 4 << 20;

/// What is learnt about an exchange while it goes on; whole at any instant, since it may be cut.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) dialect: Dialect,
    pub(super) pulse: Arc<Pulse>,
    pub(super) handed: Instant,
    pub(super) connected: bool,
    pub(super) conn_reused: bool,
    pub(super) request_end: Option<Instant>,
    pub(super) head_at: Option<Instant>,
    pub(super) first_byte_at: Option<Instant>,
    pub(super) done_at: Option<Instant>,
    pub(super) ended: Option<Instant>,
    pub(super) status: Option<u16>,
    pub(super) headers: http::HeaderMap,
    pub(super) response_bytes: i64,
    pub(super) reader: Option<ResponseReader>,
    pub(super) kept: Option<Vec<u8>>,
}

impl Told {
    pub(super) fn new(dialect: Dialect) -> Self {
        let now = Instant::now();
        Self {
            dialect,
            pulse: Arc::new(Pulse::starting_at(now)),
            handed: now,
            connected: false,
            conn_reused: false,
            request_end: None,
            head_at: None,
            first_byte_at: None,
            done_at: None,
            ended: None,
            status: None,
            headers: http::HeaderMap::new(),
            response_bytes: 0,
            reader: None,
            kept: None,
        }
    }

    pub(super) fn handed(&mut self, conn_reused: bool) {
        self.handed = Instant::now();
        self.connected = true;
        self.conn_reused = conn_reused;
    }

    pub(super) fn head(&mut self, head: http::response::Parts) {
        let now = Instant::now();
        self.pulse.hear(now);
        self.head_at = Some(now);
        self.status = Some(head.status.as_u16());
        self.headers = head.headers;
        if self.kept.is_none() {
            self.reader = Some(reader(self.dialect, head.status.as_u16(), &self.headers));
        }
    }

    pub(super) fn frame(&mut self, data: Option<&Bytes>) {
        let Some(data) = data else { return };
        let now = Instant::now();
        self.pulse.hear(now);
        self.first_byte_at.get_or_insert(now);
        self.response_bytes += i64::try_from(data.len()).unwrap_or(i64::MAX);
        if let Some(kept) = &mut self.kept {
            let room = FETCH_BYTES_MAX.saturating_sub(kept.len());
            kept.extend(data.iter().take(room));
        }
        let at_us = self.offset(now);
        if let Some(reader) = &mut self.reader {
            reader.push(at_us, data);
            if reader.done_seen() {
                self.done_at.get_or_insert(now);
            }
        }
    }

    /// Token events so far.
    pub(super) fn token_events(&self) -> usize {
        self.reader.as_ref().map_or(0, ResponseReader::token_events)
    }

    fn offset(&self, at: Instant) -> i64 {
        i64::try_from(at.saturating_duration_since(self.handed).as_micros()).unwrap_or(i64::MAX)
    }

    pub(super) fn exchanged(mut self, failure: Option<Failure>) -> Exchanged {
        let end = self.ended.unwrap_or_else(Instant::now);
        let facts = match self.reader.take() {
            Some(reader) => answered(self.dialect, reader.finish(body_end(failure.as_ref()))),
            None => no_answer(failure.as_ref()),
        };
        Exchanged {
            handed: self.handed,
            connected: self.connected,
            conn_reused: self.conn_reused,
            request_end_us: self.request_end.map(|at| self.offset(at)),
            head_us: self.head_at.map(|at| self.offset(at)),
            first_byte_us: self.first_byte_at.map(|at| self.offset(at)),
            end_us: self.offset(end),
            status: self.status,
            response_bytes: self.response_bytes,
            facts,
            failure,
        }
    }
}

/// A reader of answers with this head.
pub(super) fn reader(dialect: Dialect, status: u16, headers: &http::HeaderMap) -> ResponseReader {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let content_type = text(http::header::CONTENT_TYPE);
    let encoding = text(http::header::CONTENT_ENCODING);
    ResponseReader::new(dialect, status, content_type, encoding)
}

/// What came is a success only where it is an answer.
fn answered(dialect: Dialect, facts: ResponseFacts) -> ResponseFacts {
    // What is not read cannot be missed.
    if !crate::body::can_send(dialect) || facts.outcome != Outcome::Complete || is_answer(&facts) {
        return facts;
    }
    ResponseFacts {
        outcome: Outcome::Error,
        error_code: Some(NOT_AN_ANSWER.to_owned()),
        ..facts
    }
}

fn body_end(failure: Option<&Failure>) -> BodyEnd {
    match failure {
        None => BodyEnd::Clean,
        Some(Failure::Timeout | Failure::Silence) => BodyEnd::Timeout,
        Some(Failure::Aborted | Failure::RecordedCancel) => BodyEnd::ClientAborted,
        Some(Failure::Connect(_) | Failure::NoAnswer(_) | Failure::Cut(_)) => BodyEnd::Cut,
    }
}

fn no_answer(failure: Option<&Failure>) -> ResponseFacts {
    let outcome = match failure {
        Some(Failure::Timeout | Failure::Silence) => Outcome::Timeout,
        Some(Failure::Aborted | Failure::RecordedCancel) => Outcome::ClientAborted,
        Some(Failure::Connect(_)) | None => Outcome::Error,
        Some(Failure::NoAnswer(_) | Failure::Cut(_)) => Outcome::Truncated,
    };
    let error_code = failure.map(|failure| failure.name().to_owned());
    ResponseFacts {
        outcome,
        error_code,
        ..ResponseFacts::default()
    }
}
