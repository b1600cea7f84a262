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
