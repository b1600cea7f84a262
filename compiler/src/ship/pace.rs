//! How fast, and how long to wait after a failure.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Longest pause between two tries: an outage of an hour costs sixty requests.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// First pause after a failure.
const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// Holds uploads to a rate, on average: a part goes at line speed, and the next one waits.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_s: Option<u64>,
    free_at: Mutex<Option<Instant>>,
}

impl Pace {
    /// A pace of so many bytes a second; none for as fast as it goes.
    pub(super) fn new(bytes_per_s: Option<u64>) -> Self {
        Self {
            bytes_per_s,
            free_at: Mutex::new(None),
        }
    }

    /// Waits for the turn of so many bytes, or until stopped.
    pub(super) async fn turn(&self, bytes: u64, stop: &CancellationToken) {
        let Some(at) = self.reserve(bytes, Instant::now()) else {
            return;
        };
        tokio::select! {
            () = sleep_until(at) => {}
            () = stop.cancelled() => {}
        }
    }

    /// When the bytes may go. All that is sent shares one line.
    fn reserve(&self, bytes: u64, now: Instant) -> Option<Instant> {
        let rate = self.bytes_per_s?;
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let at = free_at.map_or(now, |free| free.max(now));
        let takes = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        *free_at = Some(at + takes);
        Some(at)
    }
}

/// Pauses that double, with a spread that differs from one process to the next: a store that comes
/// back is not met by all replicas at once.
#[derive(Debug)]
pub(super) struct Backoff {
    seed: u64,
    tries: u32,
}

impl Backoff {
    /// Starts with no failure; the seed sets the spread.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, tries: 0 }
    }

    /// Failures in a row.
    pub(super) fn tries(&self) -> u32 {
        self.tries
    }

    /// It went well.
    pub(super) fn reset(&mut self) {
        self.tries = 0;
    }

    /// It failed again; gives the pause before the next try: between half and the whole of what
    /// doubling gives.
    pub(super) fn failed(&mut self) -> Duration {
        let doubled = PAUSE_FIRST
            .saturating_mul(1 << self.tries.min(16))
            .min(PAUSE_MAX);
        self.tries = self.tries.saturating_add(1);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_le_bytes());
        hasher.update(&self.tries.to_le_bytes());
        let share = f64::from(*hasher.finalize().as_bytes().first().unwrap_or(&0)) / 255.0;
        doubled.mul_f64(0.5 + share / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_wait_for_those_before_them() {
        let pace = Pace::new(Some(1_000));
        let now = Instant::now();
        let after = |ms| Some(now + Duration::from_millis(ms));
        assert_eq!(pace.reserve(500, now), after(0));
        assert_eq!(pace.reserve(2_000, now), after(500));
        assert_eq!(pace.reserve(1, now), after(2_500));
        assert_eq!(pace.reserve(1, now + Duration::from_secs(9)), after(9_000));
        assert_eq!(Pace::new(None).reserve(1, now), None);
    }

    proptest! {
        #[test]
        fn pauses_grow_and_are_bounded(seed: u64, tries in 1usize..100) {
            let mut backoff = Backoff::new(seed);
            let mut last = Duration::ZERO;
            for n in 0..tries {
                last = backoff.failed();
                prop_assert!(last >= PAUSE_FIRST / 2 && last <= PAUSE_MAX, "never a busy loop: {last:?}");
                prop_assert!(n < 7 || last >= PAUSE_MAX / 2);
            }
            backoff.reset();
            prop_assert!(backoff.failed() <= PAUSE_FIRST, "{last:?}");
        }
    }
}
