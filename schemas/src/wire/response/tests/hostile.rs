//! What no server should send.

use super::{EVENTS, delta, events, read};
use crate::capture::{Outcome, ParseStatus};
use crate::wire::limits::{AnswerLimits, CHOICES_MAX, TOOL_CALLS_MAX};
use crate::wire::{BodyEnd, Dialect, ResponseReader};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn odd_values_cost_facts_and_are_said() {
    let good = delta(json!({"content": "a"}));
    let odd = [
        json!({"choices": {}}),
        json!({"choices": [7, {"index": 0, "delta": {"content": "b"}}]}),
        json!({"usage": "x"}),
        json!({"usage": {"completion_tokens": -1}}),
        json!({"usage": {"completion_tokens": u64::MAX}}),
        json!({"choices": [{"index": -1, "delta": {"content": "x"}}]}),
        json!({"choices": [{"index": 1_000_000_000, "delta": {"content": "x"}}]}),
        json!({"choices": [{"index": CHOICES_MAX, "delta": {"content": "x"}}]}),
        json!({"choices": [{"index": "0", "delta": {"content": "x"}}]}),
        json!({"choices": [{"index": 0, "delta": []}]}),
        json!({"choices": [{"index": 0, "delta": {"content": {"x": 1}}}]}),
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": TOOL_CALLS_MAX}]}}]}),
        json!({"choices": [{"index": 0, "finish_reason": 7}]}),
        json!({"id": {}}),
        json!([1, 2]),
        json!("text"),
        json!(7),
    ];
    for event in odd {
        let facts = events(&[event.clone(), good.clone()]);
        assert_eq!(facts.parse_status, ParseStatus::Partial, "{event}");
        assert!(
            facts.texts.first().is_some_and(|text| text.ends_with('a')),
            "{event}"
        );
        assert_eq!(
            (facts.texts.len(), facts.output_tokens),
            (1, None),
            "{event}"
        );
        assert_eq!(facts.outcome, Outcome::Complete, "{event}");
    }
}

#[test]
fn an_event_that_cannot_be_read_is_said() {
    let good = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let bad = [
        "data: {\"choices\":\n\n",
        "data: }{\n\n",
        "data: [DONE\n\n",
        "data: \u{1}\n\n",
    ];
    for bad in bad {
        let facts = read(EVENTS, &[bad, good, "data: [DONE]\n\n"], BodyEnd::Clean);
        assert_eq!(
            (facts.outcome, facts.data_events),
            (Outcome::Complete, 3),
            "{bad}"
        );
        assert_eq!(
            (facts.parse_status, facts.texts[0].as_str()),
            (ParseStatus::Partial, "a"),
            "{bad}"
        );
        let alone = read(EVENTS, &[bad], BodyEnd::Clean);
        assert_eq!(alone.parse_status, ParseStatus::Failed, "{bad}");
    }
    let pings = read(
        EVENTS,
        &["data:\n\ndata: \n\n", good, "data: [DONE]\n\n"],
        BodyEnd::Clean,
    );
    assert_eq!(
        (pings.parse_status, pings.data_events),
        (ParseStatus::Ok, 2)
    );
}

#[test]
fn where_a_second_byte_order_mark_is_cut_does_not_matter() {
    const BOM: &str = "\u{feff}";
    let read = |dialect, content_type, body: &str, piece| {
        let mut reader = ResponseReader::new(dialect, 200, content_type, None);
        for piece in body.as_bytes().chunks(piece) {
            reader.push(1, piece);
        }
        reader.finish(BodyEnd::Clean)
    };
    for (dialect, content_type) in [
        (Dialect::OllamaChat, EVENTS),
        (Dialect::OpenaiChat, EVENTS),
        (Dialect::OpenaiChat, None),
    ] {
        for body in [
            format!("\n{BOM}\n\n{BOM}\n"),
            format!("{BOM}{BOM}data: [DONE]\n\n"),
            format!("{BOM} {BOM}{{}}"),
        ] {
            let whole = read(dialect, content_type, &body, body.len());
            for piece in 1..body.len() {
                let cut = read(dialect, content_type, &body, piece);
                assert_eq!(cut, whole, "{dialect:?} {body:?} cut every {piece} bytes");
            }
        }
    }
}

#[test]
fn a_token_with_half_a_character_is_still_a_token() {
    let push = "data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83c\"},\"logprobs\":{\"content\":\
                [{\"logprob\":-Infinity}]}}]}\n\n";
    let facts = read(EVENTS, &[push], BodyEnd::Clean);
    assert_eq!(
        (facts.first_token_us, facts.texts[0].as_str()),
        (Some(1_000), "\u{fffd}")
    );
    assert_eq!(facts.parse_status, ParseStatus::Partial);
}

#[test]
fn past_its_bounds_an_answer_loses_facts_and_says_so() {
    let limits = AnswerLimits {
        json_bytes_max: 59,
        text_bytes_max: 6,
        token_events_max: 2,
    };
    let read = |pushes: &[&str]| {
        let mut reader = ResponseReader::within(limits, Dialect::OpenaiChat, 200, None, None);
        pushes
            .iter()
            .zip(1..)
            .for_each(|(push, at_us)| reader.push(at_us, push.as_bytes()));
        reader.finish(BodyEnd::Clean)
    };
    let event = |piece: &str| format!("data: {}\n\n", delta(json!({ "content": piece })));
    let done = "data: [DONE]\n\n";
    let fits = read(&[&event("abc"), &event("def"), done]);
    assert_eq!(
        (fits.texts[0].as_str(), fits.parse_status),
        ("abcdef", ParseStatus::Ok)
    );
    let longer = read(&[&event("abcd"), &event("efg"), done]);
    assert_eq!(
        (longer.texts[0].as_str(), longer.parse_status),
        ("abcd", ParseStatus::Partial)
    );
    assert_eq!(longer.token_event_offsets_us, [1, 2]);
    let more = read(&[&event("a"), &event("b"), &event("c"), done]);
    assert_eq!(
        (more.texts[0].as_str(), more.parse_status),
        ("abc", ParseStatus::Partial)
    );
    assert_eq!(
        (more.token_event_offsets_us.len(), more.last_token_us),
        (2, Some(3))
    );
    let json = r#"{"choices":[{"message":{"content":"a"}}],"x":"0123456789"}"#;
    assert_eq!(json.len(), 58);
    assert_eq!(read(&[json, " "]).texts, ["a"]);
    let long = read(&[json, "  "]);
    assert_eq!(
        (long.texts.len(), long.parse_status),
        (0, ParseStatus::Failed)
    );
    assert_eq!(long.outcome, Outcome::Complete);
}

proptest! {
    /// No bytes make a reader fail, whatever they are taken for.
    #[test]
    fn any_bytes_can_be_read(
        pushes in prop::collection::vec(any::<Vec<u8>>(), 0..8),
        start in prop::sample::select(&["", "data: ", "{", "{\"choices\":[{\"delta\":"][..]),
        status in prop::sample::select(&[200u16, 0, 204, 302, 500, 999][..]),
    ) {
        let mut reader = ResponseReader::new(Dialect::OpenaiCompletions, status, None, None);
        reader.push(0, start.as_bytes());
        pushes.iter().for_each(|push| reader.push(1, push));
        reader.finish(BodyEnd::Clean).assistant_message();
    }

    /// Events of the right shape with wrong values in any place cost facts, never more.
    #[test]
    fn any_values_can_be_read(values in prop::collection::vec(odd_value(), 12)) {
        let [id, choices, usage, index, delta, content, calls, function, finish, logprobs, error, text]
            = &values[..] else { unreachable!() };
        let choice = json!({"index": index, "delta": {"content": content, "tool_calls": calls},
            "finish_reason": finish, "logprobs": logprobs, "text": text});
        let call = json!({"index": index, "id": id, "function": function});
        let facts = events(&[
            json!({"id": id, "choices": choices, "usage": usage, "error": null}),
            json!({"choices": [choice]}),
            json!({"choices": [{"delta": delta, "error": error}]}),
            json!({"choices": [{"delta": {"tool_calls": [call]}}], "usage": {
                "prompt_tokens": usage, "completion_tokens_details": usage}}),
        ]);
        prop_assert!(facts.texts.len() <= CHOICES_MAX);
        prop_assert!(facts.tool_calls.iter().all(|calls| calls.len() <= TOOL_CALLS_MAX));
        prop_assert_eq!(facts.data_events, 5);
    }
}

fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2i64..300).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{}, [], 1, "x", null])),
        Just(json!({"index": 1, "content": {"a": []}, "name": 7, "arguments": {"x": 1}})),
    ]
}
