//! The proxy's two clocks: a monotonic one for everything, and anchors that tie it to wall time.

use crate::limits;
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
    /// followed from the next segment on at the latest (see [`Clock::follow`]), and never between two
    /// offsets of one exchange.
    pub fn anchor(&self) -> ClockAnchor {
        let anchor = self.reading();
        self.wall_at_epoch_us
            .store(anchor.wall_us - anchor.mono_us, Relaxed);
        anchor
    }

    /// Ties later instants to this moment when the wall clock was stepped, or has drifted from the
    /// monotonic one. Says whether it had.
    pub fn follow(&self) -> bool {
        let now = self.reading();
        let moved_us = now.wall_us - self.wall_us(now.mono_us);
        let moved = moved_us.abs() > limits::CLOCK_MOVED_US;
        if moved {
            self.wall_at_epoch_us.fetch_add(moved_us, Relaxed);
        }
        moved
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

#[cfg(test)]
mod tests {
    use super::Clock;
    use crate::limits::CLOCK_MOVED_US;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_wall_clock_that_moved_is_followed_and_the_epoch_keeps_its_name() {
        let clock = Clock::start();
        let named = clock.epoch_us();
        let hour_us = 3_600_000_000;
        for stepped_us in [hour_us, -hour_us, 2 * CLOCK_MOVED_US] {
            clock.wall_at_epoch_us.fetch_sub(stepped_us, Relaxed);
            assert!(clock.follow());
            let now = clock.reading();
            assert!((clock.wall_us(now.mono_us) - now.wall_us).abs() <= CLOCK_MOVED_US);
        }
        assert_eq!(clock.epoch_us(), named);
    }
}
