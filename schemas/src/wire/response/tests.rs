use super::{BodyEnd, ResponseReader};
use crate::wire::{Dialect, ResponseFacts};
use serde_json::{Value, json};

mod endings;
mod hostile;
mod messages;
mod tokens;

const EVENTS: Option<&str> = Some("text/event-stream");

/// Reads pushes, one a millisecond, the first at 1 ms.
fn read(content_type: Option<&str>, pushes: &[impl AsRef<[u8]>], end: BodyEnd) -> ResponseFacts {
    let mut reader = ResponseReader::new(Dialect::OpenaiChat, 200, content_type, None);
    for (index, push) in pushes.iter().enumerate() {
        reader.push(1_000 * (index as i64 + 1), push.as_ref());
    }
    reader.finish(end)
}

/// Reads events that end with the marker.
fn events(data: &[Value]) -> ResponseFacts {
    let mut pushes: Vec<String> = data
        .iter()
        .map(|data| format!("data: {data}\n\n"))
        .collect();
    pushes.push("data: [DONE]\n\n".to_owned());
    read(EVENTS, &pushes, BodyEnd::Clean)
}

fn delta(delta: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}
