//! Bootstraps that draw whole clusters: blocks of time, sessions, or runs and then their clusters.

use crate::mix::mix;
use crate::quantile::{quantile, sorted};

/// Draws of a bootstrap: the ends of a 95 % interval are then the 25th from either side.
pub const DRAWS: usize = 1_000;

/// The seed of the draws: any will do, and it stays the same.
const SEED: u64 = 0x424F_4F54;

/// Values in the order of their size, each with its cluster and its run.
#[derive(Clone, Debug, Default)]
pub struct Clustered {
    /// Value, and the number of its cluster.
    values: Vec<(f64, u32)>,
    /// Clusters of each run.
    runs: Vec<Vec<u32>>,
    clusters: usize,
}

impl Clustered {
    /// Takes the values of runs; clusters are told apart by run.
    pub fn of(runs: &[Vec<(u64, f64)>]) -> Self {
        let mut clustered = Self::default();
        let mut numbers: std::collections::BTreeMap<(usize, u64), u32> = Default::default();
        for (run, values) in runs.iter().enumerate() {
            let mut of_run = Vec::new();
            for (cluster, value) in values.iter().filter(|(_, value)| !value.is_nan()) {
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                let number = *numbers.entry((run, *cluster)).or_insert(next);
                if number == next {
                    of_run.push(number);
                }
                clustered.values.push((*value, number));
            }
            clustered.runs.push(of_run);
        }
        clustered.values.sort_by(|a, b| a.0.total_cmp(&b.0));
        clustered.clusters = numbers.len();
        clustered
    }

    /// The quantile of all values.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let values: Vec<f64> = self.values.iter().map(|(value, _)| *value).collect();
        quantile(&values, q)
    }

    /// The quantile in each of [`DRAWS`] draws of clusters with replacement: runs first, where there
    /// are several, and then as many clusters in each as it has.
    pub fn draws(&self, q: f64) -> Vec<f64> {
        let draw = |at: usize| self.drawn(q, at as u64);
        (0..DRAWS).filter_map(draw).collect()
    }

    fn drawn(&self, q: f64, at: u64) -> Option<f64> {
        let mut state = mix(SEED ^ at);
        let mut below = |count: usize| {
            state = mix(state);
            (state % count.max(1) as u64) as usize
        };
        let mut times = vec![0_u32; self.clusters];
        for _ in &self.runs {
            let run = self.runs.get(below(self.runs.len()))?;
            for _ in run {
                let cluster = *run.get(below(run.len()))?;
                if let Some(times) = times.get_mut(cluster as usize) {
                    *times += 1;
                }
            }
        }
        self.weighted(q, &times)
    }

    /// The quantile where each value is there as often as its cluster was drawn.
    fn weighted(&self, q: f64, times: &[u32]) -> Option<f64> {
        let weight = |cluster: u32| u64::from(times.get(cluster as usize).copied().unwrap_or(0));
        let all: u64 = self
            .values
            .iter()
            .map(|(_, cluster)| weight(*cluster))
            .sum();
        let position = q.clamp(0.0, 1.0) * all.checked_sub(1)? as f64;
        let (below, fraction) = (position.floor() as u64, position.fract());
        let mut seen = 0;
        let mut low = None;
        for (value, cluster) in &self.values {
            seen += weight(*cluster);
            if low.is_none() && seen > below {
                low = Some(*value);
            }
            if let Some(low) = low
                && (seen > below + 1 || fraction == 0.0)
            {
                let same = fraction == 0.0 || low == *value;
                return Some(if same {
                    low
                } else {
                    low + (value - low) * fraction
                });
            }
        }
        low
    }
}

/// The 95 % interval of draws.
pub fn interval(draws: Vec<f64>) -> Option<(f64, f64)> {
    let draws = sorted(draws);
    Some((quantile(&draws, 0.025)?, quantile(&draws, 0.975)?))
}

/// The interval of the logarithm of one side's quantile over the other's, each drawn on its own.
pub fn shift_ln(found: &Clustered, wanted: &Clustered, q: f64) -> Option<(f64, f64)> {
    // The same seeds would draw both sides alike where they have as many clusters.
    let wanted = wanted.draws(q).into_iter().rev();
    let both = found.draws(q).into_iter().zip(wanted);
    let logs = both.filter(|(found, wanted)| *found > 0.0 && *wanted > 0.0);
    interval(logs.map(|(found, wanted)| (found / wanted).ln()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::{normal, unit};

    /// A cluster's own level, and noise around it.
    fn values(seed: u64, clusters: u64, of_each: u64) -> Vec<(u64, f64)> {
        let mut state = mix(seed);
        let mut uniform = || {
            state = mix(state);
            unit(state)
        };
        let mut values = Vec::new();
        for cluster in 0..clusters {
            let level = normal(&mut uniform);
            values.extend(
                (0..of_each).map(|_| (cluster, 100.0 + level + 0.1 * normal(&mut uniform))),
            );
        }
        values
    }

    #[test]
    fn one_draw_of_everything_once_is_the_quantile() {
        let values = values(1, 30, 7);
        let clustered = Clustered::of(std::slice::from_ref(&values));
        let plain = sorted(values.iter().map(|(_, value)| *value));
        for q in [0.0, 0.3, 0.5, 0.99, 1.0] {
            let found = clustered.weighted(q, &[1; 30]).unwrap();
            assert!((found - quantile(&plain, q).unwrap()).abs() < 1e-9, "{q}");
        }
    }

    /// What a bootstrap is for: its 95 % interval holds the true median in about 95 % of samples,
    /// and one that draws single values does not.
    #[test]
    fn intervals_of_clusters_hold_what_they_promise() {
        let (mut whole, mut single) = (0, 0);
        for seed in 0..100 {
            let values = values(seed, 40, 8);
            let alone: Vec<(u64, f64)> = (0..).zip(&values).map(|(at, (_, v))| (at, *v)).collect();
            let holds = |values: Vec<(u64, f64)>| {
                let (low, high) = interval(Clustered::of(&[values]).draws(0.5)).unwrap();
                u32::from(low <= 100.0 && 100.0 <= high)
            };
            whole += holds(values);
            single += holds(alone);
        }
        assert!((88..=100).contains(&whole), "{whole} of 100");
        assert!(single < 75, "{single} of 100");
    }

    #[test]
    fn runs_are_drawn_before_their_clusters() {
        // Runs differ by far more than their clusters do: the interval has to be as wide.
        let runs: Vec<Vec<(u64, f64)>> = (0..5)
            .map(|run| {
                (0..50)
                    .map(|at| (at, 100.0 + f64::from(run) * 10.0))
                    .collect()
            })
            .collect();
        let (low, high) = interval(Clustered::of(&runs).draws(0.5)).unwrap();
        assert!(high - low >= 20.0, "{low} {high}");
        assert_eq!(interval(Clustered::of(&[]).draws(0.5)), None);
    }
}
