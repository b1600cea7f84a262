//! The design effect: how many turns tell as much as one independent one.
//!
//! `DEFF = 1 + (m - 1)·ICC`, where `m = Σ n² / Σ n` is the size of the cluster that a turn is in, on
//! average, and the intra-class correlation is estimated by the analysis of variance:
//! `ICC = (MSB - MSW) / (MSB + (n₀ - 1)·MSW)`, `n₀ = (N - Σ n²/N) / (k - 1)`.

use std::collections::BTreeMap;

/// What clusters do to a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    /// Values.
    pub values: usize,
    /// Clusters they come in.
    pub clusters: usize,
    /// Intra-class correlation, not below 0.
    pub icc: f64,
    /// How many values tell as much as an independent one, at least 1.
    pub effect: f64,
}

impl Design {
    /// Independent values that would tell as much.
    pub fn effective(&self) -> f64 {
        self.values as f64 / self.effect
    }
}

/// Measures values, each with its cluster; none for fewer than two clusters, or for one value each
/// in all of them where nothing can be told.
pub fn of(values: &[(u64, f64)]) -> Option<Design> {
    let mut clusters: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for (cluster, value) in values.iter().filter(|(_, value)| value.is_finite()) {
        let (count, sum) = clusters.entry(*cluster).or_default();
        *count += 1.0;
        *sum += value;
    }
    let count: f64 = clusters.values().map(|(count, _)| count).sum();
    let k = clusters.len() as f64;
    if k < 2.0 {
        return None;
    }
    let mean = clusters.values().map(|(_, sum)| sum).sum::<f64>() / count;
    let between: f64 = clusters
        .values()
        .map(|(count, sum)| count * (sum / count - mean).powi(2))
        .sum();
    let within: f64 = values
        .iter()
        .filter(|(_, value)| value.is_finite())
        .filter_map(|(cluster, value)| {
            let (count, sum) = clusters.get(cluster)?;
            Some((value - sum / count).powi(2))
        })
        .sum();
    let squares: f64 = clusters.values().map(|(count, _)| count * count).sum();
    let design = |icc: f64| Design {
        values: count as usize,
        clusters: clusters.len(),
        icc,
        effect: 1.0 + (squares / count - 1.0) * icc,
    };
    // Equal values differ by what rounding leaves.
    let nothing = (between + within) / count <= (1e-9 * mean.abs()).powi(2);
    if count <= k || nothing {
        return Some(design(0.0));
    }
    let (msb, msw) = (between / (k - 1.0), within / (count - k));
    let n0 = (count - squares / count) / (k - 1.0);
    let whole = msb + (n0 - 1.0) * msw;
    let icc = if whole > 0.0 {
        (msb - msw) / whole
    } else {
        0.0
    };
    Some(design(icc.clamp(0.0, 1.0)))
}

/// A cluster's number, from its name.
pub fn label(name: &str) -> u64 {
    let digest = blake3::hash(name.as_bytes());
    let (first, _) = digest.as_bytes().split_at(8);
    first.try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::unit;
    use crate::mix::mix;

    fn noise(at: u64) -> f64 {
        unit(mix(at)) - 0.5
    }

    #[test]
    fn independent_values_count_each() {
        let values: Vec<(u64, f64)> = (0..1_000).map(|at| (at / 10, noise(at))).collect();
        let design = of(&values).unwrap();
        assert!(design.effect < 1.5, "{design:?}");
        assert_eq!((design.values, design.clusters), (1_000, 100));
    }

    #[test]
    fn copies_count_once() {
        let values: Vec<(u64, f64)> = (0..1_000).map(|at| (at / 10, noise(at / 10))).collect();
        let design = of(&values).unwrap();
        assert!((design.effect - 10.0).abs() < 1e-9, "{design:?}");
        assert!((design.effective() - 100.0).abs() < 1e-9);
    }

    #[test]
    fn one_cluster_says_nothing_and_equal_values_have_no_effect() {
        assert_eq!(of(&[(1, 1.0), (1, 2.0)]), None);
        assert_eq!(of(&[(1, 1.0), (2, 1.0), (2, 1.0)]).unwrap().effect, 1.0);
        assert_eq!(of(&[(1, 1.0), (2, f64::INFINITY)]), None);
    }
}
