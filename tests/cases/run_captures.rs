//! Runs `captures.jsonl`: what was already captured, and what the compiler makes of it.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use crate::compiled::{self, RECIPE_ALL, Set};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use truetape_fidelity::blocks::{BlockKey, of_rendered};
use truetape_schemas::capture::footer::Footer;
use truetape_schemas::capture::{Exchange, Header, LengthSource, Outcome, ParseStatus};
use truetape_schemas::set::{Turn, TurnKind};
use truetape_schemas::wire::{self, Dialect, session};
use truetape_testkit::capture;
use truetape_testkit::tempdir::TempDir;

/// The wall clock of a capture that has only offsets.
const START_US: i64 = 1_767_225_600_000_000;

/// Runs the case.
pub(crate) fn run(case: &Case) -> Result<Vec<Seen>, Stop> {
    let lines = case.lines("captures.jsonl")?;
    let ids: Vec<Value> = lines.iter().map(|line| line["id"].clone()).collect();
    let rows: Vec<Exchange> = lines
        .iter()
        .zip(0..)
        .map(|(line, at)| exchange(line, at))
        .collect();
    let dir = TempDir::new(&case.id);
    let captured = dir.join("capture");
    capture::write(&captured, &rows, &Footer::default());
    let store = dir.join("store");
    let set = match compiled::compile(&[captured], &store, RECIPE_ALL) {
        Ok(set) => set,
        Err(nothing) if nothing.stderr.contains("no inference traffic") => Set::empty(store),
        Err(ended) => {
            let why = format!("compile ended with {:?}: {}", ended.code, ended.stderr);
            return Err(Stop(why));
        }
    };
    let mut seen = Seen::new("", "compiler");
    put_turns(&mut seen, &set, &ids);
    if case.has("rendered.jsonl") {
        put_rendered(&mut seen, case)?;
    }
    Ok(vec![seen])
}

/// The row that a recorder would have written.
fn exchange(line: &Value, at: i32) -> Exchange {
    let number = |key: &str| line.get(key).and_then(Value::as_i64);
    let text = |key: &str| line.get(key).and_then(Value::as_str);
    let (start_ms, end_ms) = (number("start_ms").unwrap_or(0), number("end_ms"));
    let path = text("path").unwrap_or("/v1/chat/completions");
    let dialect = Dialect::of("POST", path);
    let body = line["body"].to_string().into_bytes();
    let facts = wire::read_request(dialect, &body);
    let headers: Vec<Header> = header_fields(line);
    let told = session::session_of(&headers, &facts);
    let status = match line.get("status") {
        Some(status) => status.as_i64().and_then(|s| i32::try_from(s).ok()),
        None => Some(200),
    };
    let outcome = match text("outcome") {
        Some("client_aborted") => Outcome::ClientAborted,
        Some("truncated") => Outcome::Truncated,
        Some("timeout") => Outcome::Timeout,
        Some("error") => Outcome::Error,
        _ if status.is_some_and(|status| status >= 400) => Outcome::Error,
        _ => Outcome::Complete,
    };
    let usage = |key: &str| {
        line.pointer(&format!("/usage/{key}"))
            .and_then(Value::as_i64)
    };
    let output_tokens = number("output_tokens").or_else(|| usage("output_tokens"));
    let source = |known: Option<i64>| known.map_or(LengthSource::Absent, |_| LengthSource::Usage);
    let input_tokens = number("input_tokens").or_else(|| usage("input_tokens"));
    let answer =
        text("response_text").map(|text| answer(dialect, text, input_tokens, output_tokens));
    let client = text("client").unwrap_or_default();
    Exchange {
        exchange_id: format!("00000000-0000-7000-8000-{at:012}"),
        proxy_id: "case".to_owned(),
        conn_id: client.bytes().map(i64::from).sum(),
        conn_seq: at,
        client_key: Some(client.to_owned()),
        upstream: "model.test:80".to_owned(),
        arrival: START_US + start_ms * 1000,
        arrival_mono_us: start_ms * 1000,
        request_end_us: Some(0),
        end_us: end_ms.map(|end_ms| (end_ms - start_ms) * 1000),
        method: "POST".to_owned(),
        path: path.to_owned(),
        dialect: dialect.name().to_owned(),
        model: facts.model.clone(),
        stream: facts.stream,
        request_headers: headers,
        request_bytes: i64::try_from(body.len()).ok(),
        request_body: Some(body),
        max_tokens: facts.max_tokens,
        status,
        response_headers: vec![Header {
            name: "content-type".to_owned(),
            value: "application/json".to_owned(),
        }],
        response_bytes: answer
            .as_ref()
            .and_then(|answer| i64::try_from(answer.len()).ok()),
        finish_reasons: answer.as_ref().map(|_| vec!["stop".to_owned()]),
        response_body: answer,
        input_tokens,
        input_tokens_source: source(input_tokens),
        output_tokens,
        output_tokens_source: source(output_tokens),
        session_key: told.session_key,
        session_rule: told.session_rule,
        parent_session_key: told.parent_session_key,
        previous_response_id: told.previous_response_id,
        response_id: text("response_id").map(str::to_owned),
        trace_id: told.trace_id,
        outcome,
        parse_status: ParseStatus::Ok,
        ..Exchange::default()
    }
}

fn header_fields(line: &Value) -> Vec<Header> {
    let fields = line
        .get("headers")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let field = |(name, value): (&String, &Value)| Header {
        name: name.clone(),
        value: value.as_str().unwrap_or_default().to_owned(),
    };
    fields.map(field).collect()
}

/// The answer of this text in the language that the request speaks.
fn answer(
    dialect: Dialect,
    text: &str,
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
) -> Vec<u8> {
    if dialect == Dialect::AnthropicMessages {
        let answer = json!({
            "id": "syn",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": input_tokens, "output_tokens": output_tokens},
        });
        return answer.to_string().into_bytes();
    }
    let message = json!({"role": "assistant", "content": text});
    let mut answer = json!({
        "id": "syn",
        "object": "chat.completion",
        "model": "syn-model",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    });
    if input_tokens.is_some() || output_tokens.is_some() {
        answer["usage"] =
            json!({"prompt_tokens": input_tokens, "completion_tokens": output_tokens});
    }
    answer.to_string().into_bytes()
}

fn put_turns(seen: &mut Seen, set: &Set, ids: &[Value]) {
    let id_of = |turn: &Turn| {
        let number = turn
            .exchange_id
            .rsplit('-')
            .next()
            .and_then(|n| n.parse::<usize>().ok());
        number
            .and_then(|number| ids.get(number))
            .cloned()
            .unwrap_or_default()
    };
    let name = |turn: &Turn| match id_of(turn) {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let by_turn_id: BTreeMap<i64, &Turn> = set.turns.iter().map(|t| (t.turn_id, t)).collect();
    let linked =
        |turn_id: Option<i64>| turn_id.and_then(|id| by_turn_id.get(&id)).map(|t| id_of(t));
    let mut ordered: Vec<&Turn> = set.turns.iter().collect();
    ordered.sort_by_key(|turn| (turn.start_us, turn.turn_id));
    let mut sessions: Vec<(&str, Vec<Value>)> = Vec::new();
    for turn in &ordered {
        match sessions
            .iter_mut()
            .find(|(session, _)| *session == turn.session)
        {
            Some((_, members)) => members.push(id_of(turn)),
            None => sessions.push((&turn.session, vec![id_of(turn)])),
        }
    }
    let first = sessions.first().map(|(session, _)| *session);
    let plain = |turn: &&&Turn| turn.kind == TurnKind::Turn;
    let in_first = |turn: &&&Turn| Some(turn.session.as_str()) == first;
    let retries = ordered
        .iter()
        .filter_map(|t| Some((name(t), linked(Some(t.retry_of?))?)));
    let retries: Map<String, Value> = retries.collect();
    let parents: Map<String, Value> = ordered
        .iter()
        .map(|turn| (name(turn), parent(turn, &linked)))
        .collect();
    let depth: Map<String, Value> = ordered.iter().map(|t| (name(t), json!(t.turn))).collect();
    let lengths = ordered
        .iter()
        .filter_map(|turn| turn.output_tokens)
        .collect::<Vec<_>>();
    seen.put("arrivals", ordered.len());
    seen.put(
        "turns_in_first",
        ordered.iter().filter(in_first).filter(plain).count(),
    );
    seen.put(
        "order",
        ordered.iter().map(|turn| id_of(turn)).collect::<Vec<_>>(),
    );
    seen.put("session_count", sessions.len());
    seen.put(
        "sessions",
        sessions
            .into_iter()
            .map(|(_, ids)| json!(ids))
            .collect::<Vec<_>>(),
    );
    seen.put("parents", parents);
    seen.put("depth", depth);
    seen.put("retry_of", retries);
    seen.put("observed_output_lengths", lengths);
    seen.put(
        "output_lengths",
        json!(ordered.iter().map(|t| t.output_tokens).collect::<Vec<_>>()),
    );
    seen.put(
        "input_lengths",
        json!(ordered.iter().map(|t| t.input_tokens).collect::<Vec<_>>()),
    );
    overlap_faults(seen, &ordered);
}

/// Turns that overlapped in production must be allowed to overlap in replay.
fn overlap_faults(seen: &mut Seen, ordered: &[&Turn]) {
    for turn in ordered {
        for other in ordered
            .iter()
            .filter(|other| turn.depends_on.contains(&other.turn_id))
        {
            let ended = other.recorded_end_us.map(|end_us| other.start_us + end_us);
            if ended.is_some_and(|ended| ended > turn.start_us) {
                let (a, b) = (turn.turn_id, other.turn_id);
                seen.faults
                    .push(format!("turn {a} waits for {b}, which it overlapped"));
            }
        }
    }
}

/// A parent that was not captured is `external`.
fn parent(turn: &Turn, linked: &dyn Fn(Option<i64>) -> Option<Value>) -> Value {
    let outside = turn
        .link_evidence
        .as_deref()
        .is_some_and(|text| text.contains("external"));
    linked(turn.parent).unwrap_or(if outside {
        json!("external")
    } else {
        Value::Null
    })
}

/// Prompts that are given as they are rendered: one byte is one token.
fn put_rendered(seen: &mut Seen, case: &Case) -> Result<(), String> {
    let prompts: Vec<String> = case
        .lines("rendered.jsonl")?
        .iter()
        .map(|line| line["prompt"].as_str().unwrap_or_default().to_owned())
        .collect();
    let [first, second, ..] = prompts.as_slice() else {
        return Ok(());
    };
    let block = case
        .expect
        .get("block_size")
        .and_then(Value::as_u64)
        .unwrap_or(16);
    let block = u32::try_from(block).unwrap_or(16);
    let same = first
        .bytes()
        .zip(second.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let key = BlockKey::new(case.id.as_bytes());
    let blocks = |prompt: &String| of_rendered(&key, prompt.as_bytes(), 1.0, block);
    let shared = blocks(first)
        .iter()
        .zip(blocks(second))
        .take_while(|(a, b)| **a == *b)
        .count();
    seen.put("block_size", block);
    seen.put("shared_prefix_tokens", same);
    seen.put("shared_full_blocks", shared);
    Ok(())
}
