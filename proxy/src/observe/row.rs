//! One record to one row: a pure function, but for the id it makes.

use super::Plan;
use crate::budget::Held;
use crate::clock::Clock;
use crate::config::Content;
use crate::redact::Credentials;
use crate::tape::{Arrival, Fate, Record, ResponseHead};
use crate::track::{Mark, Track, TrackEnd};
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use truetape_schemas::capture::{Exchange, Header, LengthSource, Outcome, ParseStatus};
use truetape_schemas::ids::new_exchange_id;
use truetape_schemas::wire::session::{SessionFacts, session_of_configured};
use truetape_schemas::wire::{self, BodyEnd, Dialect, RequestFacts, ResponseFacts, ResponseReader};

/// Names what was given up, in the column `degraded`.
const LOST_BODY: &str = "body";
const LOST_TIMELINE: &str = "timeline";

/// Error code of the one answer that is ours.
const UNREACHABLE: &str = "truetape_upstream_connect";

/// A row while it is made.
struct Draft<'a> {
    exchange: Exchange,
    arrival: &'a Arrival,
    dialect: Dialect,
    held: Held,
    lost_body: bool,
    lost_timeline: bool,
}

/// Makes the row. What it still holds of the budget goes with it until it is written.
pub(super) fn of(plan: &Plan, clock: &Clock, record: Record) -> (Exchange, Held) {
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
        dialect,
        held,
        lost_body,
        lost_timeline,
    };
    let facts = draft.put_request(record.request);
    draft.put_session(plan, &facts);
    draft.put_response(record.head, record.response, end);
    draft.put_prompt_ids(&facts);
    if record.fate == Fate::Unreachable {
        draft.exchange.error_code = Some(UNREACHABLE.to_owned());
    }
    draft.finish(plan.content)
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

    fn put_request(&mut self, track: Option<Track>) -> RequestFacts {
        let exchange = &mut self.exchange;
        exchange.request_headers = self.arrival.headers.headers();
        exchange
            .request_encoding
            .clone_from(&self.arrival.content_encoding);
        let Some(track) = track else {
            return RequestFacts::default();
        };
        if track.bytes == 0 && track.end == TrackEnd::Dropped {
            // Nobody read it: what it held is unknown, which is not the same as empty.
            return RequestFacts::default();
        }
        exchange.request_bytes = Some(count(track.bytes));
        if track.end == TrackEnd::Clean {
            exchange.request_end_us = track.end_us.map(|us| us - self.arrival.arrival_us);
        }
        let body = self.take_body(track);
        // Bodies are kept as sent; a coded one is not read.
        let coding = self
            .exchange
            .request_encoding
            .as_deref()
            .unwrap_or_default();
        let plain = coding.is_empty() || coding.eq_ignore_ascii_case("identity");
        let facts = match &body {
            Some(body) if plain => {
                self.dialect = self.dialect.refined(body);
                self.dialect.name().clone_into(&mut self.exchange.dialect);
                let dialect = self.dialect;
                let read = catch_unwind(AssertUnwindSafe(|| wire::read_request(dialect, body)));
                read.unwrap_or_else(|_| failed())
            }
            _ => RequestFacts::default(),
        };
        self.exchange.request_body = body;
        put_parameters(&mut self.exchange, &facts);
        facts
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

    fn put_session(&mut self, plan: &Plan, facts: &RequestFacts) {
        let exchange = &mut self.exchange;
        let mut headers: Cow<'_, [Header]> = Cow::Borrowed(&exchange.request_headers);
        if let Some(token) = self.arrival.credentials.session_header() {
            headers.to_mut().push(token);
        }
        let found = catch_unwind(AssertUnwindSafe(|| {
            session_of_configured(&headers, facts, &plan.session_headers)
        }));
        let session: SessionFacts = found.unwrap_or_default();
        exchange.session_key = session.session_key;
        exchange.session_rule = session.session_rule;
        exchange.parent_session_key = session.parent_session_key;
        exchange.previous_response_id = session.previous_response_id;
        exchange.trace_id = session.trace_id;
        exchange.replay_run = session.replay_run;
    }

    fn put_response(&mut self, head: Option<ResponseHead>, track: Option<Track>, end: BodyEnd) {
        self.exchange.outcome = outcome(end, head.as_ref().map(|head| head.status));
        let Some(head) = head else { return };
        self.exchange.response_head_us = Some(self.since_arrival(head.at_us));
        self.exchange.status = Some(i32::from(head.status));
        self.exchange.response_headers = head.headers.headers();
        self.exchange
            .response_encoding
            .clone_from(&head.content_encoding);
        let Some(track) = track else { return };
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
        if let Some(body) = self.take_body(track) {
            self.read_response(&head, marks, body, end);
        }
    }

    fn read_response(
        &mut self,
        head: &ResponseHead,
        marks: Option<Vec<Mark>>,
        mut body: Vec<u8>,
        end: BodyEnd,
    ) {
        let credentials = &self.arrival.credentials;
        if head.status >= 400 {
            // Before it is read: error codes and types may echo what was sent.
            credentials.scrub(&mut body);
        }
        let timed = marks.is_some();
        let marks = marks.unwrap_or_else(|| vec![whole(&body, self.exchange.end_us)]);
        let dialect = self.dialect;
        let read = catch_unwind(AssertUnwindSafe(|| read(dialect, head, &marks, &body, end)));
        match read {
            Ok(facts) => put_facts(&mut self.exchange, facts, timed),
            Err(_) => self.exchange.parse_status = ParseStatus::Failed,
        }
        if self.exchange.outcome == Outcome::Error {
            scrub(&mut self.exchange, credentials, &mut body);
        }
        self.exchange.response_body = Some(body);
    }

    fn finish(self, content: Content) -> (Exchange, Held) {
        let mut exchange = self.exchange;
        if content == Content::None {
            exchange.request_body = None;
            exchange.response_body = None;
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
        (exchange, self.held)
    }
}

fn failed() -> RequestFacts {
    RequestFacts {
        parse_status: ParseStatus::Failed,
        ..RequestFacts::default()
    }
}

fn put_parameters(exchange: &mut Exchange, facts: &RequestFacts) {
    exchange.parse_status = facts.parse_status;
    exchange.model.clone_from(&facts.model);
    exchange.stream = facts.stream;
    exchange.max_tokens = facts.max_tokens;
    exchange.min_tokens = facts.min_tokens;
    exchange.temperature = facts.temperature;
    exchange.top_p = facts.top_p;
    exchange.n = facts.n;
    exchange.stop.clone_from(&facts.stop);
    exchange.ignore_eos = facts.ignore_eos;
    exchange.seed = facts.seed;
    exchange.response_format.clone_from(&facts.response_format);
    exchange.tool_count = facts.tool_count;
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

fn read(
    dialect: Dialect,
    head: &ResponseHead,
    marks: &[Mark],
    body: &[u8],
    end: BodyEnd,
) -> ResponseFacts {
    let (content_type, coding) = (
        head.content_type.as_deref(),
        head.content_encoding.as_deref(),
    );
    let mut reader = ResponseReader::new(dialect, head.status, content_type, coding);
    let mut rest = body;
    for mark in marks {
        let length = usize::try_from(mark.bytes)
            .unwrap_or(usize::MAX)
            .min(rest.len());
        let (frame, after) = rest.split_at(length);
        reader.push(mark.at_us, frame);
        rest = after;
    }
    reader.finish(end)
}

fn put_facts(exchange: &mut Exchange, facts: ResponseFacts, timed: bool) {
    exchange.outcome = facts.outcome;
    exchange.parse_status = worse(exchange.parse_status, facts.parse_status);
    exchange.input_tokens = facts.input_tokens;
    exchange.input_tokens_source = facts.input_tokens_source;
    exchange.output_tokens = facts.output_tokens;
    exchange.output_tokens_source = facts.output_tokens_source;
    exchange.cached_tokens = facts.cached_tokens;
    exchange.cached_tokens_source = facts.cached_tokens_source;
    exchange.reasoning_tokens = facts.reasoning_tokens;
    exchange.reasoning_tokens_source = facts.reasoning_tokens_source;
    exchange.error_code = facts.error_code;
    exchange.error_type = facts.error_type;
    exchange.response_id = facts.response_id;
    if !facts.finish_reasons.is_empty() {
        let reasons = facts
            .finish_reasons
            .into_iter()
            .map(Option::unwrap_or_default);
        exchange.finish_reasons = Some(reasons.collect());
    }
    if !timed {
        return;
    }
    exchange.first_token_us = facts.first_token_us;
    exchange.first_output_us = facts.first_output_us;
    // An answer that is one document has a last token and no first: nobody saw when it came.
    exchange.last_token_us = facts.last_token_us;
    if !facts.token_event_offsets_us.is_empty() {
        exchange.token_event_offsets_us = Some(facts.token_event_offsets_us);
        let several = facts.token_event_choices.iter().any(|choice| *choice != 0);
        exchange.token_event_choices = several.then_some(facts.token_event_choices);
    }
}

/// One word for both bodies: the worse of the two; a body that there was nothing to read off says
/// nothing.
fn worse(one: ParseStatus, other: ParseStatus) -> ParseStatus {
    let rank = |status: &ParseStatus| match status {
        ParseStatus::NotApplicable => 0,
        ParseStatus::Ok => 1,
        ParseStatus::Partial => 2,
        ParseStatus::Failed => 3,
    };
    if rank(&one) >= rank(&other) {
        one
    } else {
        other
    }
}

fn scrub(exchange: &mut Exchange, credentials: &Credentials, body: &mut [u8]) {
    credentials.scrub(body);
    for text in [&mut exchange.error_code, &mut exchange.error_type]
        .into_iter()
        .flatten()
    {
        credentials.scrub_text(text);
    }
}

fn count(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
