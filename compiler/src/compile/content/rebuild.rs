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
    match dialect {
        Dialect::OpenaiChat | Dialect::OllamaChat | Dialect::AnthropicMessages => {
            let messages = prompt
                .pieces
                .iter()
                .map(|piece| serde_json::from_slice(&piece.body));
            body.insert(
                "messages".to_owned(),
                Value::Array(messages.collect::<Result<_, _>>().ok()?),
            );
        }
        Dialect::OpenaiCompletions => {
            let bytes = prompt
                .pieces
                .iter()
                .flat_map(|piece| piece.body.iter().copied());
            let text = String::from_utf8(bytes.collect()).ok()?;
            body.insert("prompt".to_owned(), Value::String(text));
        }
        _ => {}
    }
    Some(Value::Object(body))
}
