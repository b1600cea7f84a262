use super::*;
use crate::cli::Output;
use crate::lengths;
use serde_json::json;

fn content(id: &str, kind: ContentKind, body: &str) -> Content {
    Content {
        content_id: id.into(),
        kind,
        tokens: None,
        body: body.as_bytes().to_vec(),
    }
}

fn library() -> Library {
    Library::new(vec![
        content(
            "sys",
            ContentKind::Message,
            r#"{"role":"system","content":"be  brief"}"#,
        ),
        content(
            "usr",
            ContentKind::Message,
            r#"{"role":"user","content":"h\u00e9llo"}"#,
        ),
        content("one", ContentKind::Text, "say \"one\"\n"),
        content("two", ContentKind::Text, "and two: 世界"),
        content(
            "tpl",
            ContentKind::Template,
            r#"{"model":"m","stream":false,"temperature":0.70,"max_tokens":9,"stop":["x"],"seed":7}"#,
        ),
        content(
            "newer",
            ContentKind::Template,
            r#"{"model":"m","max_completion_tokens":9}"#,
        ),
        content(
            "exact",
            ContentKind::Template,
            r#"{"seed":123456789012345678901234567890,"temperature":0.70,"tools":[{"x":1e2,  "y":"\u00e9"}],"stream_options":{"include_usage":false,"continuous_usage_stats":1.0}}"#,
        ),
        content("tenant1", ContentKind::Template, r#"{"cache_salt":"acme"}"#),
        content("tenant2", ContentKind::Template, r#"{"cache_salt":"bcme"}"#),
        content("empty", ContentKind::Template, "{}"),
        content(
            "responses",
            ContentKind::Template,
            r#"{"instructions":"be brief","max_output_tokens":9,"text":{"format":{"type":"text"}},"previous_response_id":"resp_old","stream_options":{"x":1}}"#,
        ),
        content(
            "anthropic",
            ContentKind::Template,
            r#"{"system":"be brief","max_tokens":9,"stop_sequences":["x"],"stream":false}"#,
        ),
        content(
            "sglang",
            ContentKind::Template,
            r#"{"sampling_params":{"temperature":0.70,"max_new_tokens":9,"stop":"x"},"return_logprob":false,"text":"old"}"#,
        ),
        content("broken", ContentKind::Template, "[]"),
    ])
}

fn chat(template: Option<&str>) -> Turn {
    Turn {
        dialect: "openai_chat".into(),
        template: template.map(str::to_owned),
        content: vec!["sys".into(), "usr".into()],
        output_tokens: Some(5),
        max_tokens: Some(9),
        stop: Some(vec!["x".into()]),
        temperature: Some(0.7),
        ..Turn::default()
    }
}

fn sent(turn: &Turn, output: Output, salt: Option<&str>) -> Option<String> {
    let library = library();
    let shape = Shape {
        model: Some("m2"),
        cache_salt: salt,
    };
    let ask = lengths::ask(turn, output, true);
    let body = library.body(turn, &ask, &shape)?;
    let bytes = body.bytes(&library);
    assert!(bytes.len() <= body.len_bound(&library));
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

#[test]
fn messages_keep_their_bytes_and_the_length_is_forced() {
    let body = sent(&chat(Some("tpl")), Output::Enforce, Some("salt")).unwrap();
    assert!(body.ends_with(
        r#","messages":[{"role":"system","content":"be  brief"},{"role":"user","content":"h\u00e9llo"}]}"#
    ));
    let value: Value = serde_json::from_str(&body).unwrap();
    let mut rest = value.as_object().unwrap().clone();
    rest.remove("messages");
    let expected = json!({
        "model": "m2", "stream": true, "stream_options": {"include_usage": true},
        "max_tokens": 5, "min_tokens": 5, "ignore_eos": true, "cache_salt": "salt",
        "temperature": 0.7, "seed": 7,
    });
    assert_eq!(Value::Object(rest), expected);
}

#[test]
fn what_the_plan_does_not_decide_keeps_its_bytes() {
    let body = sent(&chat(Some("exact")), Output::Enforce, None).unwrap();
    for kept in [
        r#""seed":123456789012345678901234567890"#,
        r#""temperature":0.70"#,
        r#""tools":[{"x":1e2,  "y":"\u00e9"}]"#,
        r#""stream_options":{"include_usage":true,"continuous_usage_stats":1.0}"#,
    ] {
        assert!(body.contains(kept), "{kept} in {body}");
    }
    serde_json::from_str::<Value>(&body).unwrap();
}

#[test]
fn tenants_that_production_kept_apart_stay_apart() {
    let salt = |template, run: Option<&str>| {
        let body = sent(&chat(Some(template)), Output::Enforce, run).unwrap();
        let value: Value = serde_json::from_str(&body).unwrap();
        value["cache_salt"].as_str().map(str::to_owned)
    };
    let (one, two) = (salt("tenant1", Some("run")), salt("tenant2", Some("run")));
    assert_eq!(one, salt("tenant1", Some("run")));
    assert_ne!(one, two);
    assert_ne!(one, salt("tenant1", Some("other run")));
    // What production's client kept for itself is not told to a target.
    assert!(!one.unwrap().contains("acme"));
    assert_eq!(salt("tpl", Some("run")).as_deref(), Some("run"));
    assert_eq!(salt("tenant1", None), None);
}

#[test]
fn a_capped_request_keeps_its_stop_strings() {
    let body = sent(&chat(Some("tpl")), Output::Cap, None).unwrap();
    let value: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(value["stop"], json!(["x"]));
    assert_eq!(value["max_tokens"], 5);
    assert_eq!(value.get("min_tokens"), None);
    assert_eq!(value.get("ignore_eos"), None);
    assert_eq!(value.get("cache_salt"), None);
}

#[test]
fn as_recorded_asks_what_production_asked() {
    let body = sent(&chat(Some("tpl")), Output::AsRecorded, None).unwrap();
    let value: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(value["max_tokens"], 9);
    assert_eq!(value["stop"], json!(["x"]));
    assert_eq!(value["stream"], true);
}

#[test]
fn the_bound_keeps_the_name_production_gave_it() {
    let body = sent(&chat(Some("newer")), Output::Enforce, None).unwrap();
    let value: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(value["max_completion_tokens"], 5);
    assert_eq!(value.get("max_tokens"), None);
}

#[test]
fn a_prompt_is_its_pieces_without_a_separator() {
    let turn = Turn {
        dialect: "openai_completions".into(),
        content: vec!["one".into(), "two".into()],
        ..chat(Some("empty"))
    };
    let body = sent(&turn, Output::Enforce, None).unwrap();
    let value: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(value["prompt"], "say \"one\"\nand two: 世界");
}

#[test]
fn without_a_template_the_columns_are_asked() {
    let body = sent(&chat(None), Output::Enforce, None).unwrap();
    let value: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(value["temperature"], 0.7);
    assert_eq!(value["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn a_turn_whose_content_is_missing_or_broken_has_no_body() {
    let without = Turn {
        content: vec![],
        ..chat(None)
    };
    let missing = Turn {
        content: vec!["sys".into(), "nowhere".into()],
        ..chat(None)
    };
    for turn in [
        without,
        missing,
        chat(Some("nowhere")),
        chat(Some("broken")),
    ] {
        assert_eq!(sent(&turn, Output::Enforce, None), None, "{turn:?}");
    }
}

fn other(dialect: &str, template: &str, content: &[&str]) -> Turn {
    Turn {
        dialect: dialect.into(),
        content: content.iter().map(|id| (*id).to_owned()).collect(),
        ..chat(Some(template))
    }
}

fn value(turn: &Turn, output: Output) -> Value {
    serde_json::from_str(&sent(turn, output, Some("salt")).unwrap()).unwrap()
}

#[test]
fn responses_bound_their_output_and_have_no_stream_options() {
    let turn = other("openai_responses", "responses", &["usr"]);
    let expected = json!({
        "model": "m2", "stream": true, "max_output_tokens": 5, "min_tokens": 5,
        "ignore_eos": true, "text": {"format": {"type": "text"}}, "cache_salt": "salt",
        "instructions": "be brief", "input": [{"role": "user", "content": "h\u{e9}llo"}],
    });
    assert_eq!(value(&turn, Output::Enforce), expected);
    assert!(library().continues(&turn));
    assert!(!library().continues(&chat(Some("tpl"))));
}

#[test]
fn an_answer_is_continued_by_the_id_that_the_target_gave() {
    let turn = other("openai_responses", "responses", &["usr"]);
    let library = library();
    let ask = lengths::ask(&turn, Output::Cap, true);
    let shape = Shape {
        model: None,
        cache_salt: None,
    };
    let body = library.body(&turn, &ask, &shape).unwrap();
    let after = body.bytes_after(&library, Some("resp_\"new"));
    let value: Value = serde_json::from_slice(&after).unwrap();
    assert_eq!(value["previous_response_id"], "resp_\"new");
    let alone: Value = serde_json::from_slice(&body.bytes(&library)).unwrap();
    assert_eq!(alone.get("previous_response_id"), None);
}

#[test]
fn anthropic_messages_carry_nothing_that_their_dialect_lacks() {
    let turn = other("anthropic_messages", "anthropic", &["usr"]);
    let expected = json!({
        "model": "m2", "stream": true, "max_tokens": 5, "system": "be brief",
        "stop_sequences": ["x"], "messages": [{"role": "user", "content": "h\u{e9}llo"}],
    });
    assert_eq!(value(&turn, Output::Cap), expected);
}

#[test]
fn sglang_has_its_own_words_in_its_own_object() {
    let turn = other("sglang_generate", "sglang", &["one", "two"]);
    let expected = json!({
        "model": "m2", "stream": true, "extra_key": "salt", "return_logprob": false,
        "sampling_params": {
            "max_new_tokens": 5, "min_new_tokens": 5, "ignore_eos": true, "temperature": 0.7
        },
        "text": "say \"one\"\nand two: \u{4e16}\u{754c}",
    });
    assert_eq!(value(&turn, Output::Enforce), expected);
    let capped = value(&turn, Output::Cap);
    assert_eq!(capped["sampling_params"]["stop"], "x");
    assert_eq!(capped["sampling_params"].get("ignore_eos"), None);
}
