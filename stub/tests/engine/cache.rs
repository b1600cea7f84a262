//! The prefix cache, as usage tells of it.

use crate::support::{Stub, at_once, chat, said, with};
use serde_json::{Value, json};
use truetape_fidelity::tokens;
use truetape_stub::engine::config::{Config, Quirks};

const CHAT: &str = "/v1/chat/completions";

/// Tokens in a block of these stubs.
const BLOCK: u64 = 16;

fn exactly(body: Value, tokens: u64) -> Value {
    with(
        body,
        json!({"max_tokens": tokens, "min_tokens": tokens, "ignore_eos": true}),
    )
}

fn cached(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        .as_u64()
        .unwrap()
}

fn prompt_tokens(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens"].as_u64().unwrap()
}

/// The answer's message, and the user's next.
fn next_turn(body: &Value, answer: &Value, text: &str) -> Value {
    let mut next = body.clone();
    let messages = next["messages"].as_array_mut().unwrap();
    messages.push(answer["choices"][0]["message"].clone());
    messages.push(json!({"role": "user", "content": text}));
    next
}

#[test]
fn the_next_turn_finds_the_prompt_and_the_answer() {
    let stub = Stub::at_once();
    // Answers of every length around a block: the last token is said, but never computed.
    for answer_tokens in 20..38 {
        let body = exactly(chat(&said(answer_tokens, 40)), answer_tokens);
        let first = stub.ask(CHAT, &body);
        assert_eq!(cached(&first), 0);
        let second = stub.ask(CHAT, &next_turn(&body, &first, "And then?"));
        let computed = prompt_tokens(&first) + answer_tokens - 1;
        assert_eq!(cached(&second), computed / BLOCK * BLOCK, "{answer_tokens}");
    }
}

#[test]
fn the_turn_after_a_tool_call_finds_its_arguments() {
    let stub = Stub::at_once();
    let tools = json!([{"type": "function", "function": {"name": "find"}}]);
    let body = with(
        chat(&said(1, 40)),
        json!({"tools": tools, "tool_choice": "required"}),
    );
    let body = exactly(body, 50);
    let first = stub.ask(CHAT, &body);
    let mut second = next_turn(&body, &first, "Thanks");
    // The result of the call stands between the call and the user.
    second["messages"].as_array_mut().unwrap()[2] =
        json!({"role": "tool", "tool_call_id": "call", "content": "found"});
    let second = stub.ask(CHAT, &second);
    assert_eq!(
        cached(&second),
        (prompt_tokens(&first) + 49) / BLOCK * BLOCK
    );
}

#[test]
fn a_repeated_prompt_computes_at_least_one_token() {
    let stub = Stub::at_once();
    for length in [15, 16, 17, 512] {
        let body = json!({"prompt": said(length, length), "max_tokens": 1});
        assert_eq!(cached(&stub.ask("/v1/completions", &body)), 0);
        let again = stub.ask("/v1/completions", &body);
        assert_eq!(cached(&again), (length - 1) / BLOCK * BLOCK, "{length}");
    }
}

#[test]
fn a_salt_isolates_and_the_same_salt_shares() {
    let stub = Stub::at_once();
    let ask = |salt: Value| {
        let body = with(exactly(chat(&said(1, 58)), 1), json!({"cache_salt": salt}));
        cached(&stub.ask(CHAT, &body))
    };
    // 58 and 6 tokens: four blocks, of which the last is computed again.
    let salts = [
        json!(null),
        json!("one"),
        json!("two"),
        json!("one"),
        json!(null),
        json!("two"),
    ];
    assert_eq!(salts.map(ask), [0, 0, 0, 48, 48, 48]);
}

#[test]
fn a_reset_empties_the_cache() {
    let stub = Stub::at_once();
    let body = exactly(chat(&said(1, 58)), 1);
    let ask = || cached(&stub.ask(CHAT, &body));
    assert_eq!([ask(), ask()], [0, 48]);
    assert_eq!(stub.post("/reset_prefix_cache", &json!({})).status(), 200);
    assert_eq!([ask(), ask()], [0, 48]);
}

#[test]
fn a_cache_that_is_too_small_forgets() {
    let mut config = at_once();
    config.engine.kv_blocks = 8;
    let stub = Stub::start(config);
    let ask = |seed| cached(&stub.ask(CHAT, &exactly(chat(&said(seed, 58)), 1)));
    // Four blocks each: two prompts fit, three do not.
    assert_eq!([1, 2, 1, 2, 3, 1].map(ask), [0, 0, 48, 48, 0, 0]);
}

#[test]
fn other_servers_habits_can_be_had() {
    let prompt = |salt: &str| with(exactly(chat(&said(1, 58)), 1), json!({"cache_salt": salt}));
    let two = |config: Config| {
        let stub = Stub::start(config);
        stub.ask(CHAT, &prompt("one"));
        stub.ask(CHAT, &prompt("two"))
    };
    let quirks = Quirks {
        ignore_cache_salt: true,
        ..Quirks::default()
    };
    assert_eq!(
        cached(&two(Config {
            quirks,
            ..at_once()
        })),
        48
    );
    let quirks = Quirks {
        hide_cached_tokens: true,
        ..Quirks::default()
    };
    let hidden = two(Config {
        quirks,
        ..at_once()
    });
    assert_eq!(hidden["usage"]["prompt_tokens_details"], Value::Null);
    let mut uncached = at_once();
    uncached.engine.prefix_caching = false;
    uncached.quirks.ignore_cache_salt = true;
    assert_eq!(cached(&two(uncached)), 0);
}

#[test]
fn tools_are_part_of_the_prefix() {
    let tools = json!([{"type": "function", "function": {"name": "find"}}]);
    let rendered = tokens::render_chat(&with(chat("Hi"), json!({"tools": tools})));
    let stub = Stub::at_once();
    let body = exactly(with(chat("Hi"), json!({"tools": tools})), 1);
    assert_eq!(
        prompt_tokens(&stub.ask(CHAT, &body)),
        tokens::count(&rendered)
    );
}
