//! Gaps between token events, counted and not kept: a run has hundreds of them for each answer.
//!
//! The buckets are those of HDR histograms: every value below 65.536 ms has one of its own, and above
//! that each power of two is cut into 2^15 equal ones, so that a quantile is off by less than
//! 0.002 %. Memory grows with the longest gap and not with their number: 3.4 MiB for a gap of 100 s.

use super::measure;
use super::stats::Stats;
use crate::latency::answered;
use truetape_schemas::run::Dispatch;

/// Values below `2^BITS` are counted exactly.
const BITS: u32 = 16;

/// Buckets of each power of two above.
const STEPS: u64 = 1 << (BITS - 1);

/// A gap above this is counted as this: 12 days.
const VALUE_US_MAX: u64 = 1 << 40;

/// A histogram of gaps in microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gaps {
    counts: Vec<u64>,
    count: u64,
    sum_us: u128,
    max_us: u64,
}

impl Gaps {
    /// Counts the gaps of a dispatch; only complete answers have any.
    pub fn add(&mut self, dispatch: &Dispatch) {
        if !answered(dispatch) {
            return;
        }
        for gap_us in measure::itl_us(dispatch) {
            self.count(u64::try_from(gap_us).unwrap_or(0));
        }
    }

    fn count(&mut self, gap_us: u64) {
        let gap_us = gap_us.min(VALUE_US_MAX);
        let at = bucket(gap_us);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
        self.count += 1;
        self.sum_us += u128::from(gap_us);
        self.max_us = self.max_us.max(gap_us);
    }

    /// Describes them, in milliseconds.
    pub fn stats(&self) -> Stats {
        let ms = |us: f64| us / 1_000.0;
        let at = |q| self.quantile_us(q).map(ms);
        let known = self.count > 0;
        Stats {
            count: self.count,
            mean: known.then(|| ms(self.sum_us as f64 / self.count as f64)),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            max: known.then(|| ms(self.max_us as f64)),
        }
    }

    /// The quantile of [`crate::quantile::quantile`], over buckets.
    fn quantile_us(&self, q: f64) -> Option<f64> {
        let last = self.count.checked_sub(1)?;
        let position = q * last as f64;
        let below = position.floor() as u64;
        let fraction = position - below as f64;
        let low = self.ranked_us(below)?;
        let high = self.ranked_us((below + 1).min(last))?;
        Some(low + (high - low) * fraction)
    }

    fn ranked_us(&self, rank: u64) -> Option<f64> {
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            rank < seen
        })?;
        Some(middle_us(at).min(self.max_us as f64))
    }
}

fn bucket(value: u64) -> usize {
    let powers = (u64::BITS - value.leading_zeros()).saturating_sub(BITS);
    // At most 2^40 and 25 powers: far below what an index can be.
    (u64::from(powers) * STEPS + (value >> powers)) as usize
}

fn middle_us(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    let powers = (bucket / STEPS).saturating_sub(1);
    let first = (bucket - powers * STEPS) << powers;
    first as f64 + ((1_u64 << powers) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile::{quantile, sorted};
    use proptest::prelude::*;
    use truetape_schemas::capture::Outcome;

    fn answer(events_us: Vec<i64>) -> Dispatch {
        Dispatch {
            sent_us: Some(0),
            outcome: Some(Outcome::Complete),
            token_event_offsets_us: Some(events_us),
            ..Dispatch::default()
        }
    }

    #[test]
    fn gaps_of_answers_are_counted_and_those_of_failures_are_not() {
        let mut gaps = Gaps::default();
        gaps.add(&answer(vec![10_000, 20_000, 50_000]));
        gaps.add(&Dispatch {
            outcome: Some(Outcome::Truncated),
            ..answer(vec![0, 9_000_000])
        });
        let stats = gaps.stats();
        assert_eq!(
            (stats.count, stats.p50, stats.max),
            (2, Some(20.0), Some(30.0))
        );
        assert_eq!(Gaps::default().stats(), Stats::default());
    }

    proptest! {
        #[test]
        fn a_quantile_is_the_exact_one_but_for_a_fiftieth_of_a_thousandth(
            values in proptest::collection::vec(
                prop_oneof![0_u64..100, 0_u64..100_000, 0_u64..100_000_000], 1..200),
            q in 0.0_f64..1.0,
        ) {
            let mut gaps = Gaps::default();
            values.iter().for_each(|value| gaps.count(*value));
            let exact = quantile(&sorted(values.iter().map(|v| *v as f64)), q).unwrap();
            let found = gaps.quantile_us(q).unwrap();
            prop_assert!((found - exact).abs() <= exact * 2e-5 + 1e-6, "{found} {exact}");
        }
    }
}
