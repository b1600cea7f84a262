//! Latencies on both clocks, and how late the replayer was.

use super::Evidence;
use super::chart::{Axis, Lines, Mark, Series, Whose};
use super::scale::{Kind, NINES_LAST};
use crate::latency::stats::Stats;
use crate::latency::{LATENESS_P99_MAX_MS, answered, before_us, lateness_us, tpot_ms};
use crate::quantile::{quantile, sorted};
use truetape_schemas::run::Dispatch;
use truetape_schemas::set::Turn;

/// Quantiles that are drawn. A quantile with no value beyond it is not: it would be the largest.
const QUANTILES: [f64; 20] = [
    0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98,
    0.99, 0.995, NINES_LAST,
];

/// Quantiles of microseconds, in milliseconds.
fn over(values_us: impl Iterator<Item = i64>) -> Vec<Option<f64>> {
    over_ms(values_us.map(|us| us as f64 / 1_000.0))
}

fn over_ms(values: impl Iterator<Item = f64>) -> Vec<Option<f64>> {
    let values = sorted(values);
    // Rounded, or 0.1 % of a thousand values would be less than one.
    let beyond = |q: f64| ((1.0 - q) * values.len() as f64 + 1e-6).floor();
    QUANTILES
        .iter()
        .map(|q| quantile(&values, *q).filter(|_| beyond(*q) >= 1.0))
        .collect()
}

/// A chart of quantiles in milliseconds.
fn quantiles(id: &'static str, title: &'static str, about: String, series: Vec<Series>) -> Lines {
    Lines {
        id,
        title,
        about,
        x: Axis::new("quantile", Kind::Nines),
        y: Axis::new("milliseconds", Kind::Log),
        grid: QUANTILES.into(),
        series,
        at_x: Vec::new(),
        at_y: Vec::new(),
        lacks: Vec::new(),
    }
}

/// TTFT, E2EL, and the time of a token.
pub(super) fn charts(evidence: &Evidence<'_>) -> [Lines; 3] {
    [
        on_both_clocks(
            evidence,
            ("ttft", "Time to first token (TTFT)"),
            |dispatch| dispatch.first_token_us,
            |turn| turn.recorded_ttft_us,
        ),
        on_both_clocks(
            evidence,
            ("e2el", "End-to-end latency (E2EL)"),
            |dispatch| dispatch.last_token_us,
            |turn| turn.recorded_e2el_us,
        ),
        per_token(evidence),
    ]
}

fn on_both_clocks(
    evidence: &Evidence<'_>,
    (id, title): (&'static str, &'static str),
    of: fn(&Dispatch) -> Option<i64>,
    recorded: fn(&Turn) -> Option<i64>,
) -> Lines {
    let answers = || evidence.due().filter(|dispatch| answered(dispatch));
    let from_send = over(answers().filter_map(of));
    let from_due = over(answers().filter_map(|d| Some(of(d)?.saturating_add(before_us(d)))));
    let turns = evidence.set.map(|set| set.turns).unwrap_or_default();
    let production = over(turns.iter().filter_map(recorded));
    let requests = evidence.summary().requests;
    let mut chart = quantiles(
        id,
        title,
        format!(
            "Complete answers; {} of {} requests failed and are not in the lines. From the schedule is \
             what a user would have waited, from the send what the target did. Production's is of its \
             own machines.",
            requests.failed, requests.sent
        ),
        vec![
            Series::new("production, as recorded", Whose::Production, production),
            Series::new("run, from the schedule", Whose::Run, from_due),
            Series::new("run, from the send", Whose::Run, from_send).thin(),
        ],
    );
    if evidence.set.is_none() {
        let lack = "production's, which the set holds; name it with --set or --store";
        chart.lacks.push(lack.to_owned());
    }
    chart
}

fn per_token(evidence: &Evidence<'_>) -> Lines {
    let answers = evidence.due().filter(|dispatch| answered(dispatch));
    let tpot = over_ms(answers.filter_map(tpot_ms));
    // Gaps are too many to keep: the run counted their quantiles while it went on.
    let itl = evidence.summary().itl_ms;
    quantiles(
        "per-token",
        "Time of a token (TPOT, ITL)",
        "TPOT is one value an answer; ITL pools the gaps between token events, of which a few \
         quantiles are kept. Events that hold several tokens make gaps of 0 and longer ones after them."
            .to_owned(),
        vec![
            Series::new("TPOT", Whose::Run, tpot),
            Series::new("ITL", Whose::Run, told(&itl)).thin().dots(),
        ],
    )
}

/// The quantiles that a summary keeps.
fn told(stats: &Stats) -> Vec<Option<f64>> {
    let of = |q: &f64| match *q {
        0.5 => stats.p50,
        0.9 => stats.p90,
        0.95 => stats.p95,
        0.99 => stats.p99,
        _ => None,
    };
    QUANTILES.iter().map(of).collect()
}

/// How late requests went out, and whose fault it was.
pub(super) fn lateness(evidence: &Evidence<'_>) -> Lines {
    let sent = || evidence.due().filter(|dispatch| dispatch.sent_us.is_some());
    let mut chart = quantiles(
        "lateness",
        "Lateness",
        "Ours is how long after it was ready a request was sent: the replayer's error. The session's \
         is how far earlier answers pushed it behind its due time: the target's."
            .to_owned(),
        vec![
            Series::new("replayer's", Whose::Run, over(sent().filter_map(lateness_us))),
            Series::new(
                "session's",
                Whose::Production,
                over(sent().filter_map(|dispatch| dispatch.session_delay_us)),
            ),
        ],
    );
    chart.at_y.push(Mark {
        at: LATENESS_P99_MAX_MS,
        says: "a schedule is kept up to a p99 of".to_owned(),
        whose: Whose::Wanted,
    });
    chart
}
