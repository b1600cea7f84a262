//! A request body from its parts: how a reader of the set puts it together.

use serde_json::{Map, Value};
use truetape_schemas::set::ContentKind;
use truetape_schemas::wire::Dialect;

/// A part of a prompt before it has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: ContentKind,
    pub(super) tokens: Option<i64>,
    pub(super) body: Vec<u8>,
}

/// A prompt before its parts have names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    /// The request body without its messages or prompt.
    pub(super) template: Vec<u8>,
    /// Messages, or pieces of text.
    pub(super) pieces: Vec<Piece>,
}

/// Puts a body together.
pub(super) fn body(dialect: Dialect, prompt: &Prompt) -> Option<Value> {
    let mut body: Map<String, Value> = serde_json::from_slice(&prompt.template).ok()?;
    if let Some(list) = list_field(dialect) {
        let messages = prompt
            .pieces
            .iter()
            .map(|piece| serde_json::from_slice(&piece.body));
        body.insert(
            list.to_owned(),
            Value::Array(messages.collect::<Result<_, _>>().ok()?),
        );
    } else if let Some(text) = text_field(dialect) {
        let bytes = prompt
            .pieces
            .iter()
            .flat_map(|piece| piece.body.iter().copied());
        let said = String::from_utf8(bytes.collect()).ok()?;
        body.insert(text.to_owned(), Value::String(said));
    }
    Some(Value::Object(body))
}

/// Where a dialect has its messages.
pub(super) fn list_field(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::OpenaiChat | Dialect::OllamaChat | Dialect::AnthropicMessages => Some("messages"),
        Dialect::OpenaiResponses => Some("input"),
        _ => None,
    }
}

/// Where a dialect has its prompt, where that is one text.
fn text_field(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::OpenaiCompletions => Some("prompt"),
        Dialect::SglangGenerate => Some("text"),
        _ => None,
    }
}
