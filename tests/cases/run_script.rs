//! Runs `script.json`: exchanges as raw text, on one connection or on one each, and tunnels.

use crate::case::Case;
use crate::check::Seen;
use crate::proxied::{Recorder, WITHIN, compiled_values, header_map};
use crate::stream::unhex;
use serde_json::{Value, json};
use std::time::Duration;
use truetape_testkit::client::{Answer, Client, End};
use truetape_testkit::http1::Head;
use truetape_testkit::upstream::{Action, Script, Upstream};

/// Runs the script.
pub(crate) fn run(case: &Case) -> Result<Vec<Seen>, String> {
    let script = case.json("script.json")?;
    if let Some(steps) = script.get("steps").and_then(Value::as_array) {
        return steps_on_one_connection(case, steps).map(|seen| vec![seen]);
    }
    let exchanges = script
        .as_object()
        .ok_or("script.json: neither steps nor exchanges")?;
    let named = exchanges
        .iter()
        .filter(|(_, exchange)| exchange.is_object());
    named
        .map(|(name, exchange)| tunnel(case, name, exchange, &script))
        .collect()
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    let text = value.get(key).and_then(Value::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| format!("script.json: no {key}"))
}

fn steps_on_one_connection(case: &Case, steps: &[Value]) -> Result<Seen, String> {
    let answers: Vec<String> = steps
        .iter()
        .map(|step| text(step, "upstream"))
        .collect::<Result<_, _>>()?;
    let requests: Vec<String> = steps
        .iter()
        .map(|step| text(step, "request"))
        .collect::<Result<_, _>>()?;
    let scripted = answers.clone();
    let requested = requests.clone();
    let upstream = Upstream::start(move |record| {
        let path = |request: &str| request.lines().next().unwrap_or_default().to_owned();
        let step = requested
            .iter()
            .enumerate()
            .filter(|(_, request)| path(request) == record.head.start)
            .find(|(_, request)| same_fields(request, &record.head))
            .and_then(|(index, _)| scripted.get(index));
        let answer = step.map_or(
            "HTTP/1.1 500 Not In Script\r\ncontent-length: 0\r\n\r\n",
            |s| s,
        );
        Script::raw(answer.as_bytes(), Action::End)
    });
    let recorder = Recorder::start(&case.id, &upstream);
    let mut client = Client::connect(recorder.addr);
    let mut seen = Seen::new("", "proxy");
    let mut got: Vec<Answer> = Vec::new();
    let mut slowest: f64 = 0.0;
    for (index, request) in requests.iter().enumerate() {
        client.write(request.as_bytes());
        let method = request.split(' ').next().unwrap_or_default();
        let answer = client.read_answer(method, None);
        let record = upstream.await_finished(index, WITHIN);
        if let Some(written) = record.done_at.first() {
            let after = answer.ended_at.saturating_duration_since(*written);
            slowest = slowest.max(after.as_secs_f64() * 1000.0);
        }
        if answer.end != End::Clean {
            seen.faults
                .push(format!("step {}: ended {:?}", index + 1, answer.end));
        }
        got.push(answer);
    }
    let recorded = recorder.stop();
    let statuses: Vec<u16> = got.iter().map(Answer::status).collect();
    seen.faults.extend(recorded.faults.iter().cloned());
    seen.put("status", statuses);
    seen.put("added_latency_ms", slowest);
    seen.put("client_connections", 1);
    let lengths = got.iter().filter_map(|answer| answer.head.as_ref());
    let head_length = lengths
        .map(|head| head.value("content-length"))
        .next()
        .flatten();
    seen.put("head_content_length", json!(head_length));
    let footers = truetape_testkit::capture::footers(&recorded.capture());
    let skipped: u64 = footers
        .iter()
        .filter_map(|footer| footer.ledger.as_ref())
        .map(|ledger| {
            ledger
                .excluded
                .values()
                .chain(ledger.dropped.values())
                .sum::<u64>()
        })
        .sum();
    seen.put("rows", recorded.rows.len());
    seen.put("rows_or_skipped", recorded.rows.len() as u64 + skipped);
    compiled_values(&mut seen, &recorded);
    Ok(seen)
}

/// Whether the upstream got every field that the script's client sent, but for framing and host.
fn same_fields(request: &str, got: &Head) -> bool {
    let Some((sent, _)) = Head::split(request.as_bytes()) else {
        return false;
    };
    let mut fields = sent
        .headers
        .iter()
        .filter(|(name, _)| !name.eq_ignore_ascii_case("host"));
    fields.all(|(name, value)| got.value(name) == Some(value.as_str()))
}

fn tunnel(case: &Case, name: &str, exchange: &Value, script: &Value) -> Result<Seen, String> {
    let client_text = text(exchange, "client")?;
    let client_text = match client_text.strip_prefix("same as ") {
        Some(other) => text(
            script.get(other).ok_or("script.json: same as what?")?,
            "client",
        )?,
        None => client_text,
    };
    let answer_text = text(exchange, "upstream")?;
    let hex = |key: &str| {
        let hex = exchange
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default();
        unhex(hex).ok_or_else(|| format!("script.json: {key} is not hex"))
    };
    let down = hex("then_hex_upstream_to_client")?;
    let up = hex("then_hex_client_to_upstream")?;
    let upgraded = answer_text.starts_with("HTTP/1.1 101");
    let mut answer_bytes = answer_text.clone().into_bytes();
    answer_bytes.extend_from_slice(&down);
    let upstream = Upstream::start(move |_| Script {
        tunnel: upgraded,
        ..Script::raw(&answer_bytes, Action::Hold(Duration::ZERO))
    });
    let recorder = Recorder::start(&case.id, &upstream);
    let mut client = Client::connect(recorder.addr);
    client.write(client_text.as_bytes());
    let answer = client.read_answer("GET", None);
    let mut seen = Seen::new(name, "proxy");
    seen.put("client_status", answer.status());
    seen.put("body", answer.text());
    if let Some(head) = &answer.head {
        let names: Vec<String> = head
            .headers
            .iter()
            .map(|(name, _)| name.to_ascii_lowercase())
            .collect();
        seen.put("headers", names);
        seen.put("client_sees", header_map(head));
    }
    if answer.status() == 101 {
        let got_down = client.read_raw(down.len(), WITHIN);
        client.write(&up);
        let want = up.clone();
        let got_up = upstream.await_records("what the client sent", WITHIN, |records| {
            let record = records.first()?;
            (record.tunnelled.len() >= want.len()).then(|| record.tunnelled.clone())
        });
        seen.put("bytes_relayed", got_down == down && got_up == up);
    }
    drop(client);
    let recorded = recorder.stop();
    seen.faults.extend(recorded.faults.iter().cloned());
    seen.put("rows", recorded.rows.len());
    if recorded.rows.len() > 1 {
        seen.faults
            .push(format!("{} rows for one exchange", recorded.rows.len()));
    }
    compiled_values(&mut seen, &recorded);
    Ok(seen)
}
