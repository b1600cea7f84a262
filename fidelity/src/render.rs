//! Reports and profiles for people: a terminal, a pull request.

use crate::profile::Profile;
use truetape_schemas::report::Report;

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
