//! Dimensions of what turns are: models, tenants, parameters, and how they ended.

use super::draft::{Draft, Unit};
use super::{Pair, UNKNOWN_SHARE_MAX};
use crate::dispersion::thinning::DRAWS;
use crate::draws::unit;
use crate::facts::Field;
use crate::mix::{MixMap, mix};
use crate::population::Population;
use crate::quantile::mean;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use truetape_schemas::report::{Dimension, Direction, Level};

/// Tolerance of a share of the turns.
const MIX_POINTS: f64 = 0.01;

/// Tolerance of the share of turns that ended in a way.
const ENDING_POINTS: f64 = 0.005;

/// Tolerance of the effective number of models or tenants.
const EFFECTIVE_RELATIVE: f64 = 0.05;

/// An effective number that is as good as the same.
const AS_MANY: f64 = 0.005;

/// The seed of the draws: any will do, and it stays the same.
const SEED: u64 = 0x4D49_5845_4453;

/// Fields whose largest difference of shares is judged.
const SHARES: &[(&str, &str, Field)] = &[
    ("mix.models", "share of a model", Field::Model),
    ("mix.stream", "share of turns that stream", Field::Stream),
    ("mix.tools", "share of turns that bring tools", Field::Tools),
    (
        "mix.schemas",
        "share of turns whose answer is held to a form",
        Field::Schema,
    ),
    (
        "mix.sampling",
        "share of a way to draw tokens",
        Field::Sampling,
    ),
    ("mix.limits", "share of a limit on the answer", Field::Limit),
];

/// Endings whose share is judged: the word, and the id.
const ENDINGS: &[(&str, &str, Field, &str)] = &[
    (
        "outcomes.errors",
        "turns that failed",
        Field::Ending,
        "failed",
    ),
    (
        "outcomes.aborts",
        "turns that their client gave up",
        Field::Ending,
        "aborted",
    ),
    (
        "outcomes.retries",
        "turns that repeat one that failed",
        Field::Retry,
        "yes",
    ),
];

/// Dimensions of the mix and of outcomes.
pub(super) fn dimensions(pair: &Pair<'_>) -> Vec<Dimension> {
    let models = Labels::models(pair);
    let tenants = Labels::tenants(pair);
    let mut dimensions = Vec::new();
    for (id, title, field) in SHARES {
        let draft = Counted::of(pair, *field).largest(pair, id, title, MIX_POINTS);
        let draft = match field {
            Field::Model => draft.direction(models.direction()),
            _ => draft,
        };
        dimensions.push(draft.finish(Level::SetAgainstSource));
    }
    dimensions.push(tenants.largest(pair));
    dimensions.push(models.effective(pair, "mix.models_effective", "effective number of models"));
    dimensions.push(tenants.effective(
        pair,
        "mix.tenants_effective",
        "effective number of tenants",
    ));
    for (id, title, field, word) in ENDINGS {
        let draft = Counted::of(pair, *field).share(pair, id, title, word);
        dimensions.push(draft.finish(Level::SetAgainstSource));
    }
    let finish = Counted::of(pair, Field::Finish);
    let title = "share of a finish reason";
    dimensions.push(
        finish
            .largest(pair, "outcomes.finish_reasons", title, ENDING_POINTS)
            .finish(Level::SetAgainstSource),
    );
    dimensions
}

/// Turns of both sides by what they say of one field.
struct Counted {
    source: BTreeMap<String, u64>,
    set: BTreeMap<String, u64>,
    missing: Option<String>,
}

impl Counted {
    fn of(pair: &Pair<'_>, field: Field) -> Self {
        let mut missing = None;
        let mut count = |population: &Population, whose: &str| {
            let turns = population.turns.iter().map(|turn| turn.facts);
            let (counts, unknown) = population.facts.count(turns, field);
            missing = missing
                .take()
                .or_else(|| absent(unknown, population, whose));
            counts
                .into_iter()
                .map(|(word, count)| (word.to_owned(), count))
                .collect()
        };
        let source = count(pair.source, "source");
        let set = count(pair.set, "set");
        Self {
            source,
            set,
            missing,
        }
    }

    /// Shares of a word in the set and in the source.
    fn shares(&self, word: &str) -> (f64, f64) {
        let share = |counts: &BTreeMap<String, u64>| {
            let all: u64 = counts.values().sum();
            counts.get(word).copied().unwrap_or(0) as f64 / all.max(1) as f64
        };
        (share(&self.set), share(&self.source))
    }

    fn share(&self, pair: &Pair<'_>, id: &str, title: &str, word: &str) -> Draft {
        let known = self.missing.is_none();
        let (value, target) = self.shares(word);
        let draft = Draft::new(id, title, Unit::Share, ENDING_POINTS)
            .compare(known.then_some(value), known.then_some(target));
        self.judged(draft, pair, target)
    }

    /// The word whose share differs most; the first in the order of words where several do.
    fn largest(&self, pair: &Pair<'_>, id: &str, title: &str, threshold: f64) -> Draft {
        let draft = Draft::new(id, title, Unit::Share, threshold);
        let words = self.source.keys().chain(self.set.keys());
        let off = |word: &String| {
            let (value, target) = self.shares(word);
            (value - target).abs()
        };
        let mut largest: Option<(&String, f64)> = None;
        for word in words {
            if largest.is_none_or(|(_, most)| off(word) > most) {
                largest = Some((word, off(word)));
            }
        }
        let Some((word, most)) = largest.filter(|_| self.missing.is_none()) else {
            return self.judged(draft, pair, 0.0);
        };
        let (value, target) = self.shares(word);
        let draft = draft
            .compare(Some(value), Some(target))
            .note_if(most > 0.0, || format!("of `{word}`"));
        self.judged(draft, pair, target)
    }

    /// A share of turns comes in sessions: their number is what a draw has.
    fn judged(&self, draft: Draft, pair: &Pair<'_>, target: f64) -> Draft {
        let error = (target * (1.0 - target) / pair.sessions_set.max(1) as f64).sqrt();
        draft
            .within_reach(
                pair.chance(error).max(pair.session_step()),
                "the chance of the draw",
            )
            .unknown_if(self.missing.is_some(), || {
                self.missing.clone().unwrap_or_default()
            })
    }
}

/// Why nothing can be said, where too many turns do not say.
fn absent(unknown: u64, population: &Population, whose: &str) -> Option<String> {
    let turns = population.turns.len();
    (unknown as f64 > UNKNOWN_SHARE_MAX * turns as f64 || turns == 0)
        .then(|| format!("{unknown} of {turns} turns of the {whose} do not say; 1 % may be silent"))
}

/// A word as a label.
fn hashed(word: &str) -> u64 {
    let digest = blake3::hash(word.as_bytes());
    let (first, _) = digest.as_bytes().split_at(8);
    first.try_into().map_or(0, u64::from_le_bytes)
}

/// A label for each turn of both sides, so that kinds can be counted by session.
struct Labels {
    source: Labelled,
    set: Labelled,
    missing: Option<String>,
}

/// One side: turns of each pair of a session and a label.
struct Labelled {
    counts: Vec<(u32, u32, f64)>,
    labels: usize,
}

impl Labels {
    fn models(pair: &Pair<'_>) -> Self {
        Self::of(pair, |population| {
            let of = |combination| population.facts.word(combination, Field::Model).map(hashed);
            let labels: Vec<Option<u64>> = (0..population.facts.len()).map(of).collect();
            let turns = population.turns.iter();
            turns
                .map(|turn| labels.get(turn.facts as usize).copied().flatten())
                .collect()
        })
    }

    fn tenants(pair: &Pair<'_>) -> Self {
        Self::of(pair, |population| {
            let turns = population.turns.iter();
            turns.map(|turn| turn.tenant.map(NonZeroU64::get)).collect()
        })
    }

    fn of(pair: &Pair<'_>, labels: impl Fn(&Population) -> Vec<Option<u64>>) -> Self {
        let mut missing = None;
        let mut numbers: MixMap<u32> = MixMap::default();
        let mut side = |population: &Population, whose: &str| {
            let mut counts: MixMap<(u32, u32, f64)> = MixMap::default();
            let mut unknown = 0;
            for (turn, label) in population.turns.iter().zip(labels(population)) {
                let Some(label) = label else {
                    unknown += 1;
                    continue;
                };
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                let number = *numbers.entry(label).or_insert(next);
                let key = u64::from(turn.session) << 32 | u64::from(number);
                counts.entry(key).or_insert((turn.session, number, 0.0)).2 += 1.0;
            }
            missing = missing
                .take()
                .or_else(|| absent(unknown, population, whose));
            let mut counts: Vec<_> = counts.into_values().collect();
            counts.sort_unstable_by_key(|(session, number, _)| (*session, *number));
            counts
        };
        let source = side(pair.source, "source");
        let set = side(pair.set, "set");
        let labels = numbers.len();
        let labelled = |counts| Labelled { counts, labels };
        Self {
            source: labelled(source),
            set: labelled(set),
            missing,
        }
    }

    /// Fewer kinds share more and are swapped less; as many in another proportion may be either.
    fn direction(&self) -> Direction {
        let numbers = self
            .set
            .effective(|_| true)
            .zip(self.source.effective(|_| true));
        match numbers.map(|(set, source)| (set / source).ln()) {
            None => Direction::Unknown,
            Some(off) if off < -AS_MANY => Direction::Optimistic,
            Some(off) if off > AS_MANY => Direction::Pessimistic,
            Some(_) if self.source.shares() == self.set.shares() => Direction::Neutral,
            Some(_) => Direction::Mixed,
        }
    }

    fn effective(&self, pair: &Pair<'_>, id: &str, title: &str) -> Dimension {
        let (target, chance) = self.source.expected(pair.share);
        Draft::new(id, title, Unit::Relative, EFFECTIVE_RELATIVE)
            .compare(self.set.effective(|_| true), target)
            .within_reach(chance, "the chance of the draw")
            .unknown_if(self.missing.is_some(), || {
                self.missing.clone().unwrap_or_default()
            })
            .note_if(pair.share < 1.0, || {
                "the target is what drawing sessions from the source gives".to_owned()
            })
            .finish(Level::SetAgainstSource)
    }

    fn largest(&self, pair: &Pair<'_>) -> Dimension {
        let both = self.set.shares().into_iter().zip(self.source.shares());
        let most = both.max_by(|a, b| (a.0 - a.1).abs().total_cmp(&(b.0 - b.1).abs()));
        let known = most.filter(|_| self.missing.is_none());
        let target = known.map_or(0.0, |(_, target)| target);
        let error = (target * (1.0 - target) / pair.sessions_set.max(1) as f64).sqrt();
        Draft::new("mix.tenants", "share of a tenant", Unit::Share, MIX_POINTS)
            .compare(
                known.map(|(value, _)| value),
                known.map(|(_, target)| target),
            )
            .direction(self.direction())
            .within_reach(pair.chance(error), "the chance of the draw")
            .unknown_if(self.missing.is_some(), || {
                self.missing.clone().unwrap_or_default()
            })
            .finish(Level::SetAgainstSource)
    }
}

impl Labelled {
    fn totals(&self, keeps: impl Fn(u32) -> bool) -> Vec<f64> {
        let mut totals = vec![0.0; self.labels];
        for (_, label, turns) in self.counts.iter().filter(|(session, ..)| keeps(*session)) {
            if let Some(total) = totals.get_mut(*label as usize) {
                *total += turns;
            }
        }
        totals
    }

    fn shares(&self) -> Vec<f64> {
        let totals = self.totals(|_| true);
        let all: f64 = totals.iter().sum();
        totals
            .into_iter()
            .map(|total| total / all.max(1.0))
            .collect()
    }

    /// `exp` of the entropy of the shares: as many kinds of equal share would be as varied.
    fn effective(&self, keeps: impl Fn(u32) -> bool) -> Option<f64> {
        let totals = self.totals(keeps);
        let all: f64 = totals.iter().sum();
        let entropy: f64 = totals
            .iter()
            .filter(|total| **total > 0.0)
            .map(|total| -(total / all) * (total / all).ln())
            .sum();
        (all > 0.0).then(|| entropy.exp())
    }

    /// What a share of the sessions has on average, and how far one draw lies from it by chance,
    /// relative to it.
    fn expected(&self, share: f64) -> (Option<f64>, f64) {
        if share >= 1.0 {
            return (self.effective(|_| true), 0.0);
        }
        let draws: Vec<f64> = (0..DRAWS)
            .filter_map(|seed| {
                self.effective(|session| unit(mix(mix(SEED ^ seed) ^ u64::from(session))) < share)
            })
            .collect();
        let Some(average) = mean(&draws) else {
            return (None, 0.0);
        };
        let squares: f64 = draws.iter().map(|draw| (draw - average).powi(2)).sum();
        let deviation = (squares / draws.len().saturating_sub(1).max(1) as f64).sqrt();
        (Some(average), super::Z_95 * deviation / average)
    }
}
