//! Dimensions and verdicts: a set against its source, a run against its set.
//!
//! Level 1 compares two finite, known populations, so its deviations are exact and have no
//! confidence interval; what is uncertain is information (a coarse clock, a missing length), and
//! what is unattainable is a step smaller than one session. Level 2 compares a run's own log with
//! the set, exactly too. The statistics, thresholds and rules are `schemas/spec/report-v1.md`.

use crate::population::Population;
use crate::profile::prefix::{Reuse, hot_handovers};
use truetape_schemas::report::{Dimension, Level, Report};
use truetape_schemas::run::{Dispatch, Run};
use truetape_schemas::set::Turn;
use truetape_schemas::set::manifest::Manifest;

mod arrivals;
mod assemble;
mod draft;
mod joint;
mod lengths;
mod mix;
mod prefix;
mod run;
mod sessions;
mod simulation;

pub use draft::Unit;

/// Lengths, hashes or ends that may be unknown before a dimension is.
pub const UNKNOWN_SHARE_MAX: f64 = 0.01;

/// Handovers that make a block hot in the smallest set: three sessions used it.
const HOT_IN_SET_MIN: usize = 2;

/// The width of a two-sided 95 % interval, in standard deviations.
const Z_95: f64 = 1.96;

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

/// Two populations and what relates them.
struct Pair<'a> {
    source: &'a Population,
    set: &'a Population,
    ctx: &'a SetContext,
    /// Share of the source's tokens that was asked for.
    share: f64,
    /// Share of the source's rate that the set should have.
    rate_share: f64,
    /// Sessions in the set.
    sessions_set: usize,
    source_reuse: Reuse,
    set_reuse: Reuse,
}

impl<'a> Pair<'a> {
    fn new(source: &'a Population, set: &'a Population, ctx: &'a SetContext) -> Self {
        let usable = |share: &f64| share.is_finite() && *share > 0.0;
        let share = ctx.share.filter(usable).unwrap_or(1.0);
        let rate_share = ctx.rate_share.filter(usable).unwrap_or(share);
        let sessions_set = set.turns_per_session().len();
        let source_reuse = Reuse::of(source, hot_handovers(source));
        let set_reuse = reuse_of_set(source, set, &source_reuse, share);
        Self {
            source,
            set,
            ctx,
            share,
            rate_share,
            sessions_set,
            source_reuse,
            set_reuse,
        }
    }

    /// The smallest step a set of whole sessions can take, as a share of it.
    fn session_step(&self) -> f64 {
        1.0 / self.sessions_set.max(1) as f64
    }

    /// The 95 % half-width of a random draw, for a statistic with that standard error; nothing when
    /// the set is the whole source.
    fn chance(&self, standard_error: f64) -> f64 {
        Z_95 * standard_error * (1.0 - self.share).max(0.0).sqrt()
    }

    /// Share of the source's prompt blocks that the set got.
    fn realised_share(&self) -> f64 {
        refs_share(self.source, self.set).unwrap_or(self.share)
    }
}

/// Hot blocks of a set are the source's where it has them. New text has new hashes: there a block is
/// hot when it changes hands as often as a sample lets a hot one.
fn reuse_of_set(source: &Population, set: &Population, reuse: &Reuse, share: f64) -> Reuse {
    let known = Reuse::of_sample(set, &reuse.hot_hashes);
    if known.hot_blocks > 0 || reuse.hot_blocks == 0 {
        return known;
    }
    let share = refs_share(source, set).unwrap_or(share).min(1.0);
    let handovers = (hot_handovers(source) as f64 * share).round();
    Reuse::of(set, (handovers as usize).max(HOT_IN_SET_MIN))
}

fn refs_share(source: &Population, set: &Population) -> Option<f64> {
    let refs = |population: &Population| {
        population
            .turns
            .iter()
            .map(|turn| turn.blocks.len())
            .sum::<usize>() as f64
    };
    let (source, set) = (refs(source), refs(set));
    (source > 0.0 && set > 0.0).then(|| set / source)
}

/// Grades a set against its source: level 1.
pub fn set_against_source(source: &Population, set: &Population, ctx: &SetContext) -> Report {
    let pair = Pair::new(source, set, ctx);
    let mut dimensions = lengths::dimensions(&pair);
    dimensions.extend(sessions::dimensions(&pair));
    dimensions.extend(prefix::dimensions(&pair));
    dimensions.extend(arrivals::dimensions(&pair));
    dimensions.extend(mix::dimensions(&pair));
    let simulated = simulation::of_set(&pair);
    dimensions.extend(simulation::in_flight(&simulated));
    let findings = ctx.findings.clone();
    assemble::report(
        assemble::Subject {
            set_name: ctx.set_name.clone(),
            set_digest: ctx.set_digest.clone(),
            view: ctx.view.clone(),
            run: None,
        },
        dimensions,
        findings,
        vec![simulation::told(Level::SetAgainstSource, &simulated)],
    )
}

/// Grades a run against its set, and merges the set's own report: levels 1 and 2.
pub fn run_against_set(
    manifest: &Manifest,
    turns: &[Turn],
    run: &Run,
    dispatches: &[Dispatch],
    level1: Option<&Report>,
) -> Report {
    let mut dimensions: Vec<Dimension> = match level1 {
        Some(report) => report.dimensions.clone(),
        None => vec![ungraded()],
    };
    let log = run::Log::new(manifest, turns, run, dispatches);
    dimensions.extend(run::dimensions(&log));
    let mut findings = level1
        .map(|report| report.findings.clone())
        .unwrap_or_default();
    findings.extend(manifest.findings.iter().chain(&run.findings).cloned());
    findings.extend(log.findings());
    let part = log.part();
    let mut simulations = level1
        .map(|report| report.simulations.clone())
        .unwrap_or_default();
    simulations.push(simulation::told(
        Level::RunAgainstSet,
        &simulation::of_run(&log),
    ));
    let mut report = assemble::report(
        assemble::Subject {
            set_name: manifest.name.clone(),
            set_digest: manifest.digest.clone(),
            view: manifest.semantics.view.clone(),
            run: Some((run.run_id.clone(), run.target.clone())),
        },
        dimensions,
        findings,
        simulations,
    );
    if let Some((due, all)) = part {
        report.sentence = format!(
            "only {due} of the set's {all} turns were due in this run; {}",
            report.sentence
        );
    }
    report
}

/// Stands for level 1 where the set has no report.
fn ungraded() -> Dimension {
    draft::Draft::new("set.graded", "the set against production", Unit::Share, 0.0)
        .unknown_if(true, || "the set has no level 1 report".to_owned())
        .finish(Level::SetAgainstSource)
}

#[cfg(test)]
mod tests;
