//! Dimensions of prefix reuse.

use super::draft::{Draft, Unit};
use super::{Pair, UNKNOWN_SHARE_MAX};
use crate::direction;
use crate::population::Population;
use crate::profile::Prefix;
use crate::profile::prefix::{hot_blocks, of};
use truetape_schemas::report::{Dimension, Level};

/// Capacities of the curve where none are asked for: the source's blocks, halved this many times.
const GRID_HALVINGS: u32 = 7;

/// A scaled cache must hold this many prompts; a smaller one measures the size of a prompt.
const PROMPTS_IN_CACHE_MIN: f64 = 4.0;

/// Tolerances of the curve: its mean absolute error and its largest, in ratio points.
const CURVE_MAE: f64 = 0.01;
const CURVE_MAX: f64 = 0.02;

/// Dimensions of prefix reuse.
pub(super) fn dimensions(pair: &Pair<'_>) -> Vec<Dimension> {
    let missing = missing(pair);
    if missing.is_some() {
        return unknown(&missing.unwrap_or_default());
    }
    let capacities = capacities(pair);
    let scaled: Vec<usize> = capacities.iter().map(|(_, scaled)| *scaled).collect();
    let asked: Vec<usize> = capacities.iter().map(|(asked, _)| *asked).collect();
    let source = of(pair.source, &asked);
    let set = of(pair.set, &scaled);
    let shared = |prefix: &Prefix| {
        prefix
            .hot_ratio
            .zip(prefix.cross_session_ratio)
            .map(|(a, b)| a + b)
    };
    let mut dimensions = vec![
        infinite(pair, &source, &set),
        kind(
            "intra_session",
            "hits inside a session",
            set.intra_session_ratio,
            source.intra_session_ratio,
            pair,
            0.0,
            &set,
        ),
        kind(
            "shared",
            "hits across sessions",
            shared(&set),
            shared(&source),
            pair,
            source.cross_session_ratio.unwrap_or(0.0),
            &set,
        ),
    ];
    dimensions.extend(curve(pair, &source, &set));
    dimensions
}

fn missing(pair: &Pair<'_>) -> Option<String> {
    for (population, whose) in [(pair.source, "source"), (pair.set, "set")] {
        let turns = population.turns.len();
        let without = population
            .turns
            .iter()
            .filter(|turn| turn.blocks.is_empty())
            .count();
        if without as f64 > UNKNOWN_SHARE_MAX * turns as f64 || turns == 0 {
            return Some(format!(
                "{without} of {turns} turns of the {whose} have no block hashes"
            ));
        }
    }
    match (pair.source.block_tokens, pair.set.block_tokens) {
        (source, set) if source != set => {
            Some("source and set have blocks of different sizes".to_owned())
        }
        _ => None,
    }
}

fn unknown(reason: &str) -> Vec<Dimension> {
    [
        (
            "prefix.infinite_hit_ratio",
            "prefix hits of a cache without bound",
        ),
        ("prefix.curve_mae", "hit curve, mean error"),
    ]
    .into_iter()
    .map(|(id, title)| {
        Draft::new(id, title, Unit::RatioPoints, 0.01)
            .unknown_if(true, || reason.to_owned())
            .finish(Level::SetAgainstSource)
    })
    .collect()
}

/// In a replica view production's router decides which sessions meet in one cache. Unless the
/// source *is* the replica, hits across sessions may be anything from none to the source's.
fn replica_slack(pair: &Pair<'_>, cross: f64) -> f64 {
    if pair.ctx.view == "replica" && pair.share < 1.0 {
        cross
    } else {
        0.0
    }
}

fn infinite(pair: &Pair<'_>, source: &Prefix, set: &Prefix) -> Dimension {
    let cross = source.cross_session_ratio.unwrap_or(0.0);
    kind(
        "infinite_hit_ratio",
        "prefix hits of a cache without bound",
        set.infinite_hit_ratio,
        source.infinite_hit_ratio,
        pair,
        cross,
        set,
    )
}

fn kind(
    id: &str,
    title: &str,
    value: Option<f64>,
    target: Option<f64>,
    pair: &Pair<'_>,
    cross: f64,
    set: &Prefix,
) -> Dimension {
    let slack = replica_slack(pair, cross);
    let draft = Draft::new(format!("prefix.{id}"), title, Unit::RatioPoints, 0.01)
        .compare(value, target)
        .within_reach(
            first_touches(pair, set).max(pair.session_step()),
            "one session",
        )
        .note_if(pair.share < 1.0, || {
            "a cache without bound; a bounded one must be scaled with the set".to_owned()
        });
    let draft = match target {
        Some(target) if slack > 0.0 => draft
            .target_between(target - slack, target)
            .note("how production's router spreads sessions over replicas is not known"),
        _ => draft,
    };
    draft.finish(Level::SetAgainstSource)
}

/// The first use of a shared block misses once in the set as it does once in the source, and
/// weighs more there: a bias of small sets that no choice of sessions removes.
fn first_touches(pair: &Pair<'_>, set: &Prefix) -> f64 {
    let hot = hot_blocks(pair.source) as f64;
    if set.refs == 0 {
        0.0
    } else {
        hot / set.refs as f64 * (1.0 - pair.share).max(0.0)
    }
}

/// Capacities of the source's cache, each with the set's: `C' = H + p·(C - H)`, where `H` is what
/// the hot blocks take whatever the sample, and `p` the share of the prompt tokens in the set.
fn capacities(pair: &Pair<'_>) -> Vec<(usize, usize)> {
    let unique = distinct_blocks(pair.source);
    let asked: Vec<usize> = if pair.ctx.capacities_blocks.is_empty() {
        (0..=GRID_HALVINGS)
            .rev()
            .map(|halvings| unique >> halvings)
            .collect()
    } else {
        pair.ctx.capacities_blocks.clone()
    };
    let hot = hot_blocks(pair.source) as f64;
    let p = pair.realised_share();
    let refs: usize = pair.set.turns.iter().map(|turn| turn.blocks.len()).sum();
    let prompt = refs as f64 / pair.set.turns.len().max(1) as f64;
    asked
        .into_iter()
        .map(|capacity| {
            let free = (capacity as f64 - hot).max(0.0);
            (
                capacity,
                (hot.min(capacity as f64) + p * free).round() as usize,
            )
        })
        .filter(|(_, scaled)| *scaled as f64 >= PROMPTS_IN_CACHE_MIN * prompt)
        .collect()
}

fn distinct_blocks(population: &Population) -> usize {
    let mut seen = crate::mix::MixSet::default();
    for turn in &population.turns {
        seen.extend(&turn.blocks);
    }
    seen.len()
}

fn curve(pair: &Pair<'_>, source: &Prefix, set: &Prefix) -> [Dimension; 2] {
    let errors: Vec<f64> = source
        .curve
        .iter()
        .zip(&set.curve)
        .filter_map(|(source, set)| Some(set.hit_ratio? - source.hit_ratio?))
        .collect();
    let count = errors.len().max(1) as f64;
    let known = !errors.is_empty();
    let mean_error = known.then(|| errors.iter().map(|error| error.abs()).sum::<f64>() / count);
    let largest = known.then(|| {
        errors
            .iter()
            .fold(0.0f64, |max, error| max.max(error.abs()))
    });
    let bias = errors.iter().sum::<f64>() / count;
    let slack = replica_slack(pair, source.cross_session_ratio.unwrap_or(0.0));
    [
        (
            "curve_mae",
            "hit curve, mean error over capacities",
            mean_error,
            CURVE_MAE,
        ),
        (
            "curve_max",
            "hit curve, largest error over capacities",
            largest,
            CURVE_MAX,
        ),
    ]
    .map(|(id, title, value, threshold)| {
        let id = format!("prefix.{id}");
        let direction = direction::of(&id, value.map(|error| error.copysign(bias)), threshold);
        Draft::new(id, title, Unit::RatioPoints, threshold)
            .compare(value, value.map(|_| 0.0))
            .direction(direction)
            .unknown_if(value.is_none(), || {
                "the set is too small: a cache scaled with it holds no four prompts".to_owned()
            })
            .unknown_if(slack > CURVE_MAE, || {
                "how production's router spreads sessions over replicas is not known".to_owned()
            })
            .within_reach(
                first_touches(pair, set).max(pair.session_step()),
                "one session",
            )
            .note_if(known, || {
                format!(
                    "{} capacities, each scaled with the set; mean bias {bias:+.4}",
                    errors.len()
                )
            })
            .finish(Level::SetAgainstSource)
    })
}
