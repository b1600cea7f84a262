//! What is read from an exchange does not change by accident.
//!
//! `BLESS=1` writes the new facts beside the
//! old ones as `*.modified`.

use crate::support::{Exchange, exchanges};
use serde_json::{Value, json};
use truetape_schemas::capture::{Outcome, ParseStatus};
use truetape_schemas::wire::{
    BodyEnd, Dialect, ResponseReader, canonical, limits, read_messages, read_request, session, sse,
};

fn facts(exchange: &Exchange) -> Value {
    let request = read_request(exchange.dialect(), &exchange.request_body);
    let session = session::session_of(&exchange.request_headers, &request);
    let messages = read_messages(exchange.dialect(), &exchange.request_body);
    let messages = messages.map(|messages| {
        let message = |message: &truetape_schemas::wire::Message| {
            let text = |bytes| String::from_utf8(bytes).unwrap();
            let identity = text(message.canonical.clone());
            json!({
                "role": message.role,
                "canonical": identity.lines().collect::<Vec<_>>(),
                "raw": text(message.raw.clone()),
            })
        };
        messages.iter().map(message).collect::<Vec<_>>()
    });
    let (done_seen, response) = exchange.answer(usize::MAX);
    let facts = json!({
        "request": request,
        "session": session,
        "messages": messages,
        "response": response,
        "done_seen": done_seen,
        "assistant_message": response.assistant_message(),
    });
    without_nulls(facts)
}

/// Removes the fields that are null; items of lists stay.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => object
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

#[test]
fn every_exchange_gives_the_facts_that_it_gave() {
    let mut changed = Vec::new();
    for (path, exchange) in exchanges() {
        let folder = path
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap();
        assert_eq!(exchange.dialect().name(), folder, "{}", path.display());
        let facts = serde_json::to_string_pretty(&facts(&exchange)).unwrap() + "\n";
        let expected = path.with_extension("expected.json");
        if std::fs::read_to_string(&expected).ok().as_ref() != Some(&facts) {
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(expected.with_extension("json.modified"), &facts).unwrap();
            }
            changed.push(format!("{}:\n{facts}", expected.display()));
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[test]
fn expected_facts_belong_to_an_exchange() {
    for (path, _) in exchanges() {
        let folder = path.parent().unwrap();
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let stem = name
                .strip_suffix(".expected.json")
                .or(name.strip_suffix(".http"));
            let is_known = stem.is_some_and(|stem| folder.join(format!("{stem}.http")).is_file());
            assert!(is_known, "{name}: not an exchange, nor the facts of one");
        }
    }
}

#[test]
fn how_a_read_was_cut_does_not_matter() {
    for (path, exchange) in exchanges() {
        let whole = exchange.answer(usize::MAX);
        for piece_bytes_max in [1, 2, 3, 7, 64] {
            let pieces = exchange.answer(piece_bytes_max);
            assert_eq!(
                pieces,
                whole,
                "{} in pieces of {piece_bytes_max}",
                path.display()
            );
        }
    }
}

#[test]
fn every_dialect_has_exchanges_and_one_that_went_wrong() {
    let all = exchanges();
    let known = Dialect::ALL
        .into_iter()
        .filter(|dialect| !matches!(dialect, Dialect::Trace | Dialect::Unknown));
    for dialect in known {
        let outcomes: Vec<Outcome> = all
            .iter()
            .filter(|(_, exchange)| exchange.dialect() == dialect)
            .map(|(_, exchange)| exchange.answer(usize::MAX).1.outcome)
            .collect();
        let complete = outcomes.contains(&Outcome::Complete);
        let wrong = outcomes.iter().any(|outcome| *outcome != Outcome::Complete);
        assert!(outcomes.len() >= 2 && complete && wrong, "{dialect:?}");
    }
}

#[test]
fn a_rebuilt_message_has_the_identity_of_itself_sent_back() {
    let mut rebuilt = 0;
    for (_, exchange) in exchanges() {
        let Some(message) = exchange.answer(usize::MAX).1.assistant_message() else {
            continue;
        };
        let body = json!({"messages": [message]}).to_string();
        let sent = read_messages(Dialect::OpenaiChat, body.as_bytes()).unwrap();
        assert_eq!(sent[0].canonical, canonical::identity(&message));
        assert_eq!(sent[0].role, "assistant");
        rebuilt += 1;
    }
    assert!(rebuilt > 20);
}

#[test]
fn a_line_of_a_million_bytes_is_an_event_like_any_other() {
    let content = "0123456789".repeat(100_000);
    let event = json!({"choices": [{"index": 0, "delta": {"content": content}}]});
    let usage = json!({"choices": [], "usage": {"completion_tokens": 250_001}});
    let short = r#"{"choices":[{"index":0,"delta":{"content":"!"},"finish_reason":"stop"}]}"#;
    let body = format!("data: {event}\n\ndata: {short}\n\ndata: {usage}\n\ndata: [DONE]\n\n");
    for piece_bytes in [1_000, 16 * 1024, usize::MAX] {
        let mut reader =
            ResponseReader::new(Dialect::OpenaiChat, 200, Some("text/event-stream"), None);
        let pieces = body.as_bytes().chunks(piece_bytes);
        pieces
            .enumerate()
            .for_each(|(index, piece)| reader.push(index as i64, piece));
        let facts = reader.finish(BodyEnd::Clean);
        assert_eq!(
            (facts.outcome, facts.parse_status),
            (Outcome::Complete, ParseStatus::Ok)
        );
        assert_eq!(facts.texts[0].len(), 1_000_001);
        assert_eq!((facts.output_tokens, facts.data_events), (Some(250_001), 4));
        let last_read = body.len().div_ceil(piece_bytes) as i64 - 1;
        assert!(facts.first_token_us >= Some(last_read - 1), "{facts:?}");
    }
}

#[test]
fn the_page_says_what_is_read_of_every_dialect() {
    let page = include_str!("../../spec/wire.md");
    let (_, table) = page.split_once("### What is read from where").unwrap();
    let (table, _) = table.split_once("### What a request says").unwrap();
    for dialect in Dialect::ALL {
        let name = format!("`{}`", dialect.name());
        assert!(page.contains(&name), "{name}");
        let is_read = table
            .lines()
            .any(|line| line.starts_with("| ") && line.contains(&name));
        assert_eq!(
            is_read,
            !matches!(dialect, Dialect::Trace | Dialect::Unknown),
            "{name}"
        );
    }
}

#[test]
fn the_page_has_the_rules_and_the_bounds() {
    let page = include_str!("../../spec/wire.md");
    let mut rest = page;
    for rule in session::Rule::ALL {
        let start = rest.find(&format!("\n| `{}` | ", rule.name()));
        let (_, found) = rest.split_at(start.unwrap_or_else(|| panic!("{rule:?}: not in order")));
        rest = found;
        let row = rest.trim_start().lines().next().unwrap();
        let confidence = format!("{:?}", rule.confidence()).to_lowercase();
        assert!(row.ends_with(&format!("| {confidence} |")), "{row}");
    }
    let bounds = [
        ("16 MiB a line", sse::LINE_BYTES_MAX == 16 << 20),
        ("32 MiB a JSON answer", limits::JSON_BYTES_MAX == 32 << 20),
        (
            "32 MiB of text an answer",
            limits::TEXT_BYTES_MAX == 32 << 20,
        ),
        ("2^20 token events", limits::TOKEN_EVENTS_MAX == 1 << 20),
        ("128 choices", limits::CHOICES_MAX == 128),
        ("256 calls a choice", limits::TOOL_CALLS_MAX == 256),
        ("1,024 items", limits::LIST_ITEMS_MAX == 1_024),
        ("65,536 messages", limits::MESSAGES_MAX == 65_536),
        ("more than 256 bytes", session::KEY_BYTES_MAX == 256),
    ];
    for (words, is_true) in bounds {
        assert!(is_true && page.contains(words), "{words}");
    }
}
