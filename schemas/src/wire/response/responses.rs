//! OpenAI responses.

use super::answer::{Answer, Source};
use super::calls::CallPiece;
use super::choice::Piece;
use super::dialects::Family;
use super::lengths::Report;
use crate::capture::LengthSource;
use crate::wire::json::{Field, List, object};
use crate::wire::openai::{Arguments, Fault, Scalar, Text, Usage};

/// OpenAI responses.
pub(super) struct Responses;

object! {
    /// An event, or a whole response.
    Document<'de> {
        kind: Text<'de> = "type",
        object: Text<'de> = "object",
        delta: Arguments<'de> = "delta",
        arguments: Arguments<'de> = "arguments",
        key: i64 = "output_index",
        item: Item<'de> = "item",
        response: Response<'de> = "response",
        code: Scalar<'de> = "code",
        // A whole response stands at the top.
        id: Text<'de> = "id",
        status: Text<'de> = "status",
        output: List<Item<'de>> = "output",
        incomplete: Incomplete<'de> = "incomplete_details",
        usage: Usage = "usage",
        error: Fault<'de> = "error",
    }
}

object! {
    /// A response, as far as it is.
    Response<'de> {
        id: Text<'de> = "id",
        status: Text<'de> = "status",
        output: List<Item<'de>> = "output",
        incomplete: Incomplete<'de> = "incomplete_details",
        usage: Usage = "usage",
        error: Fault<'de> = "error",
    }
}

object! {
    /// Why a response is not complete.
    Incomplete<'de> { reason: Text<'de> = "reason" }
}

object! {
    /// An item of the output.
    Item<'de> {
        kind: Text<'de> = "type",
        call_id: Text<'de> = "call_id",
        name: Text<'de> = "name",
        arguments: Arguments<'de> = "arguments" | "input",
        content: List<Part<'de>> = "content",
        summary: List<Part<'de>> = "summary",
    }
}

object! {
    /// A part of a message, of a reasoning or of its summary.
    Part<'de> {
        text: Text<'de> = "text",
        refusal: Text<'de> = "refusal",
    }
}

impl Family for Responses {
    type Document<'de> = Document<'de>;

    fn take(answer: &mut Answer, mut document: Document<'_>, _: usize, source: Source) {
        let kind = std::mem::take(&mut document.kind);
        let delta = document.delta.get_ref().map_or("", |delta| &delta.0);
        let piece = Piece::default();
        let piece = match kind.text() {
            "response.output_text.delta" => Piece {
                text: delta,
                ..piece
            },
            "response.refusal.delta" => Piece {
                refusal: delta,
                ..piece
            },
            "response.reasoning_text.delta"
            | "response.reasoning_summary_text.delta"
            | "response.reasoning.delta"
            | "response.reasoning_summary.delta" => Piece {
                reasoning: delta,
                ..piece
            },
            "response.function_call_arguments.delta" | "response.mcp_call_arguments.delta" => {
                called(answer, &document, delta, false)
            }
            "response.custom_tool_call_input.delta" => called(answer, &document, delta, true),
            "response.output_item.added" => item_added(answer, &document, false),
            // Some servers send a call only when it is whole.
            "response.output_item.done" => item_added(answer, &document, true),
            kind => return other(answer, kind, document, source),
        };
        if let Some(index) = answer.admit(&Field::Absent, 0) {
            answer.add(index, &piece, source);
        }
    }
}

fn other(answer: &mut Answer, kind: &str, document: Document<'_>, source: Source) {
    match kind {
        "error" => {
            let fault = document.error.get_ref();
            let code = fault.and_then(|fault| fault.code.as_deref());
            let code = code.or(document.code.get_ref().map(|code| &*code.0));
            answer.fail(code, fault.and_then(|fault| fault.kind.as_deref()));
        }
        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
            if let Some(response) = document.response.get_ref() {
                whole(answer, response, source);
            }
            answer.error |= kind == "response.failed";
            answer.cancelled |= kind == "response.cancelled";
            answer.done = true;
        }
        "" if document.object.text() == "response" || source.is_whole() => {
            let response = Response {
                id: document.id,
                status: document.status,
                output: document.output,
                incomplete: document.incomplete,
                usage: document.usage,
                error: document.error,
            };
            whole(answer, &response, source);
        }
        _ => {
            if let Some(response) = document.response.get_ref() {
                answer.id(&response.id);
                usage(answer, response);
            }
            if source.is_error() || document.error.get_ref().is_some() {
                let fault = document.error.get_ref();
                answer.fail(
                    fault.and_then(|fault| fault.code.as_deref()),
                    fault.and_then(|fault| fault.kind.as_deref()),
                );
            }
        }
    }
}

fn called<'a>(
    answer: &mut Answer,
    document: &Document<'_>,
    arguments: &'a str,
    is_custom: bool,
) -> Piece<'a> {
    let call = CallPiece {
        arguments,
        is_custom,
        ..CallPiece::default()
    };
    let key = document.key.get_ref().copied().unwrap_or(0);
    Piece {
        called: add_call(answer, key, &call),
        ..Piece::default()
    }
}

fn item_added(answer: &mut Answer, document: &Document<'_>, is_done: bool) -> Piece<'static> {
    let key = document.key.get_ref().copied().unwrap_or(0);
    let called = document
        .item
        .get_ref()
        .is_some_and(|item| take_call(answer, key, item, is_done));
    Piece {
        called,
        ..Piece::default()
    }
}

/// Takes a call, as far as it is not known yet: what came in pieces is not repeated.
fn take_call(answer: &mut Answer, key: i64, item: &Item<'_>, is_done: bool) -> bool {
    let is_custom = match item.kind.text() {
        "function_call" | "mcp_call" => false,
        "custom_tool_call" => true,
        _ => return false,
    };
    let known = answer.choices.first();
    let known = known.and_then(|choice| Some((choice, choice.calls.known(key)?)));
    if is_done && known.is_some_and(|(choice, call)| choice.calls.has_arguments(call)) {
        return false;
    }
    let is_news = known.is_none();
    let call = CallPiece {
        id: item.call_id.text(),
        name: item.name.text(),
        arguments: item
            .arguments
            .get_ref()
            .map_or("", |arguments| &arguments.0),
        is_custom,
    };
    let added = add_call(answer, key, &call);
    added && (is_news || !call.arguments.is_empty())
}

fn add_call(answer: &mut Answer, key: i64, call: &CallPiece<'_>) -> bool {
    answer.admit(&Field::Absent, 0);
    let index = match answer.choices.first_mut() {
        Some(choice) => choice.calls.keyed(key),
        None => return false,
    };
    answer.call(0, index, call)
}

/// Takes a response that is over. Its output is what the events brought, if they brought any.
fn whole(answer: &mut Answer, response: &Response<'_>, source: Source) {
    answer.id(&response.id);
    usage(answer, response);
    let Some(index) = answer.admit(&Field::Absent, 0) else {
        return;
    };
    let is_known = answer.facts.first_token_us.is_some();
    let items = response.output.get_ref().filter(|_| !is_known);
    for (key, item) in (0..).zip(items.map_or(&[][..], |list| &list.items)) {
        if let Some(item) = item.get_ref() {
            take_item(answer, index, key, item, source);
        }
    }
    if let Some(fault) = response.error.get_ref() {
        answer.fail(fault.code.as_deref(), fault.kind.as_deref());
    }
    answer.error |= response.status.text() == "failed";
    answer.cancelled |= response.status.text() == "cancelled";
    let has_calls = answer
        .choices
        .first()
        .is_some_and(|choice| choice.calls.len() > 0);
    let piece = Piece {
        finish_reason: finish_reason(response, has_calls),
        ..Piece::default()
    };
    answer.add(index, &piece, source);
}

fn take_item(answer: &mut Answer, index: usize, key: i64, item: &Item<'_>, source: Source) {
    let parts = |list: &Field<List<Part<'_>>>, text: fn(&Part<'_>) -> String| -> String {
        let items = list.get_ref().map_or(&[][..], |list| &list.items);
        items.iter().filter_map(Field::get_ref).map(text).collect()
    };
    let texts = |list| parts(list, |part| part.text.text().to_owned());
    let is_reasoning = item.kind.text() == "reasoning";
    let (content, summary) = (texts(&item.content), texts(&item.summary));
    let refusal = parts(&item.content, |part| part.refusal.text().to_owned());
    let (text, reasoning) = if is_reasoning {
        (
            "",
            if content.is_empty() {
                summary
            } else {
                content.clone()
            },
        )
    } else {
        (&*content, summary)
    };
    let piece = Piece {
        text,
        refusal: &refusal,
        reasoning: &reasoning,
        called: take_call(answer, key, item, true),
        ..Piece::default()
    };
    answer.add(index, &piece, source);
}

/// Says why the response ended, in the words of chat completions.
fn finish_reason<'a>(response: &'a Response<'_>, has_calls: bool) -> &'a str {
    let reason = response.incomplete.get_ref();
    match (
        response.status.text(),
        reason.map_or("", |incomplete| incomplete.reason.text()),
    ) {
        ("incomplete", "max_output_tokens") => "length",
        ("incomplete", "") => "incomplete",
        ("incomplete", reason) => reason,
        ("completed", _) if has_calls => "tool_calls",
        ("completed", _) => "stop",
        _ => "",
    }
}

fn usage(answer: &mut Answer, response: &Response<'_>) {
    if let Some(usage) = response.usage.get_ref() {
        let report: Report = super::openai::report_of(usage);
        answer.report(report, LengthSource::Usage);
    }
}
