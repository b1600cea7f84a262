//! Which way a deviation bends the result.
//!
//! *Optimistic* means that the replay looks better than production. The table is the prior: signs
//! that were measured with the engine model on public traces, with a rough size of the effect that
//! is used for nothing but ordering causes. A sign that depends on the size of the cache is MIXED.

use std::collections::BTreeMap;
use truetape_schemas::report::{Dimension, Direction, Push, Verdict};

pub mod simulated;

/// What is known about deviations of one dimension.
#[derive(Clone, Copy, Debug)]
pub struct Prior {
    /// Ids that start with this; the longest one that fits counts.
    pub id: &'static str,
    /// When the value is below its target.
    pub lower: Direction,
    /// When it is above.
    pub higher: Direction,
    /// Rough size of the effect: how far a plain failure of the dimension moves the logarithm of a
    /// latency quantile.
    pub size: f64,
    /// Why, when the value is below.
    pub why_lower: &'static str,
    /// Why, when it is above.
    pub why_higher: &'static str,
}

use Direction::{Mixed, Neutral, Optimistic, Pessimistic};

/// The prior, by the start of a dimension's id.
#[rustfmt::skip]
pub const PRIORS: &[Prior] = &[
    prior("tokens.input", Optimistic, Pessimistic, 0.3, "there is less prompt work than in production", "there is more prompt work than in production"),
    prior("tokens.output", Optimistic, Pessimistic, 0.4, "less is generated than in production", "more is generated than in production"),
    prior("input_tokens", Optimistic, Pessimistic, 0.3, "prompts are shorter: less prefill, less memory", "prompts are longer: more prefill, more memory"),
    prior("input_tokens.p90", Optimistic, Pessimistic, 0.4, "long prompts are missing: the queue behind them too", "there are more long prompts"),
    prior("input_tokens.p99", Optimistic, Pessimistic, 0.4, "the longest prompts are missing: the queue behind them too", "the tail of prompts is heavier"),
    prior("output_tokens", Optimistic, Pessimistic, 0.4, "answers are shorter: sequences leave the batch sooner", "answers are longer: sequences stay in the batch"),
    prior("joint", Neutral, Neutral, 0.02, "the pairing of prompt and answer lengths hardly matters", "the pairing of prompt and answer lengths hardly matters"),
    prior("turns_per_session", Mixed, Mixed, 0.3, "sessions are shorter: less load, but less reuse", "sessions are longer: more load, but more reuse"),
    prior("think_time", Optimistic, Pessimistic, 0.4, "pauses are shorter: prefixes are still cached when the next turn comes", "pauses are longer: prefixes are evicted before the next turn comes"),
    prior("prefix", Pessimistic, Optimistic, 1.0, "less of the prompt is reused than in production", "more of the prompt is reused than in production"),
    prior("arrivals.rate", Optimistic, Pessimistic, 0.5, "the load is lower", "the load is higher"),
    prior("arrivals.idc", Optimistic, Pessimistic, 2.5, "arrivals are smoother than production's: bursts are missing", "arrivals are burstier than production's"),
    prior("arrivals.peak", Optimistic, Pessimistic, 1.5, "the peak is lower than production's", "the peak is higher than production's"),
    prior("work", Optimistic, Pessimistic, 1.5, "work arrives more smoothly than in production", "work arrives in bigger lumps than in production"),
    prior("mix.models", Mixed, Mixed, 0.2, "models are asked for in another proportion", "models are asked for in another proportion"),
    prior("mix.models_effective", Optimistic, Pessimistic, 0.5, "fewer models or adapters: fewer are swapped, and more is shared", "more models or adapters: more are swapped, and less is shared"),
    prior("mix.tenants", Mixed, Mixed, 0.1, "tenants have another proportion", "tenants have another proportion"),
    prior("mix.tenants_effective", Optimistic, Pessimistic, 0.3, "fewer tenants: more is shared, and less is fair", "more tenants: less is shared"),
    prior("mix.stream", Neutral, Neutral, 0.02, "a stream costs the target hardly more than an answer at once", "a stream costs the target hardly more than an answer at once"),
    prior("mix.tools", Neutral, Neutral, 0.02, "what tools cost is in the lengths", "what tools cost is in the lengths"),
    prior("mix.schemas", Optimistic, Pessimistic, 0.1, "fewer answers are held to a form, which costs time for each token", "more answers are held to a form, which costs time for each token"),
    prior("mix.sampling", Mixed, Mixed, 0.1, "tokens are drawn in another way", "tokens are drawn in another way"),
    prior("mix.limits", Neutral, Neutral, 0.02, "limits bend nothing where lengths are kept", "limits bend nothing where lengths are kept"),
    prior("outcomes.errors", Optimistic, Pessimistic, 0.5, "requests that failed are missing, and those are mostly the longest", "more requests fail than in production"),
    prior("outcomes.aborts", Optimistic, Pessimistic, 0.3, "requests that were given up are missing, and those waited longest", "more requests are given up than in production"),
    prior("outcomes.retries", Optimistic, Pessimistic, 0.3, "repeated requests are missing: load that comes when it is worst", "more requests are repeated than in production"),
    prior("outcomes.finish_reasons", Neutral, Neutral, 0.02, "why answers ended is in their lengths", "why answers ended is in their lengths"),
    prior("kv.inflight", Optimistic, Pessimistic, 0.5, "fewer tokens are in flight: less memory, smaller batches", "more tokens are in flight: more memory, larger batches"),
    prior("run.completed", Optimistic, Neutral, 1.0, "answers are missing, and those that fail are mostly the longest", "more was completed than planned"),
    prior("run.output_tokens", Optimistic, Pessimistic, 0.8, "the target generated less than production did", "the target generated more than production did"),
    prior("run.output_tokens.within_1", Mixed, Mixed, 0.4, "answers have other lengths than production's", "answers have other lengths than production's"),
    prior("run.input_tokens", Optimistic, Pessimistic, 0.3, "the target counted fewer prompt tokens", "the target counted more prompt tokens"),
    prior("run.cached_tokens", Pessimistic, Optimistic, 1.0, "the target reused less of the prompts", "the target reused more of the prompts: its cache knew them already"),
    prior("run.cache.capacity", Pessimistic, Optimistic, 1.0, "the target's cache is smaller than the set's share of production's", "the target's cache is larger than the set's share of production's"),
    prior("run.arrivals.rate", Optimistic, Pessimistic, 0.5, "the load was lower than the set's", "the load was higher than the set's"),
    prior("run.arrivals.idc", Optimistic, Pessimistic, 2.5, "requests went out more smoothly than the set wanted: bursts are missing", "requests went out in more of a burst than the set wanted"),
    prior("run.arrivals.peak", Optimistic, Pessimistic, 1.5, "the peak was lower than the set's", "the peak was higher than the set's"),
    prior("run.lateness", Neutral, Mixed, 0.5, "requests went out on time", "requests went out late: optimistic from the send, pessimistic from the due time"),
    prior("run.order", Pessimistic, Neutral, 0.5, "turns went out before the answers they depend on: their prefix was not cached yet", "turns kept their order"),
    prior("run.think_time", Optimistic, Pessimistic, 0.4, "pauses were shorter than recorded: prefixes were still cached", "pauses were longer than recorded"),
    prior("run.isolation.cache", Optimistic, Neutral, 1.0, "the cache may hold prompts of earlier runs", "nothing was kept from earlier runs"),
];

/// Deviations up to this part of the threshold do not push.
pub const NEAR: f64 = 0.5;

/// Two Poisson-like streams: between these dispersions the sign of a difference is not fixed.
pub const NEAR_POISSON: std::ops::RangeInclusive<f64> = 0.5..=2.0;

const fn prior(
    id: &'static str,
    lower: Direction,
    higher: Direction,
    size: f64,
    why_lower: &'static str,
    why_higher: &'static str,
) -> Prior {
    Prior {
        id,
        lower,
        higher,
        size,
        why_lower,
        why_higher,
    }
}

/// The prior of a dimension; none for one that bends nothing.
pub fn prior_of(id: &str) -> Option<&'static Prior> {
    PRIORS
        .iter()
        .filter(|prior| id.starts_with(prior.id))
        .max_by_key(|prior| prior.id.len())
}

/// The direction of a deviation: UNKNOWN without one, NEUTRAL up to half the threshold, else the
/// prior by its sign.
pub fn of(id: &str, deviation: Option<f64>, threshold: f64) -> Direction {
    let Some(deviation) = deviation else {
        return Direction::Unknown;
    };
    if deviation == 0.0 || deviation.abs() <= NEAR * threshold {
        return Neutral;
    }
    match prior_of(id) {
        Some(prior) if deviation < 0.0 => prior.lower,
        Some(prior) => prior.higher,
        None => Neutral,
    }
}

/// Everything that pushes, the largest cause first: failures, then what is near failing.
pub fn pushes(dimensions: &[Dimension]) -> Vec<Push> {
    let mut pushing: Vec<(&Dimension, f64)> = dimensions
        .iter()
        .filter(|dimension| !matches!(dimension.direction, Neutral | Direction::Unknown))
        .map(|dimension| (dimension, weight(dimension)))
        .collect();
    pushing.sort_by(|a, b| b.1.total_cmp(&a.1));
    pushing
        .into_iter()
        .map(|(dimension, _)| Push {
            dimension: dimension.id.clone(),
            direction: dimension.direction,
            reason: reason(dimension),
        })
        .collect()
}

/// Failures outweigh everything else; beyond ten thresholds one deviation is as bad as another.
fn weight(dimension: &Dimension) -> f64 {
    let failed = if dimension.verdict == Verdict::Fail {
        1_000.0
    } else {
        0.0
    };
    failed + size_in_thresholds(dimension)
}

fn size_in_thresholds(dimension: &Dimension) -> f64 {
    let thresholds = dimension.deviation.unwrap_or(0.0).abs() / dimension.threshold.max(1e-9);
    prior_of(&dimension.id).map_or(0.0, |prior| prior.size) * thresholds.min(10.0)
}

fn reason(dimension: &Dimension) -> String {
    let low = dimension.deviation.is_some_and(|deviation| deviation < 0.0);
    let text = prior_of(&dimension.id).map_or("", |prior| {
        if low {
            prior.why_lower
        } else {
            prior.why_higher
        }
    });
    // A distance has no sign; where the direction was taken from elsewhere, the reason follows it.
    let contrary = prior_of(&dimension.id).filter(|prior| {
        let said = if low { prior.lower } else { prior.higher };
        said != dimension.direction && dimension.direction == prior.lower
    });
    contrary.map_or(text, |prior| prior.why_lower).to_owned()
}

/// One side outweighs the other when it is this many times as heavy.
pub const DOMINANCE: f64 = 4.0;

/// The overall direction.
///
/// Failures decide; without any, whatever lies beyond half its threshold does. Each dimension weighs
/// its prior's size times its deviation in thresholds (ten at most), each kind of dimension counts
/// once a side, with its heaviest, and a MIXED push weighs on both sides. A side that is alone, or
/// [`DOMINANCE`] times as heavy as the other, gives the direction; else it is MIXED. Without a push
/// it is NEUTRAL if every one of the `essential` kinds has a deviation, else UNKNOWN.
pub fn overall(dimensions: &[Dimension], essential: &[&str]) -> Direction {
    let failures = sides(dimensions.iter().filter(|d| d.verdict == Verdict::Fail));
    let (optimistic, pessimistic) = match failures {
        (0.0, 0.0) => sides(dimensions.iter()),
        some => some,
    };
    let measured = || essential.iter().all(|kind| measured(dimensions, kind));
    match (optimistic, pessimistic) {
        (0.0, 0.0) if measured() => Neutral,
        (0.0, 0.0) => Direction::Unknown,
        (o, p) if o >= DOMINANCE * p => Optimistic,
        (o, p) if p >= DOMINANCE * o => Pessimistic,
        _ => Mixed,
    }
}

/// Weight of what pushes to the optimistic and to the pessimistic side.
fn sides<'a>(dimensions: impl Iterator<Item = &'a Dimension>) -> (f64, f64) {
    let mut heaviest: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for dimension in dimensions {
        let weight = size_in_thresholds(dimension);
        let (optimistic, pessimistic) = match dimension.direction {
            Optimistic => (weight, 0.0),
            Pessimistic => (0.0, weight),
            Mixed => (weight, weight),
            Neutral | Direction::Unknown => continue,
        };
        let kind = heaviest.entry(kind(&dimension.id)).or_default();
        *kind = (kind.0.max(optimistic), kind.1.max(pessimistic));
    }
    heaviest
        .into_values()
        .fold((0.0, 0.0), |sum, side| (sum.0 + side.0, sum.1 + side.1))
}

/// The part of an id that names its kind: all but its last segment.
fn kind(id: &str) -> &str {
    id.rsplit_once('.').map_or(id, |(kind, _)| kind)
}

fn measured(dimensions: &[Dimension], kind: &str) -> bool {
    dimensions
        .iter()
        .any(|d| d.id.starts_with(kind) && d.deviation.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use truetape_schemas::report::Level;

    fn dimension(id: &str, deviation: f64, threshold: f64) -> Dimension {
        let failed = deviation.abs() > threshold;
        Dimension {
            id: id.to_owned(),
            title: String::new(),
            level: Level::SetAgainstSource,
            value: Some(0.0),
            target: Some(0.0),
            deviation: Some(deviation),
            threshold,
            unit: "relative".to_owned(),
            verdict: if failed { Verdict::Fail } else { Verdict::Pass },
            direction: of(id, Some(deviation), threshold),
            note: None,
        }
    }

    #[test]
    fn the_longest_prior_that_fits_counts() {
        assert_eq!(
            prior_of("input_tokens.p90_weighted").unwrap().id,
            "input_tokens.p90"
        );
        assert_eq!(prior_of("input_tokens.p50").unwrap().id, "input_tokens");
        assert_eq!(
            prior_of("run.output_tokens.ratio").unwrap().id,
            "run.output_tokens"
        );
        assert!(prior_of("run.validity").is_none());
    }

    #[test]
    fn small_deviations_do_not_push() {
        assert_eq!(of("output_tokens.p50", Some(0.0), 0.0), Neutral);
        assert_eq!(of("output_tokens.p50", Some(-0.01), 0.02), Neutral);
        assert_eq!(of("output_tokens.p50", Some(-0.011), 0.02), Optimistic);
        assert_eq!(of("output_tokens.p50", None, 0.02), Direction::Unknown);
        assert_eq!(
            of("prefix.infinite_hit_ratio", Some(-0.1), 0.01),
            Pessimistic
        );
    }

    #[test]
    fn failures_outvote_what_is_near() {
        let near = dimension("input_tokens.p50", 0.015, 0.02);
        let short = dimension("output_tokens.p50", -0.5, 0.02);
        let reuse = dimension("prefix.infinite_hit_ratio", -0.2, 0.01);
        assert_eq!(overall(std::slice::from_ref(&near), &[]), Pessimistic);
        assert_eq!(overall(&[near.clone(), short.clone()], &[]), Optimistic);
        assert_eq!(
            overall(&[near.clone(), short.clone(), reuse.clone()], &[]),
            Mixed
        );
        let order: Vec<String> = pushes(&[near, short, reuse])
            .into_iter()
            .map(|push| push.dimension)
            .collect();
        assert_eq!(
            order,
            [
                "prefix.infinite_hit_ratio",
                "output_tokens.p50",
                "input_tokens.p50"
            ]
        );
    }

    #[test]
    fn nothing_pushes_is_neutral_only_where_somebody_looked() {
        let still = dimension("input_tokens.p50", 0.0, 0.02);
        assert_eq!(
            overall(std::slice::from_ref(&still), &["input_tokens"]),
            Neutral
        );
        assert_eq!(
            overall(&[still], &["input_tokens", "prefix"]),
            Direction::Unknown
        );
    }
}
