//! A search in words.

use super::{Ended, Knee, Stage};
use std::io::Write as _;
use std::path::Path;

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.2}"))
}

/// One line on stderr a stage: a search takes minutes.
pub(super) fn say(number: usize, stage: &Stage) {
    if writeln!(std::io::stderr(), "stage {number}: {}", line(stage)).is_err() {
        tracing::debug!("stderr is closed");
    }
}

fn line(stage: &Stage) -> String {
    let bounds: Vec<String> = stage
        .bounds
        .iter()
        .map(|bound| {
            let value = bound
                .value
                .map_or_else(|| "none".to_owned(), |value| format!("{value:.3}"));
            format!("{} {value} of {:.3}", bound.bound, bound.most)
        })
        .collect();
    let word = match (stage.ends, stage.holds) {
        (Some(_), _) => "not judged",
        (None, true) => "holds",
        (None, false) => "does not hold",
    };
    format!(
        "{}x, {} requests, {} a second of {} planned; {}: {word} ({})",
        stage.rate_scale,
        stage.sent,
        number(stage.achieved_per_s),
        number(stage.planned_per_s),
        bounds.join(", "),
        stage.validity
    )
}

/// The whole search, for people.
pub(super) fn text(knee: &Knee, out: &Path) -> String {
    let mut lines = vec![format!(
        "knee of {} on {} under {}",
        knee.set_name, knee.target, knee.slo
    )];
    lines.push(format!("  in {}", out.display()));
    lines.extend(knee.stages.iter().map(|stage| format!("  {}", line(stage))));
    lines.extend(
        knee.findings
            .iter()
            .map(|finding| format!("  finding    {finding}")),
    );
    lines.push(sentence(knee));
    lines.join("\n") + "\n"
}

/// What it came to.
pub(super) fn sentence(knee: &Knee) -> String {
    let [low, high] = knee.interval;
    let held = low.map_or_else(
        || "no rate held".to_owned(),
        |low| {
            format!(
                "{low} times the set's rate held ({} requests a second)",
                number(knee.rate_per_s)
            )
        },
    );
    let broke = high.map_or_else(String::new, |high| format!(", {high} times did not"));
    match knee.ended {
        Ended::Found | Ended::NeverHeld => format!("{held}{broke}"),
        Ended::NotReached => format!(
            "{held}: the knee is above what was tried; the set has no more load for a stage"
        ),
        Ended::ReplayerLate => {
            format!("{held}{broke}: the replayer, not the target, was late above that")
        }
        Ended::Stopped => format!("{held}{broke}: the search was stopped"),
        Ended::StageFailed => format!("{held}{broke}: the next stage could not be run"),
    }
}
