use super::{identity, identity_of_json};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn these_are_the_same_message() {
    let same: Vec<Vec<Value>> = vec![
        vec![
            json!({"role": "user", "content": "a b"}),
            json!({"content": [{"type": "text", "text": "a b"}], "role": "user"}),
            json!({"role": "user", "content": [
                {"type": "text", "text": "a "},
                {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
            ]}),
            json!({"role": "user", "content": ["a b"], "refusal": null, "tool_calls": []}),
        ],
        vec![
            json!({"role": "assistant", "content": ""}),
            json!({"role": "assistant", "content": null, "function_call": null, "audio": null}),
            json!({"role": "assistant", "content": [], "annotations": [], "refusal": ""}),
            json!({"role": "assistant", "reasoning": "r", "reasoning_content": "r"}),
            json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "r"}]}),
        ],
        vec![
            json!({"role": "assistant", "tool_calls": [{"id": "c", "type": "function",
                "function": {"name": "f", "arguments": "{\"a\": 1, \"b\": [true]}"}}]}),
            json!({"role": "assistant", "content": "", "tool_calls": [{"index": 0, "id": "c",
                "function": {"arguments": "{\"b\":[true],\"a\":1}", "name": "f"}}]}),
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c",
                "function": {"name": "f", "arguments": {"a": 1, "b": [true]}}}]}),
        ],
        vec![
            json!({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}),
            json!({"role": "assistant", "tool_calls": [
                {"function": {"name": "f", "arguments": "{}"}}]}),
        ],
        vec![
            json!({"role": "tool", "tool_call_id": "c", "content": "42"}),
            json!({"role": "tool", "content": [{"type": "text", "text": "42"}],
                "tool_call_id": "c"}),
        ],
        vec![
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}),
            json!({"role": "user", "content": [{"image_url": {"url": "u"}, "type": "image_url",
                "cache_control": {"type": "ephemeral"}}]}),
        ],
        vec![
            json!({"role": "assistant", "refusal": "no"}),
            json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}),
        ],
    ];
    let identities: Vec<Vec<Vec<u8>>> = same
        .iter()
        .map(|group| group.iter().map(identity).collect())
        .collect();
    for (group, messages) in identities.iter().zip(&same) {
        for (one, message) in group.iter().zip(messages) {
            assert_eq!(one, &group[0], "{message}");
        }
    }
    for (index, group) in identities.iter().enumerate() {
        for other in identities.iter().skip(index + 1) {
            assert_ne!(group[0], other[0]);
        }
    }
}

#[test]
fn these_are_not_the_same_message() {
    let message = json!({"role": "assistant", "content": "a", "name": "n", "tool_calls": [
        {"id": "c", "function": {"name": "f", "arguments": "{\"x\":1}"}}]});
    let others = [
        ("/role", json!("user")),
        ("/content", json!("a ")),
        ("/content", json!("a\ntext \"b\"")),
        (
            "/content",
            json!([{"type": "text", "text": "a"}, {"type": "image_url"}]),
        ),
        ("/name", json!("m")),
        ("/tool_calls/0/id", json!("d")),
        ("/tool_calls/0/function/name", json!("g")),
        ("/tool_calls/0/function/arguments", json!("{\"x\":2}")),
        ("/tool_calls/0/function/arguments", json!("{\"x\":1")),
        ("/tool_calls", json!([])),
    ];
    for (pointer, value) in others {
        let mut other = message.clone();
        *other.pointer_mut(pointer).unwrap() = value;
        assert_ne!(identity(&message), identity(&other), "{pointer}");
    }
}

#[test]
fn parts_around_an_image_are_not_one_text() {
    let image = json!({"type": "image_url", "image_url": {"url": "data:,x"}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let between = json!({"role": "user", "content": [text("a"), image, text("b")]});
    let after = json!({"role": "user", "content": [text("a"), text("b"), image]});
    assert_ne!(identity(&between), identity(&after));
}

#[test]
fn what_is_no_json_is_its_own_identity() {
    assert_eq!(identity_of_json(b"{\"role\""), b"{\"role\"");
    let half = identity_of_json(br#"{"role": "user", "content": "\ud83c"}"#);
    assert_eq!(
        half,
        identity(&json!({"role": "user", "content": "\u{fffd}"}))
    );
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,3}", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The same value with the keys of every object in reverse.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reversed).collect(),
        Value::Object(object) => Value::Object(
            object
                .iter()
                .rev()
                .map(|(name, value)| (name.clone(), reversed(value)))
                .collect(),
        ),
        scalar => scalar.clone(),
    }
}

proptest! {
    #[test]
    fn the_order_of_keys_does_not_matter(arguments in value(), part in value()) {
        let message = |arguments: &Value, part: &Value| json!({
            "role": "assistant",
            "content": [part],
            "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": arguments}}],
        });
        let one = identity(&message(&arguments, &part));
        let other = reversed(&message(&reversed(&arguments), &part));
        prop_assert_eq!(one, identity(&other));
    }

    #[test]
    fn different_texts_are_different_messages(a in ".*", b in ".*") {
        let message = |text: &str| identity(&json!({"role": "user", "content": text}));
        prop_assert_eq!(a == b, message(&a) == message(&b));
    }
}
