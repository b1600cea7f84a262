//! What sampling sessions does to burstiness.
//!
//! Keep each session with probability `p`, leave arrivals where they are. Then, exactly,
//! `IDC_p(t) = A(t) + p·(IDC(t) - A(t))` with `A(t) = Σ c²/Σ c` over the counts `c` of one session
//! in one window. The same holds for work, with weights for counts. A peak has no such formula: its
//! expectation is taken over [`DRAWS`] seeded draws, and the same draws say how far one sample may
//! lie from the expectation by chance.

use super::Counts;
use crate::mix::mix;

/// Seeded draws behind a peak's expectation and behind the chance of a sample.
pub const DRAWS: u64 = 32;

/// The width of a two-sided 95 % interval, in standard deviations.
const Z_95: f64 = 1.96;

/// Arrivals with their sessions and weights, sorted by arrival.
#[derive(Clone, Copy, Debug)]
pub struct Clustered<'a> {
    /// When.
    pub arrivals: &'a [i64],
    /// Whose.
    pub sessions: &'a [u32],
    /// How much.
    pub weights: &'a [f64],
}

/// Expectation of a statistic under thinning, and how far a draw may lie from it by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// What a sample should have.
    pub value: f64,
    /// Half-width of the 95 % interval of the logarithm of one draw.
    pub chance_ln: f64,
}

impl Clustered<'_> {
    /// `A(t)`, in units of the mean weight of an arrival: 1 when no session has two arrivals in one
    /// window and all weights are equal.
    pub fn cluster_factor(&self, window_us: i64) -> Option<f64> {
        let first = *self.arrivals.first()?;
        let windows = super::span_us(self.arrivals) / window_us.max(1);
        let rows = self.arrivals.iter().zip(self.sessions).zip(self.weights);
        let mut inside: Vec<(u32, f64)> = Vec::new();
        let (mut squares, mut sum, mut arrivals, mut window) = (0.0, 0.0, 0u64, 0);
        for ((arrival, session), weight) in rows {
            let index = arrival.saturating_sub(first) / window_us.max(1);
            if index >= windows {
                break;
            }
            if index != window {
                squares += squares_by_session(&mut inside);
                window = index;
            }
            inside.push((*session, *weight));
            sum += weight;
            arrivals += 1;
        }
        squares += squares_by_session(&mut inside);
        let mean = sum / arrivals as f64;
        (sum > 0.0).then(|| squares / sum / mean)
    }

    /// The IDC (or IDW) of a sample that keeps the share `p` of the sessions.
    pub fn idc(&self, window_us: i64, p: f64) -> Option<Target> {
        let whole = Counts::weighted(self.arrivals, self.weights, window_us).idw()?;
        if p >= 1.0 {
            return Some(Target {
                value: whole,
                chance_ln: 0.0,
            });
        }
        let a = self.cluster_factor(window_us)?;
        let chance_ln = spread_ln(&self.draws(window_us, p, Counts::idw));
        Some(Target {
            value: a + p * (whole - a),
            chance_ln,
        })
    }

    /// The peak-to-mean of a sample that keeps the share `p` of the sessions.
    pub fn peak_to_mean(&self, window_us: i64, p: f64) -> Option<Target> {
        if p >= 1.0 {
            let counts = Counts::weighted(self.arrivals, self.weights, window_us);
            return Some(Target {
                value: counts.peak_to_mean()?,
                chance_ln: 0.0,
            });
        }
        let draws = self.draws(window_us, p, Counts::peak_to_mean);
        let value = crate::quantile::mean(&draws)?;
        Some(Target {
            value,
            chance_ln: spread_ln(&draws),
        })
    }

    fn draws(&self, window_us: i64, p: f64, of: fn(&Counts) -> Option<f64>) -> Vec<f64> {
        (0..DRAWS)
            .filter_map(|seed| of(&self.draw(window_us, p, seed)))
            .collect()
    }

    fn draw(&self, window_us: i64, p: f64, seed: u64) -> Counts {
        let keeps = |session: u32| unit(mix(seed) ^ u64::from(session)) < p;
        let (mut arrivals, mut weights) = (Vec::new(), Vec::new());
        let rows = self.arrivals.iter().zip(self.sessions).zip(self.weights);
        for ((arrival, _), weight) in rows.filter(|((_, session), _)| keeps(**session)) {
            arrivals.push(*arrival);
            weights.push(*weight);
        }
        Counts::weighted(&arrivals, &weights, window_us)
    }
}

fn squares_by_session(inside: &mut Vec<(u32, f64)>) -> f64 {
    inside.sort_unstable_by_key(|(session, _)| *session);
    let same = inside.chunk_by(|a, b| a.0 == b.0);
    let sum = same
        .map(|rows| rows.iter().map(|(_, weight)| weight).sum::<f64>().powi(2))
        .sum();
    inside.clear();
    sum
}

/// A uniform number in [0, 1) from a seed.
fn unit(seed: u64) -> f64 {
    (mix(seed) >> 11) as f64 / (1u64 << 53) as f64
}

/// Half-width of the 95 % interval of the logarithm of one draw.
fn spread_ln(draws: &[f64]) -> f64 {
    let logs: Vec<f64> = draws
        .iter()
        .filter(|draw| **draw > 0.0)
        .map(|draw| draw.ln())
        .collect();
    let (Some(mean), true) = (crate::quantile::mean(&logs), logs.len() > 1) else {
        return 0.0;
    };
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    Z_95 * (squares / (logs.len() - 1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispersion::tests::poisson;

    #[test]
    fn single_arrivals_of_weight_one_have_a_cluster_factor_of_one() {
        let arrivals = poisson(2_000, 100_000.0, 1);
        let sessions: Vec<u32> = (0..2_000).collect();
        let rows = Clustered {
            arrivals: &arrivals,
            sessions: &sessions,
            weights: &vec![1.0; 2_000],
        };
        assert_eq!(rows.cluster_factor(1_000_000), Some(1.0));
    }

    #[test]
    fn a_session_that_sends_three_at_once_is_a_cluster_of_three() {
        let arrivals: Vec<i64> = poisson(900, 1e5, 2)
            .iter()
            .flat_map(|at| [*at; 3])
            .collect();
        let sessions: Vec<u32> = (0..2_700).map(|i| i / 3).collect();
        let weights = vec![1.0; 2_700];
        let rows = Clustered {
            arrivals: &arrivals,
            sessions: &sessions,
            weights: &weights,
        };
        let a = rows.cluster_factor(1_000_000).unwrap();
        assert!((a - 3.0).abs() < 1e-9, "{a}");
        // Sampling whole clusters of independent sessions leaves the dispersion at 3.
        let target = rows.idc(1_000_000, 0.5).unwrap();
        assert!((target.value / 3.0).ln().abs() < 0.2, "{target:?}");
    }

    #[test]
    fn the_formula_agrees_with_draws() {
        // Bursts: every tenth second holds most arrivals, at a phase of its own, so that the start of
        // the windows does not cut all bursts at the same place.
        let burst = |s: u64| {
            let phase = (mix(s) % 900_000) as i64;
            (0..if s.is_multiple_of(10) { 80 } else { 4 })
                .map(move |i| s as i64 * 1_000_000 + phase + i * 9)
        };
        let arrivals: Vec<i64> = (0..400).flat_map(burst).collect();
        let sessions: Vec<u32> = (0..arrivals.len() as u32).collect();
        let weights = vec![1.0; arrivals.len()];
        let rows = Clustered {
            arrivals: &arrivals,
            sessions: &sessions,
            weights: &weights,
        };
        let target = rows.idc(1_000_000, 0.2).unwrap();
        let drawn = rows.draws(1_000_000, 0.2, Counts::idw);
        let mean = crate::quantile::mean(&drawn).unwrap();
        assert!(
            (mean / target.value).ln().abs() < 0.05,
            "{mean} against {target:?}"
        );
        assert!(target.chance_ln > 0.0 && target.chance_ln < 0.5);
    }

    #[test]
    fn keeping_everything_keeps_everything() {
        let arrivals = poisson(500, 100_000.0, 3);
        let sessions: Vec<u32> = (0..500).map(|i| i / 5).collect();
        let weights = vec![1.0; 500];
        let rows = Clustered {
            arrivals: &arrivals,
            sessions: &sessions,
            weights: &weights,
        };
        let idc = Counts::of(&arrivals, 1_000_000).idc().unwrap();
        assert_eq!(
            rows.idc(1_000_000, 1.0),
            Some(Target {
                value: idc,
                chance_ln: 0.0
            })
        );
    }
}
