//! What a run measured, on a terminal.

use crate::shard::merge;
use std::path::Path;
use truetape_fidelity::latency::Summary;
use truetape_fidelity::latency::stats::Stats;
use truetape_schemas::run::{Run, Step};

/// What was measured, in a few lines: the report above says how far to trust it.
pub(super) fn measured(dir: &Path, run: &Run) -> String {
    let summary: Summary = serde_json::from_value(run.summary.clone()).unwrap_or_default();
    let mut lines = vec![
        format!(
            "run {} of {} against {}",
            run.run_id, run.set_name, run.target
        ),
        format!("  in {}", dir.display()),
        format!("  {}: {}", run.validity, accounted(run)),
        format!(
            "  rate mean {} of {} planned, peak (1 s) {} of {} planned, a second",
            number(summary.achieved.mean_per_s),
            number(summary.planned.mean_per_s),
            number(summary.achieved.peak_1s_per_s),
            number(summary.planned.peak_1s_per_s),
        ),
        format!(
            "  dispersion (10 s) {} of {} planned, (60 s) {} of {} planned",
            number(summary.achieved.idc_10s),
            number(summary.planned.idc_10s),
            number(summary.achieved.idc_60s),
            number(summary.planned.idc_60s),
        ),
        format!(
            "  {:<22} {:>10} {:>10} {:>10}",
            "milliseconds", "p50", "p90", "p99"
        ),
    ];
    let rows: [(&str, &Stats); 7] = [
        ("lateness", &summary.lateness_ms),
        ("TTFT from send", &summary.from_send.ttft_ms),
        ("TTFT from due", &summary.from_due.ttft_ms),
        ("ITL", &summary.itl_ms),
        ("TPOT", &summary.tpot_ms),
        ("E2EL from send", &summary.from_send.e2el_ms),
        ("E2EL from due", &summary.from_due.e2el_ms),
    ];
    for (name, stats) in rows {
        let [p50, p90, p99] = [stats.p50, stats.p90, stats.p99].map(number);
        lines.push(format!("  {name:<22} {p50:>10} {p90:>10} {p99:>10}"));
    }
    lines.extend(counted(run));
    lines.extend(run.steps.iter().map(step));
    lines.extend(merge::lines(run));
    lines.extend(
        run.validity_reasons
            .iter()
            .map(|reason| format!("  {}: {reason}", run.validity)),
    );
    lines.join("\n") + "\n"
}

/// One step of the rate.
fn step(step: &Step) -> String {
    let summary: Summary = serde_json::from_value(step.summary.clone()).unwrap_or_default();
    format!(
        "  step of {:<13} {} a second; TTFT from due p50 {}, p99 {}; TPOT p50 {}; {} of {} failed",
        format!("{}x", step.rate_scale),
        number(summary.achieved.mean_per_s),
        number(summary.from_due.ttft_ms.p50),
        number(summary.from_due.ttft_ms.p99),
        number(summary.tpot_ms.p50),
        summary.requests.failed,
        summary.requests.sent,
    )
}

/// What the target counted itself, where it does.
fn counted(run: &Run) -> Option<String> {
    let counters = run
        .counters
        .as_ref()
        .filter(|counters| 0 < counters.scrapes)?;
    let percent = |share: Option<f64>| {
        share.map_or_else(
            || "unknown".to_owned(),
            |share| format!("{:.1} %", share * 100.0),
        )
    };
    let count = |value: Option<f64>| {
        value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.0}"))
    };
    Some(format!(
        "  target's counters: cached {} of the prompts, KV usage peak {}, running peak {}, waiting peak {}, preemptions {}",
        percent(counters.cached_share()),
        percent(counters.kv_usage_peak),
        count(counters.running_peak),
        count(counters.waiting_peak),
        count(counters.preemptions),
    ))
}

fn accounted(run: &Run) -> String {
    let account = &run.account;
    let by = |counts: &std::collections::BTreeMap<String, u64>| {
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
        "{} due, {} sent, {} answered; not sent: {}; failed: {}",
        account.due,
        account.sent,
        account.answered,
        by(&account.not_sent),
        by(&account.failed),
    )
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_answers_has_a_summary_of_unknowns() {
        let run = Run {
            validity: "stopped".into(),
            ..Run::default()
        };
        let text = measured(Path::new("r"), &run);
        assert!(text.contains("TTFT from due             unknown"), "{text}");
        assert!(
            text.contains("0 due, 0 sent, 0 answered; not sent: none; failed: none"),
            "{text}"
        );
    }
}
