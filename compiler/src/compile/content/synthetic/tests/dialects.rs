//! Each dialect keeps its structure, its lengths and its sharing, and none of its words.

use super::shared;
use crate::compile::content::Notes;
use crate::compile::content::rebuild;
use crate::compile::content::synthetic::Synthetic;
use crate::compile::ingest::Secret;
use crate::compile::reading::render;
use proptest::prelude::*;
use serde_json::{Value, json};
use truetape_fidelity::tokens::count;
use truetape_schemas::wire::Dialect;

fn new_body(dialect: Dialect, body: &Value) -> Value {
    let prompt = Synthetic::new(&Secret([9; 32]), 1, None)
        .prompt(dialect, body.as_object().unwrap(), &mut Notes::default())
        .unwrap();
    rebuild::body(dialect, &prompt).unwrap()
}

fn anthropic(question: &str) -> Value {
    json!({
        "model": "claude", "max_tokens": 64, "stop_sequences": ["Canary"],
        "metadata": {"user_id": "canary"},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "system": [
            {"type": "text", "text": "You know Canary Smith.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            {"type": "text", "text": "And Canary Jones."}],
        "tools": [{"name": "canary_lookup", "description": "Looks up a Canary",
            "input_schema": {"type": "object", "properties": {"who": {"type": "string"}}}}],
        "messages": [
            {"role": "user", "content": "Who is Canary?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "The Canary again", "signature": "Canary=="},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_Canary", "name": "canary_lookup", "input": {"who": "Canary"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_Canary", "is_error": false,
                    "content": [{"type": "text", "text": "Canary is a bird."}]},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "CanaryCanary"}},
                {"type": "text", "text": "So: "},
                {"type": "text", "text": question}]},
        ],
    })
}

fn responses(question: &str) -> Value {
    json!({
        "model": "gpt", "max_output_tokens": 64, "previous_response_id": "resp_Canary",
        "reasoning": {"effort": "high", "summary": "auto"}, "truncation": "auto",
        "text": {"format": {"type": "json_schema", "name": "canary", "schema": {"type": "object", "title": "Canary"}}},
        "instructions": "You know Canary Smith.",
        "tools": [{"type": "function", "name": "canary_lookup", "parameters": {"type": "object"}}],
        "input": [
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "Who is "}, {"type": "input_text", "text": "Canary?"},
                {"type": "input_image", "detail": "low", "image_url": "data:image/png;base64,CanaryCanary"}]},
            {"type": "reasoning", "id": "rs_Canary", "summary": [], "encrypted_content": "Canary"},
            {"type": "function_call", "call_id": "call_Canary", "name": "canary_lookup",
                "arguments": "{\"who\":\"Canary\"}", "status": "completed"},
            {"type": "function_call_output", "call_id": "call_Canary", "output": "Canary is a bird."},
            {"role": "user", "content": question},
        ],
    })
}

fn sglang(question: &str) -> Value {
    json!({
        "text": format!("Canary Smith is a bird. {question}"), "stream": true, "rid": "canary",
        "sampling_params": {"max_new_tokens": 9, "temperature": 0.5, "stop": ["Canary"], "ignore_eos": true},
    })
}

type Make = fn(&str) -> Value;

const DIALECTS: [(Dialect, Make); 3] = [
    (Dialect::AnthropicMessages, anthropic),
    (Dialect::OpenaiResponses, responses),
    (Dialect::SglangGenerate, sglang),
];

/// Every `type` and `role` of a value, in order: its structure.
fn structure(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| structure(item, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                if let (Some(word), "type" | "role") = (value.as_str(), key.as_str()) {
                    found.push(word.to_owned());
                }
                structure(value, found);
            }
        }
        _ => {}
    }
}

#[test]
fn words_go_and_structure_and_lengths_stay() {
    for (dialect, make) in DIALECTS {
        let old = make("And the other Canary?");
        let new = new_body(dialect, &old);
        let text = new.to_string();
        assert!(!text.to_lowercase().contains("canary"), "{text}");
        let tokens = |body: &Value| count(&render(dialect, body).unwrap());
        assert_eq!(tokens(&new), tokens(&old), "{text}");
        let kept = |body: &Value| {
            let mut found = Vec::new();
            for list in ["system", "tools", "messages", "input"] {
                structure(body.get(list).unwrap_or(&Value::Null), &mut found);
            }
            found
        };
        assert_eq!(kept(&new), kept(&old));
    }
}

#[test]
fn names_still_refer_to_what_they_name() {
    let new = new_body(Dialect::AnthropicMessages, &anthropic("?"));
    let at = |pointer: &str| new.pointer(pointer).unwrap().clone();
    assert_eq!(at("/messages/1/content/2/name"), at("/tools/0/name"));
    assert_eq!(
        at("/messages/1/content/2/id"),
        at("/messages/2/content/0/tool_use_id")
    );
    assert_eq!(at("/messages/2/content/1/source/media_type"), "image/png");
    assert_eq!(
        at("/messages/2/content/1/source/data")
            .as_str()
            .unwrap()
            .len(),
        12
    );
    assert_eq!(
        at("/system/0/cache_control"),
        json!({"type": "ephemeral", "ttl": "1h"})
    );
    assert_eq!(
        at("/thinking"),
        json!({"type": "enabled", "budget_tokens": 1024})
    );
    assert!(new.get("metadata").is_none() && new.get("stop_sequences").is_none());

    let new = new_body(Dialect::OpenaiResponses, &responses("?"));
    let at = |pointer: &str| new.pointer(pointer).unwrap().clone();
    assert_eq!(at("/input/2/name"), at("/tools/0/name"));
    assert_eq!(at("/input/2/call_id"), at("/input/3/call_id"));
    assert_eq!(at("/input/2/status"), "completed");
    let image = at("/input/0/content/2/image_url");
    assert!(
        image
            .as_str()
            .unwrap()
            .starts_with("data:image/png;base64,")
    );
    assert_eq!(
        at("/reasoning"),
        json!({"effort": "high", "summary": "auto"})
    );
    assert!(new.get("previous_response_id").is_none());

    let new = new_body(Dialect::SglangGenerate, &sglang("?"));
    let settings = json!({"max_new_tokens": 9, "temperature": 0.5, "ignore_eos": true});
    assert_eq!(new["sampling_params"], settings);
    assert!(new.get("rid").is_none());
}

#[test]
fn a_text_alone_is_what_the_user_says() {
    let alone = json!({"model": "m", "input": "Who is Canary?"});
    let new = new_body(Dialect::OpenaiResponses, &alone);
    assert_eq!(new["input"][0]["role"], "user");
    let tokens = |body: &Value| count(&render(Dialect::OpenaiResponses, body).unwrap());
    assert_eq!(tokens(&new), tokens(&alone));
}

proptest! {
    #[test]
    fn prompts_share_as_far_as_the_old_ones_did(
        common in "[ -~]{0,40}", a in "[ -~]{0,30}", b in "[ -~]{0,30}",
    ) {
        for (dialect, make) in DIALECTS {
            let bodies = [make(&format!("{common}{a}")), make(&format!("{common}{b}"))];
            let rendered = |body: &Value| render(dialect, body).unwrap();
            let old = shared(&rendered(&bodies[0]), &rendered(&bodies[1]));
            let new = bodies.each_ref().map(|body| new_body(dialect, body));
            let new = shared(&rendered(&new[0]), &rendered(&new[1]));
            // Words that should differ may agree by chance, not four in a row.
            prop_assert!(new >= old && new < old + 4, "{dialect:?}: {new} for {old}");
        }
    }
}
