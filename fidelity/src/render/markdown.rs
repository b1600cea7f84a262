//! A report as Markdown.

use super::words;
use crate::gate::Outcome;
use truetape_schemas::report::{Dimension, Report, Verdict};

/// Pushes that the comment names.
const PUSHES_MAX: usize = 5;

/// Renders a report.
pub(super) fn report(report: &Report) -> String {
    let mut lines = vec![
        format!(
            "### {} · {}",
            report.verdict.name(),
            report.direction.name()
        ),
        String::new(),
        format!("{}.", escape(&report.sentence)),
        String::new(),
        format!("{}.", escape(&words::subject(report))),
        String::new(),
    ];
    lines.extend(checklist(report));
    lines.extend(pushes(report));
    let (passed, rest): (Vec<&Dimension>, Vec<&Dimension>) = report
        .dimensions
        .iter()
        .partition(|dimension| dimension.verdict == Verdict::Pass);
    if !rest.is_empty() {
        lines.push("**Not passed**".to_owned());
        lines.push(String::new());
        lines.extend(table(report, false));
    }
    if !passed.is_empty() {
        lines.push(format!(
            "<details><summary>{} dimensions passed</summary>",
            passed.len()
        ));
        lines.push(String::new());
        lines.extend(table(report, true));
        lines.push("</details>".to_owned());
        lines.push(String::new());
    }
    lines.extend(findings(report));
    lines.push(format!(
        "<sub>{} · truetape {}</sub>",
        report.format, report.tool_version
    ));
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// Renders a gate: what is broken first of all.
pub(super) fn gate(outcome: &Outcome) -> String {
    let mut lines = vec![
        format!("#### {}", escape(&outcome.sentence())),
        String::new(),
        "| Rule | | Found |".to_owned(),
        "|-|-|-|".to_owned(),
    ];
    let held = outcome.rules.iter().filter(|rule| rule.held);
    lines.extend(outcome.broken().chain(held).map(|rule| {
        let mark = if rule.held { "holds" } else { "**broken**" };
        format!(
            "| {} | {mark} | {} |",
            escape(&rule.name),
            escape(&rule.said)
        )
    }));
    lines.push(String::new());
    lines.join("\n") + "\n"
}

fn checklist(report: &Report) -> Vec<String> {
    let mut lines = vec![
        "| | Question | | Answer |".to_owned(),
        "|-|-|-|-|".to_owned(),
    ];
    lines.extend(report.checklist.iter().map(|point| {
        format!(
            "| {} | {} | {} | {} |",
            point.number,
            escape(&point.question),
            mark(point.verdict),
            escape(&point.answer)
        )
    }));
    lines.push(String::new());
    lines
}

fn pushes(report: &Report) -> Vec<String> {
    if report.pushes.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        "**What pushes, the largest cause first**".to_owned(),
        String::new(),
    ];
    lines.extend(report.pushes.iter().take(PUSHES_MAX).map(|push| {
        format!(
            "- `{}` {}: {}",
            push.dimension,
            push.direction.name(),
            escape(&push.reason)
        )
    }));
    let more = report.pushes.len().saturating_sub(PUSHES_MAX);
    if more > 0 {
        lines.push(format!("- and {more} more"));
    }
    lines.push(String::new());
    lines
}

fn table(report: &Report, passed: bool) -> Vec<String> {
    let mut lines = vec![
        "| Dimension | Value | Target | Deviation | Tolerance | Verdict | Direction | Note |"
            .to_owned(),
        "|-|-:|-:|-:|-:|-|-|-|".to_owned(),
    ];
    for level in words::LEVELS {
        let rows = words::of_level(report, level);
        let rows = rows
            .into_iter()
            .filter(|d| (d.verdict == Verdict::Pass) == passed);
        lines.extend(rows.map(row));
    }
    lines.push(String::new());
    lines
}

fn row(dimension: &Dimension) -> String {
    format!(
        "| `{}` | {} | {} | {} | {} | {} | {} | {} |",
        dimension.id,
        words::value(dimension, dimension.value),
        words::value(dimension, dimension.target),
        words::deviation(dimension),
        words::tolerance(dimension),
        mark(dimension.verdict),
        dimension.direction.name(),
        escape(dimension.note.as_deref().unwrap_or_default()),
    )
}

fn findings(report: &Report) -> Vec<String> {
    if report.findings.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["**Findings**".to_owned(), String::new()];
    lines.extend(
        report
            .findings
            .iter()
            .map(|finding| format!("- {}", escape(finding))),
    );
    lines.push(String::new());
    lines
}

/// A verdict that stands out among others.
fn mark(verdict: Verdict) -> String {
    match verdict {
        Verdict::Pass => verdict.name().to_owned(),
        Verdict::Unknown | Verdict::Fail => format!("**{}**", verdict.name()),
    }
}

/// Keeps text inside its cell, and names out of the markup.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}
