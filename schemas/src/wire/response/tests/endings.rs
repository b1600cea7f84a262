//! How answers end, well and badly, and what a body is.

use super::{EVENTS, events, read};
use crate::capture::{Outcome, ParseStatus};
use crate::wire::{BodyEnd, Dialect, ResponseFacts, ResponseReader};
use serde_json::{Value, json};

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
    let nothing = "data: {\"choices\":[]}\n\n";
    let cases: [(&[&str], BodyEnd, Outcome); 10] = [
        (&[nothing], BodyEnd::Clean, Outcome::Truncated),
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
    let half = whole.strip_suffix("]}").unwrap();
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
fn the_marker_is_the_whole_data_of_an_event() {
    let cases = [
        ("data: [DONE]\n\n", true),
        ("data:[DONE]\r\n\r\n", true),
        ("data:  [DONE] \n\n", true),
        ("event: end\ndata: [DONE]\n\n", true),
        (": [DONE]\n\n", false),
        (": data: [DONE]\n\n", false),
        ("[DONE]\n\n", false),
        ("data: [DONE]]\n\n", false),
        ("data: \"[DONE]\"\n\n", false),
        ("data: [DONE]\ndata: [DONE]\n\n", false),
        (
            "data: {\"choices\":[{\"delta\":{\"content\":\"[DONE]\"}}]}\n\n",
            false,
        ),
    ];
    for (body, is_done) in cases {
        let mut reader = ResponseReader::new(Dialect::OpenaiChat, 200, EVENTS, None);
        reader.push(1, body.as_bytes());
        assert_eq!(reader.done_seen(), is_done, "{body:?}");
    }
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
                    let (a, b) = body.as_bytes().split_at(cut);
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
