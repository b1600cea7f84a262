//! A report on a terminal.

use super::words;
use crate::gate::Outcome;
use std::fmt::Write as _;
use truetape_schemas::report::{CheckPoint, Dimension, Direction, Report, Verdict};

/// Columns of the table: id, value, target, deviation, tolerance, verdict, direction.
const WIDTHS: [usize; 5] = [34, 12, 12, 11, 10];

/// Names of unknown dimensions on the first screen.
const UNKNOWN_NAMED_MAX: usize = 4;

/// Paints, or does not.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn in_code(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn bold(self, text: &str) -> String {
        self.in_code("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.in_code("2", text)
    }

    /// Pads before painting: codes have no width on a terminal.
    fn verdict(self, verdict: Verdict) -> String {
        let code = match verdict {
            Verdict::Pass => "32",
            Verdict::Unknown => "33",
            Verdict::Fail => "31;1",
        };
        self.in_code(code, &format!("{:<7}", verdict.name()))
    }
}

/// Renders a report.
pub(super) fn report(report: &Report, color: bool) -> String {
    let paint = Paint(color);
    let mut text = String::new();
    first_screen(&mut text, report, paint);
    for level in words::LEVELS {
        let rows = words::of_level(report, level);
        if !rows.is_empty() {
            table(&mut text, words::level(level), &rows, paint);
        }
    }
    if !report.findings.is_empty() {
        line(&mut text, &format!("\n{}", paint.bold("findings")));
        for finding in &report.findings {
            line(&mut text, &format!("  - {finding}"));
        }
    }
    text
}

/// Renders a gate: what is broken first of all.
pub(super) fn gate(outcome: &Outcome) -> String {
    let mut text = String::new();
    line(&mut text, &outcome.sentence());
    let held = outcome.rules.iter().filter(|rule| rule.held);
    for rule in outcome.broken().chain(held) {
        let mark = if rule.held { "holds " } else { "broken" };
        line(
            &mut text,
            &format!("  {mark}  {}: {}", rule.name, rule.said),
        );
    }
    text
}

fn line(text: &mut String, words: &str) {
    text.push_str(words.trim_end());
    text.push('\n');
}

fn first_screen(text: &mut String, report: &Report, paint: Paint) {
    let verdict = paint.verdict(report.verdict);
    let direction = paint.bold(report.direction.name());
    line(
        text,
        &format!("{verdict} {direction}  {}", words::subject(report)),
    );
    line(text, &report.sentence);
    line(text, "");
    line(text, &format!("  biggest cause  {}", biggest_cause(report)));
    line(text, &format!("  pushes         {}", pushes(report)));
    line(text, &format!("  unknown        {}", unknown(report)));
    line(text, "");
    for point in &report.checklist {
        checkpoint(text, point, paint);
    }
}

fn biggest_cause(report: &Report) -> String {
    let Some(push) = report.pushes.first() else {
        return "none".to_owned();
    };
    let found = report
        .dimensions
        .iter()
        .find(|dimension| dimension.id == push.dimension);
    let deviation = found.map_or_else(String::new, words::deviation);
    format!(
        "{} {deviation}, {}: {}",
        push.dimension,
        push.direction.name(),
        push.reason
    )
}

fn pushes(report: &Report) -> String {
    let count = |wanted: Direction| {
        report
            .pushes
            .iter()
            .filter(|push| push.direction == wanted)
            .count()
    };
    let [optimistic, pessimistic, mixed] = [
        Direction::Optimistic,
        Direction::Pessimistic,
        Direction::Mixed,
    ]
    .map(count);
    format!("{optimistic} optimistic, {pessimistic} pessimistic, {mixed} mixed")
}

fn unknown(report: &Report) -> String {
    if report.unknown.is_empty() {
        return "none".to_owned();
    }
    let named: Vec<&str> = report
        .unknown
        .iter()
        .take(UNKNOWN_NAMED_MAX)
        .map(String::as_str)
        .collect();
    let more = report.unknown.len() - named.len();
    let more = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    format!(
        "{} of {}: {}{more}",
        report.unknown.len(),
        report.dimensions.len(),
        named.join(", ")
    )
}

fn checkpoint(text: &mut String, point: &CheckPoint, paint: Paint) {
    let verdict = paint.verdict(point.verdict);
    line(
        text,
        &format!("  {} {verdict} {}", point.number, point.question),
    );
    line(text, &format!("            {}", paint.dim(&point.answer)));
}

fn table(text: &mut String, heading: &str, rows: &[&Dimension], paint: Paint) {
    line(text, &format!("\n{}", paint.bold(heading)));
    let columns = ["dimension", "value", "target", "deviation", "tolerance"];
    let head = cells(&columns.map(str::to_owned));
    line(text, &paint.dim(&format!("{head}  verdict  direction")));
    for dimension in rows {
        let row = cells(&[
            dimension.id.clone(),
            words::value(dimension, dimension.value),
            words::value(dimension, dimension.target),
            words::deviation(dimension),
            words::tolerance(dimension),
        ]);
        let verdict = paint.verdict(dimension.verdict);
        line(
            text,
            &format!("{row}  {verdict}  {}", dimension.direction.name()),
        );
        // What passed needs no excuse; its note is in the JSON.
        if let (Some(note), true) = (&dimension.note, dimension.verdict != Verdict::Pass) {
            line(text, &paint.dim(&format!("      {note}")));
        }
    }
}

fn cells(row: &[String; 5]) -> String {
    let mut text = String::from("  ");
    for (index, (cell, width)) in row.iter().zip(WIDTHS).enumerate() {
        // Writing to a string cannot fail.
        let written = match index {
            0 => write!(text, "{cell:<width$}"),
            _ => write!(text, " {cell:>width$}"),
        };
        debug_assert!(written.is_ok());
    }
    text
}
