use super::{RequestFacts, read_request};
use crate::capture::ParseStatus;
use crate::wire::Dialect;
use proptest::prelude::*;

fn chat(body: &str) -> RequestFacts {
    read_request(Dialect::OpenaiChat, body.as_bytes())
}

#[test]
fn every_fact_is_read() {
    let facts = chat(
        r#"{
        "model": "m", "stream": true, "max_tokens": 9, "max_completion_tokens": 7, "min_tokens": 3,
        "temperature": 0.70, "top_p": 1, "n": 2, "stop": "\n\n", "ignore_eos": true, "seed": -5,
        "response_format": {"type": "json_object"}, "tools": [{}, {}],
        "stream_options": {"include_usage": false}, "user": "u",
        "metadata": {"user_id": "user_1", "session_id": "s", "conversation_id": "unused"},
        "prompt_cache_key": "k", "conversation": {"id": "c"}, "previous_response_id": "r",
        "messages": [{"role": "user", "content": "x"}]
    }"#,
    );
    let expected = RequestFacts {
        parse_status: ParseStatus::Ok,
        model: Some("m".into()),
        stream: Some(true),
        max_tokens: Some(7),
        min_tokens: Some(3),
        temperature: Some(0.7),
        top_p: Some(1.0),
        n: Some(2),
        stop: Some(vec!["\n\n".into()]),
        ignore_eos: Some(true),
        seed: Some(-5),
        response_format: Some("json_object".into()),
        tool_count: Some(2),
        include_usage: Some(false),
        user: Some("u".into()),
        metadata_user_id: Some("user_1".into()),
        prompt_cache_key: Some("k".into()),
        conversation: Some("c".into()),
        session_id: Some("s".into()),
        previous_response_id: Some("r".into()),
        ..RequestFacts::default()
    };
    assert_eq!(facts, expected);
}

#[test]
fn facts_with_two_places_are_found_in_either() {
    assert_eq!(chat(r#"{"max_tokens": 9}"#).max_tokens, Some(9));
    assert_eq!(
        chat(r#"{"stop": ["a", "b"]}"#).stop,
        Some(vec!["a".into(), "b".into()])
    );
    assert_eq!(chat(r#"{"functions": [{}]}"#).tool_count, Some(1));
    let sessions = [
        r#"{"session_id": "s"}"#,
        r#"{"litellm_session_id": "s"}"#,
        r#"{"metadata": {"session_id": "s"}}"#,
        r#"{"metadata": {"litellm_session_id": "s"}}"#,
        r#"{"session_id": "s", "metadata": {"session_id": "t"}}"#,
    ];
    for body in sessions {
        assert_eq!(chat(body).session_id.as_deref(), Some("s"), "{body}");
    }
    let conversations = [
        r#"{"conversation": "c"}"#,
        r#"{"conversation": {"id": "c"}, "conversation_id": "d"}"#,
        r#"{"conversation_id": "c"}"#,
        r#"{"conversation": "", "metadata": {"conversation_id": "c"}}"#,
    ];
    for body in conversations {
        assert_eq!(chat(body).conversation.as_deref(), Some("c"), "{body}");
    }
}

#[test]
fn what_is_not_said_is_none() {
    assert_eq!(
        chat("{}"),
        RequestFacts {
            parse_status: ParseStatus::Ok,
            ..Default::default()
        }
    );
}

#[test]
fn a_body_that_cannot_be_read_says_so() {
    let cases = [
        ("", ParseStatus::Failed),
        ("not json", ParseStatus::Failed),
        ("{\"model\": \"m\"", ParseStatus::Failed),
        ("[{\"model\": \"m\"}]", ParseStatus::Failed),
        ("null", ParseStatus::Failed),
        ("{\"model\": 7}", ParseStatus::Partial),
        ("{\"n\": 3000000000000}", ParseStatus::Partial),
        (
            "{\"temperature\": NaN, \"model\": \"m\"}",
            ParseStatus::Partial,
        ),
        ("{\"seed\": 1e999, \"model\": \"m\"}", ParseStatus::Partial),
        ("{\"stop\": [\"a\", 7]}", ParseStatus::Partial),
        ("{\"messages\": 7, \"unknown\": [[]]}", ParseStatus::Ok),
    ];
    for (body, status) in cases {
        assert_eq!(chat(body).parse_status, status, "{body}");
    }
    assert_eq!(
        chat("{\"seed\": 1e999, \"model\": \"m\"}").model.as_deref(),
        Some("m")
    );
}

#[test]
fn an_unknown_dialect_still_names_its_conversation() {
    let body = br#"{"model": "m", "previous_response_id": "r", "input": "x"}"#;
    let facts = read_request(Dialect::Unknown, body);
    assert_eq!(facts.previous_response_id.as_deref(), Some("r"));
    assert_eq!(facts.parse_status, ParseStatus::NotApplicable);
    assert_eq!(
        read_request(Dialect::Unknown, b"\x89PNG"),
        RequestFacts::default()
    );
    assert_eq!(read_request(Dialect::Trace, body), RequestFacts::default());
}

proptest! {
    #[test]
    fn any_bytes_can_be_read(body: Vec<u8>) {
        read_request(Dialect::OpenaiChat, &body);
        read_request(Dialect::Unknown, &body);
    }
}

#[test]
fn parameters_are_found_under_their_names_in_every_dialect() {
    let expected = RequestFacts {
        parse_status: ParseStatus::Ok,
        max_tokens: Some(7),
        temperature: Some(0.5),
        stop: Some(vec!["x".into()]),
        ..RequestFacts::default()
    };
    let cases = [
        (
            Dialect::AnthropicMessages,
            r#"{"max_tokens":7,"temperature":0.5,"stop_sequences":["x"]}"#,
        ),
        (
            Dialect::OpenaiResponses,
            r#"{"max_output_tokens":7,"temperature":0.5,"stop":["x"]}"#,
        ),
        (
            Dialect::OllamaChat,
            r#"{"options":{"num_predict":7,"temperature":0.5,"stop":["x"]}}"#,
        ),
        (
            Dialect::SglangGenerate,
            r#"{"sampling_params":[{"max_new_tokens":7,"temperature":0.5,"stop":"x"},{}]}"#,
        ),
        (
            Dialect::TgiGenerate,
            r#"{"parameters":{"max_new_tokens":7,"temperature":0.5,"stop":["x"]}}"#,
        ),
        (
            Dialect::LlamacppCompletion,
            r#"{"n_predict":7,"temperature":0.5,"stop":["x"]}"#,
        ),
    ];
    for (dialect, body) in cases {
        assert_eq!(read_request(dialect, body.as_bytes()), expected, "{body}");
    }
    assert_eq!(chat(r#"{"max_tokens":-1}"#).max_tokens, None);
    assert_eq!(chat(r#"{"options":"x"}"#).parse_status, ParseStatus::Ok);
}

#[test]
fn numbers_in_a_prompt_are_its_tokens_and_not_prompts() {
    let cases = [
        (r#""a""#, Some(1), None),
        ("[1,2,3]", Some(1), Some(3)),
        ("[[1,2],[3]]", Some(2), Some(3)),
        (r#"["a","b"]"#, Some(2), None),
        (r#"[[1],"b"]"#, Some(2), None),
        (r#"["a",1]"#, Some(1), None),
        ("[]", Some(0), None),
        ("[true]", None, None),
        ("7", None, None),
    ];
    for (input, prompts, ids) in cases {
        let body = format!("{{\"input\":{input}}}");
        let facts = read_request(Dialect::OpenaiEmbeddings, body.as_bytes());
        assert_eq!(
            (facts.prompts, facts.prompt_token_ids),
            (prompts, ids),
            "{input}"
        );
    }
}
