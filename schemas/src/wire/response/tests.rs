use super::{BodyEnd, ResponseReader};
use crate::capture::{LengthSource, Outcome, ParseStatus};
use crate::wire::canonical::identity;
use crate::wire::limits::{CHOICES_MAX, TOOL_CALLS_MAX};
use crate::wire::{Dialect, ResponseFacts};
use proptest::prelude::*;
use serde_json::{Value, json};

const EVENTS: Option<&str> = Some("text/event-stream");

/// Reads pushes, one a millisecond, the first at 1 ms.
fn read(content_type: Option<&str>, pushes: &[&str], end: BodyEnd) -> ResponseFacts {
    let mut reader = ResponseReader::new(Dialect::OpenaiChat, 200, content_type, None);
    for (index, push) in pushes.iter().enumerate() {
        reader.push(1_000 * (index as i64 + 1), push.as_bytes());
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
    let pushes: Vec<&str> = pushes.iter().map(String::as_str).collect();
    read(EVENTS, &pushes, BodyEnd::Clean)
}

fn delta(delta: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

#[test]
fn what_is_a_token_event_and_what_is_not() {
    // The event, whether it is a token event, and whether it is an output event.
    let cases = [
        (delta(json!({"role": "assistant"})), false, false),
        (
            delta(json!({"role": "assistant", "content": ""})),
            false,
            false,
        ),
        (
            delta(json!({"content": null, "tool_calls": null})),
            false,
            false,
        ),
        (delta(json!({})), false, false),
        (delta(json!({"content": " "})), true, true),
        (delta(json!({"refusal": "no"})), true, true),
        (delta(json!({"reasoning": "r"})), true, false),
        (
            delta(json!({"reasoning_content": "r", "content": ""})),
            true,
            false,
        ),
        (
            delta(json!({"reasoning_content": "r", "content": "x"})),
            true,
            true,
        ),
        (
            delta(json!({"tool_calls": [{"index": 0, "id": "c"}]})),
            false,
            false,
        ),
        (
            delta(json!({"tool_calls": [{"index": 0, "function": {"name": "f"}}]})),
            true,
            true,
        ),
        (
            delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]})),
            true,
            true,
        ),
        (
            delta(json!({"tool_calls": [{"index": 0, "custom": {"input": "x"}}]})),
            true,
            true,
        ),
        (delta(json!({"function_call": {"name": "f"}})), true, true),
        (
            delta(json!({"content": [{"type": "text", "text": "x"}]})),
            true,
            true,
        ),
        (
            delta(
                json!({"content": [{"type": "thinking", "thinking": [{"type": "text",
            "text": "x"}]}]}),
            ),
            true,
            false,
        ),
        (json!({"choices": [{"text": ""}]}), false, false),
        (json!({"choices": [{"text": "x"}]}), true, true),
        (
            json!({"choices": [{"text": "", "logprobs": {"tokens": ["x"]}}]}),
            true,
            true,
        ),
        (
            json!({"choices": [{"text": "", "logprobs": {"tokens": []}}]}),
            false,
            false,
        ),
        (
            json!({"choices": [{"text": "", "token_ids": [7]}]}),
            true,
            true,
        ),
        (
            json!({"choices": [{"delta": {"content": ""}, "logprobs": {"content": [{}]}}]}),
            true,
            true,
        ),
        (
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
            false,
            false,
        ),
        (
            json!({"choices": [], "usage": {"completion_tokens": 3}}),
            false,
            false,
        ),
        (
            json!({"choices": [], "prompt_filter_results": [{}]}),
            false,
            false,
        ),
        (json!({"error": {"message": "x"}}), false, false),
    ];
    for (event, is_token, is_output) in cases {
        let facts = events(&[json!({"choices": []}), event.clone()]);
        assert_eq!(facts.first_token_us, is_token.then_some(2_000), "{event}");
        assert_eq!(facts.first_output_us, is_output.then_some(2_000), "{event}");
        assert_eq!(facts.last_token_us, facts.first_token_us, "{event}");
        assert_eq!(
            facts.token_event_offsets_us.len(),
            usize::from(is_token),
            "{event}"
        );
        assert_eq!(
            facts.token_event_choices.len(),
            usize::from(is_token),
            "{event}"
        );
        assert_eq!(facts.data_events, 3, "{event}");
        assert_eq!(facts.parse_status, ParseStatus::Ok, "{event}");
    }
}

#[test]
fn tokens_without_text_belong_to_what_is_being_generated() {
    let hidden = json!({"choices": [{"delta": {}, "logprobs": {"content": [{}]}}]});
    let facts = events(&[
        delta(json!({"reasoning": "r"})),
        hidden.clone(),
        delta(json!({"content": "x"})),
        hidden,
    ]);
    assert_eq!(
        (facts.first_token_us, facts.first_output_us),
        (Some(1_000), Some(3_000))
    );
    assert_eq!(facts.token_event_offsets_us, [1_000, 2_000, 3_000, 4_000]);
}

#[test]
fn lengths_are_the_last_that_were_reported() {
    let usage = |usage: Value| json!({ "choices": [], "usage": usage });
    let facts = events(&[
        usage(json!({"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": null})),
        usage(
            json!({"completion_tokens": 5.0, "completion_tokens_details": {"reasoning_tokens": 2},
            "prompt_tokens_details": {"cached_tokens": 4}}),
        ),
        usage(Value::Null),
        usage(json!({})),
    ]);
    assert_eq!(
        (facts.input_tokens, facts.output_tokens),
        (Some(9), Some(5))
    );
    assert_eq!(
        (facts.cached_tokens, facts.reasoning_tokens),
        (Some(4), Some(2))
    );
    assert_eq!(facts.output_tokens_source, LengthSource::Usage);
    assert_eq!(facts.cached_tokens_source, LengthSource::Usage);
}

#[test]
fn without_usage_listed_tokens_are_the_length_if_all_are_listed() {
    let listed = |text: &str, ids: Value| json!({"choices": [{"text": text, "token_ids": ids}]});
    let whole = events(&[
        json!({"choices": [], "prompt_token_ids": [1, 2, 3]}),
        listed("ab", json!([4, 5])),
        listed("", json!([6])),
    ]);
    assert_eq!(
        (whole.input_tokens, whole.output_tokens),
        (Some(3), Some(3))
    );
    assert_eq!(whole.output_tokens_source, LengthSource::Exact);
    assert_eq!(whole.input_tokens_source, LengthSource::Exact);
    let partial = events(&[listed("ab", json!([4, 5])), listed("c", Value::Null)]);
    assert_eq!(
        (partial.output_tokens, partial.output_tokens_source),
        (None, LengthSource::Absent)
    );
    let reported = events(&[
        listed("ab", json!([4, 5])),
        json!({"usage": {"completion_tokens": 7}}),
    ]);
    assert_eq!(reported.output_tokens, Some(7));
    assert_eq!(reported.output_tokens_source, LengthSource::Usage);
}

#[test]
fn errors_are_found_in_every_form() {
    let cases = [
        (
            r#"data: {"error":{"message":"m","type":"t","code":504}}"#,
            Some("504"),
            Some("t"),
        ),
        (
            r#"data: {"error":{"message":"m","type":"t","code":"c"}}"#,
            Some("c"),
            Some("t"),
        ),
        (r#"data: {"error":{"message":"m","code":null}}"#, None, None),
        (r#"data: {"error":"m"}"#, None, None),
        (
            r#"data: {"object":"error","message":"m","type":"t","code":400}"#,
            Some("400"),
            Some("t"),
        ),
        (
            "event: error\ndata: {\"type\":\"t\",\"code\":1.5}",
            Some("1.5"),
            Some("t"),
        ),
        (
            "event: error\ndata: {\"error\":{\"code\":\"c\"}}",
            Some("c"),
            None,
        ),
        ("event: error\ndata: it broke", None, None),
        (
            r#"data: {"choices":[{"index":0,"error":{"code":502}}]}"#,
            Some("502"),
            None,
        ),
    ];
    for (event, code, kind) in cases {
        for end in ["\n\ndata: [DONE]\n\n", "\n\n", "", "\n"] {
            let facts = read(EVENTS, &[event, end], BodyEnd::Clean);
            assert_eq!(facts.outcome, Outcome::Error, "{event}{end:?}");
            assert_eq!(facts.error_code.as_deref(), code, "{event}{end:?}");
            assert_eq!(facts.error_type.as_deref(), kind, "{event}{end:?}");
            assert_eq!(facts.first_token_us, None);
        }
    }
    let none = events(&[json!({"error": null, "choices": [], "type": "t", "code": 7})]);
    assert_eq!(
        (none.outcome, none.error_code, none.error_type),
        (Outcome::Complete, None, None)
    );
}

#[test]
fn an_error_status_is_an_error_whatever_the_body() {
    let cases = [
        (
            r#"{"error":{"type":"t","code":"c"}}"#,
            Some("c"),
            Some("t"),
            ParseStatus::Ok,
        ),
        (
            r#"{"object":"error","type":"t","code":40303}"#,
            Some("40303"),
            Some("t"),
            ParseStatus::Ok,
        ),
        (
            r#"{"message":"m","code":7}"#,
            Some("7"),
            None,
            ParseStatus::Ok,
        ),
        (r#"{"detail":"Not Found"}"#, None, None, ParseStatus::Ok),
        (
            "<html>bad gateway</html>",
            None,
            None,
            ParseStatus::NotApplicable,
        ),
        ("", None, None, ParseStatus::NotApplicable),
    ];
    for (body, code, kind, status) in cases {
        let mut reader = ResponseReader::new(Dialect::OpenaiChat, 502, None, None);
        reader.push(1, body.as_bytes());
        let facts = reader.finish(BodyEnd::Clean);
        assert_eq!(facts.outcome, Outcome::Error, "{body}");
        assert_eq!(facts.error_code.as_deref(), code, "{body}");
        assert_eq!(facts.error_type.as_deref(), kind, "{body}");
        assert_eq!(facts.parse_status, status, "{body}");
    }
}

#[test]
fn every_choice_must_have_finished_unless_the_marker_came() {
    let choice = |index: i64, finish: Value| {
        let event = json!({"choices": [{"index": index, "delta": {}, "finish_reason": finish}]});
        format!("data: {event}\n\n")
    };
    let open = choice(1, Value::Null);
    let (zero, one) = (choice(0, json!("stop")), choice(1, json!("length")));
    let empty = choice(1, json!(""));
    let done = "data: [DONE]\n\n";
    let cases: [(&[&str], BodyEnd, Outcome); 9] = [
        (&[&open, &zero, &one], BodyEnd::Clean, Outcome::Complete),
        (&[&open, &zero], BodyEnd::Clean, Outcome::Truncated),
        (&[&zero, &empty], BodyEnd::Clean, Outcome::Truncated),
        (&[&open, &zero, done], BodyEnd::Clean, Outcome::Complete),
        (&[&one], BodyEnd::Clean, Outcome::Complete),
        (&[&zero], BodyEnd::Cut, Outcome::Truncated),
        (&[&zero, done], BodyEnd::Cut, Outcome::Complete),
        (&[&zero, done], BodyEnd::ClientAborted, Outcome::Complete),
        (&[&zero, "data: [DONE]"], BodyEnd::Cut, Outcome::Complete),
    ];
    for (pushes, end, outcome) in cases {
        assert_eq!(
            read(EVENTS, pushes, end).outcome,
            outcome,
            "{pushes:?} {end:?}"
        );
    }
}

#[test]
fn an_event_without_its_blank_line_counts_if_it_is_whole() {
    let whole = r#"data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    let facts = read(EVENTS, &[whole], BodyEnd::Clean);
    assert_eq!((facts.outcome, facts.data_events), (Outcome::Complete, 1));
    assert_eq!(
        (facts.texts, facts.first_token_us),
        (vec!["a".to_owned()], Some(1_000))
    );
    let half = &whole[..whole.len() - 2];
    let facts = read(EVENTS, &["data: {}\n\n", half], BodyEnd::Cut);
    assert_eq!((facts.outcome, facts.data_events), (Outcome::Truncated, 1));
    assert_eq!(
        (facts.parse_status, facts.first_token_us),
        (ParseStatus::Ok, None)
    );
}

#[test]
fn done_is_seen_at_once_and_ends_the_answer() {
    let mut reader = ResponseReader::new(Dialect::OpenaiChat, 200, EVENTS, None);
    reader.push(
        1,
        b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n",
    );
    assert!(!reader.done_seen());
    reader.push(2, b"\n");
    assert!(reader.done_seen());
    reader.push(
        3,
        b"data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n",
    );
    let facts = reader.finish(BodyEnd::Timeout);
    assert_eq!(
        (facts.outcome, facts.last_token_us),
        (Outcome::Complete, Some(1))
    );
    assert_eq!((facts.texts, facts.data_events), (vec!["a".to_owned()], 2));
    assert_eq!(facts.parse_status, ParseStatus::Partial);
}

#[test]
fn the_bytes_decide_what_a_body_is_before_its_type_does() {
    let event =
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
    let json = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#;
    let error = r#"{"error":{"code":"c"}}"#;
    for content_type in [
        EVENTS,
        None,
        Some("text/plain"),
        Some("Text/Event-Stream; charset=x"),
    ] {
        for body in [event, json] {
            for start in ["", "\n", "\u{feff}", ": ping\n\n", "\r\n\r\n"] {
                if body == json && start.starts_with(':') {
                    continue;
                }
                let body = format!("{start}{body}");
                for cut in 0..body.len().min(12) {
                    if !body.is_char_boundary(cut) {
                        continue;
                    }
                    let (a, b) = body.split_at(cut);
                    let facts = read(content_type, &[a, b], BodyEnd::Clean);
                    assert_eq!(
                        facts.outcome,
                        Outcome::Complete,
                        "{content_type:?} {body:?}"
                    );
                    assert_eq!(facts.texts, ["a"], "{content_type:?} {body:?}");
                }
            }
        }
        assert_eq!(
            read(content_type, &[error], BodyEnd::Clean).outcome,
            Outcome::Error
        );
    }
    let html = read(Some("text/html"), &["<html>"], BodyEnd::Clean);
    assert_eq!(
        (html.outcome, html.parse_status),
        (Outcome::Complete, ParseStatus::Failed)
    );
    let nothing = read(EVENTS, &["\n\n"], BodyEnd::Clean);
    assert_eq!(nothing.outcome, Outcome::Truncated);
}

#[test]
fn a_whole_answer_gives_the_same_facts_but_no_first_token() {
    let body = r#"{"id": "r", "choices": [
        {"message": {"role": "assistant", "content": "a", "reasoning_content": "w"},
         "finish_reason": "stop"},
        {"index": 1, "message": {"content": null, "tool_calls": [{"id": "c", "type": "function",
         "function": {"name": "f", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2}}"#;
    let (a, b) = body.split_at(60);
    let facts = read(Some("application/json"), &[a, b, "\n"], BodyEnd::Clean);
    assert_eq!(
        (facts.outcome, facts.parse_status),
        (Outcome::Complete, ParseStatus::Ok)
    );
    assert_eq!((facts.first_token_us, facts.first_output_us), (None, None));
    assert_eq!(facts.last_token_us, Some(2_000));
    assert_eq!(
        (facts.token_event_offsets_us.len(), facts.data_events),
        (0, 0)
    );
    assert_eq!(facts.texts, ["a", ""]);
    assert_eq!(facts.reasoning_texts, ["w", ""]);
    assert_eq!(
        facts.finish_reasons,
        [Some("stop".to_owned()), Some("tool_calls".to_owned())]
    );
    assert_eq!(
        (facts.input_tokens, facts.output_tokens),
        (Some(3), Some(2))
    );
    assert_eq!(facts.response_id.as_deref(), Some("r"));
    let half = read(None, &[a], BodyEnd::Clean);
    assert_eq!(
        (half.outcome, half.parse_status),
        (Outcome::Truncated, ParseStatus::Partial)
    );
    assert_eq!(half.last_token_us, None);
    let empty = r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}"#;
    assert_eq!(read(None, &[empty], BodyEnd::Clean).last_token_us, None);
}

#[test]
fn an_answer_without_tokens_is_complete() {
    let facts = events(&[
        delta(json!({"role": "assistant", "content": ""})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 0}}),
    ]);
    assert_eq!(
        (facts.outcome, facts.output_tokens),
        (Outcome::Complete, Some(0))
    );
    assert_eq!((facts.first_token_us, facts.last_token_us), (None, None));
}

#[test]
fn what_is_not_read_keeps_its_outcome() {
    let cases = [
        (
            Dialect::Unknown,
            200,
            None,
            BodyEnd::Clean,
            Outcome::Complete,
            ParseStatus::NotApplicable,
        ),
        (
            Dialect::Unknown,
            200,
            None,
            BodyEnd::Cut,
            Outcome::Truncated,
            ParseStatus::NotApplicable,
        ),
        (
            Dialect::Unknown,
            404,
            None,
            BodyEnd::Clean,
            Outcome::Error,
            ParseStatus::NotApplicable,
        ),
        (
            Dialect::OpenaiChat,
            204,
            None,
            BodyEnd::Clean,
            Outcome::Complete,
            ParseStatus::NotApplicable,
        ),
        (
            Dialect::OpenaiChat,
            200,
            Some("gzip"),
            BodyEnd::Clean,
            Outcome::Complete,
            ParseStatus::Failed,
        ),
        (
            Dialect::OpenaiChat,
            200,
            Some("gzip"),
            BodyEnd::Cut,
            Outcome::Truncated,
            ParseStatus::Failed,
        ),
        (
            Dialect::OpenaiChat,
            200,
            Some("br, identity"),
            BodyEnd::Timeout,
            Outcome::Timeout,
            ParseStatus::Failed,
        ),
    ];
    for (dialect, status, encoding, end, outcome, parse_status) in cases {
        let mut reader = ResponseReader::new(dialect, status, EVENTS, encoding);
        reader.push(1, b"\x1f\x8b\x08data: {\"error\":{}}\n\n");
        let facts = reader.finish(end);
        let expected = ResponseFacts {
            outcome,
            parse_status,
            ..Default::default()
        };
        assert_eq!(facts, expected, "{dialect:?} {status} {encoding:?} {end:?}");
    }
    let mut plain = ResponseReader::new(Dialect::OpenaiChat, 200, EVENTS, Some("identity"));
    plain.push(1, b"data: [DONE]\n\n");
    assert_eq!(plain.finish(BodyEnd::Clean).parse_status, ParseStatus::Ok);
}

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
            (facts.parse_status, &facts.texts[0][..]),
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
fn a_token_with_half_a_character_is_still_a_token() {
    let push = "data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83c\"},\"logprobs\":{\"content\":\
                [{\"logprob\":-Infinity}]}}]}\n\n";
    let facts = read(EVENTS, &[push], BodyEnd::Clean);
    assert_eq!(
        (facts.first_token_us, &facts.texts[0][..]),
        (Some(1_000), "\u{fffd}")
    );
    assert_eq!(facts.parse_status, ParseStatus::Partial);
}

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
