//! Problems that other people met with streams, as tests for us: the acceptance cases, read in
//! virtual time, where they are at hand.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a case that cannot be read fails its test, and one that is not there says so"
)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use truetape_schemas::capture::{LengthSource, Outcome, ParseStatus};
use truetape_schemas::wire::{BodyEnd, Dialect, ResponseFacts, ResponseReader};

/// The folder of the cases, where there is one.
fn cases() -> Option<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    if cases.is_dir() {
        return Some(cases);
    }
    println!(
        "skipped: there are no acceptance cases at {}",
        cases.display()
    );
    None
}

/// What a replay of `chunks<suffix>.jsonl` saw.
struct Answer {
    facts: ResponseFacts,
    first_byte_ms: Option<i64>,
}

fn answer(case: &Path, suffix: &str) -> Answer {
    let json = |name: String| -> Value {
        let path = case.join(&name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        serde_json::from_str(&text).unwrap()
    };
    let own = format!("upstream{suffix}.json");
    let own_exists = case.join(&own).is_file();
    let upstream = json(if own_exists {
        own
    } else {
        "upstream.json".to_owned()
    });
    let content_type = upstream["headers"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|header| {
            (header[0] == "content-type").then(|| header[1].as_str().unwrap().to_owned())
        });
    let status = upstream["status"].as_u64().unwrap() as u16;
    let mut reader =
        ResponseReader::new(Dialect::OpenaiChat, status, content_type.as_deref(), None);
    let mut first_byte_ms = None;
    let mut end = BodyEnd::Clean;
    let chunks = std::fs::read_to_string(case.join(format!("chunks{suffix}.jsonl"))).unwrap();
    for chunk in chunks.lines() {
        let chunk: Value = serde_json::from_str(chunk).unwrap();
        let at_ms = chunk["t_ms"].as_i64().unwrap();
        match chunk["action"].as_str() {
            Some("rst") => end = BodyEnd::Cut,
            // Whoever waits gives up at some time; the answer must be over by then.
            Some("hold_open") => {
                assert!(reader.done_seen());
                end = BodyEnd::Timeout;
            }
            Some("fin_clean") => {}
            Some(other) => panic!("{other}: an action that this test does not know"),
            None => {
                let bytes = bytes_of(&chunk);
                first_byte_ms.get_or_insert(at_ms);
                reader.push(at_ms * 1_000, &bytes);
            }
        }
    }
    Answer {
        facts: reader.finish(end),
        first_byte_ms,
    }
}

fn bytes_of(chunk: &Value) -> Vec<u8> {
    if let Some(text) = chunk["utf8"].as_str() {
        return text.as_bytes().to_vec();
    }
    if let Some(hex) = chunk["hex"].as_str() {
        let digits = hex
            .as_bytes()
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).unwrap());
        return digits
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect();
    }
    assert_eq!(chunk["gen"], "sse_chat_content");
    let content = chunk["char"]
        .as_str()
        .unwrap()
        .repeat(chunk["len"].as_u64().unwrap() as usize);
    let event = serde_json::json!({"choices": [{"index": 0, "delta": {"content": content}}]});
    format!("data: {event}\n\n").into_bytes()
}

fn expected(case: &Path) -> Value {
    let text = std::fs::read_to_string(case.join("expected.json")).unwrap();
    let mut expected: Value = serde_json::from_str(&text).unwrap();
    expected["expect"].take()
}

fn ms(us: Option<i64>) -> Option<f64> {
    us.map(|us| us as f64 / 1_000.0)
}

fn gaps_ms(facts: &ResponseFacts, choice: i32) -> Vec<f64> {
    let events = facts
        .token_event_offsets_us
        .iter()
        .zip(&facts.token_event_choices);
    let times: Vec<i64> = events
        .filter(|(_, of)| **of == choice)
        .map(|(at, _)| *at)
        .collect();
    times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64 / 1_000.0)
        .collect()
}

/// D4, in milliseconds with two digits, as the cases give it.
fn tpot_ms(facts: &ResponseFacts) -> Option<f64> {
    let span = facts.last_token_us? - facts.first_token_us?;
    let output = facts.output_tokens.filter(|output| *output >= 2)?;
    let tpot = span as f64 / 1_000.0 / (output - 1) as f64;
    Some((tpot * 100.0).round() / 100.0)
}

/// What a case names, in its words; `None` for names that are not about reading an answer.
fn actual(answer: &Answer, name: &str) -> Option<Value> {
    let facts = &answer.facts;
    let text = || facts.texts.first().cloned().unwrap_or_default();
    let finish = || facts.finish_reasons.first().cloned().flatten();
    let times = || {
        facts
            .token_event_offsets_us
            .iter()
            .map(|us| *us as f64 / 1_000.0)
    };
    let choices = 0..facts.texts.len() as i32;
    Some(match name {
        "outcome" => facts.outcome.name().into(),
        "data_events" => facts.data_events.into(),
        "content" => text().into(),
        "choices" => facts.texts.clone().into(),
        "replacement_chars" => text().matches('\u{fffd}').count().into(),
        "output_tokens" | "output_tokens_partial" => facts.output_tokens.into(),
        "output_tokens_source" => serde_json::to_value(facts.output_tokens_source).unwrap(),
        "prompt_tokens" => facts.input_tokens.into(),
        "reasoning_tokens" => facts.reasoning_tokens.into(),
        "finish_reason" => finish().into(),
        "finish_reasons" => facts.finish_reasons.clone().into(),
        "ttft_ms" => ms(facts.first_token_us).into(),
        "ttfo_ms" => ms(facts.first_output_us).into(),
        "e2el_ms" => ms(facts.last_token_us).into(),
        "tpot_ms" => tpot_ms(facts).into(),
        "event_times_ms_token" => times().collect::<Vec<_>>().into(),
        "token_events" => times().count().into(),
        "itl_gaps_ms" => gaps_ms(facts, 0).into(),
        "itl_gaps_by_choice_ms" => choices
            .map(|of| gaps_ms(facts, of))
            .collect::<Vec<_>>()
            .into(),
        "first_body_byte_ms" => answer.first_byte_ms.into(),
        "error_code" => facts.error_code.clone().into(),
        "content_chars" | "content_length" => text().chars().count().into(),
        "counts_as_observed_length" | "in_success_stats" => {
            (facts.outcome == Outcome::Complete).into()
        }
        "tokens_per_event" => {
            (facts.output_tokens? as f64 / facts.token_event_offsets_us.len() as f64).into()
        }
        _ => return None,
    })
}

/// Names in the cases that are for a proxy on the path, not for a reader.
const ELSEWHERE: &[&str] = &[
    "client_body_identical",
    "request_body_identical",
    "http_status",
    "proxy_rss_growth_max_mb",
];

fn same(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        // A code is kept as text, also where the server sends a number.
        (Value::String(a), Value::Number(b)) => *a == b.to_string(),
        (a, b) => a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b),
    }
}

/// Compares all that a case expects of one answer, and returns how much that was.
fn check(name: &str, answer: &Answer, expected: &Value) -> usize {
    assert_eq!(answer.facts.parse_status, ParseStatus::Ok, "{name}");
    let mut compared = 0;
    for (key, value) in expected.as_object().unwrap() {
        match actual(answer, key) {
            Some(actual) => {
                assert!(same(&actual, value), "{name}: {key}: {actual}, not {value}");
                compared += 1;
            }
            None => assert!(
                ELSEWHERE.contains(&key.as_str()),
                "{name}: {key}: not compared"
            ),
        }
    }
    compared
}

#[test]
fn answers_with_one_expectation_are_read_as_expected() {
    let Some(cases) = cases() else { return };
    let plain = [
        "o01_sse_line_endings",
        "o02_sse_comments",
        "o03_utf8_split",
        "o04_many_events_per_write",
        "o05_empty_choices",
        "o11_tool_calls_only",
        "o12_n2_interleaved",
        "o13_multi_token_events",
        "o18_three_mb_line",
        "o26_no_usage_transparent",
    ];
    for name in plain {
        let case = cases.join(name);
        assert!(
            check(name, &answer(&case, ""), &expected(&case)) >= 3,
            "{name}"
        );
    }
}

#[test]
fn answers_in_several_variants_are_read_as_expected() {
    let Some(cases) = cases() else { return };
    // The suffix of the chunks, and the key of what is expected of them.
    let variants: [(&str, &[(&str, &str)]); 5] = [
        ("o06_continuous_usage", &[("", "A"), ("_cut", "cut")]),
        ("o07_error_inside_200", &[("", "A"), ("_late", "late")]),
        (
            "o08_termination_matrix",
            &[
                ("_a_finish_done", "a_finish_done"),
                ("_b_finish_eof", "b_finish_eof"),
                ("_c_done_only", "c_done_only"),
                ("_d_eof_only", "d_eof_only"),
                ("_e_done_then_open", "e_done_then_open"),
            ],
        ),
        (
            "o09_role_only_first",
            &[
                ("", "all_variants"),
                ("_null", "all_variants"),
                ("_norole_content", "all_variants"),
            ],
        ),
        (
            "o10_reasoning",
            &[("", "all_variants"), ("_reasoning_key", "all_variants")],
        ),
    ];
    for (name, answers) in variants {
        let case = cases.join(name);
        let expected = expected(&case);
        for (suffix, key) in answers {
            assert!(
                check(name, &answer(&case, suffix), &expected[key]) >= 2,
                "{name} {key}"
            );
        }
    }
}

#[test]
fn answers_of_three_one_and_no_tokens_have_the_gaps_they_have() {
    let Some(cases) = cases() else { return };
    let case = cases.join("o28_itl_tpot_edges");
    let expected = expected(&case);
    let mut gaps = Vec::new();
    let mut output = 0;
    for variant in ["a", "b", "c"] {
        let Answer { facts, .. } = answer(&case, &format!("_{variant}"));
        assert_eq!(facts.outcome, Outcome::Complete, "{variant}");
        assert_eq!(facts.output_tokens_source, LengthSource::Usage, "{variant}");
        let ttft = Value::from(ms(facts.first_token_us));
        assert!(
            same(&ttft, &expected["ttft_ms"][variant]),
            "{variant}: ttft {ttft}"
        );
        let tpot = Value::from(tpot_ms(&facts));
        assert!(
            same(&tpot, &expected["tpot_ms"][variant]),
            "{variant}: tpot {tpot}"
        );
        gaps.extend(gaps_ms(&facts, 0));
        output += facts.output_tokens.unwrap();
    }
    assert!(same(&gaps.into(), &expected["itl_gaps_ms_pooled"]));
    assert!(same(&output.into(), &expected["total_output_tokens"]));
}
