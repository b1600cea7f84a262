//! What came back, when, and how it ended.

use super::coding::Decoder;
use super::limits::AnswerLimits;
use super::{Dialect, ResponseFacts, ndjson, sse};
use crate::capture::ParseStatus;
use answer::Answer;
use serde::de::IgnoredAny;

mod answer;
mod anthropic;
mod calls;
mod choice;
mod dialects;
mod lengths;
mod llamacpp;
mod ollama;
mod openai;
mod outcome;
mod responses;
mod sglang;
mod sniff;
mod tgi;

pub use outcome::BodyEnd;

use sniff::{Kind, Sniffer};

/// Reads one answer as it passes by.
///
/// It does not care how the bytes were cut, except for their times: an event has the time of the
/// push that completed it. It never fails; what cannot be read is said in
/// [`ResponseFacts::parse_status`].
#[derive(Debug)]
pub struct ResponseReader {
    status: u16,
    coding: Option<Decoder>,
    body: Body,
    answer: Answer,
    json_bytes_max: usize,
    /// The last push that brought more than white space.
    last_byte_us: Option<i64>,
}

/// How the body is read.
#[derive(Debug)]
enum Body {
    /// Not known before its first bytes.
    Unknown(Sniffer),
    /// An event stream.
    Events(sse::Decoder),
    /// Lines of JSON.
    Lines(ndjson::Decoder),
    /// One JSON document, held until its end.
    Json(Vec<u8>),
    /// Not read; with what is said about that.
    Opaque(ParseStatus),
}

impl ResponseReader {
    /// Starts to read an answer, once its head is known.
    pub fn new(
        dialect: Dialect,
        status: u16,
        content_type: Option<&str>,
        content_encoding: Option<&str>,
    ) -> Self {
        let limits = AnswerLimits::default();
        Self::within(limits, dialect, status, content_type, content_encoding)
    }

    fn within(
        limits: AnswerLimits,
        dialect: Dialect,
        status: u16,
        content_type: Option<&str>,
        content_encoding: Option<&str>,
    ) -> Self {
        let coding = Decoder::new(content_encoding).ok();
        let body = match dialect {
            Dialect::Trace | Dialect::Unknown => Body::Opaque(ParseStatus::NotApplicable),
            _ if !outcome::has_answer(status) => Body::Opaque(ParseStatus::NotApplicable),
            _ if coding.is_none() => Body::Opaque(ParseStatus::Failed),
            _ => {
                let streams_lines = dialect.streams_lines() && status < 400;
                Body::Unknown(Sniffer::new(content_type, streams_lines))
            }
        };
        Self {
            status,
            // What is not read is not unpacked.
            coding: coding.filter(|_| !matches!(body, Body::Opaque(_))),
            body,
            answer: Answer::new(dialect, limits),
            json_bytes_max: limits.json_bytes_max,
            last_byte_us: None,
        }
    }

    /// Takes the bytes of one read, and when it was.
    pub fn push(&mut self, at_us: i64, bytes: &[u8]) {
        let Some(coding) = &mut self.coding else {
            return;
        };
        match coding.push(bytes) {
            Ok(bytes) => self.sniff(at_us, &bytes),
            // Its label is wrong, or it says more than is read. How much of it comes out before that
            // shows depends on how it was cut, so nothing of it is told.
            Err(_) => {
                self.coding = None;
                self.body = Body::Opaque(ParseStatus::Failed);
                self.answer = Answer::new(self.answer.dialect(), AnswerLimits::default());
            }
        }
    }

    fn sniff(&mut self, at_us: i64, bytes: &[u8]) {
        if let Body::Unknown(sniffer) = &mut self.body {
            let Some((kind, start)) = sniffer.push(bytes) else {
                return;
            };
            self.body = match kind {
                // A dialect that streams lines has no events: this is something else.
                Kind::Events if self.answer.dialect().streams_lines() => {
                    Body::Opaque(unreadable(self.status))
                }
                Kind::Events => Body::Events(sse::Decoder::default()),
                Kind::Lines => Body::Lines(ndjson::Decoder::default()),
                Kind::Json => Body::Json(Vec::new()),
                Kind::Other => Body::Opaque(unreadable(self.status)),
            };
            self.read(at_us, &start);
        } else {
            self.read(at_us, bytes);
        }
    }

    fn read(&mut self, at_us: i64, bytes: &[u8]) {
        if bytes.iter().rev().any(|byte| !byte.is_ascii_whitespace()) {
            self.last_byte_us = Some(at_us);
        }
        let Self {
            body,
            answer,
            json_bytes_max,
            ..
        } = self;
        match body {
            Body::Events(decoder) => decoder.push(bytes, |event| answer.event(at_us, event)),
            Body::Lines(decoder) => decoder.push(bytes, |line| answer.line(at_us, line)),
            Body::Json(held) if held.len() + bytes.len() <= *json_bytes_max => {
                held.extend_from_slice(bytes);
            }
            Body::Json(_) => *body = Body::Opaque(ParseStatus::Failed),
            Body::Unknown(_) | Body::Opaque(_) => {}
        }
    }

    /// Whether the dialect's end marker was seen: what follows is not part of the answer, and the
    /// exchange is over even if the socket stays open.
    pub fn done_seen(&self) -> bool {
        self.answer.done
    }

    /// Token events so far.
    pub fn token_events(&self) -> usize {
        self.answer.facts.token_event_offsets_us.len()
    }

    /// Ends the reading.
    pub fn finish(self, end: BodyEnd) -> ResponseFacts {
        let Self {
            status,
            body,
            mut answer,
            last_byte_us,
            ..
        } = self;
        let (body, parse_status) = match body {
            Body::Unknown(sniffer) if sniffer.is_empty() => {
                (outcome::Body::Empty, ParseStatus::NotApplicable)
            }
            Body::Unknown(_) => (outcome::Body::Opaque, unreadable(status)),
            Body::Opaque(parse_status) => (outcome::Body::Opaque, parse_status),
            Body::Events(mut decoder) => {
                decoder.finish(|event| answer.last_event(last_byte_us.unwrap_or(0), event));
                answer.facts.skipped = decoder.skipped();
                let finished = answer.is_finished();
                (outcome::Body::Events { finished }, answer.parse_status())
            }
            Body::Lines(mut decoder) => {
                decoder.finish(|line| answer.last_line(last_byte_us.unwrap_or(0), line));
                answer.facts.skipped = decoder.skipped();
                let finished = answer.is_finished();
                (outcome::Body::Events { finished }, answer.parse_status())
            }
            Body::Json(bytes) => read_json(&mut answer, &bytes, last_byte_us, status),
        };
        let Answer {
            done,
            error,
            cancelled,
            ..
        } = answer;
        let evidence = outcome::Evidence {
            status,
            body,
            done,
            error,
            cancelled,
            end,
        };
        let mut facts = answer.end();
        facts.outcome = outcome::of(evidence);
        facts.parse_status = parse_status;
        facts
    }
}

/// What to say about a body that is neither events nor JSON. A gateway's error page is no failure
/// of the reader.
fn unreadable(status: u16) -> ParseStatus {
    if status >= 400 {
        ParseStatus::NotApplicable
    } else {
        ParseStatus::Failed
    }
}

fn read_json(
    answer: &mut Answer,
    body: &[u8],
    at_us: Option<i64>,
    status: u16,
) -> (outcome::Body, ParseStatus) {
    if answer.whole(at_us, body, status) {
        return (outcome::Body::Whole, answer.parse_status());
    }
    match serde_json::from_slice::<IgnoredAny>(body) {
        Err(error) if error.is_eof() => (outcome::Body::Half, ParseStatus::Partial),
        _ => (outcome::Body::Opaque, unreadable(status)),
    }
}

#[cfg(test)]
mod tests;
