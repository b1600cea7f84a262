//! What an answer says.

use super::super::Plan;
use crate::tape::ResponseHead;
use crate::track::Mark;
use truetape_schemas::capture::{Exchange, ParseStatus};
use truetape_schemas::wire::{BodyEnd, Dialect, ResponseFacts, ResponseReader, canonical};

/// Reads an answer, frame by frame: each event has the time of the frame that completed it.
pub(in crate::observe) fn read(
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

/// What stands for the answer in a history, where its text is not kept.
pub(super) fn hash(plan: &Plan, facts: &ResponseFacts) -> Option<u64> {
    let key = plan.digest_key.as_ref().filter(|_| plan.hashes())?;
    let message = facts.assistant_message()?;
    Some(key.identity(&canonical::identity(&message)))
}

/// Puts what it says into the row.
pub(super) fn put(exchange: &mut Exchange, facts: ResponseFacts, timed: bool) {
    exchange.outcome = facts.outcome;
    put_read(exchange, &facts);
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

/// The same without its times and its end.
pub(super) fn put_read(exchange: &mut Exchange, facts: &ResponseFacts) {
    exchange.parse_status = worse(exchange.parse_status, facts.parse_status);
    exchange.input_tokens = facts.input_tokens;
    exchange.input_tokens_source = facts.input_tokens_source;
    exchange.output_tokens = facts.output_tokens;
    exchange.output_tokens_source = facts.output_tokens_source;
    exchange.cached_tokens = facts.cached_tokens;
    exchange.cached_tokens_source = facts.cached_tokens_source;
    exchange.reasoning_tokens = facts.reasoning_tokens;
    exchange.reasoning_tokens_source = facts.reasoning_tokens_source;
    exchange.error_code.clone_from(&facts.error_code);
    exchange.error_type.clone_from(&facts.error_type);
    exchange.response_id.clone_from(&facts.response_id);
    if !facts.finish_reasons.is_empty() {
        let reasons = facts.finish_reasons.iter().cloned();
        exchange.finish_reasons = Some(reasons.map(Option::unwrap_or_default).collect());
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
