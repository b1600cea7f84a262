use super::*;
use serde_json::Value;
use truetape_schemas::capture::Segment;
use truetape_schemas::capture::blob::Blob;

const CANARY: &str = "canary";

fn text() -> Option<String> {
    Some(CANARY.to_owned())
}

fn headers() -> Vec<Header> {
    let free = [
        "user-agent",
        "baggage",
        "x-session-id",
        "content-type",
        "retry-after",
    ];
    let named = |name: &str| Header {
        name: name.to_owned(),
        value: CANARY.to_owned(),
    };
    free.map(named).to_vec()
}

/// A row with the canary in every column that holds a text of somebody else.
fn filled() -> Exchange {
    Exchange {
        method: CANARY.to_owned(),
        path: format!("/v1/{CANARY}/chat/completions?{CANARY}={CANARY}"),
        model: text(),
        request_headers: headers(),
        request_body: Some(CANARY.as_bytes().to_vec()),
        request_encoding: text(),
        request_blobs: Some(vec![Blob {
            mime: CANARY.to_owned(),
            ..Blob::default()
        }]),
        stop: Some(vec![CANARY.to_owned()]),
        response_format: text(),
        response_headers: headers(),
        response_body: Some(CANARY.as_bytes().to_vec()),
        response_encoding: text(),
        finish_reasons: Some(vec![CANARY.to_owned()]),
        error_code: text(),
        error_type: text(),
        session_key: text(),
        parent_session_key: text(),
        previous_response_id: text(),
        response_id: text(),
        trace_id: text(),
        replay_run: text(),
        ..Exchange::default()
    }
}

fn key() -> DigestKey {
    DigestKey::of(&[1; 32])
}

fn withheld(mut exchange: Exchange) -> Exchange {
    let kept = Kept {
        models: vec!["known".to_owned()],
        headers: vec!["x-mine".to_owned()],
    };
    withhold(&mut exchange, &key(), &kept);
    exchange
}

#[test]
fn no_column_keeps_a_word_that_somebody_chose() {
    let filled = filled();
    assert!(
        serde_json::to_string(&filled)
            .unwrap()
            .matches(CANARY)
            .count()
            >= 25
    );
    let left = format!("{:?}", withheld(filled));
    assert!(!left.contains(CANARY), "{left}");
    let bytes = format!("{:?}", CANARY.as_bytes());
    assert!(!left.contains(bytes.trim_matches(['[', ']'])), "{left}");
}

/// A new text column must be thought of here: this one fails until it is.
#[test]
fn every_text_column_is_decided() {
    // Ours, an operator's, or a number of ours.
    let ours = [
        "exchange_id",
        "proxy_id",
        "upstream",
        "dialect",
        "session_rule",
        "client_key",
        "segments",
        "degraded",
        "outcome",
        "parse_status",
        "input_tokens_source",
        "output_tokens_source",
        "cached_tokens_source",
        "reasoning_tokens_source",
    ];
    use truetape_schemas::column::Kind;
    let Value::Object(row) = serde_json::to_value(filled()).unwrap() else {
        panic!("a row is an object");
    };
    for column in truetape_schemas::capture::v1::COLUMNS {
        let texts = matches!(
            column.kind,
            Kind::Text
                | Kind::TextList
                | Kind::Headers
                | Kind::Bytes
                | Kind::Blobs
                | Kind::Segments
        );
        let given = row[column.name].to_string();
        let bytes = format!("{:?}", CANARY.as_bytes()).replace(' ', "");
        let tested = given.contains(CANARY) || given.contains(&bytes);
        assert!(
            !texts || tested || ours.contains(&column.name),
            "{}",
            column.name
        );
    }
}

#[test]
fn what_apis_define_is_told() {
    let header = |name: &str, value: &str| Header {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let row = withheld(Exchange {
        method: "POST".to_owned(),
        path: "/openai/v1/chat/completions".to_owned(),
        model: Some("known".to_owned()),
        request_encoding: Some("GZip, br".to_owned()),
        request_headers: vec![
            header("content-type", "application/json; charset=utf-8"),
            header("x-stainless-retry-count", "1"),
            header("anthropic-version", "2023-06-01"),
            header("x-mine", "one"),
        ],
        response_format: Some("json_schema".to_owned()),
        finish_reasons: Some(vec!["stop".to_owned(), String::new()]),
        error_code: Some("429".to_owned()),
        error_type: Some("rate_limit_error".to_owned()),
        segments: Some(vec![Segment::default()]),
        max_tokens: Some(7),
        ..Exchange::default()
    });
    assert_eq!(row.path, "/openai/v1/chat/completions");
    assert_eq!(row.method, "POST");
    assert_eq!(row.model.as_deref(), Some("known"));
    assert_eq!(row.request_encoding.as_deref(), Some("GZip, br"));
    let headers: Vec<_> = row
        .request_headers
        .iter()
        .map(|h| h.value.clone())
        .collect();
    let expected = ["application/json", "1", "2023-06-01", &key().name("one")];
    assert_eq!(headers, expected);
    assert_eq!(row.response_format.as_deref(), Some("json_schema"));
    assert_eq!(row.finish_reasons.unwrap(), ["stop", ""]);
    assert_eq!(row.error_code.as_deref(), Some("429"));
    assert_eq!(row.error_type.as_deref(), Some("rate_limit_error"));
    assert_eq!(
        (row.segments.map(|s| s.len()), row.max_tokens),
        (Some(1), Some(7))
    );
}

#[test]
fn names_that_are_equal_stay_equal() {
    let with = |response_id: &str, previous: &str| {
        withheld(Exchange {
            response_id: Some(response_id.to_owned()),
            previous_response_id: Some(previous.to_owned()),
            ..Exchange::default()
        })
    };
    let (first, second) = (with("r1", "r0"), with("r2", "r1"));
    assert_eq!(first.response_id, second.previous_response_id);
    assert_ne!(first.response_id, second.response_id);
}
