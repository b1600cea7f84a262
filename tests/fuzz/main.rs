//! The fuzz targets on their seeds: whole, cut at many places, and mutated by a stable stream of
//! random numbers. What `cargo fuzz` found once is a seed here, and stays found.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

mod seeds;
mod targets;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use targets::TARGETS;

/// Mutants of each seed; a few seconds in all.
const MUTANTS: usize = 40;

/// A target that is slow gets fewer.
fn mutants(bytes: usize) -> usize {
    (MUTANTS * 4096 / bytes.max(1024)).clamp(4, MUTANTS)
}

#[test]
fn no_input_breaks_a_reader() {
    for (name, target) in TARGETS {
        let seeds = seeds::of(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for seed in &seeds {
            target(seed);
            for _ in 0..mutants(seed.len()) {
                target(&mutate(seed, &mut random));
            }
        }
    }
}

/// Cuts, overwrites, repeats or flips.
fn mutate(seed: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.next_u32() % 4 {
        if bytes.is_empty() {
            break;
        }
        let at = random.next_u32() as usize % bytes.len();
        match random.next_u32() % 5 {
            0 => bytes.truncate(at),
            1 => bytes[at] = random.next_u32() as u8,
            2 => bytes[at] ^= 1 << (random.next_u32() % 8),
            3 => {
                let end = (at + random.next_u32() as usize % 64).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let end = (at + 4).min(bytes.len());
                bytes[at..end].fill(0xff);
            }
        }
    }
    bytes
}
