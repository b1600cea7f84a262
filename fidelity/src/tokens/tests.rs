use super::*;
use proptest::prelude::*;
use serde_json::json;

fn rendered(body: Value) -> String {
    String::from_utf8(render_chat(&body)).unwrap()
}

#[test]
fn segments_are_padded_to_whole_tokens() {
    let body = json!({"messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]});
    let expected = "<|system|>  Be brief.   <|user|>Hi  <|assistant|>   ";
    assert_eq!(rendered(body.clone()), expected);
    assert_eq!(count(&render_chat(&body)), expected.len() as u64 / 4);
}

#[test]
fn the_headers_of_the_four_roles_are_whole_tokens() {
    for (role, header) in [
        ("user", "<|user|>"),
        ("tool", "<|tool|>"),
        ("system", "<|system|>  "),
        ("assistant", "<|assistant|>   "),
    ] {
        let body = json!({"messages": [{"role": role, "content": ""}]});
        assert_eq!(rendered(body), format!("{header}<|assistant|>   "));
    }
}

#[test]
fn tools_come_first_and_an_empty_list_is_nothing() {
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let with = rendered(json!({"messages": [], "tools": tools}));
    assert!(with.starts_with(r#"<|tools|>   [{"type":"function","function":{"name":"f"}}]"#));
    assert_eq!(
        rendered(json!({"messages": [], "tools": []})),
        "<|assistant|>   "
    );
}

#[test]
fn text_parts_are_joined_and_equal_the_plain_string() {
    let parts = json!([{"type": "text", "text": "ab"}, {"type": "text", "text": "cd"}]);
    assert_eq!(
        rendered(json!({"messages": [{"role": "user", "content": parts}]})),
        rendered(json!({"messages": [{"role": "user", "content": "abcd"}]})),
    );
}

#[test]
fn an_image_is_six_tokens_and_known_by_its_content() {
    let image = |url: &str| {
        let part = json!({"type": "image_url", "image_url": {"url": url}});
        render_chat(&json!({"messages": [{"role": "user", "content": [part]}]}))
    };
    let empty = render_chat(&json!({"messages": [{"role": "user", "content": ""}]}));
    assert_eq!(count(&image("a")), count(&empty) + 6);
    assert_ne!(image("a"), image("b"));
    assert_eq!(image("a"), image("a"));
}

#[test]
fn the_id_of_a_tool_call_is_not_read() {
    let turn = |id: &str| {
        let function = json!({"name": "find", "arguments": "{\"q\":1}"});
        let call = json!({"id": id, "type": "function", "function": function});
        rendered(
            json!({"messages": [{"role": "assistant", "content": null, "tool_calls": [call]}]}),
        )
    };
    assert_eq!(turn("a"), turn("b"));
    assert_eq!(
        turn("a"),
        "<|assistant|>   {\"q\":1} <|find|><|assistant|>   "
    );
}

#[test]
fn counts_are_those_of_the_bytes() {
    for (prompt, tokens) in [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("éé", 1),
        ("ééé", 2),
    ] {
        assert_eq!(count(&render_completion(prompt)), tokens, "{prompt:?}");
    }
}

#[test]
fn every_word_is_one_token_of_safe_ascii_and_used() {
    let mut seen = std::collections::BTreeSet::new();
    for index in 0..4_096 {
        let word = output_text(7, index);
        assert_eq!(word.len(), BYTES_PER_TOKEN);
        assert!(
            word.bytes()
                .all(|byte| byte == b' ' || byte.is_ascii_lowercase()),
            "{word:?}"
        );
        seen.insert(word);
    }
    assert_eq!(seen.len(), words::WORDS.len());
}

#[test]
fn natural_lengths_span_six_octaves() {
    let lengths: Vec<u64> = (0..60_000).map(natural_tokens).collect();
    assert_eq!(
        (lengths.iter().min(), lengths.iter().max()),
        (Some(&8), Some(&511))
    );
    let mean = lengths.iter().sum::<u64>() as f64 / lengths.len() as f64;
    // Twelve for the first octave, doubling five times: 756 / 6, less half a token.
    assert!((mean - 125.5).abs() < 2.0, "{mean}");
}

#[test]
fn a_seed_depends_on_the_prompt_and_on_both_seeds() {
    let seeds = [
        output_seed(b"a", [0, 0]),
        output_seed(b"b", [0, 0]),
        output_seed(b"a", [1, 0]),
        output_seed(b"a", [0, 1]),
        output_seed(b"a", [1, 1]),
    ];
    let distinct: std::collections::BTreeSet<u64> = seeds.into_iter().collect();
    assert_eq!(distinct.len(), seeds.len());
    assert_eq!(output_seed(b"a", [0, 0]), seeds[0]);
}

#[test]
fn ids_and_bytes_are_the_same_thing() {
    let given = [0, 1, 255, 65_536, u32::MAX];
    assert_eq!(ids(&render_ids(&given)), given);
    assert_eq!(render_ids(&ids(b"the cat ")), b"the cat ");
}

proptest! {
    /// What the engine generated, sent back as a message, renders to the same bytes.
    #[test]
    fn the_next_turn_extends_the_prompt_and_the_answer(
        question in ".{0,40}", seed: u64, tokens in 0u64..50, next in ".{0,40}",
    ) {
        let first = json!({"messages": [{"role": "user", "content": question}]});
        let answer: String = (0..tokens).map(|index| output_text(seed, index)).collect();
        let second = json!({"messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
            {"role": "user", "content": next},
        ]});
        let mut history = render_chat(&first);
        history.extend_from_slice(answer.as_bytes());
        prop_assert!(render_chat(&second).starts_with(&history));
    }

    /// Tokens do not depend on what follows them.
    #[test]
    fn counts_add_up(messages in proptest::collection::vec(".{0,20}", 0..6)) {
        let list: Vec<Value> =
            messages.iter().map(|text| json!({"role": "user", "content": text})).collect();
        let parts: usize = messages.iter().map(|text| 2 + text.len().div_ceil(4)).sum();
        let whole = render_chat(&json!({"messages": list}));
        prop_assert_eq!(count(&whole), (parts + 4) as u64);
        prop_assert_eq!(whole.len() % BYTES_PER_TOKEN, 0);
    }
}
