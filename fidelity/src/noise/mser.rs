//! Where a run becomes steady: MSER-5.
//!
//! Values are averaged in batches of five. The beginning that is cut off is the one after which the
//! mean of the rest is best known: the `k` that makes `Σ (x - mean)² / (n - k)²` over the rest the
//! least. A rest of fewer than [`REST_MIN`] batches knows nothing, and is not looked at.

/// Values in a batch.
pub const BATCH: usize = 5;

/// Batches that a series needs.
pub const BATCHES_MIN: usize = 12;

/// Batches that must be left: a few at the end that happen to be alike are no steady state.
pub const REST_MIN: usize = 5;

/// Returns the share of the series that its warm-up takes; none for a series that is too short.
///
/// More than a half says that it never became steady.
pub fn cut(values: &[f64]) -> Option<f64> {
    let batches: Vec<f64> = values
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    let count = batches.len();
    if count < BATCHES_MIN || batches.iter().any(|value| !value.is_finite()) {
        return None;
    }
    // From the end, so that each rest takes one step: mean and squares by Welford.
    let (mut mean, mut squares) = (0.0, 0.0);
    let mut best = (0, f64::INFINITY);
    for (rest, value) in (1..).zip(batches.iter().rev()) {
        let off = value - mean;
        mean += off / rest as f64;
        squares += off * (value - mean);
        let error = squares / (rest as f64).powi(2);
        // Of two that are as good the longer rest counts.
        if rest >= REST_MIN && error <= best.1 {
            best = (count - rest, error);
        }
    }
    Some(best.0 as f64 / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::unit;
    use crate::mix::mix;

    fn noise(at: usize, seed: u64) -> f64 {
        unit(mix(mix(seed) ^ at as u64)) - 0.5
    }

    #[test]
    fn a_warm_up_is_cut_and_a_steady_series_is_not() {
        for seed in 0..20 {
            let steady: Vec<f64> = (0..400).map(|at| 10.0 + noise(at, seed)).collect();
            let cut_of_steady = cut(&steady).unwrap();
            assert!(cut_of_steady < 0.5, "seed {seed}: {cut_of_steady}");
            let warming = (0..400).map(|at| {
                10.0 + noise(at, seed)
                    + if at < 100 {
                        40.0 * (1.0 - at as f64 / 100.0)
                    } else {
                        0.0
                    }
            });
            let cut_of_warming = cut(&warming.collect::<Vec<_>>()).unwrap();
            assert!(
                (0.2..0.5).contains(&cut_of_warming),
                "seed {seed}: {cut_of_warming}"
            );
        }
    }

    #[test]
    fn what_never_stops_rising_never_becomes_steady() {
        let rising: Vec<f64> = (0..400).map(|at| (at as f64).powi(2)).collect();
        assert!(cut(&rising).unwrap() > 0.5);
        assert_eq!(cut(&[1.0; 59]), None);
        assert_eq!(cut(&[1.0; 60]), Some(0.0));
    }
}
