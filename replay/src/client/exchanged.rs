//! A request, and what became of it.

use super::shelf::Carrier;
use crate::plan::Cancel;
use bytes::Bytes;
use http_body_util::Full;
use std::time::{Duration, Instant};
use truetape_schemas::capture::Outcome;
use truetape_schemas::wire::{BodyEnd, Dialect, ResponseFacts};

/// A request to be sent.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// HTTP method.
    pub method: http::Method,
    /// Path and query, complete.
    pub path: String,
    /// Header fields besides `host` and `content-length`.
    pub headers: http::HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The language of the answer.
    pub dialect: Dialect,
    /// Give up after this, connecting included.
    pub timeout: Option<Duration>,
    /// Give up when nothing has come or gone for so long.
    pub idle_timeout: Option<Duration>,
    /// Go away as production's client did.
    pub cancel: Option<Cancel>,
    /// The recorded connection whose place its own takes.
    pub carrier: Option<Carrier>,
}

/// A request that only has to be written: see [`Client::prepare`](super::Client::prepare).
#[derive(Debug)]
pub struct Prepared {
    pub(super) wire: Result<http::Request<Full<Bytes>>, String>,
    pub(super) bounds: Bounds,
    /// Length of its body.
    pub body_bytes: usize,
}

/// How an exchange is carried, and when it is given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) dialect: Dialect,
    pub(super) timeout: Option<Duration>,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) cancel: Option<Cancel>,
    pub(super) carrier: Option<Carrier>,
}

impl Bounds {
    pub(super) fn of(request: &Request) -> Self {
        Self {
            dialect: request.dialect,
            timeout: request.timeout,
            idle_timeout: request.idle_timeout,
            cancel: request.cancel,
            carrier: request.carrier,
        }
    }
}

/// What became of a request. Offsets are microseconds since `handed`.
#[derive(Debug)]
pub struct Exchanged {
    /// When the request was handed to a connection; when it was asked for, where there was none.
    pub handed: Instant,
    /// Whether it was handed to a connection.
    pub connected: bool,
    /// Whether the connection had carried an exchange before.
    pub conn_reused: bool,
    /// The last byte of the request was written.
    pub request_end_us: Option<i64>,
    /// The head of the answer was read.
    pub head_us: Option<i64>,
    /// The first byte of its body was read.
    pub first_byte_us: Option<i64>,
    /// The end of its body, or the failure.
    pub end_us: i64,
    /// HTTP status.
    pub status: Option<u16>,
    /// Bytes of the answer's body.
    pub response_bytes: i64,
    /// What the answer said.
    pub facts: ResponseFacts,
    /// Why there is no answer, or no whole one.
    pub failure: Option<Failure>,
}

/// Why an exchange went wrong below HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There was no connection.
    Connect(String),
    /// The connection broke before an answer.
    NoAnswer(String),
    /// The connection broke inside the answer.
    Cut(String),
    /// It took longer than allowed.
    Timeout,
    /// Nothing came or went for longer than allowed.
    Silence,
    /// The run was stopped.
    Aborted,
    /// Production's client went away here.
    RecordedCancel,
}

impl Failure {
    /// The word in the column `error_code`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::NoAnswer(_) => "no_answer",
            Self::Cut(_) => "cut",
            Self::Timeout => "timeout",
            Self::Silence => "idle_timeout",
            Self::Aborted => "aborted",
            Self::RecordedCancel => RECORDED_CANCEL,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(cause) => write!(f, "cannot connect: {cause}"),
            Self::NoAnswer(cause) => write!(f, "no answer: {cause}"),
            Self::Cut(cause) => write!(f, "the answer broke off: {cause}"),
            Self::Timeout => f.write_str("timed out"),
            Self::Silence => f.write_str("nothing came for too long"),
            Self::Aborted => f.write_str("aborted"),
            Self::RecordedCancel => f.write_str("cancelled as recorded"),
        }
    }
}

impl Exchanged {
    /// Time to first token: from "request fully sent" to the first token event (D2).
    pub fn ttft_us(&self) -> Option<i64> {
        Some(self.facts.first_token_us? - self.request_end_us?)
    }
}

/// The word in the column `error_code` of an exchange that was cancelled as production's client did.
pub const RECORDED_CANCEL: &str = "recorded_cancel";

/// The word in the column `error_code` of an answer that is not one.
pub const NOT_AN_ANSWER: &str = "not_an_answer";

/// Whether an answer says anything in its dialect: a choice, a finish reason or usage. A login page
/// with status 200 is complete and answers nothing.
pub fn is_answer(facts: &ResponseFacts) -> bool {
    // There is a finish reason, perhaps an unknown one, for each choice.
    let choices = !facts.finish_reasons.is_empty() || !facts.token_event_offsets_us.is_empty();
    choices || facts.input_tokens.is_some() || facts.output_tokens.is_some()
}

/// An answer read whole, for questions that are not load.
#[derive(Debug)]
pub struct Fetched {
    /// HTTP status.
    pub status: u16,
    /// Its header fields.
    pub headers: http::HeaderMap,
    /// Its body, up to 4 MiB.
    pub body: Vec<u8>,
}

impl Fetched {
    /// Whether it is a whole answer of a dialect.
    pub fn is_answer_in(&self, dialect: Dialect) -> bool {
        let mut reader = super::told::reader(dialect, self.status, &self.headers);
        reader.push(0, &self.body);
        let facts = reader.finish(BodyEnd::Clean);
        facts.outcome == Outcome::Complete && is_answer(&facts)
    }
}
