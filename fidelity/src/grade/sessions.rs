//! Dimensions of sessions: turns and pauses.

use super::Pair;
use super::draft::{Draft, Unit};
use super::lengths::{SAMPLES_P50_MIN, SAMPLES_P90_MIN};
use crate::profile::sessions::think_times_s;
use crate::quantile::{mean, quantile, sorted};
use truetape_schemas::report::{Dimension, Level};

/// Requests with history whose parent was not found: with more, sessions are not known.
pub(super) const UNLINKED_SHARE_MAX: f64 = 0.10;

/// Sessions that a distribution of turns needs.
const SESSIONS_MIN: usize = 11;

/// Dimensions of sessions. Where neither side has a session of two turns there is nothing that a
/// replay could distort, and there are none about pauses.
pub(super) fn dimensions(pair: &Pair<'_>) -> Vec<Dimension> {
    let mut dimensions = turns_per_session(pair);
    let several = |population: &crate::population::Population| {
        population.turns.len() > population.turns_per_session().len()
    };
    if several(pair.source) || several(pair.set) {
        dimensions.extend(think_times(pair));
    }
    dimensions
}

fn turns_per_session(pair: &Pair<'_>) -> Vec<Dimension> {
    let counts = |population: &crate::population::Population| {
        sorted(population.turns_per_session().into_iter().map(f64::from))
    };
    let (source, set) = (counts(pair.source), counts(pair.set));
    let distance = (!source.is_empty() && !set.is_empty()).then(|| sup_distance(&source, &set));
    let fewest = source.len().min(set.len());
    let unlinked = pair.ctx.unlinked_share.unwrap_or(0.0);
    let guard = |draft: Draft| {
        draft
            .unknown_if(unlinked > UNLINKED_SHARE_MAX, || {
                format!(
                    "{:.1} % of the requests with history have no known parent",
                    unlinked * 100.0
                )
            })
            .unknown_if(fewest < SESSIONS_MIN, || {
                format!("{fewest} sessions; their distribution needs {SESSIONS_MIN}")
            })
            .within_reach(pair.session_step(), "one session")
            .note_if(pair.ctx.unlinked_share.is_none(), || {
                "nobody counted requests whose parent was not found".to_owned()
            })
            .finish(Level::SetAgainstSource)
    };
    let cdf = Draft::new(
        "turns_per_session.cdf",
        "distance between the distributions of turns in a session",
        Unit::Share,
        0.03,
    )
    .compare(distance, distance.map(|_| 0.0));
    let average = Draft::new(
        "turns_per_session.mean",
        "mean turns in a session",
        Unit::Relative,
        0.05,
    )
    .compare(mean(&set), mean(&source));
    vec![guard(cdf), guard(average)]
}

fn think_times(pair: &Pair<'_>) -> Vec<Dimension> {
    let pauses = |population| sorted(think_times_s(population));
    let (source, set) = (pauses(pair.source), pauses(pair.set));
    let fewest = source.len().min(set.len());
    [
        ("p50", "median", 0.5, SAMPLES_P50_MIN),
        ("p90", "90th percentile of", 0.9, SAMPLES_P90_MIN),
    ]
    .into_iter()
    .map(|(id, title, q, samples_min)| {
        let target = quantile(&source, q);
        let step = pair.session_step();
        let reach = [q - step, q + step].map(|q| {
            quantile(&set, q)
                .zip(target)
                .map(|(v, t)| Unit::Relative.deviation(v, t))
        });
        let title = format!("{title} pause before the next turn");
        let draft = Draft::new(format!("think_time.{id}"), &title, Unit::Relative, 0.05)
            .compare(quantile(&set, q), target)
            .unknown_if(source.is_empty(), || {
                "no end of an answer is known, so no pause is".to_owned()
            })
            .unknown_if(fewest < samples_min, || {
                format!("{fewest} pauses; this quantile needs {samples_min}")
            });
        let draft = match reach {
            [Some(low), Some(high)] => draft.reach_between(low, high, "one session"),
            _ => draft,
        };
        draft.finish(Level::SetAgainstSource)
    })
    .collect()
}

/// Largest distance between two empirical distribution functions (Kolmogorov-Smirnov).
pub(super) fn sup_distance(a: &[f64], b: &[f64]) -> f64 {
    let at = |values: &[f64], x: f64| {
        values.partition_point(|value| *value <= x) as f64 / values.len().max(1) as f64
    };
    a.iter()
        .chain(b)
        .map(|x| (at(a, *x) - at(b, *x)).abs())
        .fold(0.0, f64::max)
}
