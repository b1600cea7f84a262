//! Dimensions and verdicts: a set against its source, a run against its set.

use crate::population::Population;
use truetape_schemas::report::{Direction, FORMAT, Report, Verdict};
use truetape_schemas::run::{Dispatch, Run};
use truetape_schemas::set::Turn;
use truetape_schemas::set::manifest::Manifest;

/// What a population of turns does not say about a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetContext {
    /// The set's name.
    pub set_name: String,
    /// The set's digest; empty while it is not known yet.
    pub set_digest: String,
    /// `replica` or `fleet`.
    pub view: String,
    /// What the rate is a sample of: `recorded`, `shape` or `stress`.
    pub rate: String,
    /// Share of the source's tokens that was asked for (the budget); none for all of them.
    pub share: Option<f64>,
    /// Share of the source's rate that the set should have; none when it is `share`. A contiguous
    /// window has few of the tokens at the whole rate: 1.
    pub rate_share: Option<f64>,
    /// Capacities, in blocks of the source's cache, at which the hit curves are compared; empty
    /// for a grid over the source's blocks.
    pub capacities_blocks: Vec<usize>,
    /// Share of requests with history whose parent was not found; none when nobody looked.
    pub unlinked_share: Option<f64>,
    /// Things found on the way, to be repeated in the report.
    pub findings: Vec<String>,
}

/// Grades a set against its source: level 1.
pub fn set_against_source(source: &Population, set: &Population, ctx: &SetContext) -> Report {
    let _unused = (source, set);
    empty(&ctx.set_name, &ctx.set_digest, &ctx.view)
}

/// Grades a run against its set, and merges the set's own report: levels 1 and 2.
pub fn run_against_set(
    manifest: &Manifest,
    turns: &[Turn],
    run: &Run,
    dispatches: &[Dispatch],
    level1: Option<&Report>,
) -> Report {
    let _unused = (turns, run, dispatches, level1);
    empty(&manifest.name, &manifest.digest, &manifest.semantics.view)
}

fn empty(name: &str, digest: &str, view: &str) -> Report {
    Report {
        format: FORMAT.to_string(),
        set_name: name.to_owned(),
        set_digest: digest.to_owned(),
        run_id: None,
        target: None,
        view: view.to_owned(),
        verdict: Verdict::Unknown,
        direction: Direction::Unknown,
        pushes: Vec::new(),
        sentence: String::new(),
        checklist: Vec::new(),
        dimensions: Vec::new(),
        unknown: Vec::new(),
        findings: Vec::new(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
