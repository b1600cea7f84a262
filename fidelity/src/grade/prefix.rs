//! Dimensions of prefix reuse.

use super::draft::{Draft, Unit};
use super::{Pair, UNKNOWN_SHARE_MAX};
use crate::direction;
use crate::profile::Prefix;
use truetape_schemas::report::{Dimension, Direction, Level};

/// Capacities of the curve where none are asked for: the source's blocks, halved this many times.
const GRID_HALVINGS: u32 = 7;

/// A scaled cache must hold this many prompts; a smaller one measures the size of a prompt.
const PROMPTS_IN_CACHE_MIN: f64 = 4.0;

/// Why hits across sessions are not known in a replica view.
const ROUTER: &str = "how production's router spreads sessions over replicas is not known";

/// Tolerance of a share of hits.
const HITS_POINTS: f64 = 0.01;

/// Tolerances of the curve: its mean absolute error and its largest, in ratio points.
const CURVE_MAE: f64 = 0.01;
const CURVE_MAX: f64 = 0.02;

/// Prefix reuse of the source and of the set.
struct Reuse<'a> {
    pair: &'a Pair<'a>,
    source: Prefix,
    set: Prefix,
}

/// Dimensions of prefix reuse.
pub(super) fn dimensions(pair: &Pair<'_>) -> Vec<Dimension> {
    if let Some(reason) = missing(pair) {
        return unknown(&reason);
    }
    let (asked, scaled): (Vec<usize>, Vec<usize>) = capacities(pair).into_iter().unzip();
    let reuse = Reuse {
        pair,
        source: pair.source_reuse.describe(pair.source, &asked),
        set: pair.set_reuse.describe(pair.set, &scaled),
    };
    let mut dimensions = reuse.ratios().to_vec();
    dimensions.extend(reuse.curve());
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

impl Reuse<'_> {
    fn ratios(&self) -> [Dimension; 5] {
        let shared = |prefix: &Prefix| {
            prefix
                .hot_ratio
                .zip(prefix.cross_session_ratio)
                .map(|(hot, cross)| hot + cross)
        };
        let cross = self.slack();
        let (source, set) = (&self.source, &self.set);
        [
            (
                "prefix.infinite_hit_ratio",
                "prefix hits of a cache without bound",
                [set.infinite_hit_ratio, source.infinite_hit_ratio],
                cross,
            ),
            (
                "prefix.intra_session",
                "hits inside a session",
                [set.intra_session_ratio, source.intra_session_ratio],
                0.0,
            ),
            (
                "prefix.shared",
                "hits across sessions",
                [shared(set), shared(source)],
                cross,
            ),
            (
                "prefix.hot",
                "hits on blocks that all sessions share",
                [set.hot_ratio, source.hot_ratio],
                0.0,
            ),
            (
                "prefix.cross",
                "hits across sessions on other blocks",
                [set.cross_session_ratio, source.cross_session_ratio],
                cross,
            ),
        ]
        .map(|(id, title, [value, target], slack)| {
            let draft = Draft::new(id, title, Unit::RatioPoints, HITS_POINTS)
                .compare(value, target)
                // Whose the hits are bends nothing by itself: the whole decides.
                .direction(self.direction())
                .within_reach(self.step(), "one session")
                .note_if(self.pair.share < 1.0, || {
                    "a cache without bound; a bounded one must be scaled with the set".to_owned()
                });
            let draft = match target {
                Some(target) if slack > 0.0 => {
                    draft.target_between(target - slack, target).note(ROUTER)
                }
                _ => draft,
            };
            draft.finish(Level::SetAgainstSource)
        })
    }

    fn direction(&self) -> Direction {
        let both = self
            .set
            .infinite_hit_ratio
            .zip(self.source.infinite_hit_ratio);
        let off = both.map(|(value, target)| value - target);
        direction::of("prefix.infinite_hit_ratio", off, HITS_POINTS)
    }

    /// In a replica view production's router decides which sessions meet in one cache. Unless the
    /// source *is* the replica, hits across sessions may be anything from none to the source's.
    fn slack(&self) -> f64 {
        let replica = self.pair.ctx.view == "replica" && self.pair.share < 1.0;
        self.source
            .cross_session_ratio
            .filter(|_| replica)
            .unwrap_or(0.0)
    }

    /// The smallest step, or what no choice of sessions removes: the first use of a shared block
    /// misses once in the set as it does once in the source, and weighs more in the set.
    fn step(&self) -> f64 {
        let left_out = (1.0 - self.pair.share).max(0.0);
        let first_touches =
            self.pair.source_reuse.hot_blocks as f64 / self.set.refs.max(1) as f64 * left_out;
        first_touches.max(self.pair.session_step())
    }

    fn curve(&self) -> [Dimension; 2] {
        let errors: Vec<f64> = self
            .source
            .curve
            .iter()
            .zip(&self.set.curve)
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
        let slack = self.slack();
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
                .unknown_if(slack > CURVE_MAE, || ROUTER.to_owned())
                .within_reach(self.step(), "one session")
                .note_if(known, || {
                    format!(
                        "{} capacities, each scaled with the set; mean bias {bias:+.4}",
                        errors.len()
                    )
                })
                .finish(Level::SetAgainstSource)
        })
    }
}

/// Capacities of the source's cache, each with the set's: `C' = H + p·(C - H)`, where `H` is what
/// the hot blocks take whatever the sample, and `p` the share of the prompt tokens in the set.
fn capacities(pair: &Pair<'_>) -> Vec<(usize, usize)> {
    let unique = pair.source_reuse.unique;
    let asked: Vec<usize> = if pair.ctx.capacities_blocks.is_empty() {
        (0..=GRID_HALVINGS)
            .rev()
            .map(|halvings| unique >> halvings)
            .collect()
    } else {
        pair.ctx.capacities_blocks.clone()
    };
    let hot = pair.source_reuse.hot_blocks as f64;
    let p = pair.realised_share();
    let refs = pair.set_reuse.refs;
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
