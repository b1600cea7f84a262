//! The proxy's two clocks: a monotonic one for everything, and anchors that tie it to wall time.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;
use truetape_schemas::time::{ClockAnchor, wall_now_us};

/// Counts microseconds since the proxy's epoch.
#[derive(Debug)]
pub struct Clock {
    epoch: Instant,
    epoch_us: i64,
    wall_at_epoch_us: AtomicI64,
}

impl Clock {
    /// Starts the epoch now.
    pub fn start() -> Self {
        let (epoch, epoch_us) = (Instant::now(), wall_now_us());
        Self {
            epoch,
            epoch_us,
            wall_at_epoch_us: AtomicI64::new(epoch_us),
        }
    }

    /// The wall time of the epoch as it was read at the start. It names this process, and stays as
    /// it is when the wall clock is stepped.
    pub fn epoch_us(&self) -> i64 {
        self.epoch_us
    }

    /// The monotonic clock.
    pub fn now_us(&self) -> i64 {
        i64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// Reads both clocks, and ties later instants to this reading: a wall clock that was stepped is
    /// followed from the next segment on, and never between two offsets of one exchange.
    pub fn anchor(&self) -> ClockAnchor {
        let anchor = self.reading();
        self.wall_at_epoch_us
            .store(anchor.wall_us - anchor.mono_us, Relaxed);
        anchor
    }

    /// Reads both clocks.
    pub fn reading(&self) -> ClockAnchor {
        ClockAnchor {
            wall_us: wall_now_us(),
            mono_us: self.now_us(),
        }
    }

    /// The wall time of a monotonic instant, by the latest anchor.
    pub fn wall_us(&self, mono_us: i64) -> i64 {
        self.wall_at_epoch_us.load(Relaxed) + mono_us
    }
}
