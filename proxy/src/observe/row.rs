//! One record to one row: a pure function, but for the id it makes.

use super::Plan;
use crate::budget::Held;
use crate::clock::Clock;
use crate::config::Content;
use crate::redact::Credentials;
use crate::tape::{Arrival, Fate, Record, ResponseHead};
use crate::track::{Mark, Track, TrackEnd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use truetape_schemas::capture::{Exchange, Header, Outcome, ParseStatus};
use truetape_schemas::ids::new_exchange_id;
use truetape_schemas::wire::session::{SessionFacts, session_of_configured};
use truetape_schemas::wire::{self, BodyEnd, Dialect, RequestFacts, ResponseFacts, ResponseReader};

/// Names what was given up, in the column `degraded`.
const LOST_BODY: &str = "body";
const LOST_TIMELINE: &str = "timeline";

/// Error code of the one answer that is ours.
const UNREACHABLE: &str = "truetape_upstream_connect";

/// Makes the row. What it still holds of the budget goes with it until it is written.
pub(super) fn of(plan: &Plan, clock: &Clock, record: Record) -> (Exchange, Held) {
    let end = body_end(&record);
    let Record {
        arrival,
        request,
        head,
        response,
        client_stall_us,
        fate,
        end_us,
        mut held,
        ..
    } = record;
    let dialect = Dialect::of(&arrival.method, &arrival.path);
    let mut exchange = Exchange {
        exchange_id: new_exchange_id(),
        proxy_id: plan.proxy_id.clone(),
        upstream: plan.upstream.clone(),
        arrival: clock.wall_us(arrival.arrival_us),
        arrival_mono_us: arrival.arrival_us,
        conn_id: arrival.conn_id,
        conn_seq: arrival.conn_seq,
        inflight: Some(arrival.inflight),
        dialect: dialect.name().to_owned(),
        client_stall_us: response.as_ref().map(|_| client_stall_us.max(0)),
        end_us: Some(end_us - arrival.arrival_us),
        ..Exchange::default()
    };
    let mut degraded = Vec::new();
    let facts = put_request(
        &mut exchange,
        &arrival,
        request,
        dialect,
        &mut degraded,
        &mut held,
    );
    put_session(&mut exchange, plan, &facts);
    put_response(
        &mut exchange,
        &arrival,
        head,
        response,
        dialect,
        end,
        &mut degraded,
        &mut held,
    );
    if fate == Fate::Unreachable {
        exchange.error_code = Some(UNREACHABLE.to_owned());
    }
    if plan.content == Content::None {
        exchange.request_body = None;
        exchange.response_body = None;
    }
    exchange.method = arrival.method;
    exchange.path = arrival.path;
    exchange.degraded = (!degraded.is_empty()).then_some(degraded);
    (exchange, held)
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

fn put_request(
    exchange: &mut Exchange,
    arrival: &Arrival,
    track: Option<Track>,
    dialect: Dialect,
    degraded: &mut Vec<String>,
    held: &mut Held,
) -> RequestFacts {
    exchange.request_headers = arrival.headers.headers();
    exchange
        .request_encoding
        .clone_from(&arrival.content_encoding);
    let Some(track) = track else {
        return RequestFacts::default();
    };
    exchange.request_bytes = Some(offset_of(track.bytes));
    if track.end == TrackEnd::Clean {
        exchange.request_end_us = track.end_us.map(|us| us - arrival.arrival_us);
    }
    if track.lost_body() {
        degraded.push(LOST_BODY.to_owned());
    }
    let (body, more) = track.into_body();
    held.absorb(more);
    // Bodies are kept as sent; a coded one is not read.
    let plain = exchange.request_encoding.is_none();
    let facts = match &body {
        Some(body) if plain => {
            let read = catch_unwind(AssertUnwindSafe(|| wire::read_request(dialect, body)));
            read.unwrap_or_else(|_| failed())
        }
        _ => RequestFacts::default(),
    };
    exchange.request_body = body;
    put_parameters(exchange, &facts);
    facts
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

fn put_session(exchange: &mut Exchange, plan: &Plan, facts: &RequestFacts) {
    let headers: &[Header] = &exchange.request_headers;
    let found = catch_unwind(AssertUnwindSafe(|| {
        session_of_configured(headers, facts, &plan.session_headers)
    }));
    let SessionFacts {
        session_key,
        session_rule,
        parent_session_key,
        previous_response_id,
        trace_id,
        replay_run,
    } = found.unwrap_or_default();
    exchange.session_key = session_key;
    exchange.session_rule = session_rule;
    exchange.parent_session_key = parent_session_key;
    exchange.previous_response_id = previous_response_id;
    exchange.trace_id = trace_id;
    exchange.replay_run = replay_run;
}

#[expect(clippy::too_many_arguments, reason = "it takes a record apart, once")]
fn put_response(
    exchange: &mut Exchange,
    arrival: &Arrival,
    head: Option<ResponseHead>,
    track: Option<Track>,
    dialect: Dialect,
    end: BodyEnd,
    degraded: &mut Vec<String>,
    held: &mut Held,
) {
    let Some(head) = head else {
        exchange.outcome = outcome(end, None);
        return;
    };
    exchange.response_head_us = Some(head.at_us - arrival.arrival_us);
    exchange.status = Some(i32::from(head.status));
    exchange.response_headers = head.headers.headers();
    exchange
        .response_encoding
        .clone_from(&head.content_encoding);
    exchange.outcome = outcome(end, Some(head.status));
    let Some(track) = track else { return };
    exchange.response_bytes = Some(offset_of(track.bytes));
    exchange.first_byte_us = track.first_us.map(|us| us - arrival.arrival_us);
    exchange.end_us = track
        .end_us
        .map(|us| us - arrival.arrival_us)
        .or(exchange.end_us);
    let (lost_body, lost_marks) = (track.lost_body(), track.lost_marks());
    degraded.extend(
        (lost_body && !degraded.iter().any(|lost| lost == LOST_BODY)).then(|| LOST_BODY.to_owned()),
    );
    degraded.extend(lost_marks.then(|| LOST_TIMELINE.to_owned()));
    let marks = track
        .marks()
        .map(|marks| since_arrival(marks, arrival.arrival_us));
    if let Some(marks) = &marks {
        exchange.frame_offsets_us = Some(marks.iter().map(|mark| mark.at_us).collect());
        exchange.frame_bytes = Some(marks.iter().map(|mark| offset_of(mark.bytes)).collect());
    }
    let (body, more) = track.into_body();
    held.absorb(more);
    let Some(mut body) = body else { return };
    if head.status >= 400 {
        // Before it is read: error codes and types may echo what was sent.
        arrival.credentials.scrub(&mut body);
    }
    let timed = marks.is_some();
    let marks = marks.unwrap_or_else(|| vec![whole(&body, exchange.end_us)]);
    let read = catch_unwind(AssertUnwindSafe(|| {
        read(dialect, &head, &marks, &body, end)
    }));
    match read {
        Ok(facts) => put_facts(exchange, facts, timed),
        Err(_) => exchange.parse_status = ParseStatus::Failed,
    }
    if exchange.outcome == Outcome::Error {
        scrub(exchange, &arrival.credentials, &mut body);
    }
    exchange.response_body = Some(body);
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
    if timed && !facts.token_event_offsets_us.is_empty() {
        exchange.first_token_us = facts.first_token_us;
        exchange.first_output_us = facts.first_output_us;
        exchange.last_token_us = facts.last_token_us;
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

fn offset_of(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
