//! Quantiles: the one definition.
//!
//! Percentiles interpolate linearly between order statistics (D8): of `n` values `x[0] ≤ … ≤
//! x[n-1]` the quantile `q` lies at position `q·(n-1)`. A sketch would be cheaper and is not used:
//! a report compares quantiles within 2 %, and an error of its own would eat the tolerance.

/// Sorts values for the functions of this module; NaN is dropped, as unknown.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Returns the quantile `q` of sorted values, or none of an empty list.
///
/// `q` is clamped to 0 to 1. Infinite values are allowed: between a finite value and infinity the
/// quantile is infinite, because no part of the way there is finite.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = snap(q.clamp(0.0, 1.0) * last as f64);
    let below = (position.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let fraction = position - below as f64;
    let (low, high) = (*sorted.get(below)?, *sorted.get(above)?);
    if fraction == 0.0 || low == high {
        return Some(low);
    }
    Some(low + (high - low) * fraction)
}

/// Undoes the rounding of `q·(n-1)`, so that `k/(n-1)` gives exactly the value of rank `k`.
fn snap(position: f64) -> f64 {
    let whole = position.round();
    if (position - whole).abs() < 1e-9 {
        whole
    } else {
        position
    }
}

/// Returns the arithmetic mean, or none of an empty list.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the rank of a value among sorted values, as a share: the middle of the ranks that are
/// equal to it, so that a value compared with its own population has a symmetric rank.
pub fn rank(sorted: &[f64], value: f64) -> Option<f64> {
    if sorted.is_empty() {
        return None;
    }
    let below = sorted.partition_point(|x| *x < value);
    let upto = sorted.partition_point(|x| *x <= value);
    Some((below + upto) as f64 / 2.0 / sorted.len() as f64)
}

/// Returns the value-weighted quantile of sorted values: the smallest value such that the values
/// up to and including it hold at least the share `q` of the sum.
///
/// With token counts as values it answers "in how long a prompt does the median *token* sit", and
/// it does not interpolate: a token sits in one prompt.
pub fn weighted_quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let total: f64 = sorted.iter().sum();
    if total <= 0.0 {
        return sorted.last().copied();
    }
    let wanted = q.clamp(0.0, 1.0) * total;
    let mut sum = 0.0;
    for value in sorted {
        sum += value;
        if sum >= wanted {
            return Some(*value);
        }
    }
    sorted.last().copied()
}

/// Adds counts; a sum beyond what 64 bits hold is the largest they do.
pub fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Returns the share of the sum that the largest values hold, `part` of the count (at least one).
pub fn top_share(sorted: &[f64], part: f64) -> Option<f64> {
    let total: f64 = sorted.iter().sum();
    if sorted.is_empty() || total <= 0.0 {
        return None;
    }
    let count = ((sorted.len() as f64 * part).round() as usize).clamp(1, sorted.len());
    Some(sorted.iter().rev().take(count).sum::<f64>() / total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_interpolate_between_order_statistics() {
        let values = sorted([4.0, 1.0, 3.0, 2.0]);
        let cases = [
            (0.0, 1.0),
            (0.5, 2.5),
            (1.0, 4.0),
            (1.0 / 3.0, 2.0),
            (0.9, 3.7),
            (2.0, 4.0),
        ];
        for (q, want) in cases {
            let got = quantile(&values, q).unwrap();
            assert!((got - want).abs() < 1e-12, "q={q}: {got}, wanted {want}");
        }
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
    }

    #[test]
    fn nothing_finite_lies_on_the_way_to_infinity() {
        let values = sorted([1.0, 2.0, f64::INFINITY]);
        assert_eq!(quantile(&values, 0.5), Some(2.0));
        assert_eq!(quantile(&values, 0.51), Some(f64::INFINITY));
        assert_eq!(quantile(&values, 1.0), Some(f64::INFINITY));
        assert_eq!(quantile(&[f64::INFINITY; 3], 0.4), Some(f64::INFINITY));
    }

    #[test]
    fn ranks_of_ties_are_their_middle() {
        let values = sorted([1.0, 2.0, 2.0, 3.0]);
        assert_eq!(rank(&values, 2.0), Some(0.5));
        assert_eq!(rank(&values, 0.0), Some(0.0));
        assert_eq!(rank(&values, 9.0), Some(1.0));
        assert_eq!(rank(&values, 2.5), Some(0.75));
    }

    #[test]
    fn the_median_token_sits_in_a_longer_prompt_than_the_median_prompt() {
        let values = sorted([1.0, 1.0, 1.0, 1.0, 96.0]);
        assert_eq!(quantile(&values, 0.5), Some(1.0));
        assert_eq!(weighted_quantile(&values, 0.5), Some(96.0));
        assert_eq!(weighted_quantile(&values, 0.01), Some(1.0));
        assert_eq!(weighted_quantile(&[0.0, 0.0], 0.5), Some(0.0));
        assert_eq!(top_share(&values, 0.2), Some(0.96));
        assert_eq!(top_share(&values, 0.001), Some(0.96));
    }

    proptest! {
        #[test]
        fn quantiles_stay_inside_and_grow_with_q(
            values in prop::collection::vec(-1e9f64..1e9, 1..200),
            a in 0.0f64..1.0,
            b in 0.0f64..1.0,
        ) {
            let values = sorted(values);
            let (low, high) = if a <= b { (a, b) } else { (b, a) };
            let (at_low, at_high) = (quantile(&values, low).unwrap(), quantile(&values, high).unwrap());
            prop_assert!(at_low <= at_high + 1e-6);
            prop_assert!(values[0] <= at_low && at_high <= values[values.len() - 1] + 1e-6);
        }

        #[test]
        fn the_rank_of_a_quantile_is_its_q(n in 2usize..400, k in 0usize..400) {
            let values: Vec<f64> = (0..n).map(|i| i as f64).collect();
            let k = k % n;
            let q = k as f64 / (n - 1) as f64;
            let value = quantile(&values, q).unwrap();
            // A half-rank of slack: ranks count to n, quantiles to n - 1.
            prop_assert!((rank(&values, value).unwrap() - q).abs() <= 0.5 / n as f64 + 1e-9);
        }
    }
}
