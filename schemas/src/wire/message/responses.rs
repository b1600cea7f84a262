//! The messages of a Responses request, whose items are smaller than messages.

use super::Message;
use crate::wire::canonical::{identity, identity_of_json};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What an item is.
enum Item {
    /// A part of what the model said in one turn.
    Said(Part),
    /// A message of its own, in the words of chat completions.
    Message(Value),
    /// Something that is not known.
    Other,
}

/// A part of a turn of the model.
enum Part {
    Content(Value),
    Call(Value),
    /// Most clients do not send it back.
    Reasoning,
}

/// Reads items. Those that the model brought forth in one turn (reasoning, texts, calls) are one
/// message, as in the other dialects.
pub(super) fn messages(items: &[&RawValue]) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut turn = Turn::default();
    for item in items {
        let raw = item.get();
        match item_of(raw) {
            Item::Said(part) => turn.add(part, raw),
            Item::Message(message) => {
                messages.extend(turn.end());
                messages.push(message_of(&message, raw.as_bytes().to_vec()));
            }
            Item::Other => {
                messages.extend(turn.end());
                messages.push(Message {
                    role: String::new(),
                    canonical: other(raw),
                    raw: raw.as_bytes().to_vec(),
                });
            }
        }
    }
    messages.extend(turn.end());
    messages
}

fn item_of(raw: &str) -> Item {
    let Ok(item) = serde_json::from_str::<Value>(raw) else {
        return Item::Other;
    };
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    let field = |name: &str| item.get(name).cloned().unwrap_or_default();
    match (text("type"), text("role")) {
        ("" | "message", "assistant") => Item::Said(Part::Content(field("content"))),
        ("" | "message", role) if !role.is_empty() => {
            Item::Message(json!({ "role": role, "content": field("content") }))
        }
        ("reasoning", _) => Item::Said(Part::Reasoning),
        ("function_call", _) => Item::Said(Part::Call(json!({
            "id": field("call_id"),
            "function": { "name": field("name"), "arguments": field("arguments") },
        }))),
        ("custom_tool_call", _) => Item::Said(Part::Call(json!({
            "id": field("call_id"),
            "custom": { "name": field("name"), "input": field("input") },
        }))),
        ("function_call_output" | "custom_tool_call_output", _) => Item::Message(json!({
            "role": "tool",
            "tool_call_id": field("call_id"),
            "content": field("output"),
        })),
        _ => Item::Other,
    }
}

fn message_of(message: &Value, raw: Vec<u8>) -> Message {
    let role = message.get("role").and_then(Value::as_str);
    Message {
        role: role.unwrap_or_default().to_owned(),
        canonical: identity(message),
        raw,
    }
}

/// An item that is not known is one part of a message without a role.
fn other(raw: &str) -> Vec<u8> {
    identity_of_json(format!("{{\"content\":[{raw}]}}").as_bytes())
}

/// A turn of the model, as far as its items have come.
#[derive(Default)]
struct Turn {
    content: Vec<Value>,
    calls: Vec<Value>,
    raw: Vec<u8>,
}

impl Turn {
    fn add(&mut self, part: Part, raw: &str) {
        if !self.raw.is_empty() {
            self.raw.push(b',');
        }
        self.raw.extend_from_slice(raw.as_bytes());
        match part {
            Part::Content(Value::Array(mut parts)) => self.content.append(&mut parts),
            Part::Content(content) => self.content.push(content),
            Part::Call(call) => self.calls.push(call),
            Part::Reasoning => {}
        }
    }

    fn end(&mut self) -> Option<Message> {
        let Self {
            content,
            calls,
            raw,
        } = std::mem::take(self);
        let message = json!({ "role": "assistant", "content": content, "tool_calls": calls });
        (!raw.is_empty()).then(|| message_of(&message, raw))
    }
}
