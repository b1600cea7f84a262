//! The dice of controls: the same for the same seed.

use super::Arrivals;
use truetape_fidelity::draws;
use truetape_fidelity::mix::mix;

/// Starts with the count, the first and the last of those given, so that the mean rate is the same
/// to the microsecond, and gaps as the control has them. Gaps that were drawn are scaled to fit:
/// exponential ones are then what a Poisson process is that is known to have had so many arrivals.
pub(super) fn draw(arrivals: Arrivals, seed: u64, starts_us: &[i64]) -> Vec<i64> {
    let (Some(first), Some(last)) = (starts_us.first(), starts_us.last()) else {
        return Vec::new();
    };
    let mut unit = uniform(seed);
    let mut gap = || match arrivals {
        Arrivals::Recorded | Arrivals::Constant => 1.0,
        Arrivals::Poisson => draws::exponential(&mut unit),
        Arrivals::Gamma(cv) => draws::gamma_of_mean_1(&mut unit, cv),
    };
    if arrivals == Arrivals::Recorded {
        return starts_us.to_vec();
    }
    let mut ends = vec![0.0];
    for _ in 1..starts_us.len() {
        ends.push(ends.last().copied().unwrap_or(0.0) + gap());
    }
    let whole = ends.last().copied().unwrap_or(0.0);
    let span_us = last.saturating_sub(*first) as f64;
    // All at once: nothing was drawn, or gaps so small that they add up to nothing.
    let scale = if whole > 0.0 { span_us / whole } else { 0.0 };
    ends.into_iter()
        .map(|end| first.saturating_add((end * scale).round() as i64))
        .collect()
}

/// Uniform numbers from 0 to below 1: SplitMix64, counted up from the seed.
fn uniform(seed: u64) -> impl FnMut() -> f64 {
    let mut at = mix(seed);
    move || {
        at = at.wrapping_add(1);
        draws::unit(mix(mix(at)))
    }
}
