//! Runs `schedule.jsonl`: dispatches against a target of fixed service time, with the client's cap
//! and without.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use crate::compiled::{self, RECIPE_SYNTHETIC};
use crate::replays::{Options, Ran, replay};
use crate::run_replay::compile;
use crate::run_trace::imported;
use crate::server::{self, Target, generations};
use crate::stream::millis;
use serde_json::{Value, json};
use std::time::Duration;
use truetape_fidelity::quantile::quantile;
use truetape_schemas::run::Dispatch;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Record, Upstream};

/// `schedule.jsonl` against a server of fixed service time, with the client's cap and without.
pub(crate) fn run_schedule(case: &Case) -> Result<Vec<Seen>, Stop> {
    let server = case.json("server.json")?;
    let target = Target {
        service: millis(
            server
                .get("service_ms")
                .and_then(Value::as_f64)
                .unwrap_or(0.0),
        ),
        ..Target::default()
    };
    let dir = TempDir::new(&case.id);
    let rows = case.lines("schedule.jsonl")?;
    let line = |(at, row): (usize, &Value)| {
        let (timestamp, input) = (&row["offset_ms"], &row["input_length"]);
        let output = &row["output_length"];
        json!({"timestamp": timestamp, "input_length": input, "output_length": output, "hash_ids": [at]})
    };
    let trace: String = rows
        .iter()
        .enumerate()
        .map(|row| format!("{}\n", line(row)))
        .collect();
    compiled::write(&dir.join("mooncake.jsonl"), &trace);
    imported(
        &dir.join("mooncake.jsonl"),
        "mooncake",
        &dir.join("capture"),
    )?;
    let set = compile(&dir, "store", RECIPE_SYNTHETIC)?;
    let cap = server
        .get("max_concurrency_of_client")
        .and_then(Value::as_u64);
    let upstream = server::start(target.clone());
    let cap_text = cap.map(|cap| cap.to_string()).unwrap_or_default();
    let capped: Vec<&str> = match cap {
        Some(_) => vec!["--max-in-flight", &cap_text],
        None => Vec::new(),
    };
    let ran = replay(
        &set.dir,
        &upstream,
        &dir.join("run"),
        &Options { more: &capped },
    )?;
    let mut seen = latencies(&ran, &late_ms(&upstream, target.service), cap);
    if cap.is_some() {
        let upstream = server::start(target);
        let free = replay(&set.dir, &upstream, &dir.join("free"), &Options::default())?;
        if free.run.validity != "valid" {
            let reasons = &free.run.validity_reasons;
            seen.faults.push(format!(
                "without the cap the run is flagged too: {reasons:?}"
            ));
        }
    }
    Ok(vec![seen])
}

/// How much longer than its service time the target took, by order of arrival.
fn late_ms(upstream: &Upstream, service: Duration) -> Vec<f64> {
    let late = |(record, _): (Record, Value)| {
        let took = record.done_at.first().map(|at| *at - record.read_at)?;
        Some(took.saturating_sub(service).as_secs_f64() * 1e3)
    };
    generations(upstream).into_iter().filter_map(late).collect()
}

/// Both clocks of a run: from the send, and from the time it was due; statistics are the run's own
/// summary. What the target took too long
/// is taken off, once for each request that waited for it.
fn latencies(ran: &Ran, late_ms: &[f64], cap: Option<u64>) -> Seen {
    let mut seen = Seen::new("", "replay");
    seen.waited_ms = ran.waited_ms;
    seen.faults.extend(ran.faults.iter().cloned());
    let mut sent: Vec<&Dispatch> = ran
        .dispatches
        .iter()
        .filter(|d| d.sent_us.is_some())
        .collect();
    sent.sort_by_key(|dispatch| (dispatch.due_us, dispatch.turn_id));
    let ms = |us: i64| us as f64 / 1e3;
    let delay = |d: &&Dispatch| d.sent_us.unwrap_or(0) - d.due_us;
    let last = |d: &&Dispatch| d.last_token_us.or(d.end_us).unwrap_or(0);
    let late = |at: usize| late_ms.get(at).copied().unwrap_or(0.0);
    let waited = |at: usize| match cap {
        Some(1) => (0..at).map(late).sum(),
        _ => 0.0,
    };
    let send: Vec<f64> = sent
        .iter()
        .enumerate()
        .map(|(at, d)| ms(last(d)) - late(at))
        .collect();
    let delays: Vec<f64> = sent
        .iter()
        .enumerate()
        .map(|(at, d)| ms(delay(d)) - waited(at))
        .collect();
    let scheduled: Vec<f64> = send
        .iter()
        .zip(&delays)
        .map(|(send, delay)| send + delay)
        .collect();
    let raw: Vec<f64> = sent.iter().map(|d| ms(last(d))).collect();
    put_summary(&mut seen, ran, ("send_latency", "from_send"), &raw, &send);
    let raw: Vec<f64> = sent.iter().map(|d| ms(delay(d) + last(d))).collect();
    put_summary(
        &mut seen,
        ran,
        ("scheduled_latency", "from_due"),
        &raw,
        &scheduled,
    );
    seen.put("dispatch_delay_ms", delays);
    seen.put("scheduled_latency_ms", scheduled);
    seen.put("send_latency_ms", send);
    seen.put("schedule_kept", ran.run.summary["schedule_kept"].clone());
    seen
}

/// Statistics as `run.json` has them on one of its clocks, less what the target took too long: by so
/// much the dispatches of the run (`raw`) are later than they would have been (`due`).
fn put_summary(seen: &mut Seen, ran: &Ran, (key, clock): (&str, &str), raw: &[f64], due: &[f64]) {
    let sorted = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let (raw, due) = (sorted(raw), sorted(due));
    for (word, q) in [
        ("p50", 0.5),
        ("p90", 0.9),
        ("p95", 0.95),
        ("p99", 0.99),
        ("max", 1.0),
    ] {
        let told = ran.run.summary[clock]["e2el_ms"][word].as_f64();
        let target_late = quantile(&raw, q).zip(quantile(&due, q)).map(|(a, b)| a - b);
        let value = told.zip(target_late).map(|(told, late)| told - late);
        seen.put(&format!("{key}_{word}_ms"), json!(value));
    }
}
