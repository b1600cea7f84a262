//! Schedule zero, and the time since it.

use std::time::{Duration, Instant};

/// A clock that counts microseconds from schedule zero, on the machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: Instant,
}

impl Clock {
    /// A clock whose zero is `zero`, which may lie ahead.
    pub fn starting_at(zero: Instant) -> Self {
        Self { zero }
    }

    /// Microseconds from zero to now; negative before zero. Rounded down, so that a deadline is
    /// never taken for passed before it is.
    pub fn now_us(&self) -> i64 {
        self.at_us(Instant::now())
    }

    /// Microseconds from zero to an instant, rounded down.
    pub fn at_us(&self, instant: Instant) -> i64 {
        match instant.checked_duration_since(self.zero) {
            Some(since) => micros(since),
            None => {
                let until = self.zero.saturating_duration_since(instant);
                -micros(until) - i64::from(!until.subsec_nanos().is_multiple_of(1_000))
            }
        }
    }

    /// The instant of an offset.
    pub fn instant(&self, offset_us: i64) -> Instant {
        let apart = Duration::from_micros(offset_us.unsigned_abs());
        if offset_us < 0 {
            self.zero.checked_sub(apart).unwrap_or(self.zero)
        } else {
            // An offset of centuries is as good as never.
            self.zero
                .checked_add(apart)
                .unwrap_or_else(|| self.zero + NEVER)
        }
    }
}

/// Ten years: longer than any run.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_round_down_on_both_sides_of_zero() {
        let zero = Instant::now() + Duration::from_secs(5);
        let clock = Clock::starting_at(zero);
        for (nanos_after, expected_us) in [(0, 0), (999, 0), (1_000, 1), (1_999, 1)] {
            assert_eq!(
                clock.at_us(zero + Duration::from_nanos(nanos_after)),
                expected_us
            );
        }
        for (nanos_before, expected_us) in [(1, -1), (1_000, -1), (1_001, -2)] {
            assert_eq!(
                clock.at_us(zero - Duration::from_nanos(nanos_before)),
                expected_us
            );
        }
        for offset_us in [-3, 0, 7] {
            assert_eq!(clock.at_us(clock.instant(offset_us)), offset_us);
        }
        assert!(clock.now_us() < 0);
    }
}
