//! What the run measured, in numbers.

use super::super::svg::escape;
use super::Evidence;
use super::scale::digits;
use crate::latency::Summary;
use crate::latency::rates::Rate;
use crate::latency::stats::{Adjusted, Millis, Stats};
use std::collections::BTreeMap;
use truetape_schemas::run::Run;

/// Renders the numbers of a run.
pub(super) fn section(evidence: &Evidence<'_>) -> String {
    let body = match evidence.run {
        None => "<p>Nothing: this report is of a set, not of a run.</p>\n".to_owned(),
        Some(run) => numbers(run, &evidence.summary()),
    };
    format!("<section id=\"measured\"><h2>Measured</h2>\n{body}</section>\n")
}

fn numbers(run: &Run, summary: &Summary) -> String {
    let mut text = format!("<p>{}</p>\n", escape(&accounted(run)));
    if run.validity != "valid" {
        text.push_str(&format!(
            "<p><strong>The run is {}.</strong> Its numbers are those of a bad ruler.</p>\n",
            escape(&run.validity)
        ));
    }
    text.push_str(&latencies(summary));
    text.push_str(&rates(summary));
    text.push_str(&counters(run));
    text.push_str(&flags(run));
    text
}

fn accounted(run: &Run) -> String {
    let account = &run.account;
    let by = |counts: &BTreeMap<String, u64>| {
        let each: Vec<String> = counts
            .iter()
            .map(|(why, count)| format!("{count} {why}"))
            .collect();
        if each.is_empty() {
            "none".to_owned()
        } else {
            each.join(", ")
        }
    };
    format!(
        "{} due, {} sent, {} answered; not sent: {}; failed: {}.",
        account.due,
        account.sent,
        account.answered,
        by(&account.not_sent),
        by(&account.failed)
    )
}

fn latencies(summary: &Summary) -> String {
    let finite = |stats: &Stats| {
        let Stats {
            p50,
            p90,
            p95,
            p99,
            max,
            mean,
            ..
        } = stats;
        ([*p50, *p90, *p95, *p99, *max, *mean], stats.count)
    };
    let adjusted = |stats: &Adjusted| {
        let of = |value: Option<Millis>| value.map(|ms| ms.0);
        let Adjusted {
            p50, p90, p95, p99, ..
        } = stats;
        (
            [of(*p50), of(*p90), of(*p95), of(*p99), None, None],
            stats.count,
        )
    };
    let (due, send) = (&summary.from_due, &summary.from_send);
    let rows = [
        ("TTFT from the schedule", finite(&due.ttft_ms)),
        (
            "TTFT from the schedule, failures infinite",
            adjusted(&due.failures_infinite.ttft_ms),
        ),
        ("TTFT from the send", finite(&send.ttft_ms)),
        ("time to first output from the send", finite(&send.ttfo_ms)),
        ("ITL", finite(&summary.itl_ms)),
        ("TPOT", finite(&summary.tpot_ms)),
        ("E2EL from the schedule", finite(&due.e2el_ms)),
        (
            "E2EL from the schedule, failures infinite",
            adjusted(&due.failures_infinite.e2el_ms),
        ),
        ("E2EL from the send", finite(&send.e2el_ms)),
        ("lateness, the replayer's", finite(&summary.lateness_ms)),
        ("delay, the session's", finite(&summary.session_delay_ms)),
    ];
    let rows: String = rows
        .iter()
        .map(|(name, (values, count))| {
            let cells: String = values.iter().map(|value| cell(*value)).collect();
            format!("<tr><td>{name}</td>{cells}<td>{count}</td></tr>\n")
        })
        .collect();
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"numbers\"><tr><th>milliseconds</th><th>p50</th><th>p90</th><th>p95</th>\
         <th>p99</th><th>max</th><th>mean</th><th>of</th></tr>\n{rows}</table></div>\n"
    )
}

fn cell(value: Option<f64>) -> String {
    format!("<td>{}</td>", value.map_or_else(String::new, digits))
}

fn rates(summary: &Summary) -> String {
    let row = |name: &str, of: fn(&Rate) -> Option<f64>| {
        format!(
            "<tr><td>{name}</td>{}{}</tr>\n",
            cell(of(&summary.planned)),
            cell(of(&summary.achieved))
        )
    };
    let throughput = &summary.throughput;
    let told = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), digits);
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"numbers\"><tr><th>arrivals</th><th>planned</th><th>achieved</th></tr>\n{}{}{}{}{}{}</table></div>\n\
         <p>{} answers a second, {} output tokens a second, {} of the prompt tokens cached, error rate {}.</p>\n",
        row("mean, a second", |rate| rate.mean_per_s),
        row("peak over 1 s, a second", |rate| rate.peak_1s_per_s),
        row("peak over 10 s, a second", |rate| rate.peak_10s_per_s),
        row("IDC, 1 s", |rate| rate.idc_1s),
        row("IDC, 10 s", |rate| rate.idc_10s),
        row("IDC, 60 s", |rate| rate.idc_60s),
        told(throughput.answers_per_s),
        told(throughput.output_tokens_per_s),
        told(throughput.cached_share),
        told(summary.requests.error_rate),
    )
}

fn counters(run: &Run) -> String {
    let Some(counters) = run
        .counters
        .as_ref()
        .filter(|counters| counters.scrapes > 0)
    else {
        return "<p class=\"soft\">The target's own counters: not read.</p>\n".to_owned();
    };
    let told = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), digits);
    format!(
        "<p>The target's own counters: {} of the prompts cached, KV usage peak {}, running peak {}, waiting peak {}, \
         preemptions {}.</p>\n",
        told(counters.cached_share()),
        told(counters.kv_usage_peak),
        told(counters.running_peak),
        told(counters.waiting_peak),
        told(counters.preemptions)
    )
}

fn flags(run: &Run) -> String {
    let rows: String = run
        .flags
        .iter()
        .map(|(name, value)| {
            format!(
                "<tr><td>{}</td><td>{}</td></tr>\n",
                escape(name),
                escape(&value.to_string())
            )
        })
        .collect();
    format!(
        "<details><summary>Flags of the run</summary><div class=\"wide\" tabindex=\"0\"><table class=\"numbers\">\n{rows}</table></div></details>\n"
    )
}
