//! A report as one page of HTML: it opens from a file, without a network, in light and dark, on paper,
//! and with a keyboard alone.
//!
//! The first screen is the report's ([`head`]); then every dimension ([`rows`]), what the engine
//! model makes of them ([`simulated`]), what was measured ([`measured`]), and the charts. Charts are drawn here, as SVG, and not by a script in the reader:
//! they print, they are there when scripts are not allowed, the same report gives the same bytes, and
//! a read-out is a `<title>` that a screen reader finds too. The script adds a cursor and arrow keys.

use super::svg::escape;
use crate::gate::Outcome;
use crate::latency::{Summary, is_left_out};
use crate::profile::Profile;
use truetape_schemas::report::{Dimension, Level, Report};
use truetape_schemas::run::{Dispatch, Run};
use truetape_schemas::set::Turn;
use truetape_schemas::set::manifest::Manifest;

mod answers;
mod arrivals;
mod chart;
mod head;
mod latency;
mod lengths;
mod measured;
mod reuse;
mod rows;
mod scale;
mod scatter;
mod sessions;
mod simulated;

/// The look of the page.
const STYLE: &str = include_str!("sheet/style.css");

/// The cursor and the arrow keys of the charts.
const SCRIPT: &str = include_str!("sheet/read_outs.js");

/// Nothing is fetched, whatever a name from the traffic looks like.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The set of a run, where it is at hand.
#[derive(Clone, Copy, Debug)]
pub struct SetSide<'a> {
    /// What it is.
    pub manifest: &'a Manifest,
    /// Its turns.
    pub turns: &'a [Turn],
}

/// What a page is made of. A chart without its data says so by name.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The report.
    pub report: &'a Report,
    /// The run that it is of; none for a set's own.
    pub run: Option<&'a Run>,
    /// The run's dispatches.
    pub dispatches: &'a [Dispatch],
    /// The set.
    pub set: Option<SetSide<'a>>,
    /// What a gate came to.
    pub gate: Option<&'a Outcome>,
}

impl<'a> Evidence<'a> {
    /// Dispatches that the run was asked for.
    fn due(&self) -> impl Iterator<Item = &'a Dispatch> {
        self.dispatches
            .iter()
            .filter(|dispatch| !is_left_out(dispatch))
    }

    fn dimension(&self, level: Level, id: &str) -> Option<&'a Dimension> {
        let mut all = self.report.dimensions.iter();
        all.find(|dimension| dimension.level == level && dimension.id == id)
    }

    /// What the set's manifest says of production.
    fn source_profile(&self) -> Option<Profile> {
        serde_json::from_value(self.set?.manifest.source_profile.clone()).ok()
    }

    /// Latencies and rates of the run; all unknown without one.
    fn summary(&self) -> Summary {
        let summary = self.run.map(|run| run.summary.clone()).unwrap_or_default();
        serde_json::from_value(summary).unwrap_or_default()
    }
}

/// Renders a page.
pub(super) fn html(evidence: &Evidence<'_>) -> String {
    let report = evidence.report;
    let title = escape(&format!(
        "{} {}: {}",
        report.verdict.name(),
        report.direction.name(),
        super::words::subject(report)
    ));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>\n{STYLE}</style></head><body>\n\
         <a class=\"skip\" href=\"#dimensions\">Skip to the dimensions</a>\n"
    );
    page.push_str(&head::first_screen(evidence));
    page.push_str("<main>\n");
    page.push_str(&rows::section(evidence));
    page.push_str(&simulated::section(evidence));
    page.push_str(&measured::section(evidence));
    page.push_str(&charts(evidence));
    page.push_str(&head::findings(evidence));
    page.push_str(&format!(
        "</main>\n<script>\n{SCRIPT}</script></body></html>\n"
    ));
    page
}

fn charts(evidence: &Evidence<'_>) -> String {
    let [inputs, outputs] = lengths::charts(evidence);
    let [ttft, e2el, per_token] = latency::charts(evidence);
    let part = |title: &str, figures: &[String]| {
        format!(
            "<h3>{title}</h3>\n<div class=\"charts\">\n{}</div>\n",
            figures.concat()
        )
    };
    let parts = [
        part(
            "Lengths and reuse",
            &[
                inputs.figure(),
                outputs.figure(),
                reuse::chart(evidence).figure(),
                answers::cached(evidence).figure(),
            ],
        ),
        part(
            "Time",
            &[
                arrivals::over_time(evidence).figure(),
                arrivals::dispersion(evidence).figure(),
                latency::lateness(evidence).figure(),
                sessions::figure(evidence),
            ],
        ),
        part(
            "Latency and answers",
            &[
                ttft.figure(),
                e2el.figure(),
                per_token.figure(),
                answers::lengths(evidence).figure(),
            ],
        ),
    ];
    format!(
        "<section id=\"charts\"><h2>Charts</h2>\n<p class=\"soft\">Point at a chart, or go to it with Tab \
         and read it with the arrow keys; the numbers are folded below each.</p>\n{}</section>\n",
        parts.concat()
    )
}

#[cfg(test)]
mod tests;
