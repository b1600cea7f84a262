//! When an exchange last made a step, for whoever waits that it makes another.

use super::socket::Written;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The latest step of one exchange: a byte of its request was taken, or a byte of its answer came.
#[derive(Debug)]
pub(super) struct Pulse {
    since: Instant,
    heard_nanos: AtomicU64,
    /// What its connection was last written; none before it has one.
    written: Mutex<Option<Written>>,
}

impl Pulse {
    pub(super) fn starting_at(since: Instant) -> Self {
        Self {
            since,
            heard_nanos: AtomicU64::new(0),
            written: Mutex::new(None),
        }
    }

    /// Follows what is written to a connection.
    pub(super) fn follow(&self, connection: &Written) {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection.clone());
        self.hear(Instant::now());
    }

    /// Takes note of bytes that came.
    pub(super) fn hear(&self, at: Instant) {
        // 2^64 ns are 584 years.
        let nanos = at.saturating_duration_since(self.since).as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.heard_nanos.store(nanos, Ordering::Relaxed);
    }

    fn latest(&self) -> Instant {
        let heard = self.since + Duration::from_nanos(self.heard_nanos.load(Ordering::Relaxed));
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written
            .as_ref()
            .map_or(heard, |written| heard.max(written.at()))
    }

    /// Waits until nothing has happened for so long. One timer for each exchange, set anew when it
    /// rings: a stream of many tokens sets none of its own.
    pub(super) async fn silence(&self, most: Duration) {
        loop {
            let until = self.latest() + most;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(tokio::time::Instant::from_std(until)).await;
        }
    }
}
