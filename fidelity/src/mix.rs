//! A cheap hasher for integers that already are hashes or ids.
//!
//! Block hashes need no protection against chosen keys: they are keyed. But ids of traces are
//! small integers in sequence, so their bits are mixed before a table takes the top or the bottom
//! of them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map keyed by block hashes or ids.
pub type MixMap<V> = HashMap<u64, V, BuildHasherDefault<MixHasher>>;

/// A set of block hashes or ids.
pub type MixSet = HashSet<u64, BuildHasherDefault<MixHasher>>;

/// Scrambles an integer: the finalizer of SplitMix64, a bijection.
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Hashes one integer by [`mix`].
#[derive(Clone, Copy, Debug, Default)]
pub struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of SplitMix64 seeded with 0: the text that the engine says depends on them.
    #[test]
    fn the_mix_is_splitmix64() {
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mix(0x9E37_79B9_7F4A_7C15), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn integers_in_sequence_spread_over_both_ends_of_the_word() {
        let top: std::collections::BTreeSet<u64> = (0..256).map(|i| mix(i) >> 56).collect();
        let bottom: std::collections::BTreeSet<u64> = (0..256).map(|i| mix(i) & 255).collect();
        // 256 balls in 256 bins hit about 162 of them.
        assert!(top.len() > 140, "{}", top.len());
        assert!(bottom.len() > 140, "{}", bottom.len());
    }
}
