//! Numbers in words.

use truetape_schemas::report::{Dimension, Level, Report};

/// What stands where nobody knows.
pub(super) const NOTHING: &str = "-";

pub(super) fn deviation(dimension: &Dimension) -> String {
    let Some(deviation) = dimension.deviation else {
        return NOTHING.to_owned();
    };
    match dimension.unit.as_str() {
        "relative" => format!("{:+.1} %", deviation * 100.0),
        "rank_points" | "ratio_points" | "share" => format!("{:+.2} pp", deviation * 100.0),
        "ln_ratio" => format!("x{:.2}", deviation.exp()),
        "ms" => format!("{deviation:+.2} ms"),
        _ => format!("{deviation:+.4}"),
    }
}

/// The tolerance, in the same words.
pub(super) fn tolerance(dimension: &Dimension) -> String {
    let threshold = dimension.threshold;
    match dimension.unit.as_str() {
        _ if threshold == 0.0 => "none".to_owned(),
        "relative" => format!("{:.0} %", threshold * 100.0),
        "rank_points" | "ratio_points" | "share" => format!("{:.1} pp", threshold * 100.0),
        "ln_ratio" => format!("x{:.2}", threshold.exp()),
        "ms" => format!("{threshold:.0} ms"),
        _ => format!("{threshold:.4}"),
    }
}

/// A value or a target of a dimension.
pub(super) fn value(dimension: &Dimension, value: Option<f64>) -> String {
    match (value, dimension.unit.as_str()) {
        (Some(value), "ratio_points" | "share") => format!("{:.2} %", value * 100.0),
        (Some(value), "rank_points") => format!("{value:.4}"),
        (value, _) => number(value),
    }
}

/// A number with as many digits as it deserves.
pub(super) fn number(value: Option<f64>) -> String {
    match value {
        None => NOTHING.to_owned(),
        Some(value) if value.abs() >= 1_000.0 => thousands(value.round() as i64),
        Some(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// A count, with separators.
pub(super) fn count(value: u64) -> String {
    thousands(i64::try_from(value).unwrap_or(i64::MAX))
}

fn thousands(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

/// A share as a percentage.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(
        || NOTHING.to_owned(),
        |share| format!("{:.1} %", share * 100.0),
    )
}

/// What a report is about, in a line.
pub(super) fn subject(report: &Report) -> String {
    let short: String = report
        .set_digest
        .chars()
        .take(truetape_schemas::ids::DIGEST_SHORT_CHARS)
        .collect();
    let set = match (report.set_name.as_str(), short.as_str()) {
        ("", "") => "a set without a name".to_owned(),
        (name, "") => name.to_owned(),
        (name, short) => format!("{name}@sha256:{short}"),
    };
    match (&report.run_id, &report.target) {
        (Some(run), Some(target)) => format!("run {run} of {set} against {target}"),
        (Some(run), None) => format!("run {run} of {set}"),
        (None, _) => format!("{set} against its source, {} view", report.view),
    }
}

/// A heading for each level.
pub(super) fn level(level: Level) -> &'static str {
    match level {
        Level::SetAgainstSource => "set against production (level 1)",
        Level::RunAgainstSet => "run against set (level 2)",
        Level::Noise => "noise (level 3)",
    }
}

/// Dimensions of one level, failures first; the order inside a verdict is the report's.
pub(super) fn of_level(report: &Report, level: Level) -> Vec<&Dimension> {
    let mut rows: Vec<&Dimension> = report
        .dimensions
        .iter()
        .filter(|dimension| dimension.level == level)
        .collect();
    rows.sort_by_key(|dimension| std::cmp::Reverse(dimension.verdict));
    rows
}

/// All levels, in order.
pub(super) const LEVELS: [Level; 3] = [Level::SetAgainstSource, Level::RunAgainstSet, Level::Noise];
