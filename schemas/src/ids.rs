//! Names: of exchanges, of sets, of content.

use crate::time::wall_now_us;
use std::cell::RefCell;
use uuid::{Builder, Uuid};

/// Makes a new exchange id: a UUIDv7, ours, never a provider's.
pub fn new_exchange_id() -> String {
    let mut random = [0; 10];
    RANDOM.with_borrow_mut(|stream| stream.fill(&mut random));
    let now_ms = u64::try_from(wall_now_us() / 1000).unwrap_or(0);
    let id = Builder::from_unix_timestamp_millis(now_ms, &random).into_uuid();
    id.to_string()
}

/// Ids of the system that seed a stream: each brings at least 32 random bits of its own.
const SEED_IDS: usize = 8;

thread_local! {
    /// The system is asked for random bytes once: a call for each id costs more than the rest of it.
    static RANDOM: RefCell<blake3::OutputReader> = RefCell::new(seeded());
}

fn seeded() -> blake3::OutputReader {
    let mut seed = blake3::Hasher::new_derive_key("truetape 2026 exchange ids v1");
    for _ in 0..SEED_IDS {
        seed.update(Uuid::now_v7().as_bytes());
    }
    seed.finalize_xof()
}

/// Names bytes by their digest: 32 hexadecimal digits of BLAKE3.
///
/// 128 bits: among 10^10 parts a collision has a chance of about 10^-19.
pub fn content_id(bytes: &[u8]) -> String {
    let hex = blake3::hash(bytes).to_hex();
    hex.chars().take(CONTENT_ID_CHARS).collect()
}

/// Length of a [`content_id`].
pub const CONTENT_ID_CHARS: usize = 32;

/// Length of the short form of a set's digest, as used in paths.
pub const DIGEST_SHORT_CHARS: usize = 12;

/// A running digest over canonical values: each is framed by its length, so that no two lists of
/// values are the same bytes.
#[derive(Debug, Default)]
pub struct Digester(blake3::Hasher);

impl Digester {
    /// Starts an empty digest.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one value.
    pub fn add(&mut self, value: &[u8]) {
        self.0.update(&(value.len() as u64).to_le_bytes());
        self.0.update(value);
    }

    /// Ends the digest: 64 hexadecimal digits.
    pub fn finish(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::new_exchange_id;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_uuids_of_version_7_that_sort_by_time_and_differ_over_threads() {
        let some = || (0..1000).map(|_| new_exchange_id()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(some)).collect();
        let of_threads = threads.into_iter().map(|thread| thread.join().unwrap());
        let all: BTreeSet<String> = of_threads.chain([some()]).flatten().collect();
        assert_eq!(all.len(), 5000);
        for id in &all {
            let id: uuid::Uuid = id.parse().unwrap();
            assert_eq!(id.get_version_num(), 7);
            assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
        }
        let first = all.first().cloned();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(Some(new_exchange_id()) > first);
    }
}
