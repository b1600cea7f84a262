//! Reports and profiles for people: a terminal, a pull request.
//!
//! The first screen of a report answers what matters: the verdict, the direction, the biggest cause,
//! what nobody could know, and the seven points. The table of dimensions comes after it, failures
//! first. JSON is the report itself.

use crate::gate::Outcome;
use crate::profile::Profile;
use crate::profile::portrait::Portrait;
use truetape_schemas::report::{Dimension, Report};

mod junit;
mod markdown;
mod page;
mod plot;
mod portrait;
mod profile;
mod sheet;
mod svg;
mod terminal;
mod words;

pub use junit::Judged;
pub use sheet::{Evidence, SetSide};

/// Renders a report for a terminal, with colours or without.
pub fn terminal(report: &Report, color: bool) -> String {
    terminal::report(report, color)
}

/// Renders a report as Markdown, for a comment on a pull request.
pub fn markdown(report: &Report) -> String {
    markdown::report(report)
}

/// Renders a profile for a terminal.
pub fn profile_terminal(profile: &Profile) -> String {
    profile::terminal(profile)
}

/// Renders a portrait for a terminal: its profile, its shapes, its mix.
pub fn portrait_terminal(portrait: &Portrait) -> String {
    portrait::terminal(portrait)
}

/// Renders a portrait as one page of HTML that opens from a file, without a network.
pub fn portrait_html(title: &str, portrait: &Portrait) -> String {
    page::html(title, portrait)
}

/// Renders a report as one page of HTML that opens from a file, without a network.
pub fn report_html(evidence: &Evidence<'_>) -> String {
    sheet::html(evidence)
}

/// Renders reports as JUnit XML.
pub fn junit(all: &[Judged<'_>]) -> String {
    junit::xml(all)
}

/// Renders what a gate came to, as Markdown.
pub fn gate_markdown(outcome: &Outcome) -> String {
    markdown::gate(outcome)
}

/// Renders what a gate came to, for a terminal.
pub fn gate_terminal(outcome: &Outcome) -> String {
    terminal::gate(outcome)
}

/// A deviation in words: `-3.1 %`, `+0.40 pp`, `x1.16`.
pub fn deviation(dimension: &Dimension) -> String {
    words::deviation(dimension)
}

#[cfg(test)]
mod tests;
