//! Ollama's own API.

use super::answer::{Answer, Source};
use super::calls::CallPiece;
use super::choice::Piece;
use super::dialects::Family;
use super::lengths::Report;
use crate::capture::LengthSource;
use crate::wire::json::{Field, List, object};
use crate::wire::openai::{Fault, Text, ToolCall};

/// Ollama's own API.
pub(super) struct Ollama;

object! {
    /// A line of a stream, or a whole answer. Chats have a message, completions a response.
    Line<'de> {
        message: Message<'de> = "message",
        response: Text<'de> = "response",
        thinking: Text<'de> = "thinking",
        done: bool = "done",
        done_reason: Text<'de> = "done_reason",
        // Left out, in older versions, where the prompt was in the cache: then it is not known.
        input: i64 = "prompt_eval_count",
        cached: i64 = "prompt_eval_cached_count",
        output: i64 = "eval_count",
        error: Fault<'de> = "error",
    }
}

object! {
    /// What a line adds to the message.
    Message<'de> {
        content: Text<'de> = "content",
        thinking: Text<'de> = "thinking",
        tool_calls: List<ToolCall<'de>> = "tool_calls",
    }
}

impl Family for Ollama {
    type Document<'de> = Line<'de>;

    fn take(answer: &mut Answer, line: Line<'_>, _: usize, source: Source) {
        if let Some(fault) = line.error.get_ref() {
            answer.fail(fault.code.as_deref(), fault.kind.as_deref());
            return;
        }
        let Some(index) = answer.admit(&Field::Absent, 0) else {
            return;
        };
        let mut piece = Piece {
            text: line.response.text(),
            reasoning: line.thinking.text(),
            finish_reason: line.done_reason.text(),
            ..Piece::default()
        };
        if let Some(message) = line.message.get_ref() {
            piece.text = message.content.text();
            piece.reasoning = message.thinking.text();
            piece.called = calls(answer, index, message);
        }
        answer.add(index, &piece, source);
        if line.done == Field::Is(true) {
            let count = |field: &Field<i64>| field.get_ref().copied();
            let report = Report {
                input: count(&line.input),
                output: count(&line.output),
                cached: count(&line.cached),
                reasoning: None,
            };
            answer.report(report, LengthSource::Exact);
            answer.done = true;
        }
    }
}

/// Takes calls: each comes whole.
fn calls(answer: &mut Answer, index: usize, message: &Message<'_>) -> bool {
    let items = message
        .tool_calls
        .get_ref()
        .map_or(&[][..], |list| &list.items);
    let mut called = false;
    for call in items.iter().filter_map(Field::get_ref) {
        let Some(function) = call.function.get_ref() else {
            continue;
        };
        let piece = CallPiece {
            id: call.id.text(),
            name: function.name.text(),
            arguments: function
                .arguments
                .get_ref()
                .map_or("", |arguments| &arguments.0),
            is_custom: false,
        };
        let next = answer.choices.get(index).map(|choice| choice.calls.len());
        called |= next.is_some_and(|next| answer.call(index, next, &piece));
    }
    called
}
