//! Many claims at once: Holm's correction.

/// Returns the p-values that hold for all claims together, in the order given: sorted, the `i`-th of
/// `n` is multiplied by `n - i`, and none is below one before it.
pub fn corrected(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| {
        let at = |place: &usize| p_values.get(*place).copied().unwrap_or(1.0);
        at(a).total_cmp(&at(b))
    });
    let mut corrected = vec![1.0; p_values.len()];
    let mut least: f64 = 0.0;
    for (rank, place) in order.into_iter().enumerate() {
        let factor = (p_values.len() - rank) as f64;
        let p = p_values.get(place).copied().unwrap_or(1.0);
        least = least.max((p * factor).min(1.0));
        if let Some(slot) = corrected.get_mut(place) {
            *slot = least;
        }
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::corrected;

    #[test]
    fn the_smallest_counts_for_all_and_none_falls_below_another() {
        let found = corrected(&[0.01, 0.04, 0.03, 0.005]);
        for (found, want) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - want).abs() < 1e-12, "{found} {want}");
        }
        assert_eq!(corrected(&[0.9, 0.8]), [1.0, 1.0]);
        assert_eq!(corrected(&[]), Vec::<f64>::new());
    }
}
