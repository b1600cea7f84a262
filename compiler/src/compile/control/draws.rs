//! The dice of control sets: the same for the same seed, on every machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use truetape_fidelity::draws;

/// A stream of random numbers.
#[derive(Debug)]
pub(super) struct Draws(ChaCha8Rng);

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// From 0 to below 1.
    fn unit(&mut self) -> f64 {
        draws::unit(self.0.next_u64())
    }

    /// A normal number of mean 0 and deviation 1.
    pub(super) fn normal(&mut self) -> f64 {
        draws::normal(&mut || self.unit())
    }

    /// An exponential number of mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        draws::exponential(&mut || self.unit())
    }

    /// A whole number from `least` to `most`, each as likely as another.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        let width = most.saturating_sub(least) as f64 + 1.0;
        least.saturating_add((self.unit() * width) as u64).min(most)
    }

    /// A gamma number of mean 1 with that coefficient of variation.
    pub(super) fn gamma_of_mean_1(&mut self, cv: f64) -> f64 {
        draws::gamma_of_mean_1(&mut || self.unit(), cv)
    }

    /// Hashes of the blocks of a prompt that shares nothing.
    pub(super) fn blocks(&mut self, tokens: u64, block_tokens: u32) -> Vec<u64> {
        let blocks = tokens.div_ceil(u64::from(block_tokens.max(1)));
        (0..blocks).map(|_| self.0.next_u64()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Draws;

    /// Mean and coefficient of variation.
    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let drawn: Vec<f64> = (0..200_000).map(|_| draw()).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let squares: f64 = drawn.iter().map(|x| (x - mean).powi(2)).sum();
        (mean, (squares / drawn.len() as f64).sqrt() / mean)
    }

    #[test]
    fn gammas_have_the_mean_and_the_variation_asked_for() {
        for cv in [0.3, 1.0, 1.7, 3.0] {
            let mut draws = Draws::new(1);
            let (mean, found) = moments(|| draws.gamma_of_mean_1(cv));
            assert!((mean - 1.0).abs() < 0.03, "cv {cv}: mean {mean}");
            assert!((found / cv - 1.0).abs() < 0.05, "cv {cv}: {found}");
        }
    }

    #[test]
    fn exponentials_and_normals_are_what_they_say() {
        let mut draws = Draws::new(2);
        let (mean, cv) = moments(|| draws.exponential());
        assert!(
            (mean - 1.0).abs() < 0.02 && (cv - 1.0).abs() < 0.02,
            "{mean} {cv}"
        );
        let (mean, cv) = moments(|| 10.0 + draws.normal());
        assert!((mean - 10.0).abs() < 0.02 && (10.0 * cv - 1.0).abs() < 0.02);
    }

    #[test]
    fn whole_numbers_reach_both_ends_and_no_further() {
        let mut draws = Draws::new(3);
        let drawn: std::collections::BTreeSet<u64> =
            (0..1_000).map(|_| draws.between(5, 8)).collect();
        assert_eq!(drawn, [5, 6, 7, 8].into());
        assert_eq!(draws.between(9, 9), 9);
        assert_eq!(draws.blocks(17, 16).len(), 2);
    }
}
