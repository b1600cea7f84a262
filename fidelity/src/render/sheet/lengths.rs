//! How long prompts and answers are: production, set and run as distribution functions.

use super::Evidence;
use super::chart::{Axis, Lines, Series, Whose};
use super::scale::Kind;
use crate::latency::answered;
use crate::profile::Lengths;
use crate::quantile::sorted;
use truetape_schemas::capture::Outcome;
use truetape_schemas::report::Level;

/// Places of a distribution that are drawn; each is a row of the table.
const PLACES: usize = 48;

/// Both charts.
pub(super) fn charts(evidence: &Evidence<'_>) -> [Lines; 2] {
    let asked = |of: fn(&truetape_schemas::run::Dispatch) -> Option<i64>| {
        sorted(evidence.due().filter_map(of).map(|tokens| tokens as f64))
    };
    let set_inputs = match evidence.set {
        Some(set) => sorted(
            set.turns
                .iter()
                .filter_map(|t| Some(t.input_tokens? as f64)),
        ),
        None => asked(|dispatch| dispatch.input_tokens_asked),
    };
    let set_outputs = match evidence.set {
        Some(set) => {
            let complete = set
                .turns
                .iter()
                .filter(|t| t.recorded_outcome == Outcome::Complete);
            sorted(complete.filter_map(|t| Some(t.output_tokens? as f64)))
        }
        None => asked(|dispatch| dispatch.output_tokens_asked),
    };
    let answers = || evidence.due().filter(|dispatch| answered(dispatch));
    let run_inputs = sorted(answers().filter_map(|d| Some(d.input_tokens? as f64)));
    let run_outputs = sorted(answers().filter_map(|d| Some(d.output_tokens? as f64)));
    let source = evidence.source_profile();
    let of = |pick: fn(&crate::profile::Profile) -> &Lengths| source.as_ref().map(pick);
    [
        chart(
            evidence,
            ("input-cdf", "Prompt lengths", "input_tokens"),
            [set_inputs, run_inputs],
            of(|profile| &profile.input_tokens),
        ),
        chart(
            evidence,
            ("output-cdf", "Answer lengths", "output_tokens"),
            [set_outputs, run_outputs],
            of(|profile| &profile.output_tokens),
        ),
    ]
}

fn chart(
    evidence: &Evidence<'_>,
    (id, title, kind): (&'static str, &'static str, &str),
    [set, run]: [Vec<f64>; 2],
    source: Option<&Lengths>,
) -> Lines {
    let source = quantiles(evidence, kind, source);
    let grid = grid(&[&set, &run], &source);
    let share = |values: &[f64]| -> Vec<Option<f64>> {
        let below = |at: &f64| values.partition_point(|value| value <= at) as f64;
        let known = (!values.is_empty()).then_some(values.len() as f64);
        grid.iter().map(|at| Some(below(at) / known?)).collect()
    };
    let of_source = |at: &f64| source.iter().find(|(x, _)| x == at).map(|(_, q)| *q);
    let mut lacks = Vec::new();
    for (name, is_known) in [
        ("production's lengths", !source.is_empty()),
        ("the set's lengths", !set.is_empty()),
        ("the lengths that the target reported", !run.is_empty()),
    ] {
        if !is_known {
            lacks.push(name.to_owned());
        }
    }
    Lines {
        id,
        title,
        about:
            "The share of the requests that is at most so long. Of production, only the quantiles \
                that the set keeps are known: the dots."
                .to_owned(),
        x: Axis::new("tokens", Kind::Log),
        y: Axis::percent("at most so long", Kind::Linear),
        series: vec![
            Series::new(
                "production",
                Whose::Production,
                grid.iter().map(of_source).collect(),
            )
            .dots(),
            Series::new("set", Whose::Set, share(&set)),
            Series::new("run", Whose::Run, share(&run)),
        ],
        grid,
        at_x: Vec::new(),
        at_y: Vec::new(),
        lacks,
    }
}

/// Lengths at the quantiles of production that are known: from the set's manifest, or else from the
/// targets of the report.
fn quantiles(evidence: &Evidence<'_>, kind: &str, source: Option<&Lengths>) -> Vec<(f64, f64)> {
    let told = |quantile: &str| {
        let dimension = evidence.dimension(Level::SetAgainstSource, &format!("{kind}.{quantile}"));
        dimension.and_then(|dimension| dimension.target)
    };
    let [p50, p90, p99] = match source {
        Some(lengths) => [lengths.p50, lengths.p90, lengths.p99],
        None => ["p50", "p90", "p99"].map(told),
    };
    let max = source.and_then(|lengths| lengths.max);
    let mut known: Vec<(f64, f64)> = [(p50, 0.5), (p90, 0.9), (p99, 0.99), (max, 1.0)]
        .into_iter()
        .filter_map(|(length, q)| Some((length?, q)))
        .collect();
    // Of equal lengths the highest quantile is the distribution's value there.
    known.reverse();
    known.dedup_by(|a, b| a.0 == b.0);
    known.reverse();
    known
}

/// Places from the shortest to the longest, whole tokens apart, those of production's quantiles
/// among them.
fn grid(values: &[&Vec<f64>], source: &[(f64, f64)]) -> Vec<f64> {
    let ends = values
        .iter()
        .flat_map(|v| [v.first(), v.last()])
        .flatten()
        .copied();
    let all: Vec<f64> = ends
        .chain(source.iter().map(|(x, _)| *x))
        .map(|x| x.max(1.0))
        .collect();
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(0.0, f64::max);
    if all.is_empty() {
        return Vec::new();
    }
    let step = (high / low).powf(1.0 / (PLACES - 1) as f64);
    let even = (0..PLACES).map(|at| (low * step.powi(at as i32)).round().clamp(low, high));
    let mut grid = sorted(even.chain(source.iter().map(|(x, _)| *x)).chain([high]));
    grid.dedup();
    grid
}
