//! A population as a person looks at it: its statistics, the shape of its distributions, its mix.

use super::Profile;
use crate::dispersion::SECOND_US;
use crate::population::Population;
use crate::profile::sessions::think_times_s;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Stretches of time that arrivals are counted over.
pub const STRETCHES: usize = 96;

/// Everything that `truetape profile` shows. As JSON the profile's own keys stand beside the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Portrait {
    /// The statistics.
    #[serde(flatten)]
    pub profile: Profile,
    /// What they are statistics of.
    pub shape: Shape,
    /// Turns by what they are.
    pub mix: Mix,
    /// Things a reader should know.
    pub findings: Vec<String>,
}

/// The shape of distributions, and of the load over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shape {
    /// Turns by the length of their prompts.
    pub input_tokens: Vec<Bin>,
    /// Turns by the length of their answers.
    pub output_tokens: Vec<Bin>,
    /// Sessions by their turns.
    pub turns_per_session: Vec<Bin>,
    /// Pauses inside sessions, in seconds.
    pub think_time_s: Vec<Bin>,
    /// Turns of each stretch of time, from the first arrival.
    pub arrivals: Vec<u64>,
    /// Length of such a stretch.
    pub arrivals_stretch_s: Option<f64>,
}

/// Values from a bound, inclusive, to another, exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bin {
    /// The lower bound.
    pub from: f64,
    /// The upper bound.
    pub to: f64,
    /// Values in between.
    pub count: u64,
}

/// Turns by what they are; what is not known is counted as `unknown`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mix {
    /// By model.
    pub models: BTreeMap<String, u64>,
    /// By dialect.
    pub dialects: BTreeMap<String, u64>,
    /// By how they ended.
    pub outcomes: BTreeMap<String, u64>,
    /// By HTTP status.
    pub statuses: BTreeMap<String, u64>,
    /// By finish reason of the first choice.
    pub finish_reasons: BTreeMap<String, u64>,
    /// By what served them.
    pub upstreams: BTreeMap<String, u64>,
}

impl Shape {
    /// Measures a population.
    pub fn of(population: &Population) -> Self {
        let turns = &population.turns;
        let lengths = |values: Vec<u64>| bins(values.into_iter().map(|length| length as f64));
        let (arrivals, arrivals_stretch_s) = over_time(&population.arrivals());
        Self {
            input_tokens: lengths(turns.iter().filter_map(|turn| turn.input_tokens).collect()),
            output_tokens: lengths(turns.iter().filter_map(|turn| turn.output_tokens).collect()),
            turns_per_session: bins(population.turns_per_session().into_iter().map(f64::from)),
            think_time_s: bins(think_times_s(population).into_iter()),
            arrivals,
            arrivals_stretch_s,
        }
    }
}

/// Counts values between powers of two, from the smallest to the largest; what is below 1 lies in
/// one bin.
fn bins(values: impl Iterator<Item = f64>) -> Vec<Bin> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for value in values.filter(|value| value.is_finite()) {
        // 0 for below 1, else one more than the power below.
        let at = (value.max(0.0) as u64)
            .checked_ilog2()
            .map_or(0, |power| power + 1);
        *counts.entry(at).or_default() += 1;
    }
    let (Some(first), Some(last)) = (counts.keys().next(), counts.keys().next_back()) else {
        return Vec::new();
    };
    let edge = |at: u32| {
        if at == 0 {
            0.0
        } else {
            2.0_f64.powi(at as i32 - 1)
        }
    };
    (*first..=*last)
        .map(|at| Bin {
            from: edge(at),
            to: edge(at + 1),
            count: counts.get(&at).copied().unwrap_or(0),
        })
        .collect()
}

/// Turns in each of at most [`STRETCHES`] stretches of time, and the length of one.
fn over_time(arrivals: &[i64]) -> (Vec<u64>, Option<f64>) {
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        return (Vec::new(), None);
    };
    let span_us = last.saturating_sub(*first);
    if span_us <= 0 {
        return (vec![arrivals.len() as u64], None);
    }
    let stretch_us = span_us.unsigned_abs() / STRETCHES as u64 + 1;
    let mut counts = vec![0; STRETCHES];
    for arrival in arrivals {
        let since = arrival.saturating_sub(*first).max(0).unsigned_abs();
        let at = usize::try_from(since / stretch_us).unwrap_or(usize::MAX);
        if let Some(count) = counts.get_mut(at.min(STRETCHES - 1)) {
            *count += 1;
        }
    }
    (counts, Some(stretch_us as f64 / SECOND_US as f64))
}

impl Mix {
    /// Counts a turn under a word of one of the lists.
    pub fn add(list: &mut BTreeMap<String, u64>, word: Option<&str>) {
        let word = word.unwrap_or("unknown");
        if let Some(count) = list.get_mut(word) {
            *count += 1;
        } else {
            list.insert(word.to_owned(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bin, STRETCHES, Shape, bins, over_time};
    use crate::population::{Population, PopulationTurn};
    use proptest::prelude::*;

    #[test]
    fn bins_are_powers_of_two_and_leave_no_hole() {
        let found = bins([0.5, 1.0, 1.9, 2.0, 8.0, 15.0, f64::NAN].into_iter());
        let bin = |from, to, count| Bin { from, to, count };
        let wanted = [
            bin(0.0, 1.0, 1),
            bin(1.0, 2.0, 2),
            bin(2.0, 4.0, 1),
            bin(4.0, 8.0, 0),
            bin(8.0, 16.0, 2),
        ];
        assert_eq!(found, wanted);
        assert!(bins(std::iter::empty()).is_empty());
    }

    #[test]
    fn an_instant_has_turns_and_no_stretch() {
        assert_eq!(over_time(&[7, 7, 7]), (vec![3], None));
        assert_eq!(over_time(&[]), (Vec::new(), None));
        assert_eq!(Shape::of(&Population::default()), Shape::default());
    }

    proptest! {
        #[test]
        fn every_value_is_in_one_bin_and_every_arrival_in_one_stretch(
            mut arrivals in proptest::collection::vec(any::<i32>(), 2..200),
            lengths in proptest::collection::vec(0_u64..1 << 40, 1..200),
        ) {
            arrivals.sort_unstable();
            let arrivals: Vec<i64> = arrivals.into_iter().map(i64::from).collect();
            let (counts, stretch) = over_time(&arrivals);
            prop_assert!(counts.len() <= STRETCHES);
            prop_assert_eq!(counts.iter().sum::<u64>(), arrivals.len() as u64);
            if let Some(stretch) = stretch {
                prop_assert!(stretch * STRETCHES as f64 * 1e6 >= (arrivals[arrivals.len() - 1] - arrivals[0]) as f64);
            }
            let turns = lengths.iter().map(|length| PopulationTurn {
                input_tokens: Some(*length),
                ..PopulationTurn::default()
            });
            let population = Population { turns: turns.collect(), sessions: 1, ..Population::default() };
            let shape = Shape::of(&population);
            prop_assert_eq!(shape.input_tokens.iter().map(|bin| bin.count).sum::<u64>(), lengths.len() as u64);
            for length in lengths {
                let length = length as f64;
                let inside = shape.input_tokens.iter().filter(|bin| (bin.from..bin.to).contains(&length));
                prop_assert_eq!(inside.count(), 1);
            }
        }
    }
}
