//! An exchange of the replayer's own client, straight at the scripted upstream.

use crate::case::Case;
use crate::check::Seen;
use crate::proxied::WITHIN;
use crate::stream::Variant;
use crate::times::{Anchor, Lateness, Moments, tpot_tolerance};
use serde_json::{Value, json};
use truetape_fidelity::latency::summarize;
use truetape_replay::client::{Client, Exchanged, Request, Target};
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::Dispatch;
use truetape_schemas::wire::Dialect;
use truetape_testkit::process::this_thread_waited_for_cpu;
use truetape_testkit::upstream::Upstream;

/// The name of this way of running.
pub(crate) const BY: &str = "client";

/// Runs one variant.
pub(crate) fn by_client(case: &Case, variant: &Variant) -> Result<Seen, String> {
    let anchor = Anchor::now();
    let script = variant.script.clone();
    let upstream = Upstream::start(move |_| script.clone());
    let before = this_thread_waited_for_cpu();
    let exchanged = send(&upstream, variant)?;
    let waited = this_thread_waited_for_cpu().saturating_sub(before);
    let record = upstream.await_finished(0, WITHIN);
    let late = Lateness::of(&record, &variant.nominal_ms, anchor);
    let mut seen = Seen::new(&variant.name, BY);
    seen.waited_ms = (waited + record.waited).as_secs_f64() * 1e3;
    let moments = moments(&exchanged, anchor);
    seen.faults.extend(moments.faults());
    for (key, value) in moments.values(&late) {
        seen.put(key, value);
    }
    let facts = &exchanged.facts;
    seen.choices = Some(facts.token_event_choices.clone());
    seen.tolerances.insert(
        "tpot_ms".to_owned(),
        tpot_tolerance(case.tolerance_ms, facts.output_tokens),
    );
    seen.put("http_status", json!(exchanged.status));
    seen.put("outcome", facts.outcome.name());
    seen.put("prompt_tokens", json!(facts.input_tokens));
    seen.put("output_tokens", json!(facts.output_tokens));
    seen.put("cached_tokens", json!(facts.cached_tokens));
    seen.put("reasoning_tokens", json!(facts.reasoning_tokens));
    seen.put("finish_reasons", json!(facts.finish_reasons));
    seen.put(
        "finish_reason",
        json!(facts.finish_reasons.first().cloned().flatten()),
    );
    seen.put("data_events", json!(facts.data_events));
    seen.put("choices", json!(facts.texts));
    seen.put("content", facts.texts.first().cloned().unwrap_or_default());
    seen.put("error_type", json!(facts.error_type));
    let code = facts
        .error_code
        .as_ref()
        .map(|code| match code.parse::<i64>() {
            Ok(number) => json!(number),
            Err(_) => json!(code),
        });
    seen.put("error_code", code.unwrap_or(Value::Null));
    seen.put("in_success_stats", facts.outcome == Outcome::Complete);
    Ok(seen)
}

fn send(upstream: &Upstream, variant: &Variant) -> Result<Exchanged, String> {
    let target = Target::resolve(&upstream.url()).map_err(|e| e.to_string())?;
    let mut headers = http::HeaderMap::new();
    for (name, value) in &variant.request.headers {
        let name = http::HeaderName::try_from(name.as_str()).map_err(|e| e.to_string())?;
        headers.append(
            name,
            http::HeaderValue::try_from(value).map_err(|e| e.to_string())?,
        );
    }
    let request = Request {
        method: variant.request.method.parse().map_err(|_| "not a method")?,
        path: variant.request.path.clone(),
        headers,
        body: variant.request.body.clone().into(),
        dialect: Dialect::of(&variant.request.method, &variant.request.path),
        timeout: Some(WITHIN),
        ..Request::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    Ok(runtime.block_on(Client::new(target).send(&request)))
}

fn moments(exchanged: &Exchanged, anchor: Anchor) -> Moments {
    let facts = &exchanged.facts;
    Moments {
        zero_wall_ms: anchor.wall_ms(exchanged.handed),
        sent_us: exchanged.request_end_us.unwrap_or(0),
        first_byte_us: exchanged.first_byte_us,
        first_token_us: facts.first_token_us,
        first_output_us: facts.first_output_us,
        last_token_us: facts.last_token_us,
        end_us: Some(exchanged.end_us),
        events_us: facts.token_event_offsets_us.clone(),
        choices: facts.token_event_choices.clone(),
        output_tokens: facts.output_tokens,
    }
}

/// What a report over all variants says.
pub(crate) fn pooled(all: &[Seen]) -> Seen {
    let own: Vec<&Seen> = all.iter().filter(|seen| seen.by == BY).collect();
    let dispatches: Vec<Dispatch> = own.iter().map(|seen| dispatch(seen)).collect();
    let summary = summarize(&dispatches);
    let mut seen = Seen::new("", "report");
    seen.waited_ms = own.iter().map(|one| one.waited_ms).fold(0.0, f64::max);
    let gaps = own
        .iter()
        .filter_map(|one| one.values.get("itl_gaps_ms")?.as_array())
        .flatten();
    let gaps: Vec<Value> = gaps.cloned().collect();
    let itl = &summary.itl_ms;
    let count = gaps.len() as u64;
    let complete = own
        .iter()
        .all(|one| one.values.get("outcome") == Some(&json!("complete")));
    if complete && itl.count != count {
        seen.faults
            .push(format!("the report pools {} gaps of {count}", itl.count));
    }
    seen.put("itl_gaps_ms_pooled", gaps);
    seen.put("itl_mean_ms", json!(itl.mean));
    seen.put("tpot_mean_ms", json!(summary.tpot_ms.mean));
    seen.put("tpot_count", summary.tpot_ms.count);
    seen.put("ttft_mean_ms", json!(summary.from_send.ttft_ms.mean));
    seen.put("ttft_count", summary.from_send.ttft_ms.count);
    seen.put("successes", summary.requests.answered);
    seen.put("errors", summary.requests.failed);
    seen.put("total_output_tokens", summary.throughput.output_tokens);
    let report = serde_json::to_string(&summary).unwrap_or_else(|e| e.to_string());
    if report.contains("NaN") {
        seen.faults.push(format!("NaN in the summary: {report}"));
    }
    seen
}

/// The row that a run would hold, with its times as the schedule would have them.
fn dispatch(seen: &Seen) -> Dispatch {
    let value = |key: &str| seen.values.get(key);
    let us = |value: &Value| value.as_f64().map(|ms| (ms * 1000.0).round() as i64);
    let at = |key: &str| value(key).and_then(us);
    let number = |key: &str| value(key).and_then(Value::as_i64);
    let events = value("event_times_ms_token").and_then(Value::as_array);
    let outcome = value("outcome").cloned().unwrap_or_default();
    Dispatch {
        sent_us: Some(0),
        ready_us: Some(0),
        lateness_us: Some(0),
        first_token_us: at("ttft_ms"),
        first_output_us: at("ttfo_ms"),
        last_token_us: at("e2el_ms"),
        end_us: at("stream_end_ms"),
        token_event_offsets_us: events.map(|events| events.iter().filter_map(us).collect()),
        token_event_choices: seen.choices.clone(),
        output_tokens: number("output_tokens"),
        status: number("http_status").and_then(|status| i32::try_from(status).ok()),
        outcome: serde_json::from_value(outcome).ok(),
        ..Dispatch::default()
    }
}
