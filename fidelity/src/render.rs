//! Reports and profiles for people: a terminal, a pull request.

use crate::profile::Profile;
use truetape_schemas::report::{Dimension, Report};

/// Renders a report for a terminal.
pub fn terminal(report: &Report, color: bool) -> String {
    let _unused = color;
    report.sentence.clone()
}

/// Renders a report as Markdown, for a comment on a pull request.
pub fn markdown(report: &Report) -> String {
    report.sentence.clone()
}

/// Renders a profile for a terminal.
pub fn profile_terminal(profile: &Profile) -> String {
    format!("{} turns", profile.turns)
}

/// A deviation in words: `-3.1 %`, `+0.4 pp`, `x1.16`.
pub fn deviation(dimension: &Dimension) -> String {
    let Some(deviation) = dimension.deviation else {
        return "-".to_owned();
    };
    match dimension.unit.as_str() {
        "relative" => format!("{:+.1} %", deviation * 100.0),
        "rank_points" | "ratio_points" | "share" => format!("{:+.2} pp", deviation * 100.0),
        "ln_ratio" => format!("x{:.2}", deviation.exp()),
        "ms" => format!("{deviation:+.2} ms"),
        _ => format!("{deviation:+.4}"),
    }
}
