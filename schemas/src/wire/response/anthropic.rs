//! Anthropic messages.

use super::answer::{Answer, Source};
use super::calls::CallPiece;
use super::choice::Piece;
use super::dialects::Family;
use super::lengths::Report;
use crate::capture::LengthSource;
use crate::wire::json::{Field, List, object};
use crate::wire::openai::{Arguments, Fault, Text};

/// Anthropic messages.
pub(super) struct Anthropic;

object! {
    /// An event, or a whole message.
    Document<'de> {
        kind: Text<'de> = "type",
        id: Text<'de> = "id",
        message: Message<'de> = "message",
        index: i64 = "index",
        block: Block<'de> = "content_block",
        delta: Delta<'de> = "delta",
        usage: Usage = "usage",
        error: Fault<'de> = "error",
        content: List<Block<'de>> = "content",
        stop_reason: Text<'de> = "stop_reason",
    }
}

object! {
    /// The message of `message_start`.
    Message<'de> {
        id: Text<'de> = "id",
        usage: Usage = "usage",
    }
}

object! {
    /// A block of the content.
    Block<'de> {
        kind: Text<'de> = "type",
        text: Text<'de> = "text",
        thinking: Text<'de> = "thinking",
        id: Text<'de> = "id",
        name: Text<'de> = "name",
        input: Arguments<'de> = "input",
    }
}

object! {
    /// What an event adds to a block, or to the message.
    Delta<'de> {
        kind: Text<'de> = "type",
        text: Text<'de> = "text",
        thinking: Text<'de> = "thinking",
        partial_json: Text<'de> = "partial_json",
        stop_reason: Text<'de> = "stop_reason",
    }
}

object! {
    /// Lengths. Those of the prompt add up; those of the answer are sums so far.
    Usage {
        input: i64 = "input_tokens",
        written: i64 = "cache_creation_input_tokens",
        read: i64 = "cache_read_input_tokens",
        output: i64 = "output_tokens",
        details: Details = "output_tokens_details",
    }
}

object! {
    /// Parts of a length.
    Details { thinking: i64 = "thinking_tokens" | "reasoning_tokens" }
}

/// The last value of each part of the prompt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prompt {
    input: Option<i64>,
    written: Option<i64>,
    read: Option<i64>,
}

impl Family for Anthropic {
    type Document<'de> = Document<'de>;

    fn take(answer: &mut Answer, document: Document<'_>, _: usize, source: Source) {
        match document.kind.text() {
            "content_block_delta" => block_delta(answer, &document, source),
            "content_block_start" => block_start(answer, &document, source),
            "content_block_stop" => block_stop(answer, &document),
            "message_start" => message_start(answer, &document),
            "message_delta" => message_delta(answer, &document, source),
            "message_stop" => answer.done = true,
            "message" => message(answer, &document, source),
            "error" => fault(answer, &document),
            // Pings, and what is not known yet.
            _ if document.error.get_ref().is_some() || source.is_error() => {
                fault(answer, &document);
            }
            _ => {}
        }
    }
}

fn fault(answer: &mut Answer, document: &Document<'_>) {
    let fault = document.error.get_ref();
    answer.fail(
        fault.and_then(|fault| fault.code.as_deref()),
        fault.and_then(|fault| fault.kind.as_deref()),
    );
}

fn message_start(answer: &mut Answer, document: &Document<'_>) {
    if let Some(message) = document.message.get_ref() {
        answer.id(&message.id);
        // The output so far is a placeholder here: the true count comes in `message_delta`, and
        // in a stream that was cut before it nobody said how much there was.
        report(answer, &message.usage, false);
    }
    answer.admit(&Field::Absent, 0);
}

fn message_delta(answer: &mut Answer, document: &Document<'_>, source: Source) {
    report(answer, &document.usage, true);
    let piece = Piece {
        finish_reason: document
            .delta
            .get_ref()
            .map_or("", |delta| delta.stop_reason.text()),
        ..Piece::default()
    };
    add(answer, &piece, source);
}

fn block_start(answer: &mut Answer, document: &Document<'_>, source: Source) {
    let Some(block) = document.block.get_ref() else {
        return;
    };
    let key = document.index.get_ref().copied().unwrap_or(0);
    take_block(answer, key, block, source);
}

fn block_delta(answer: &mut Answer, document: &Document<'_>, source: Source) {
    let Some(delta) = document.delta.get_ref() else {
        return;
    };
    let arguments = delta.partial_json.text();
    let mut piece = Piece {
        text: delta.text.text(),
        reasoning: delta.thinking.text(),
        ..Piece::default()
    };
    if !arguments.is_empty() {
        let key = document.index.get_ref().copied().unwrap_or(0);
        let call = CallPiece {
            arguments,
            ..CallPiece::default()
        };
        piece.called = add_call(answer, key, &call);
    }
    add(answer, &piece, source);
}

/// A call without arguments has none in its deltas either; in a history it is an empty object.
fn block_stop(answer: &mut Answer, document: &Document<'_>) {
    let key = document.index.get_ref().copied().unwrap_or(0);
    let Some(choice) = answer.choices.first() else {
        return;
    };
    if let Some(call) = choice.calls.known(key)
        && !choice.calls.has_arguments(call)
    {
        let nothing = CallPiece {
            arguments: "{}",
            ..CallPiece::default()
        };
        answer.call(0, call, &nothing);
    }
}

fn message(answer: &mut Answer, document: &Document<'_>, source: Source) {
    answer.id(&document.id);
    report(answer, &document.usage, true);
    let blocks = document
        .content
        .get_ref()
        .map_or(&[][..], |list| &list.items);
    for (key, block) in (0..).zip(blocks) {
        if let Some(block) = block.get_ref() {
            take_block(answer, key, block, source);
        }
    }
    let piece = Piece {
        finish_reason: document.stop_reason.text(),
        ..Piece::default()
    };
    add(answer, &piece, source);
}

fn take_block(answer: &mut Answer, key: i64, block: &Block<'_>, source: Source) {
    let mut piece = Piece::default();
    match block.kind.text() {
        "text" => piece.text = block.text.text(),
        "thinking" => piece.reasoning = block.thinking.text(),
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let input = block.input.get_ref().map_or("", |input| &input.0);
            let call = CallPiece {
                id: block.id.text(),
                name: block.name.text(),
                // A stream begins a call with an empty object, and sends its text afterwards.
                arguments: if source.is_whole() || input != "{}" {
                    input
                } else {
                    ""
                },
                is_custom: false,
            };
            piece.called = add_call(answer, key, &call);
        }
        // Results of the server's own tools are not generated, and what is redacted has no text.
        _ => {}
    }
    add(answer, &piece, source);
}

fn add_call(answer: &mut Answer, key: i64, call: &CallPiece<'_>) -> bool {
    answer.admit(&Field::Absent, 0);
    let index = match answer.choices.first_mut() {
        Some(choice) => choice.calls.keyed(key),
        None => return false,
    };
    answer.call(0, index, call)
}

fn add(answer: &mut Answer, piece: &Piece<'_>, source: Source) {
    if let Some(index) = answer.admit(&Field::Absent, 0) {
        answer.add(index, piece, source);
    }
}

/// Takes a report. Cached tokens are beside `input_tokens`, not in it: the prompt is all three.
fn report(answer: &mut Answer, usage: &Field<Usage>, with_output: bool) {
    let Some(usage) = usage.get_ref() else {
        return;
    };
    let last = |new: &Field<i64>, old: Option<i64>| new.get_ref().copied().or(old);
    let prompt = Prompt {
        input: last(&usage.input, answer.prompt.input),
        written: last(&usage.written, answer.prompt.written),
        read: last(&usage.read, answer.prompt.read),
    };
    answer.prompt = prompt;
    let parts = [prompt.written, prompt.read].map(|part| part.unwrap_or(0));
    let all = |input: i64| {
        parts
            .iter()
            .fold(input, |sum, part| sum.saturating_add(*part))
    };
    let details = usage.details.get_ref();
    let report = Report {
        input: prompt.input.map(all),
        cached: prompt.read,
        output: usage.output.get_ref().copied().filter(|_| with_output),
        reasoning: details.and_then(|details| details.thinking.get_ref().copied()),
    };
    answer.report(report, LengthSource::Usage);
}
