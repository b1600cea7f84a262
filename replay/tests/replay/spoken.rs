//! What the server says in each dialect: one token, and usage of eight and one.

use super::support::Seen;
use serde_json::{Value, json};

/// A streamed answer to a request, complete with its head.
pub(crate) fn answer(request: &Seen, cached: bool) -> String {
    let cached = if cached { 8 } else { 0 };
    let body = match request.path() {
        "/v1/responses" => responses(&name_of(request), cached),
        "/v1/messages" => messages(cached),
        "/generate" => generate(cached),
        "/v1/completions" => openai(
            cached,
            &[r#"{"index":0,"text":"x","finish_reason":"length"}"#],
        ),
        _ => openai(
            cached,
            &[
                r#"{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}"#,
                r#"{"index":0,"delta":{"content":"x"},"finish_reason":"length"}"#,
            ],
        ),
    };
    whole(&body)
}

/// The head of a stream, and its body.
pub(crate) fn whole(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// The name of an answer, after the last message that it answers.
pub(crate) fn name_of(request: &Seen) -> String {
    let input = request.body["input"].as_array();
    let last = input.and_then(|input| input.last());
    let said = last.and_then(|message| message["content"].as_str());
    format!("re-{}", said.unwrap_or_default())
}

fn openai(cached: u64, choices: &[&str]) -> String {
    let mut events: Vec<String> = choices
        .iter()
        .map(|choice| format!(r#"{{"choices":[{choice}]}}"#))
        .collect();
    events.push(format!(
        r#"{{"choices":[],"usage":{{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9,"prompt_tokens_details":{{"cached_tokens":{cached}}}}}}}"#
    ));
    events.push("[DONE]".to_owned());
    events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect()
}

/// Events that have their type in a line of its own, too.
fn named(events: &[Value]) -> String {
    let event = |event: &Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        format!("event: {kind}\ndata: {event}\n\n")
    };
    events.iter().map(event).collect()
}

fn responses(name: &str, cached: u64) -> String {
    let text = json!({"type": "output_text", "text": "x"});
    let output = json!([{"type": "message", "role": "assistant", "content": [text]}]);
    let usage = json!({
        "input_tokens": 8, "output_tokens": 1, "total_tokens": 9,
        "input_tokens_details": {"cached_tokens": cached},
    });
    named(&[
        json!({"type": "response.created", "response": {"id": name, "status": "in_progress", "output": []}}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "x"}),
        json!({"type": "response.completed", "response": {
            "id": name, "status": "completed", "output": output, "usage": usage,
        }}),
    ])
}

fn messages(cached: u64) -> String {
    let usage = json!({
        "input_tokens": 8 - cached, "cache_read_input_tokens": cached, "output_tokens": 0,
    });
    named(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "usage": usage}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ])
}

fn generate(cached: u64) -> String {
    let event = json!({"text": "x", "meta_info": {
        "id": "g1", "finish_reason": {"type": "length", "length": 1},
        "prompt_tokens": 8, "completion_tokens": 1, "cached_tokens": cached,
    }});
    format!("data: {event}\n\ndata: [DONE]\n\n")
}
