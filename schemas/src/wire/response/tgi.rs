//! Text Generation Inference.

use super::answer::{Answer, Source};
use super::choice::Piece;
use super::dialects::Family;
use super::lengths::Report;
use crate::capture::LengthSource;
use crate::wire::json::{Count, Field, object};
use crate::wire::openai::{Fault, Text};

/// Text Generation Inference.
pub(super) struct Tgi;

object! {
    /// An event, or a whole answer.
    Document<'de> {
        token: Token<'de> = "token",
        generated_text: Text<'de> = "generated_text",
        details: Details<'de> = "details",
        error: Fault<'de> = "error",
        error_type: Text<'de> = "error_type",
    }
}

object! {
    /// A token.
    Token<'de> {
        text: Text<'de> = "text",
        special: bool = "special",
    }
}

object! {
    /// What is known at the end.
    Details<'de> {
        finish_reason: Text<'de> = "finish_reason",
        output: i64 = "generated_tokens",
        input: i64 = "input_length",
        prefill: Count = "prefill",
    }
}

impl Family for Tgi {
    type Document<'de> = Document<'de>;

    fn take(answer: &mut Answer, document: Document<'_>, position: usize, source: Source) {
        if document.error.get_ref().is_some() || source.is_error() {
            let kind = document.error_type.text();
            return answer.fail(None, Some(kind));
        }
        let Some(index) = answer.admit(&Field::Absent, position) else {
            return;
        };
        let mut piece = Piece::default();
        if let Some(token) = document.token.get_ref() {
            piece.listed = 1;
            // A special token is one, but no part of the text.
            if token.special != Field::Is(true) {
                piece.text = token.text.text();
            }
        }
        if source.is_whole() {
            piece.text = document.generated_text.text();
        }
        if let Some(details) = document.details.get_ref() {
            piece.finish_reason = details.finish_reason.text();
            report(answer, details);
        }
        answer.add(index, &piece, source);
        answer.done |= !source.is_whole() && document.generated_text.get_ref().is_some();
    }
}

fn report(answer: &mut Answer, details: &Details<'_>) {
    let prefill = details.prefill.get_ref().map(|tokens| tokens.0);
    let report = Report {
        // The list of prompt tokens is empty unless it was asked for.
        input: details
            .input
            .get_ref()
            .copied()
            .or(prefill.filter(|tokens| *tokens > 0)),
        output: details.output.get_ref().copied(),
        ..Report::default()
    };
    answer.report(report, LengthSource::Exact);
}
