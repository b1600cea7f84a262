//! `results.jsonl`: statuses and latencies, as the report counts them.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use serde_json::{Value, json};
use truetape_fidelity::latency::stats::{Adjusted, Stats};
use truetape_fidelity::latency::summarize;
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::Dispatch;

/// Between two sends, where the results do not say.
const SEND_EVERY_US: i64 = 10_000;

/// Runs the case.
pub(crate) fn run(case: &Case) -> Result<Vec<Seen>, Stop> {
    let lines = case.lines("results.jsonl")?;
    let dispatches: Vec<Dispatch> = lines
        .iter()
        .zip(0..)
        .map(|(line, at)| row(line, at))
        .collect();
    let summary = summarize(&dispatches);
    let mut seen = Seen::new("", "report");
    put_stats(&mut seen, "success", &summary.from_send.e2el_ms);
    put_stats(&mut seen, "success_e2el", &summary.from_send.e2el_ms);
    put_stats(&mut seen, "success_ttft", &summary.from_send.ttft_ms);
    put_adjusted(
        &mut seen,
        "adjusted",
        &summary.from_send.failures_infinite.e2el_ms,
    );
    put_adjusted(
        &mut seen,
        "failure_adjusted",
        &summary.from_send.failures_infinite.e2el_ms,
    );
    seen.put("errors", summary.requests.failed);
    seen.put("successes", summary.requests.answered);
    seen.put("total", summary.requests.sent);
    seen.put("error_rate", json!(summary.requests.error_rate));
    seen.put("by_status", json!(summary.requests.by_status));
    seen.put("status_counts", json!(summary.requests.by_status));
    let report = serde_json::to_string(&summary).map_err(|e| e.to_string())?;
    if report.contains("NaN") {
        seen.faults.push(format!("NaN in the summary: {report}"));
    }
    Ok(vec![seen])
}

fn row(line: &Value, at: i64) -> Dispatch {
    let us = |key: &str| {
        line.get(key)
            .and_then(Value::as_f64)
            .map(|ms| (ms * 1000.0) as i64)
    };
    let status = line
        .get("status")
        .and_then(Value::as_i64)
        .and_then(|s| i32::try_from(s).ok());
    let said = line.get("outcome").and_then(Value::as_str);
    let outcome = match (said, status) {
        (Some("complete"), _) | (None, Some(..400)) => Outcome::Complete,
        (Some("truncated"), _) => Outcome::Truncated,
        (Some("client_aborted"), _) => Outcome::ClientAborted,
        (Some("timeout"), _) => Outcome::Timeout,
        _ => Outcome::Error,
    };
    let due_us = us("due_ms").unwrap_or(at * SEND_EVERY_US);
    let sent_us = us("sent_ms").unwrap_or(due_us);
    Dispatch {
        turn_id: at,
        session: format!("s{at}"),
        turn: 1,
        due_us,
        ready_us: Some(due_us),
        sent_us: Some(sent_us),
        lateness_us: Some(sent_us - due_us),
        first_token_us: us("ttft_ms"),
        last_token_us: us("e2el_ms"),
        end_us: us("e2el_ms"),
        output_tokens: line.get("output_tokens").and_then(Value::as_i64),
        status,
        outcome: Some(outcome),
        ..Dispatch::default()
    }
}

fn put_stats(seen: &mut Seen, name: &str, stats: &Stats) {
    seen.put(&format!("{name}_count"), stats.count);
    let values = [
        ("mean", stats.mean),
        ("p50", stats.p50),
        ("p90", stats.p90),
        ("p95", stats.p95),
        ("p99", stats.p99),
        ("max", stats.max),
    ];
    for (word, value) in values {
        seen.put(&format!("{name}_{word}_ms"), json!(value));
    }
}

fn put_adjusted(seen: &mut Seen, name: &str, stats: &Adjusted) {
    let values = [
        ("p50", stats.p50),
        ("p90", stats.p90),
        ("p95", stats.p95),
        ("p99", stats.p99),
    ];
    for (word, value) in values {
        seen.put(&format!("{name}_{word}_ms"), json!(value));
    }
}
