//! Token events, their times, and lengths.

use super::{delta, events, read};
use crate::capture::{LengthSource, Outcome, ParseStatus};
use crate::wire::BodyEnd;
use serde_json::{Value, json};

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
fn a_whole_answer_gives_the_same_facts_but_no_first_token() {
    let body = r#"{"id": "r", "choices": [
        {"message": {"role": "assistant", "content": "a", "reasoning_content": "w"},
         "finish_reason": "stop"},
        {"message": {"content": null, "tool_calls": [{"id": "c", "type": "function",
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
