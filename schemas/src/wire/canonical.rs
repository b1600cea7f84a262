//! When two messages are the same message.
//!
//! A client sends its history anew with every request, and not as it got it: content that came as
//! a text goes back as a list of parts, `refusal: null` appears, reasoning and annotations are
//! dropped, keys change their order. The identity keeps what a conversation is made of, and only
//! that: role, name, text, other parts, refusal, calls and the ids that tie results to calls.
//!
//! The identity is a list of JSON texts, one a line, each with its keys sorted. It is meant to be
//! compared and hashed, and is stable: a change is a new version of `schemas/spec/wire.md`.

use super::json::repair;
use serde_json::Value;

/// Returns the identity of a message: equal bytes mean the same message.
pub fn identity(message: &Value) -> Vec<u8> {
    let mut identity = Identity::default();
    identity.text("role", message.get("role"));
    identity.text("name", message.get("name"));
    identity.content(message.get("content"));
    for image in items(message.get("images")) {
        identity.line("part", image);
    }
    identity.text("refusal", message.get("refusal"));
    for call in items(message.get("tool_calls")) {
        identity.call(call.get("id"), call.get("function").or(call.get("custom")));
    }
    for call in std::mem::take(&mut identity.calls) {
        identity.call(call.get("id"), Some(&call));
    }
    if let Some(call) = message.get("function_call").filter(|call| call.is_object()) {
        identity.call(None, Some(call));
    }
    identity.text("tool_call_id", message.get("tool_call_id"));
    identity.text(
        "audio",
        message.get("audio").and_then(|audio| audio.get("id")),
    );
    identity.end()
}

/// Returns the identity of a message given as JSON; bytes that are no JSON are their own identity.
pub fn identity_of_json(message: &[u8]) -> Vec<u8> {
    let value = serde_json::from_slice(message)
        .or_else(|_| serde_json::from_slice::<Value>(&repair(message)));
    value.map_or_else(|_| message.to_vec(), |value| identity(&value))
}

/// Writes a value in the one way that does not depend on the order of keys or on white space.
pub fn canonical_json(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(object) => {
            let mut fields: Vec<_> = object.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            list(b"{}", &fields, out, |(name, value), out| {
                out.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
                out.push(b':');
                canonical_json(value, out);
            });
        }
        Value::Array(items) => list(b"[]", items, out, canonical_json),
        scalar => out.extend_from_slice(scalar.to_string().as_bytes()),
    }
}

fn list<T>(ends: &[u8; 2], items: &[T], out: &mut Vec<u8>, each: impl Fn(&T, &mut Vec<u8>)) {
    let [open, close] = *ends;
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        each(item, out);
    }
    out.push(close);
}

fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[derive(Default)]
struct Identity {
    out: Vec<u8>,
    /// Text parts that have not been written: neighbours are one text.
    run: String,
    /// Calls that stand among the parts of the content. They come after it, as where they stand
    /// beside it.
    calls: Vec<Value>,
}

impl Identity {
    fn line(&mut self, name: &str, value: &Value) {
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b' ');
        canonical_json(value, &mut self.out);
        self.out.push(b'\n');
    }

    /// Adds a text; one that is missing, null or empty says nothing.
    fn text(&mut self, name: &str, value: Option<&Value>) {
        match value {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(value) => self.line(name, value),
        }
    }

    fn content(&mut self, content: Option<&Value>) {
        match content {
            Some(Value::String(text)) => self.run.push_str(text),
            Some(Value::Array(parts)) => parts.iter().for_each(|part| self.part(part)),
            None | Some(Value::Null) => {}
            Some(other) => self.line("part", other),
        }
        self.end_run();
    }

    fn part(&mut self, part: &Value) {
        let kind = part.get("type").and_then(Value::as_str);
        let text = part
            .as_str()
            .or_else(|| part.get("text").and_then(Value::as_str));
        match (kind, text) {
            (None | Some("text" | "input_text" | "output_text"), Some(text)) => {
                self.run.push_str(text);
            }
            (Some("refusal"), _) => {
                self.end_run();
                self.text("refusal", part.get("refusal"));
            }
            // Reasoning is dropped wherever it stands, since most clients do not send it back.
            (Some("thinking" | "reasoning" | "redacted_thinking"), _) => {}
            (Some("tool_use"), _) => self.calls.push(part.clone()),
            _ => {
                self.end_run();
                let mut part = part.clone();
                remove_breakpoints(&mut part);
                self.line("part", &part);
            }
        }
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        self.text("text", Some(&Value::String(run)));
    }

    /// Adds a call. Arguments that are JSON inside a text are the same as that JSON itself.
    fn call(&mut self, id: Option<&Value>, function: Option<&Value>) {
        let field = |name: &str| function.and_then(|function| function.get(name));
        let arguments = match field("arguments").or(field("input")) {
            Some(Value::String(text)) => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
            }
            Some(value) => value.clone(),
            None => Value::Null,
        };
        let id = id
            .filter(|id| id.as_str() != Some(""))
            .cloned()
            .unwrap_or_default();
        let name = field("name").cloned().unwrap_or_default();
        self.line("call", &Value::Array(vec![id, name, arguments]));
    }

    fn end(self) -> Vec<u8> {
        self.out
    }
}

/// Where a client asks for caching moves from request to request, and says nothing about what is
/// said.
fn remove_breakpoints(part: &mut Value) {
    let Some(part) = part.as_object_mut() else {
        return;
    };
    part.remove("cache_control");
    let inner = part.get_mut("content").and_then(Value::as_array_mut);
    for part in inner.into_iter().flatten() {
        if let Some(part) = part.as_object_mut() {
            part.remove("cache_control");
        }
    }
}

#[cfg(test)]
mod tests;
