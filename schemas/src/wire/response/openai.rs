//! Chat completions, completions and embeddings.

use super::answer::{Answer, Source};
use super::calls::CallPiece;
use super::choice::Piece;
use super::dialects::Family;
use super::lengths::Report;
use crate::capture::LengthSource;
use crate::wire::json::Field;
use crate::wire::openai::{self, Answer as Document, Choice, Delta, Function, Timings, Usage};

/// Chat completions and completions.
pub(super) struct Openai;

/// Embeddings: lengths of a prompt, and a list that nobody generated.
pub(super) struct Embeddings;

/// An answer with an error status, of any dialect.
pub(super) struct Refusal;

impl Family for Openai {
    type Document<'de> = Document<'de>;

    fn take(answer: &mut Answer, document: Document<'_>, _: usize, source: Source) {
        answer.id(&document.id);
        fault(answer, &document, source);
        let choices = document
            .choices
            .get_ref()
            .map_or(&[][..], |list| &list.items);
        lengths(answer, &document, choices);
        for (position, choice) in choices.iter().enumerate() {
            let Some(choice) = choice.get_ref() else {
                continue;
            };
            let otherwise = if source.is_whole() { position } else { 0 };
            if let Some(index) = answer.admit(&choice.index, otherwise) {
                take_choice(answer, index, choice, source);
            }
        }
    }
}

impl Family for Embeddings {
    type Document<'de> = Document<'de>;

    fn take(answer: &mut Answer, document: Document<'_>, _: usize, source: Source) {
        answer.id(&document.id);
        fault(answer, &document, source);
        if let Some(usage) = document.usage.get_ref() {
            let Report { input, cached, .. } = report_of(usage);
            // Some servers report 0 generated tokens; what is not generated has no length.
            let report = Report {
                input,
                cached,
                ..Report::default()
            };
            answer.report(report, LengthSource::Usage);
        }
    }
}

impl Family for Refusal {
    type Document<'de> = Document<'de>;

    fn take(answer: &mut Answer, document: Document<'_>, _: usize, source: Source) {
        answer.id(&document.id);
        fault(answer, &document, source);
        if let Some(usage) = document.usage.get_ref() {
            answer.report(report_of(usage), LengthSource::Usage);
        }
    }
}

fn fault(answer: &mut Answer, document: &Document<'_>, source: Source) {
    let in_choice = |choice: &Field<Choice<'_>>| {
        let choice = choice.get_ref();
        choice.is_some_and(|choice| choice.error.get_ref().is_some())
    };
    let choices = document
        .choices
        .get_ref()
        .map_or(&[][..], |list| &list.items);
    let choice = choices
        .iter()
        .find(|choice| in_choice(choice))
        .and_then(Field::get_ref);
    let fault = document
        .error
        .get_ref()
        .or(choice.and_then(|choice| choice.error.get_ref()));
    let error_type = Some(document.error_type.text()).filter(|kind| !kind.is_empty());
    match fault {
        Some(fault) => answer.fail(fault.code.as_deref(), fault.kind.as_deref().or(error_type)),
        None if source.is_error() || document.object.text() == "error" => {
            let code = document.code.get_ref().map(|code| &*code.0);
            answer.fail(code, Some(document.kind.text()));
        }
        None => {}
    }
}

fn lengths(answer: &mut Answer, document: &Document<'_>, choices: &[Field<Choice<'_>>]) {
    let listed = document.prompt_token_ids.get_ref().map(|ids| ids.0);
    answer.listed.input = listed.or(answer.listed.input);
    if let Some(usage) = document.usage.get_ref() {
        let report = report_of(usage);
        answer.report(report, LengthSource::Usage);
        // A report beside one choice of several is about that one.
        match choices {
            [Field::Is(choice)] => {
                if let Some(index) = answer.admit(&choice.index, 0) {
                    answer.tally.put(index, report);
                }
            }
            _ => answer.totalled = true,
        }
    }
    // The counts of one slot, which is one choice.
    if let (Some(timings), [] | [_]) = (document.timings.get_ref(), choices)
        && answer.choices.len() <= 1
    {
        answer.report(timed(timings), LengthSource::Exact);
    }
}

pub(super) fn report_of(usage: &Usage) -> Report {
    let input = usage.input_details.get_ref();
    let output = usage.output_details.get_ref();
    let cached = input.and_then(|details| details.cached_tokens.get_ref());
    let reasoning = output.and_then(|details| details.reasoning_tokens.get_ref());
    Report {
        input: usage.input_tokens.get_ref().copied(),
        output: usage.output_tokens.get_ref().copied(),
        cached: cached.or(usage.cached_tokens.get_ref()).copied(),
        reasoning: reasoning.or(usage.reasoning_tokens.get_ref()).copied(),
    }
}

/// llama.cpp's own counters: `prompt_n` is what was computed, `cache_n` what was not.
pub(super) fn timed(timings: &Timings) -> Report {
    let count = |field: &Field<i64>| field.get_ref().copied();
    let cached = count(&timings.cache_n);
    let input = cached.zip(count(&timings.prompt_n));
    Report {
        input: input.map(|(cached, computed)| i64::saturating_add(cached, computed)),
        output: count(&timings.predicted_n),
        cached,
        reasoning: None,
    }
}

fn take_choice(answer: &mut Answer, index: usize, choice: &Choice<'_>, source: Source) {
    if let Some(ids) = choice.prompt_token_ids.get_ref() {
        answer.listed.input = Some(ids.0);
    }
    let ids = choice.token_ids.get_ref().map(|ids| ids.0);
    let logprobs = choice.logprobs.get_ref().map(openai::Logprobs::tokens);
    let mut piece = Piece {
        text: choice.text.text(),
        finish_reason: choice.finish_reason.text(),
        listed: ids.or(logprobs).unwrap_or(0),
        ..Piece::default()
    };
    if let Some(delta) = choice.delta.get_ref() {
        piece.called = calls(answer, index, delta, source);
        piece.refusal = delta.refusal.text();
        piece.reasoning = reasoning_of(delta);
        if let Some(content) = delta.content.get_ref() {
            piece.text = first(piece.text, &content.text);
            piece.reasoning = first(&content.thinking, piece.reasoning);
        }
    }
    answer.add(index, &piece, source);
}

fn first<'a>(one: &'a str, other: &'a str) -> &'a str {
    if one.is_empty() { other } else { one }
}

/// The reasoning of a delta. Servers that send it under both names send it twice.
fn reasoning_of<'a>(delta: &'a Delta<'_>) -> &'a str {
    first(delta.reasoning_content.text(), delta.reasoning.text())
}

fn calls(answer: &mut Answer, index: usize, delta: &Delta<'_>, source: Source) -> bool {
    let mut generated = false;
    if let Some(function) = delta.function_call.get_ref() {
        generated |= answer.call(index, 0, &call_of("", function));
    }
    let pieces = delta
        .tool_calls
        .get_ref()
        .map_or(&[][..], |list| &list.items);
    for (position, piece) in pieces.iter().enumerate() {
        let Some(piece) = piece.get_ref() else {
            continue;
        };
        let call = call_index(answer, index, position, piece, source);
        let custom = piece.custom.get_ref();
        let id = CallPiece {
            id: piece.id.text(),
            is_custom: custom.is_some(),
            ..CallPiece::default()
        };
        answer.call(index, call, &id);
        for function in [piece.function.get_ref(), custom].into_iter().flatten() {
            generated |= answer.call(index, call, &call_of(id.id, function));
        }
    }
    generated
}

fn call_of<'a>(id: &'a str, function: &'a Function<'_>) -> CallPiece<'a> {
    CallPiece {
        id,
        name: function.name.text(),
        arguments: function
            .arguments
            .get_ref()
            .map_or("", |arguments| &arguments.0),
        is_custom: false,
    }
}

/// Which call a piece belongs to. A whole message lists its calls in order. In a stream, where
/// a server leaves the index out, a new id begins a new call, and a piece without an id goes
/// on with the last.
fn call_index(
    answer: &Answer,
    index: usize,
    position: usize,
    piece: &openai::ToolCall<'_>,
    source: Source,
) -> usize {
    let Some(choice) = answer.choices.get(index).filter(|_| !source.is_whole()) else {
        return position;
    };
    let known = choice.calls.len();
    match (piece.index.get_ref(), piece.id.text()) {
        (Some(index), _) => usize::try_from(*index).unwrap_or(usize::MAX),
        (None, "") => known.saturating_sub(1).max(position),
        (None, id) => choice.calls.position_of(id).unwrap_or(known),
    }
}
