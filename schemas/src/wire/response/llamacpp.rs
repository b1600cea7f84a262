//! llama.cpp's own `/completion`.

use super::answer::{Answer, Source};
use super::choice::Piece;
use super::dialects::Family;
use super::lengths::Report;
use super::openai::timed;
use crate::wire::json::{Count, Field, object};
use crate::wire::openai::{Fault, Text, Timings};

/// llama.cpp's own `/completion`.
pub(super) struct Llamacpp;

object! {
    /// An event, or a whole answer.
    Document<'de> {
        index: i64 = "index",
        content: Text<'de> = "content",
        reasoning: Text<'de> = "reasoning_content",
        tokens: Count = "tokens",
        stop: bool = "stop",
        stop_type: Text<'de> = "stop_type",
        // Before there was a type.
        stopped_eos: bool = "stopped_eos",
        stopped_limit: bool = "stopped_limit",
        stopped_word: bool = "stopped_word",
        output: i64 = "tokens_predicted",
        input: i64 = "tokens_evaluated",
        timings: Timings = "timings",
        error: Fault<'de> = "error",
    }
}

impl Family for Llamacpp {
    type Document<'de> = Document<'de>;

    fn take(answer: &mut Answer, document: Document<'_>, position: usize, source: Source) {
        if let Some(fault) = document.error.get_ref() {
            return answer.fail(fault.code.as_deref(), fault.kind.as_deref());
        }
        if source.is_error() {
            return answer.fail(None, None);
        }
        let Some(index) = answer.admit(&document.index, position) else {
            return;
        };
        count(answer, index, &document);
        let piece = Piece {
            text: document.content.text(),
            reasoning: document.reasoning.text(),
            listed: document.tokens.get_ref().map_or(0, |tokens| tokens.0),
            finish_reason: finish_reason(&document),
            ..Piece::default()
        };
        answer.add(index, &piece, source);
    }
}

/// `tokens_cached` is what the slot holds at the end, so it says nothing about the prompt; what
/// was computed of the prompt does.
fn count(answer: &mut Answer, index: usize, document: &Document<'_>) {
    let timings = document.timings.get_ref().map(timed).unwrap_or_default();
    let computed = document.timings.get_ref();
    let computed = computed.and_then(|timings| timings.prompt_n.get_ref().copied());
    let input = document.input.get_ref().copied().or(timings.input);
    let rest = input.zip(computed);
    let rest = rest.map(|(input, computed)| input.saturating_sub(computed));
    answer.tally.put(
        index,
        Report {
            input,
            output: document.output.get_ref().copied().or(timings.output),
            cached: timings.cached.or(rest.filter(|cached| *cached >= 0)),
            reasoning: None,
        },
    );
}

fn finish_reason<'a>(document: &'a Document<'_>) -> &'a str {
    let is = |field: &Field<bool>| *field == Field::Is(true);
    match document.stop_type.text() {
        _ if !is(&document.stop) => "",
        "" if is(&document.stopped_limit) => "limit",
        "" if is(&document.stopped_word) => "word",
        "" if is(&document.stopped_eos) => "eos",
        "" => "none",
        kind => kind,
    }
}
