//! Dimensions become a report: the worst verdict, the overall direction, a sentence.

use crate::{checklist, direction};
use std::collections::BTreeSet;
use truetape_schemas::report::{Dimension, FORMAT, Push, Report, Simulation, Verdict};

mod consequence;

/// What a report is about.
pub(super) struct Subject {
    pub(super) set_name: String,
    pub(super) set_digest: String,
    pub(super) view: String,
    /// Id and target of the run, for levels 2 and 3.
    pub(super) run: Option<(String, String)>,
}

/// Kinds of dimension without which "nothing pushes" says nothing.
const ESSENTIAL: &[&str] = &["input_tokens", "output_tokens", "prefix", "arrivals"];

/// Puts a report together.
pub(super) fn report(
    subject: Subject,
    dimensions: Vec<Dimension>,
    findings: Vec<String>,
    simulations: Vec<Simulation>,
) -> Report {
    let is_run = subject.run.is_some();
    let (run_id, target) = subject.run.unzip();
    let verdict = dimensions
        .iter()
        .map(|dimension| dimension.verdict)
        .max()
        .unwrap_or(Verdict::Unknown);
    let prior = direction::overall(&dimensions, ESSENTIAL);
    let overall = direction::simulated::overall(prior, &simulations, &dimensions);
    let pushes = direction::pushes(&dimensions);
    let unknown = dimensions
        .iter()
        .filter(|dimension| dimension.verdict == Verdict::Unknown)
        .map(|dimension| dimension.id.clone())
        .collect();
    let mut said = BTreeSet::new();
    Report {
        format: FORMAT.to_string(),
        set_name: subject.set_name,
        set_digest: subject.set_digest,
        run_id,
        target,
        view: subject.view,
        verdict,
        direction: overall,
        sentence: sentence(is_run, verdict, &dimensions, &pushes)
            + &consequence::of(verdict, overall, &pushes, &simulations),
        checklist: checklist::points(&dimensions, overall, &pushes, is_run),
        pushes,
        unknown,
        dimensions,
        simulations,
        findings: findings
            .into_iter()
            .filter(|finding| said.insert(finding.clone()))
            .collect(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn sentence(is_run: bool, verdict: Verdict, dimensions: &[Dimension], pushes: &[Push]) -> String {
    let what = if is_run { "the replay" } else { "the set" };
    let count = |wanted: Verdict| dimensions.iter().filter(|d| d.verdict == wanted).count();
    let (failed, unknown, all) = (
        count(Verdict::Fail),
        count(Verdict::Unknown),
        dimensions.len(),
    );
    match verdict {
        Verdict::Pass => {
            format!("{what} stands for production in all {all} dimensions that were compared")
        }
        Verdict::Unknown => format!(
            "nothing shows that {what} differs from production, but {unknown} of {all} dimensions \
             could not be judged"
        ),
        Verdict::Fail => {
            let cause = worst(dimensions, pushes);
            format!(
                "{what} differs from production in {failed} of {all} dimensions, above all in {cause}"
            )
        }
    }
}

/// The largest cause, in words.
fn worst(dimensions: &[Dimension], pushes: &[Push]) -> String {
    let failed = |id: &str| {
        dimensions
            .iter()
            .find(|d| d.id == id && d.verdict == Verdict::Fail)
    };
    let pushing = pushes.iter().find_map(|push| failed(&push.dimension));
    let any = || dimensions.iter().find(|d| d.verdict == Verdict::Fail);
    pushing.or_else(any).map_or_else(String::new, |dimension| {
        format!("{} ({})", dimension.id, crate::render::deviation(dimension))
    })
}
