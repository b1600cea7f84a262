//! Dimensions of lengths: volume, quantiles, ranks.

use super::draft::{Draft, Unit};
use super::{Pair, UNKNOWN_SHARE_MAX};
use crate::population::{Population, PopulationTurn};
use crate::quantile::{quantile, rank, sorted, weighted_quantile};
use std::collections::BTreeSet;
use truetape_schemas::report::{Dimension, Level};

/// Turns behind a p50, a p90 and a p99: the floors of MLPerf's early stopping at 99 % confidence.
pub(super) const SAMPLES_P50_MIN: usize = 11;
/// See [`SAMPLES_P50_MIN`].
pub(super) const SAMPLES_P90_MIN: usize = 64;
/// See [`SAMPLES_P50_MIN`].
pub(super) const SAMPLES_P99_MIN: usize = 662;

/// Sessions that must have a turn at or beyond the source's p99: with fewer, it is a few users' p99.
pub(super) const TAIL_SESSIONS_MIN: usize = 20;

/// One kind of length, in the source and in the set.
struct Kind<'a> {
    /// `input_tokens` or `output_tokens`.
    id: &'static str,
    noun: &'static str,
    pair: &'a Pair<'a>,
    source: Vec<f64>,
    set: Vec<f64>,
    /// Why nothing can be said.
    missing: Option<String>,
    tail_sessions: usize,
}

/// Dimensions of prompt and answer lengths.
pub(super) fn dimensions(pair: &Pair<'_>) -> Vec<Dimension> {
    let mut dimensions = Vec::new();
    for (id, noun, of) in [
        (
            "input_tokens",
            "prompt length",
            input as fn(&PopulationTurn) -> Option<u64>,
        ),
        ("output_tokens", "answer length", output),
    ] {
        let kind = Kind::new(id, noun, pair, of);
        dimensions.push(kind.volume());
        dimensions.push(kind.value("p50", "median", 0.5, 0.02, SAMPLES_P50_MIN, quantile));
        dimensions.push(kind.value(
            "p90",
            "90th percentile of",
            0.9,
            0.03,
            SAMPLES_P90_MIN,
            quantile,
        ));
        dimensions.push(kind.p99_value());
        dimensions.push(kind.p99_rank());
        dimensions.push(kind.value(
            "p50_weighted",
            "token-weighted median",
            0.5,
            0.03,
            SAMPLES_P50_MIN,
            weighted_quantile,
        ));
        dimensions.push(kind.value(
            "p90_weighted",
            "token-weighted 90th percentile of",
            0.9,
            0.05,
            SAMPLES_P90_MIN,
            weighted_quantile,
        ));
    }
    dimensions.extend(super::joint::dimensions(pair));
    dimensions
}

fn input(turn: &PopulationTurn) -> Option<u64> {
    turn.input_tokens
}

fn output(turn: &PopulationTurn) -> Option<u64> {
    turn.output_tokens
}

impl<'a> Kind<'a> {
    fn new(
        id: &'static str,
        noun: &'static str,
        pair: &'a Pair<'a>,
        of: fn(&PopulationTurn) -> Option<u64>,
    ) -> Self {
        let known = |population: &Population| {
            sorted(
                population
                    .turns
                    .iter()
                    .filter_map(|turn| of(turn).map(|tokens| tokens as f64)),
            )
        };
        let source = known(pair.source);
        let set = known(pair.set);
        let p99 = quantile(&source, 0.99).unwrap_or(f64::INFINITY);
        let in_tail = |turn: &&PopulationTurn| of(turn).is_some_and(|tokens| tokens as f64 >= p99);
        let tail: BTreeSet<u32> = pair
            .source
            .turns
            .iter()
            .filter(in_tail)
            .map(|turn| turn.session)
            .collect();
        let missing = missing(source.len(), pair.source, "source")
            .or_else(|| missing(set.len(), pair.set, "set"));
        Self {
            id,
            noun,
            pair,
            source,
            set,
            missing,
            tail_sessions: tail.len(),
        }
    }

    fn draft(&self, id: String, title: String, unit: Unit, threshold: f64) -> Draft {
        Draft::new(id, &title, unit, threshold).unknown_if(self.missing.is_some(), || {
            self.missing.clone().unwrap_or_default()
        })
    }

    fn volume(&self) -> Dimension {
        let id = self.id.replace("_tokens", "");
        let sum = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>());
        let target = sum(&self.source).map(|sum| sum * self.pair.share);
        let title = format!("{id} tokens against the budget");
        self.draft(format!("tokens.{id}"), title, Unit::Relative, 0.01)
            .compare(sum(&self.set), target)
            .within_reach(self.pair.session_step(), "one session")
            .finish(Level::SetAgainstSource)
    }

    fn value(
        &self,
        id: &str,
        title: &str,
        q: f64,
        threshold: f64,
        samples_min: usize,
        of: fn(&[f64], f64) -> Option<f64>,
    ) -> Dimension {
        self.value_draft(id, title, q, threshold, samples_min, of)
            .finish(Level::SetAgainstSource)
    }

    fn value_draft(
        &self,
        id: &str,
        title: &str,
        q: f64,
        threshold: f64,
        samples_min: usize,
        of: fn(&[f64], f64) -> Option<f64>,
    ) -> Draft {
        let target = of(&self.source, q);
        let title = format!("{title} {}", self.noun);
        let draft = self
            .draft(
                format!("{}.{id}", self.id),
                title,
                Unit::Relative,
                threshold,
            )
            .compare(of(&self.set, q), target);
        let draft = self.with_samples(draft, samples_min);
        // One session in or out moves every rank by at most its share of the turns.
        let step = self.pair.session_step();
        let reach = [q - step, q + step].map(|q| of(&self.set, q).zip(target));
        match reach {
            [Some((low, target)), Some((high, _))] => draft.reach_between(
                Unit::Relative.deviation(low, target),
                Unit::Relative.deviation(high, target),
                "one session",
            ),
            _ => draft,
        }
    }

    fn with_samples(&self, draft: Draft, samples_min: usize) -> Draft {
        let fewest = self.source.len().min(self.set.len());
        draft.unknown_if(fewest < samples_min, || {
            format!("{fewest} turns; this quantile needs {samples_min}")
        })
    }

    fn with_tail(&self, draft: Draft) -> Draft {
        self.with_samples(draft, SAMPLES_P99_MIN).unknown_if(
            self.tail_sessions < TAIL_SESSIONS_MIN,
            || {
                format!(
                    "{} sessions of the source reach its p99; {TAIL_SESSIONS_MIN} are needed",
                    self.tail_sessions
                )
            },
        )
    }

    fn p99_value(&self) -> Dimension {
        let draft = self.value_draft(
            "p99",
            "99th percentile of",
            0.99,
            0.10,
            SAMPLES_P99_MIN,
            quantile,
        );
        self.with_tail(draft).finish(Level::SetAgainstSource)
    }

    /// The rank, in the set, of the source's p99. A lower p99 gives it a higher rank; the direction
    /// follows the lengths.
    fn p99_rank(&self) -> Dimension {
        let p99 = quantile(&self.source, 0.99);
        let at = |values: &[f64]| p99.and_then(|p99| rank(values, p99));
        let (value, target) = (at(&self.set), at(&self.source));
        let lengths = value.zip(target).map(|(value, target)| target - value);
        let title = format!("rank of production's p99 {}", self.noun);
        let id = format!("{}.p99_rank", self.id);
        let direction = crate::direction::of(&id, lengths, P99_RANK_POINTS);
        let draft = self
            .draft(id, title, Unit::RankPoints, P99_RANK_POINTS)
            .compare(value, target)
            .direction(direction)
            .within_reach(self.pair.session_step(), "one session");
        self.with_tail(draft).finish(Level::SetAgainstSource)
    }
}

/// Tolerance of the rank of a p99.
const P99_RANK_POINTS: f64 = 0.003;

/// Why lengths cannot be compared, where too many are unknown.
fn missing(known: usize, population: &Population, whose: &str) -> Option<String> {
    let turns = population.turns.len();
    let unknown = turns - known.min(turns);
    if known == 0 {
        return Some(format!("the {whose} has no known length"));
    }
    (unknown as f64 > UNKNOWN_SHARE_MAX * turns as f64)
        .then(|| format!("{unknown} of {turns} lengths of the {whose} are unknown; 1 % may be"))
}
