//! The first screen: what it is of, the verdict, the direction, the biggest cause, what nobody could
//! know, the gate, and the seven points.

use super::super::svg::escape;
use super::super::words;
use super::Evidence;
use truetape_schemas::report::{CheckPoint, Direction, Report, Verdict};

/// Pushes that are named.
const PUSHES_MAX: usize = 5;

/// Renders the first screen.
pub(super) fn first_screen(evidence: &Evidence<'_>) -> String {
    let report = evidence.report;
    let points: String = report.checklist.iter().map(point).collect();
    format!(
        "<header>\n<p class=\"kicker\">Fidelity report</p>\n\
         <h1>{verdict} {direction} <span class=\"subject\">{subject}</span></h1>\n\
         <p class=\"sentence\">{sentence}.</p>\n\
         <nav aria-label=\"Sections\"><a href=\"#dimensions\">Dimensions</a> <a href=\"#simulated\">Simulated</a> <a href=\"#measured\">Measured</a> \
         <a href=\"#charts\">Charts</a> <a href=\"#findings\">Findings</a></nav>\n\
         <div class=\"screen\"><div>\n{cause}{pushes}{unknown}{gate}</div>\n\
         <div><h2>Seven points</h2><ol class=\"points\">\n{points}</ol></div></div>\n{identity}</header>\n",
        verdict = verdict(report.verdict),
        direction = direction(report.direction),
        subject = escape(&words::subject(report)),
        sentence = escape(&report.sentence),
        cause = cause(report),
        pushes = pushes(report),
        unknown = unknown(report),
        gate = gate(evidence),
        identity = identity(evidence),
    )
}

/// A verdict that can be told from others without colours.
pub(super) fn verdict(verdict: Verdict) -> String {
    let name = verdict.name();
    let mark = match verdict {
        Verdict::Pass => "✓",
        Verdict::Unknown => "?",
        Verdict::Fail => "✗",
    };
    format!(
        "<span class=\"badge {}\"><span aria-hidden=\"true\">{mark}</span> {name}</span>",
        name.to_lowercase()
    )
}

/// The same for a direction.
pub(super) fn direction(direction: Direction) -> String {
    let name = direction.name();
    let mark = match direction {
        Direction::Optimistic => "▲",
        Direction::Pessimistic => "▼",
        Direction::Neutral => "=",
        Direction::Mixed => "◆",
        Direction::Unknown => "?",
    };
    format!(
        "<span class=\"way way-{}\"><span aria-hidden=\"true\">{mark}</span> {name}</span>",
        name.to_lowercase()
    )
}

fn cause(report: &Report) -> String {
    let Some(push) = report.pushes.first() else {
        return "<h2>Biggest cause</h2><p>None: nothing pushes the result either way.</p>\n"
            .to_owned();
    };
    let found = report
        .dimensions
        .iter()
        .find(|dimension| dimension.id == push.dimension);
    let deviation = found.map_or_else(String::new, words::deviation);
    format!(
        "<h2>Biggest cause</h2><p class=\"cause\"><code>{}</code> <strong>{}</strong> {}</p><p>{}.</p>\n",
        escape(&push.dimension),
        escape(&deviation),
        direction(push.direction),
        escape(&push.reason)
    )
}

fn pushes(report: &Report) -> String {
    let mut others = report.pushes.iter().skip(1);
    let named: String = others
        .by_ref()
        .take(PUSHES_MAX)
        .map(|push| {
            format!(
                "<li>{} <code>{}</code>: {}</li>\n",
                direction(push.direction),
                escape(&push.dimension),
                escape(&push.reason)
            )
        })
        .collect();
    let more = others.count();
    if named.is_empty() {
        return String::new();
    }
    let more = if more > 0 {
        format!("<li>and {more} more</li>\n")
    } else {
        String::new()
    };
    let count = report.pushes.len() - 1;
    format!(
        "<details class=\"pushes\"><summary>{count} more that push</summary><ul>\n{named}{more}</ul></details>\n"
    )
}

fn unknown(report: &Report) -> String {
    let (unknown, all) = (report.unknown.len(), report.dimensions.len());
    if unknown == 0 {
        return format!("<h2>Unknown</h2><p>None of {all} dimensions.</p>\n");
    }
    let names: String = report
        .unknown
        .iter()
        .map(|id| format!("<li><code>{}</code></li>", escape(id)))
        .collect();
    format!("<h2>Unknown: {unknown} of {all}</h2><ul class=\"names\">{names}</ul>\n")
}

fn gate(evidence: &Evidence<'_>) -> String {
    let Some(outcome) = evidence.gate else {
        return String::new();
    };
    let rules: String = outcome
        .rules
        .iter()
        .map(|rule| {
            let held = if rule.held {
                Verdict::Pass
            } else {
                Verdict::Fail
            };
            format!(
                "<li>{} <code>{}</code>: {}</li>\n",
                verdict(held),
                escape(&rule.name),
                escape(&rule.said)
            )
        })
        .collect();
    format!(
        "<h2>Gate</h2><p>{}.</p><ul class=\"rules\">\n{rules}</ul>\n",
        escape(&outcome.sentence())
    )
}

fn point(point: &CheckPoint) -> String {
    format!(
        "<li value=\"{}\">{} <strong>{}</strong><br><span class=\"soft\">{}</span></li>\n",
        point.number,
        verdict(point.verdict),
        escape(&point.question),
        escape(&point.answer)
    )
}

/// What it is of, to the last digit.
fn identity(evidence: &Evidence<'_>) -> String {
    let report = evidence.report;
    let engine = evidence.run.map(|run| &run.engine);
    let said = |text: Option<&String>| text.cloned().unwrap_or_else(|| "unknown".to_owned());
    let target = match engine {
        None => said(report.target.as_ref()),
        Some(engine) => format!(
            "{}; engine {}, version {}, models {}",
            said(report.target.as_ref()),
            said(engine.name.as_ref()),
            said(engine.version.as_ref()),
            if engine.models.is_empty() {
                "unknown".to_owned()
            } else {
                engine.models.join(", ")
            }
        ),
    };
    let run = match evidence.run {
        None => "none: the set against its source".to_owned(),
        Some(run) => format!("{}, {}, from {}", run.run_id, run.validity, run.zero),
    };
    let rows = [
        (
            "set",
            format!(
                "{} sha256:{}, {} view",
                report.set_name, report.set_digest, report.view
            ),
        ),
        ("target", target),
        ("run", run),
        (
            "written by",
            format!("truetape {}, {}", report.tool_version, report.format),
        ),
    ];
    let rows: String = rows
        .iter()
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(value)))
        .collect();
    format!("<dl class=\"identity\">{rows}</dl>\n")
}

/// What else a reader should know.
pub(super) fn findings(evidence: &Evidence<'_>) -> String {
    let mut all: Vec<String> = evidence.report.findings.clone();
    if let Some(run) = evidence.run {
        all.extend(
            run.validity_reasons
                .iter()
                .map(|why| format!("the run is {}: {why}", run.validity)),
        );
        all.extend(run.findings.iter().cloned());
    }
    if let Some(set) = evidence.set {
        all.extend(
            set.manifest
                .findings
                .iter()
                .map(|finding| format!("the set: {finding}")),
        );
    }
    let mut seen = std::collections::HashSet::new();
    all.retain(|finding| seen.insert(finding.clone()));
    let items: String = all
        .iter()
        .map(|finding| format!("<li>{}</li>\n", escape(finding)))
        .collect();
    let body = if items.is_empty() {
        "<p>None.</p>".to_owned()
    } else {
        format!("<ul>\n{items}</ul>")
    };
    format!("<section id=\"findings\"><h2>Findings</h2>\n{body}\n</section>\n")
}
