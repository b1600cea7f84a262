//! One record to one row: a pure function, but for the id it makes.

use super::Plan;
use crate::budget::Held;
use crate::clock::Clock;
use crate::config::Content;
use crate::digest::DigestKey;
use crate::redact::{Secrets, policy};
use crate::sample::Seen;
use crate::tape::{Arrival, Fate, Record, ResponseHead};
use crate::track::{Mark, Track, TrackEnd};
use std::borrow::Cow;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use truetape_schemas::capture::{Exchange, Header, LengthSource, Outcome, ParseStatus, blob};
use truetape_schemas::ids::{content_id, new_exchange_id};
use truetape_schemas::wire::coding;
use truetape_schemas::wire::session::{SessionFacts, session_of_configured};
use truetape_schemas::wire::{BodyEnd, Dialect, Message, RequestFacts};

mod request;
pub(super) mod response;
mod tail;

use request::Asked;

/// Names what was given up, in the column `degraded`.
const LOST_BODY: &str = "body";
const LOST_TIMELINE: &str = "timeline";

/// The encoding of a body that is kept unpacked.
const IDENTITY: &str = "identity";

/// Error code of the one answer that is ours.
const UNREACHABLE: &str = "truetape_upstream_connect";

/// A row while it is made.
struct Draft<'a> {
    exchange: Exchange,
    arrival: &'a Arrival,
    secrets: Secrets<'a>,
    dialect: Dialect,
    held: Held,
    lost_body: bool,
    lost_timeline: bool,
}

/// A row, as the content policy leaves it, and what sampling decides by.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) exchange: Exchange,
    /// What it still holds of the budget, until it is written.
    pub(super) held: Held,
    pub(super) session: SessionFacts,
    pub(super) messages: Vec<Message>,
    /// The id of the answer as the server gave it.
    pub(super) response_id: Option<String>,
}

impl Made {
    /// What sampling decides by.
    pub(super) fn seen(&self) -> Seen<'_> {
        Seen {
            session: &self.session,
            messages: &self.messages,
            exchange_id: &self.exchange.exchange_id,
            response_id: self.response_id.as_deref(),
        }
    }
}

/// Makes the row.
pub(super) fn of(plan: &Plan, clock: &Clock, record: Record) -> Made {
    let end = body_end(&record);
    let stalled = record
        .response
        .is_some()
        .then_some(record.client_stall_us.max(0));
    let arrival = &record.arrival;
    let dialect = Dialect::of(&arrival.method, &arrival.path);
    let exchange = Exchange {
        exchange_id: new_exchange_id(),
        proxy_id: plan.proxy_id.clone(),
        proxy_epoch_us: Some(clock.epoch_us()),
        upstream: record.arrival.upstream.to_string(),
        arrival: clock.wall_us(arrival.arrival_us),
        arrival_mono_us: arrival.arrival_us,
        conn_id: arrival.conn_id,
        conn_seq: arrival.conn_seq,
        inflight: Some(arrival.inflight),
        method: arrival.method.clone(),
        path: arrival.path.clone(),
        dialect: dialect.name().to_owned(),
        client_key: plan.caller_key.name(&arrival.credentials),
        client_stall_us: stalled,
        end_us: Some(record.end_us - arrival.arrival_us),
        ..Exchange::default()
    };
    let (held, lost_body, lost_timeline) = (record.held, false, false);
    let mut draft = Draft {
        exchange,
        arrival,
        secrets: arrival.credentials.secrets(),
        dialect,
        held,
        lost_body,
        lost_timeline,
    };
    let asked = draft.put_request(plan, record.request);
    let session = draft.put_session(plan, &asked);
    draft.put_response(plan, record.head, record.response, end);
    draft.put_prompt_ids(&asked.facts);
    if record.fate == Fate::Unreachable {
        draft.exchange.error_code = Some(UNREACHABLE.to_owned());
    }
    draft.finish(plan, session, asked.messages)
}

/// Runs a reader: a bug in it costs what it would have said, not the record.
fn isolated<T>(read: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(read)).ok()
}

/// How the body of the answer came to its end, by what both bodies and the forwarding code saw.
fn body_end(record: &Record) -> BodyEnd {
    let unfinished = if record.cut {
        BodyEnd::ProxyShutdown
    } else {
        BodyEnd::ClientAborted
    };
    let upload_failed = record
        .request
        .as_ref()
        .is_some_and(|track| track.end == TrackEnd::Failed);
    match (record.response.as_ref().map(|track| track.end), record.fate) {
        (Some(TrackEnd::Clean), _) | (None, Fate::Unreachable) => BodyEnd::Clean,
        (Some(TrackEnd::Failed), _) => BodyEnd::Cut,
        // The client went away in the middle of its upload, and the upstream was told so.
        (None, Fate::Broken) if !upload_failed => BodyEnd::Cut,
        (Some(TrackEnd::Dropped) | None, _) => unfinished,
    }
}

impl Draft<'_> {
    fn since_arrival(&self, at_us: i64) -> i64 {
        at_us - self.arrival.arrival_us
    }

    fn put_request(&mut self, plan: &Plan, track: Option<Track>) -> Asked {
        let exchange = &mut self.exchange;
        exchange.request_headers = self.arrival.headers.headers();
        exchange
            .request_encoding
            .clone_from(&self.arrival.content_encoding);
        let Some(track) = track else {
            return Asked::default();
        };
        if track.bytes == 0 && track.end == TrackEnd::Dropped {
            // Nobody read it: what it held is unknown, which is not the same as empty.
            return Asked::default();
        }
        exchange.request_bytes = Some(count(track.bytes));
        if track.end == TrackEnd::Clean {
            exchange.request_end_us = track.end_us.map(|us| us - self.arrival.arrival_us);
        }
        let Some(body) = self.take_body(track) else {
            return Asked::default();
        };
        let coded = self.exchange.request_encoding.as_deref();
        let mut asked = request::read(plan, self.dialect, coded, &body);
        if let Some(dialect) = asked.dialect {
            self.dialect = dialect;
            dialect.name().clone_into(&mut self.exchange.dialect);
        }
        self.exchange.request_body = Some(body);
        request::put(&mut self.exchange, &mut asked);
        asked
    }

    /// A prompt that is given as token ids has its length in the request, where the server does
    /// not say it.
    fn put_prompt_ids(&mut self, facts: &RequestFacts) {
        let exchange = &mut self.exchange;
        if let (None, Some(ids)) = (exchange.input_tokens, facts.prompt_token_ids) {
            exchange.input_tokens = Some(ids);
            exchange.input_tokens_source = LengthSource::Exact;
        }
    }

    fn take_body(&mut self, track: Track) -> Option<Vec<u8>> {
        let (body, held) = track.into_body();
        self.held.absorb(held);
        self.lost_body |= body.is_none();
        body
    }

    fn put_session(&mut self, plan: &Plan, asked: &Asked) -> SessionFacts {
        let exchange = &mut self.exchange;
        let mut headers: Cow<'_, [Header]> = Cow::Borrowed(&exchange.request_headers);
        if let Some(token) = self.arrival.credentials.session_header() {
            headers.to_mut().push(token);
        }
        let found =
            isolated(|| session_of_configured(&headers, &asked.facts, &plan.session_headers));
        let session: SessionFacts = found.unwrap_or_default();
        exchange.session_key.clone_from(&session.session_key);
        exchange.session_rule.clone_from(&session.session_rule);
        exchange
            .parent_session_key
            .clone_from(&session.parent_session_key);
        exchange
            .previous_response_id
            .clone_from(&session.previous_response_id);
        exchange.trace_id.clone_from(&session.trace_id);
        exchange.replay_run.clone_from(&session.replay_run);
        session
    }

    fn put_response(
        &mut self,
        plan: &Plan,
        head: Option<ResponseHead>,
        track: Option<Track>,
        end: BodyEnd,
    ) {
        self.exchange.outcome = outcome(end, head.as_ref().map(|head| head.status));
        let Some(head) = head else { return };
        self.exchange.response_head_us = Some(self.since_arrival(head.at_us));
        self.exchange.status = Some(i32::from(head.status));
        self.exchange.response_headers = head.headers.headers();
        self.exchange
            .response_encoding
            .clone_from(&head.content_encoding);
        let Some(mut track) = track else { return };
        self.exchange.response_bytes = Some(count(track.bytes));
        self.exchange.first_byte_us = track.first_us.map(|us| self.since_arrival(us));
        self.exchange.end_us = track
            .end_us
            .map(|us| self.since_arrival(us))
            .or(self.exchange.end_us);
        self.lost_timeline = track.lost_marks();
        let marks = track
            .marks()
            .map(|marks| since_arrival(marks, self.arrival.arrival_us));
        if let Some(marks) = &marks {
            self.exchange.frame_offsets_us = Some(marks.iter().map(|mark| mark.at_us).collect());
            self.exchange.frame_bytes = Some(marks.iter().map(|mark| count(mark.bytes)).collect());
        }
        let tail = track.take_tail();
        match self.take_body(track) {
            Some(body) => self.read_response(plan, &head, marks, body, end),
            None => self.read_tail(&head, &tail, end),
        }
    }

    fn read_response(
        &mut self,
        plan: &Plan,
        head: &ResponseHead,
        marks: Option<Vec<Mark>>,
        body: Vec<u8>,
        end: BodyEnd,
    ) {
        let timed = marks.is_some();
        let marks = marks.unwrap_or_else(|| vec![whole(&body, self.exchange.end_us)]);
        let read = isolated(|| (plan.readers.response)(self.dialect, head, &marks, &body, end));
        match read {
            Some(facts) => {
                self.exchange.answer_hash = isolated(|| response::hash(plan, &facts)).flatten();
                response::put(&mut self.exchange, facts, timed);
            }
            None => self.exchange.parse_status = ParseStatus::Failed,
        }
        self.exchange.response_body = Some(body);
        if self.exchange.outcome == Outcome::Error || head.status >= 400 {
            self.scrub_error();
        }
    }

    /// The body was given up; what stands at its end is read all the same.
    fn read_tail(&mut self, head: &ResponseHead, tail: &[u8], end: BodyEnd) {
        let facts = isolated(|| tail::read(self.dialect, head, tail, end)).flatten();
        if let Some(mut facts) = facts {
            facts.parse_status = ParseStatus::Partial;
            response::put_read(&mut self.exchange, &facts);
            scrub_facts(&mut self.exchange, &self.secrets);
        }
    }

    /// Errors may echo what was sent. One that is coded is searched unpacked; where it holds a
    /// secret it is kept unpacked, and where it cannot be unpacked it is not kept.
    fn scrub_error(&mut self) {
        let secrets = &self.secrets;
        let exchange = &mut self.exchange;
        scrub_facts(exchange, secrets);
        let coded = exchange.response_encoding.as_deref();
        let Some(body) = &mut exchange.response_body else {
            return;
        };
        if coding::is_identity(coded) {
            secrets.scrub(body);
            return;
        }
        let unpacked = isolated(|| coding::decode(coded, body).map(Cow::into_owned));
        let Some(Ok(plain)) = unpacked else {
            exchange.response_body = None;
            self.lost_body = true;
            return;
        };
        let mut scrubbed = plain.clone();
        secrets.scrub(&mut scrubbed);
        if scrubbed != plain {
            exchange.response_body = Some(scrubbed);
            exchange.response_encoding = Some(IDENTITY.to_owned());
        }
    }

    fn finish(self, plan: &Plan, session: SessionFacts, messages: Vec<Message>) -> Made {
        let mut exchange = self.exchange;
        let response_id = exchange.response_id.clone();
        scrub_request(&mut exchange, &self.secrets);
        match (plan.content, &plan.digest_key) {
            (Content::Full, _) if plan.keep_blobs => {}
            (Content::Full, _) => take_blobs(&mut exchange),
            (_, Some(key)) => policy::withhold(&mut exchange, key, &plan.kept),
            // Without a key nothing can stand for a name.
            (_, None) => policy::withhold(&mut exchange, &DigestKey::random(), &plan.kept),
        }
        let lost = [
            (self.lost_body, LOST_BODY),
            (self.lost_timeline, LOST_TIMELINE),
        ];
        let lost = lost
            .into_iter()
            .filter(|(lost, _)| *lost)
            .map(|(_, name)| name.to_owned());
        exchange.degraded = Some(lost.collect()).filter(|lost: &Vec<String>| !lost.is_empty());
        Made {
            exchange,
            held: self.held,
            session,
            messages,
            response_id,
        }
    }
}

/// Takes the blobs out of a request and lets their bytes go.
fn take_blobs(exchange: &mut Exchange) {
    blob::keep_once(exchange, &mut HashSet::new());
    for blob in exchange.request_blobs.iter_mut().flatten() {
        blob.data = None;
    }
}

/// Without what the body says: a body that was given up, or no answer at all.
fn outcome(end: BodyEnd, status: Option<u16>) -> Outcome {
    match end {
        BodyEnd::Clean if status.is_some_and(|status| status < 400) => Outcome::Complete,
        BodyEnd::Clean => Outcome::Error,
        BodyEnd::Cut => Outcome::Truncated,
        BodyEnd::ClientAborted => Outcome::ClientAborted,
        BodyEnd::Timeout => Outcome::Timeout,
        BodyEnd::ProxyShutdown => Outcome::ProxyShutdown,
    }
}

fn since_arrival(marks: &[Mark], arrival_us: i64) -> Vec<Mark> {
    marks
        .iter()
        .map(|mark| Mark {
            at_us: mark.at_us - arrival_us,
            bytes: mark.bytes,
        })
        .collect()
}

fn whole(body: &[u8], end_us: Option<i64>) -> Mark {
    Mark {
        at_us: end_us.unwrap_or(0),
        bytes: body.len() as u64,
    }
}

/// What an answer said about itself.
fn scrub_facts(exchange: &mut Exchange, secrets: &Secrets<'_>) {
    let texts = [
        &mut exchange.error_code,
        &mut exchange.error_type,
        &mut exchange.response_id,
    ];
    let reasons = exchange.finish_reasons.iter_mut().flatten();
    for text in texts.into_iter().flatten().chain(reasons) {
        secrets.scrub_text(text);
    }
}

/// Headers are kept by their names; a client may have put its secret where none belongs.
fn scrub_headers(exchange: &mut Exchange, secrets: &Secrets<'_>) {
    let headers = exchange.request_headers.iter_mut();
    for field in headers.chain(&mut exchange.response_headers) {
        secrets.scrub_text(&mut field.value);
    }
}

fn scrub_request(exchange: &mut Exchange, secrets: &Secrets<'_>) {
    scrub_headers(exchange, secrets);
    secrets.scrub_text(&mut exchange.path);
    let keys = [&mut exchange.session_key, &mut exchange.parent_session_key];
    for key in keys.into_iter().flatten() {
        // Sessions that a secret names stay apart.
        if secrets.are_in(key) {
            *key = content_id(key.as_bytes());
        }
    }
}

fn count(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
