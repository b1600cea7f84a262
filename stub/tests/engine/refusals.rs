//! What the server does not do, and how it says so.

use crate::support::{Stub, at_once, chat, said, with};
use serde_json::{Value, json};
use truetape_stub::engine::config::{Config, Quirks};
use truetape_testkit::client::{exchange, request};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

fn refused(stub: &Stub, path: &str, body: &Value) -> (u16, String) {
    let answer = stub.post(path, body);
    let json: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(json["error"]["code"], answer.status(), "{json}");
    assert!(json["error"]["type"].is_string(), "{json}");
    (
        answer.status(),
        json["error"]["message"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn every_refusal_names_what_is_wrong() {
    let stub = Stub::at_once();
    let tool = json!([{"type": "function", "function": {"name": "find"}}]);
    let other = json!({"type": "function", "function": {"name": "sort"}});
    let cases = [
        (
            json!({"max_tokens": 0}),
            400,
            "max_tokens must be at least 1, got 0",
        ),
        (
            json!({"max_completion_tokens": 0}),
            400,
            "max_tokens must be at least 1, got 0",
        ),
        (
            json!({"max_tokens": -1}),
            400,
            "`max_tokens` must be an integer of at least 0",
        ),
        (
            json!({"max_tokens": "9"}),
            400,
            "`max_tokens` must be an integer of at least 0",
        ),
        (
            json!({"max_tokens": 2, "min_tokens": 3}),
            400,
            "equal to max_tokens=2, got 3",
        ),
        (json!({"n": 2}), 400, "n must be 1"),
        (
            json!({"model": "other"}),
            404,
            "The model `other` does not exist",
        ),
        (json!({"model": 3}), 400, "`model` must be a string"),
        (json!({"messages": []}), 400, "at least one message"),
        (json!({"messages": ["hi"]}), 400, "needs a `role`"),
        (
            json!({"stream_options": {"include_usage": true}}),
            400,
            "when `stream=True`",
        ),
        (json!({"cache_salt": ""}), 400, "non-empty"),
        (
            json!({"tool_choice": "required"}),
            400,
            "a function that is in `tools`",
        ),
        (
            json!({"tools": tool, "tool_choice": other}),
            400,
            "a function that is in `tools`",
        ),
        (
            json!({"tools": tool, "tool_choice": "find"}),
            400,
            "must be auto, none, required",
        ),
        (
            json!({"ignore_eos": 1}),
            400,
            "`ignore_eos` must be true or false",
        ),
    ];
    for (fields, status, message) in cases {
        let found = refused(&stub, CHAT, &with(chat("Hi"), fields.clone()));
        assert_eq!(found.0, status, "{fields}");
        assert!(found.1.contains(message), "{fields}: {}", found.1);
    }
    for prompt in [
        json!(""),
        json!([]),
        json!(["a", "b"]),
        json!([-1]),
        json!(3),
        Value::Null,
    ] {
        assert_eq!(
            refused(&stub, COMPLETIONS, &json!({"prompt": prompt})).0,
            400,
            "{prompt}"
        );
    }
}

#[test]
fn a_body_that_is_no_json_object_is_refused() {
    let stub = Stub::at_once();
    for body in ["", "{", "[]", "{\"messages\": [}"] {
        let answer = exchange(
            stub.addr,
            &request("POST", CHAT, &[], body.as_bytes()),
            None,
        );
        assert_eq!(answer.status(), 400, "{body:?}");
    }
}

#[test]
fn other_paths_and_methods_are_refused() {
    let stub = Stub::at_once();
    let status = |method: &str, path: &str| {
        exchange(stub.addr, &request(method, path, &[], b""), None).status()
    };
    assert_eq!(status("GET", "/v1/embeddings"), 404);
    assert_eq!(status("GET", CHAT), 405);
    assert_eq!(status("POST", "/metrics"), 405);
}

/// A row of a trace, with its output enforced.
fn row(input_tokens: u64, output_tokens: u64) -> Value {
    let prompt = said(1, input_tokens);
    json!({"prompt": prompt, "max_tokens": output_tokens, "ignore_eos": true})
}

/// The rows of the acceptance case on length control: 4,096 tokens are the context.
#[test]
fn prompt_and_answer_share_the_context() {
    let stub = Stub::start(Config {
        max_model_len: Some(4_096),
        ..at_once()
    });
    let (status, message) = refused(&stub, COMPLETIONS, &row(4_000, 97));
    assert_eq!(
        (status, message.contains("(97 > 4096 - 4000)")),
        (400, true),
        "{message}"
    );
    let (status, message) = refused(&stub, COMPLETIONS, &row(4_097, 1));
    assert_eq!(
        (status, message.contains("has 4097 input tokens")),
        (400, true),
        "{message}"
    );
    let exact = stub.ask(COMPLETIONS, &row(4_000, 96));
    assert_eq!(exact["usage"]["total_tokens"], 4_096);
    // Without a limit of its own an answer gets what the context leaves.
    let open = with(chat(&said(1, 4_000)), json!({"ignore_eos": true}));
    assert_eq!(stub.ask(CHAT, &open)["usage"]["total_tokens"], 4_096);
    let too_long = with(chat("Hi"), json!({"min_tokens": 5_000}));
    assert_eq!(refused(&stub, CHAT, &too_long).0, 400);
}

#[test]
fn a_server_without_length_control_refuses_its_fields() {
    let quirks = Quirks {
        refuse_length_control: true,
        ..Quirks::default()
    };
    let stub = Stub::start(Config {
        quirks,
        ..at_once()
    });
    for field in ["ignore_eos", "min_tokens"] {
        let value = if field == "ignore_eos" {
            json!(true)
        } else {
            json!(4)
        };
        let body = with(chat("Hi"), json!({"max_tokens": 4, field: value}));
        let (status, message) = refused(&stub, CHAT, &body);
        assert_eq!((status, message.contains(field)), (400, true), "{message}");
    }
    let plain = stub.ask(CHAT, &with(chat("Hi"), json!({"max_tokens": 4})));
    assert_eq!(plain["usage"]["completion_tokens"], 4);
}

#[test]
fn settings_that_cannot_work_are_refused_at_the_start() {
    let mut nothing = at_once();
    nothing.engine.kv_blocks = 0;
    let cases = [
        (
            Config {
                speed: 0.0,
                ..at_once()
            },
            "--speed",
        ),
        (
            Config {
                speed: f64::NAN,
                ..at_once()
            },
            "--speed",
        ),
        (
            Config {
                max_model_len: Some(1),
                ..at_once()
            },
            "--max-model-len",
        ),
        (
            Config {
                max_model_len: Some(16 * 65_536 + 1),
                ..at_once()
            },
            "--max-model-len",
        ),
        (nothing, "--kv-blocks"),
    ];
    for (config, subject) in cases {
        let message = config.check().unwrap_err().to_string();
        assert!(message.starts_with(subject), "{message}");
    }
}
