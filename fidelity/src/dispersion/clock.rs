//! The step of a clock, inferred from the arrivals it gave.
//!
//! Two rules, and the coarser answer wins.
//!
//! 1. **Exact grid.** The greatest common divisor of at least [`GAPS_MIN`] positive gaps, where it is
//!    more than a microsecond. Unrelated gaps have a common divisor of 1.
//! 2. **Jittered grid.** A clock that is polled steps by 2 999, 3 000 or 3 001 ms, and its common
//!    divisor is 1 ms. The modal gap `m` (in bins of 2 %) is the step if at least [`ON_GRID`] of the
//!    gaps lie within `m/50` of a multiple of `m`, **and** at least [`TIES`] of the arrivals repeat
//!    the instant before: ties are what tells a coarse clock from a steady load, and a clock whose
//!    step hardly ever holds two arrivals bends nothing.
//!
//! A steady load of one arrival every 10.000000 s satisfies rule 1; its burstiness below 30 s is
//! then UNKNOWN, which errs on the safe side.

use std::collections::BTreeMap;

/// Fewest distinct gaps to infer anything from.
pub const GAPS_MIN: usize = 50;

/// Share of the gaps that must lie on the grid.
pub const ON_GRID: f64 = 0.95;

/// Share of the arrivals that must repeat the instant before.
pub const TIES: f64 = 0.10;

/// Bins of the modal gap are `ln 1.02` wide.
const BIN_LN: f64 = 0.02;

/// Distance from a multiple that still counts as on the grid, as a part of the step.
const SLACK: f64 = 1.0 / 50.0;

/// Infers the step of the clock behind sorted arrivals; none when they look continuous.
pub fn resolution_us(arrivals: &[i64]) -> Option<i64> {
    let gaps: Vec<i64> = arrivals
        .windows(2)
        .filter_map(|pair| pair.last()?.checked_sub(*pair.first()?))
        .filter(|gap| *gap > 0)
        .collect();
    if gaps.len() < GAPS_MIN {
        return None;
    }
    let exact = gaps.iter().copied().fold(0, gcd);
    let ties = 1.0 - (gaps.len() + 1) as f64 / arrivals.len() as f64;
    let jittered = if ties >= TIES {
        jittered_grid(&gaps)
    } else {
        None
    };
    Some(exact).filter(|step| *step > 1).max(jittered)
}

fn jittered_grid(gaps: &[i64]) -> Option<i64> {
    let mut bins: BTreeMap<i64, (usize, i64)> = BTreeMap::new();
    for gap in gaps {
        let bin = bins
            .entry(((*gap as f64).ln() / BIN_LN).round() as i64)
            .or_default();
        *bin = (bin.0 + 1, bin.1.saturating_add(*gap));
    }
    let (count, sum) = bins.into_values().max_by_key(|(count, _)| *count)?;
    let step = sum as f64 / count as f64;
    let on_grid = |gap: i64| {
        let multiple = (gap as f64 / step).round();
        multiple >= 1.0 && (gap as f64 - multiple * step).abs() <= step * SLACK
    };
    let share = gaps.iter().filter(|gap| on_grid(**gap)).count() as f64 / gaps.len() as f64;
    (share >= ON_GRID).then_some(step.round() as i64)
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::mix;

    /// Exponential gaps with the given mean.
    fn continuous(count: u64, mean_us: f64) -> Vec<i64> {
        let mut now = 0.0;
        (0..count)
            .map(|i| {
                let uniform = (mix(i) >> 11) as f64 / (1u64 << 53) as f64;
                now -= mean_us * (1.0 - uniform).ln();
                now as i64
            })
            .collect()
    }

    #[test]
    fn continuous_arrivals_have_no_step() {
        assert_eq!(resolution_us(&continuous(5_000, 200_000.0)), None);
    }

    #[test]
    fn a_clock_of_whole_seconds_is_found() {
        for mean_us in [200_000.0, 20_000_000.0] {
            let arrivals: Vec<i64> = continuous(2_000, mean_us)
                .iter()
                .map(|us| us / 1_000_000 * 1_000_000)
                .collect();
            assert_eq!(
                resolution_us(&arrivals),
                Some(1_000_000),
                "mean gap {mean_us} us"
            );
        }
    }

    #[test]
    fn a_jittered_grid_is_found_by_its_ties() {
        let arrivals: Vec<i64> = continuous(3_000, 300_000.0)
            .iter()
            .map(|us| us / 3_000_000)
            .map(|step| step * 3_000_000 + (mix(step as u64) % 3) as i64 * 1_000)
            .collect();
        let step = resolution_us(&arrivals).unwrap();
        assert!((2_990_000..3_010_000).contains(&step), "{step}");
    }

    #[test]
    fn a_steady_load_is_not_a_coarse_clock() {
        let arrivals: Vec<i64> = (0..1_000)
            .map(|i| i * 100_000 + (mix(i as u64) % 2_000) as i64)
            .collect();
        assert_eq!(resolution_us(&arrivals), None);
    }

    #[test]
    fn bursts_of_simultaneous_turns_are_not_a_coarse_clock() {
        let arrivals: Vec<i64> = continuous(500, 400_000.0)
            .iter()
            .flat_map(|us| [*us; 4])
            .collect();
        assert_eq!(resolution_us(&arrivals), None);
    }

    #[test]
    fn few_gaps_say_nothing() {
        assert_eq!(
            resolution_us(&[0, 0, 3_000_000, 3_000_000, 6_000_000]),
            None
        );
        assert_eq!(resolution_us(&[]), None);
    }
}
