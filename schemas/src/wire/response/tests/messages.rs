//! Messages, put together from their pieces.

use super::{EVENTS, delta, events};
use crate::wire::canonical::identity;
use crate::wire::{BodyEnd, Dialect, ResponseReader};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn tool_calls_are_put_together_from_their_pieces() {
    let call = |piece: Value| delta(json!({ "tool_calls": [piece] }));
    let with_index = events(&[
        call(
            json!({"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}),
        ),
        call(json!({"index": 1, "id": "b", "function": {"name": "g"}})),
        call(json!({"index": 0, "function": {"name": "f", "arguments": "{\"x\":"}})),
        call(json!({"index": 1, "id": "", "function": {"arguments": "{}"}})),
        call(json!({"index": 0, "id": null, "function": {"name": null, "arguments": "1}"}})),
    ]);
    let without_index = events(&[
        call(json!({"id": "a", "function": {"name": "f", "arguments": "{\"x\":"}})),
        call(json!({"function": {"arguments": "1}"}})),
        call(json!({"id": "b", "function": {"name": "g", "arguments": "{}"}})),
    ]);
    let expected = json!([
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]);
    for facts in [with_index, without_index] {
        assert_eq!(Value::from(facts.tool_calls[0].clone()), expected);
        let message = facts.assistant_message().unwrap();
        assert_eq!(
            message,
            json!({"role": "assistant", "content": null, "tool_calls": expected})
        );
    }
}

#[test]
fn an_answer_without_choices_has_no_message() {
    assert_eq!(events(&[]).assistant_message(), None);
    let empty = events(&[delta(json!({"role": "assistant"}))]).assistant_message();
    assert_eq!(empty, Some(json!({"role": "assistant", "content": ""})));
}

/// Splits a text into at most so many pieces, at character boundaries.
fn pieces(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(count).max(1);
    characters
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// An answer as a server streams it, and the message as a client sends it back.
fn exchange(
    text: &str,
    reasoning: &str,
    calls: &[(String, String, String)],
    parts: usize,
) -> (Vec<Value>, Value) {
    let mut data = vec![delta(json!({"role": "assistant", "content": null}))];
    data.extend(
        pieces(reasoning, parts)
            .iter()
            .map(|r| delta(json!({"reasoning_content": r}))),
    );
    data.extend(
        pieces(text, parts)
            .iter()
            .map(|piece| delta(json!({ "content": piece }))),
    );
    let mut sent = Vec::new();
    for (index, (id, name, key)) in calls.iter().enumerate() {
        let arguments = json!({ key: [1, { "b": null, "a": key }] }).to_string();
        let function = json!({"name": name, "arguments": ""});
        data.push(delta(
            json!({"tool_calls": [{"index": index, "id": id, "function": function}]}),
        ));
        data.extend(pieces(&arguments, parts).iter().map(|piece| {
            delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
        }));
        // Clients parse the arguments and write them again in their own way.
        let again = format!(
            "{{ {}: [1, {{\"a\": {}, \"b\": null}}] }}",
            json!(key),
            json!(key)
        );
        sent.push(
            json!({"function": {"arguments": again, "name": name}, "id": id,
            "type": "function"}),
        );
    }
    let content: Vec<Value> = pieces(text, parts)
        .iter()
        .map(|text| json!({"type": "text", "text": text}))
        .collect();
    let message = json!({
        "tool_calls": sent, "content": content, "refusal": null, "annotations": [], "audio": null,
        "function_call": null, "reasoning_content": null, "role": "assistant",
    });
    (data, message)
}

proptest! {
    /// The message that is rebuilt from an answer is the message that the client sends back.
    #[test]
    fn an_answer_is_found_again_in_the_next_request(
        text in ".*",
        reasoning in ".*",
        calls in prop::collection::vec(("[a-z0-9]{1,8}", "[a-z]{1,8}", ".{0,8}"), 0..3),
        parts in 1usize..6,
    ) {
        let (data, sent) = exchange(&text, &reasoning, &calls, parts);
        let facts = events(&data);
        prop_assert_eq!(&facts.texts[0], &text);
        prop_assert_eq!(&facts.reasoning_texts[0], &reasoning);
        let rebuilt = facts.assistant_message().unwrap();
        prop_assert_eq!(identity(&rebuilt), identity(&sent));
    }

    /// Where the network cut an answer matters to its times only.
    #[test]
    fn chunking_is_invisible(
        text in ".{0,40}",
        calls in prop::collection::vec(("[a-z0-9]{1,8}", "[a-z]{1,8}", ".{0,8}"), 0..3),
        ends in prop::sample::select(&["\n", "\r\n", "\r"][..]),
        cut in 1usize..40,
        lost in 0usize..30,
    ) {
        let (data, _) = exchange(&text, "", &calls, 3);
        let mut body: String = data.iter().map(|data| format!("data: {data}{ends}{ends}")).collect();
        body += "data: [DONE]\n\n";
        let body = &body.as_bytes()[..body.len() - lost];
        let read = |size: usize| {
            let mut reader = ResponseReader::new(Dialect::OpenaiChat, 200, EVENTS, None);
            body.chunks(size).for_each(|push| reader.push(7, push));
            reader.finish(BodyEnd::Cut)
        };
        prop_assert_eq!(read(cut), read(usize::MAX));
    }
}
