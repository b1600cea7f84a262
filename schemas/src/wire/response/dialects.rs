//! From bytes to documents, each dialect its own.

use super::answer::{Answer, Source};
use super::lengths::Report;
use super::{anthropic, llamacpp, ollama, openai, responses, sglang, tgi};
use crate::capture::LengthSource;
use crate::wire::Dialect;
use crate::wire::json::{Field, List, Readable, read as read_json, repair};

/// A family of documents: the events of a stream, and whole answers.
pub(super) trait Family {
    /// What is read.
    type Document<'de>: Readable<'de>;

    /// Takes a document. The position is that in a list of answers, 0 where there is no list.
    fn take(answer: &mut Answer, document: Self::Document<'_>, position: usize, source: Source);
}

/// Reads a document; `false` where it is not JSON, also not nearly.
pub(super) fn read(answer: &mut Answer, dialect: Dialect, data: &[u8], source: Source) -> bool {
    // Whoever refused a request, the server or a gateway before it, says so in much the same way.
    if source.is_whole() && source.is_error() {
        return read_as::<openai::Refusal>(answer, data, source);
    }
    match dialect {
        Dialect::OpenaiChat | Dialect::OpenaiCompletions => {
            read_as::<openai::Openai>(answer, data, source)
        }
        Dialect::OpenaiEmbeddings => read_as::<openai::Embeddings>(answer, data, source),
        Dialect::OpenaiResponses => read_as::<responses::Responses>(answer, data, source),
        Dialect::AnthropicMessages => read_as::<anthropic::Anthropic>(answer, data, source),
        Dialect::SglangGenerate => read_as::<sglang::Sglang>(answer, data, source),
        Dialect::TgiGenerate => read_as::<tgi::Tgi>(answer, data, source),
        Dialect::OllamaChat | Dialect::OllamaGenerate => {
            read_as::<ollama::Ollama>(answer, data, source)
        }
        Dialect::LlamacppCompletion => read_as::<llamacpp::Llamacpp>(answer, data, source),
        Dialect::Trace | Dialect::Unknown => false,
    }
}

fn read_as<F: Family>(answer: &mut Answer, data: &[u8], source: Source) -> bool {
    if parse::<F>(answer, data, source) {
        return true;
    }
    let is_read = parse::<F>(answer, &repair(data), source);
    answer.odd |= is_read;
    is_read
}

fn parse<F: Family>(answer: &mut Answer, data: &[u8], source: Source) -> bool {
    if data.first() == Some(&b'[') {
        let Ok(list) = read_json::<List<F::Document<'_>>>(data) else {
            return false;
        };
        answer.odd |= list.is_odd();
        let items = list.get().map_or_else(Vec::new, |list| list.items);
        for (position, document) in items.into_iter().enumerate() {
            if let Some(document) = document.get() {
                F::take(answer, document, position, source);
            }
        }
        return true;
    }
    let Ok(document) = read_json::<F::Document<'_>>(data) else {
        return false;
    };
    answer.odd |= document.is_odd();
    if let Some(document) = document.get() {
        F::take(answer, document, 0, source);
    }
    true
}

/// Whether a line of JSON says that it is the last.
pub(super) fn is_last_line(line: &[u8]) -> bool {
    let line = read_json::<ollama::Line<'_>>(line);
    line.is_ok_and(|line| matches!(line.get(), Some(line) if line.done == Field::Is(true)))
}

/// Adds up what was counted by choice.
pub(super) fn total(answer: &mut Answer) {
    let seen = |answer: &Answer| -> Vec<usize> {
        let choices = answer.choices.iter().enumerate();
        choices
            .filter(|(_, choice)| choice.seen)
            .map(|(index, _)| index)
            .collect()
    };
    match answer.dialect() {
        // The server counts each choice alone, and all of them only in a last report that a cut
        // stream does not have.
        Dialect::OpenaiChat | Dialect::OpenaiCompletions => {
            let seen = seen(answer);
            let is_running = seen.len() > 1 && !answer.totalled;
            if is_running && answer.tally.covers(seen.into_iter()) {
                let output = answer.tally.sum().output;
                let report = Report {
                    output,
                    ..Report::default()
                };
                answer.report(report, LengthSource::Usage);
            }
        }
        Dialect::SglangGenerate | Dialect::LlamacppCompletion => {
            let sum = answer.tally.sum();
            answer.report(sum, LengthSource::Exact);
        }
        _ => {}
    }
}
