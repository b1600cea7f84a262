//! Answers as they go over the wire.

use crate::support::{Stub, at_once, chat, said, seed_of, with};
use serde_json::{Value, json};
use truetape_fidelity::tokens;
use truetape_stub::engine::config::Config;
use truetape_testkit::client::{Client, post_json};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

/// Lengths as a replayer enforces them.
fn exactly(tokens: u64) -> Value {
    json!({"max_tokens": tokens, "min_tokens": tokens, "ignore_eos": true})
}

fn streamed() -> Value {
    json!({"stream": true, "stream_options": {"include_usage": true}})
}

fn usage(prompt: u64, completion: u64, cached: u64) -> Value {
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    })
}

#[test]
fn a_streamed_chat_is_role_tokens_finish_usage_done() {
    let stub = Stub::at_once();
    let asked = with(with(chat("Hi"), exactly(5)), streamed());
    let events = stub.events(CHAT, &asked);
    let choice = |delta: Value, reason: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}]);
    let mut expected = vec![choice(
        json!({"role": "assistant", "content": ""}),
        Value::Null,
    )];
    for index in 0..5 {
        let word = tokens::output_text(seed_of(&asked), index);
        expected.push(choice(json!({"content": word}), Value::Null));
    }
    expected.push(choice(json!({}), json!("length")));
    expected.push(json!([]));
    let choices: Vec<&Value> = events.iter().map(|event| &event["choices"]).collect();
    assert_eq!(choices, expected.iter().collect::<Vec<_>>());
    // The user's header, "Hi" and the assistant's header: 2 + 1 + 4 tokens.
    assert_eq!(events.last().unwrap()["usage"], usage(7, 5, 0));
    assert!(events[..7].iter().all(|event| event.get("usage").is_none()));
    for event in &events {
        assert_eq!(event["object"], "chat.completion.chunk");
        assert_eq!(event["model"], "stub");
        assert_eq!(event["id"], events[0]["id"]);
    }
}

#[test]
fn a_stream_says_no_usage_unless_asked() {
    let stub = Stub::at_once();
    for options in [
        json!({"stream": true}),
        json!({"stream": true, "stream_options": {}}),
    ] {
        let events = stub.events(CHAT, &with(with(chat("Hi"), exactly(3)), options));
        assert_eq!(events.len(), 1 + 3 + 1);
        assert!(events.iter().all(|event| event.get("usage").is_none()));
    }
}

#[test]
fn continuous_usage_counts_along() {
    let stub = Stub::at_once();
    let options = json!({"include_usage": true, "continuous_usage_stats": true});
    let options = json!({"stream": true, "stream_options": options});
    let events = stub.events(CHAT, &with(with(chat("Hi"), exactly(3)), options));
    let counts: Vec<&Value> = events.iter().map(|event| &event["usage"]).collect();
    let expected = [0, 1, 2, 3, 3, 3].map(|completion| usage(7, completion, 0));
    assert_eq!(counts, expected.iter().collect::<Vec<_>>());
}

#[test]
fn a_streamed_completion_has_no_role() {
    let stub = Stub::at_once();
    let prompt = "four times four!";
    let asked = with(with(json!({"prompt": prompt}), exactly(2)), streamed());
    let events = stub.events(COMPLETIONS, &asked);
    let seed = tokens::output_seed(&tokens::render_completion(prompt), [0, 0]);
    let texts: Vec<&Value> = events
        .iter()
        .map(|event| &event["choices"][0]["text"])
        .collect();
    let expected = [
        json!(tokens::output_text(seed, 0)),
        json!(tokens::output_text(seed, 1)),
        json!(""),
        Value::Null,
    ];
    assert_eq!(texts, expected.iter().collect::<Vec<_>>());
    assert_eq!(events[2]["choices"][0]["finish_reason"], "length");
    assert_eq!(events[3]["usage"], usage(4, 2, 0));
    assert!(
        events
            .iter()
            .all(|event| event["object"] == "text_completion")
    );
}

#[test]
fn a_whole_answer_says_what_the_stream_says() {
    let stub = Stub::at_once();
    let asked = with(chat("Hello there"), exactly(9));
    let answer = stub.ask(CHAT, &asked);
    let message = json!({"role": "assistant", "content": said(seed_of(&asked), 9)});
    let choice =
        json!({"index": 0, "message": message, "logprobs": null, "finish_reason": "length"});
    assert_eq!(answer["choices"], json!([choice]));
    assert_eq!(answer["usage"], usage(9, 9, 0));
    assert_eq!(answer["object"], "chat.completion");
    let completion = stub.ask(COMPLETIONS, &with(json!({"prompt": "abcd"}), exactly(2)));
    let seed = tokens::output_seed(b"abcd", [0, 0]);
    assert_eq!(completion["choices"][0]["text"], said(seed, 2));
    assert_eq!(completion["usage"], usage(1, 2, 0));
}

#[test]
fn without_ignore_eos_the_model_comes_to_its_own_end() {
    let stub = Stub::at_once();
    let asked = chat("How are you?");
    let natural = tokens::natural_tokens(seed_of(&asked));
    let end = |fields: Value| {
        let answer = stub.ask(CHAT, &with(asked.clone(), fields));
        let tokens = answer["usage"]["completion_tokens"].as_u64().unwrap();
        (
            tokens,
            answer["choices"][0]["finish_reason"]
                .as_str()
                .unwrap()
                .to_owned(),
        )
    };
    let (stop, length) = ("stop".to_owned(), "length".to_owned());
    assert_eq!(end(json!({})), (natural, stop.clone()));
    assert_eq!(end(json!({"max_tokens": natural})), (natural, stop.clone()));
    assert_eq!(
        end(json!({"max_tokens": natural - 1})),
        (natural - 1, length.clone())
    );
    assert_eq!(
        end(json!({"max_completion_tokens": 1})),
        (1, length.clone())
    );
    assert_eq!(end(json!({"min_tokens": natural + 3})), (natural + 3, stop));
    assert_eq!(end(exactly(natural + 9)), (natural + 9, length));
}

#[test]
fn the_same_request_gets_the_same_text_and_another_seed_another() {
    let text = |stub: &Stub, fields: Value| {
        let answer = stub.ask(CHAT, &with(with(chat("Hi"), exactly(9)), fields));
        answer["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (one, other) = (
        Stub::at_once(),
        Stub::start(Config {
            seed: 1,
            ..at_once()
        }),
    );
    let first = text(&one, json!({}));
    assert_eq!(
        text(
            &one,
            json!({"temperature": 2.0, "stop": ["a"], "cache_salt": "s"})
        ),
        first
    );
    assert_ne!(text(&one, json!({"seed": 5})), first);
    assert_ne!(text(&other, json!({})), first);
}

#[test]
fn a_tool_call_is_streamed_in_pieces_of_its_arguments() {
    let stub = Stub::at_once();
    let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
    let asked = with(chat("Look"), json!({"tools": [tool("find"), tool("sort")]}));
    for (choice, name) in [(json!("required"), "find"), (tool("sort"), "sort")] {
        let asked = with(asked.clone(), json!({"tool_choice": choice}));
        let events = stub.events(CHAT, &with(with(asked.clone(), exactly(6)), streamed()));
        let calls: Vec<&Value> = events
            .iter()
            .filter_map(|event| event["choices"][0]["delta"].get("tool_calls"))
            .map(|calls| &calls[0])
            .collect();
        assert_eq!(calls.len(), 6);
        assert_eq!(calls[0]["function"]["name"], name);
        assert_eq!(calls[0]["type"], "function");
        assert!(calls.iter().all(|call| call["index"] == 0));
        let pieces = calls
            .iter()
            .map(|call| call["function"]["arguments"].as_str().unwrap());
        let arguments: String = pieces.collect();
        assert_eq!(arguments.len(), 6 * 4);
        let parsed: Value = serde_json::from_str(&arguments).unwrap();
        assert_eq!(parsed, json!({"q": said(seed_of(&asked), 4)}));
        assert_eq!(events.last().unwrap()["usage"]["completion_tokens"], 6);

        let answer = stub.ask(CHAT, &with(asked.clone(), exactly(6)));
        let call = &answer["choices"][0]["message"]["tool_calls"][0];
        assert_eq!(call["function"]["arguments"], arguments);
        assert_eq!(call["id"], calls[0]["id"]);
        assert_eq!(answer["choices"][0]["message"]["content"], Value::Null);

        let natural = stub.ask(CHAT, &asked);
        assert_eq!(natural["choices"][0]["finish_reason"], "tool_calls");
    }
    for choice in [json!("auto"), json!("none"), Value::Null] {
        let asked = with(
            with(asked.clone(), exactly(2)),
            json!({"tool_choice": choice}),
        );
        assert!(stub.ask(CHAT, &asked)["choices"][0]["message"]["content"].is_string());
    }
}

#[test]
fn a_prompt_of_token_ids_is_its_bytes() {
    let stub = Stub::at_once();
    let text = "four times four!";
    let by_text = stub.ask(COMPLETIONS, &with(json!({"prompt": text}), exactly(4)));
    let ids = stub.ask("/tokenize", &json!({"prompt": text}))["tokens"].clone();
    for prompt in [ids.clone(), json!([ids]), json!([text])] {
        let answer = stub.ask(COMPLETIONS, &with(json!({"prompt": prompt}), exactly(4)));
        assert_eq!(answer["choices"], by_text["choices"]);
        assert_eq!(answer["usage"]["prompt_tokens"], 4);
    }
}

#[test]
fn prompts_have_exactly_the_tokens_that_their_length_says() {
    let stub = Stub::at_once();
    for target in [1, 2, 15, 16, 17, 512, 4_000] {
        let prompt = said(9, target);
        let answer = stub.ask(COMPLETIONS, &json!({"prompt": prompt, "max_tokens": 1}));
        assert_eq!(answer["usage"]["prompt_tokens"], target);
        // A chat adds a fixed number: 2 for the user's header, 4 for the assistant's.
        let answer = stub.ask(CHAT, &with(chat(&prompt), json!({"max_tokens": 1})));
        assert_eq!(answer["usage"]["prompt_tokens"], target + 6);
    }
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let stub = Stub::at_once();
    let mut client = Client::connect(stub.addr);
    for stream in [false, true, false] {
        let body = with(with(chat("Hi"), exactly(3)), json!({"stream": stream}));
        client.write(&post_json(CHAT, &body));
        let answer = client.read_answer("POST", None);
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.text().contains("[DONE]"), stream);
    }
}

#[test]
fn the_server_says_what_it_is() {
    let stub = Stub::start(Config {
        model: "a \"b\"".to_owned(),
        ..at_once()
    });
    let body = |path| -> Value { serde_json::from_slice(&stub.get(path).body).unwrap() };
    let models = body("/v1/models");
    assert_eq!(models["data"][0]["id"], "a \"b\"");
    assert_eq!(models["data"][0]["max_model_len"], 131_072);
    assert_eq!(body("/version")["version"], env!("CARGO_PKG_VERSION"));
    let health = stub.get("/health");
    assert_eq!((health.status(), health.body.len()), (200, 0));
    let server = health
        .head
        .as_ref()
        .unwrap()
        .value("server")
        .map(str::to_owned);
    assert_eq!(
        server,
        Some(concat!("truetape-stub/", env!("CARGO_PKG_VERSION")).to_owned())
    );
    let tokenized = stub.ask(
        "/tokenize",
        &json!({"messages": [{"role": "user", "content": "Hi"}]}),
    );
    assert_eq!(
        (&tokenized["count"], &tokenized["max_model_len"]),
        (&json!(7), &json!(131_072))
    );
    // A name that needs escaping leaves the events what they are.
    let events = stub.events(
        CHAT,
        &with(
            with(chat("Hi"), exactly(1)),
            json!({"stream": true, "model": "a \"b\""}),
        ),
    );
    assert_eq!(events[0]["model"], "a \"b\"");
}
