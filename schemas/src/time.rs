//! Instants as microseconds since the Unix epoch, and the one reading of wall time.

use serde::{Deserialize, Serialize};

/// Reads the wall clock, in microseconds since the Unix epoch.
///
/// Everything else in the product is an offset from a monotonic clock: a wall
/// clock that steps must not make a duration negative.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one reading of wall time"
)]
pub fn wall_now_us() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |duration| {
        i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
    })
}

/// Formats an instant as RFC 3339 in UTC, with six digits after the second.
pub fn format_utc(epoch_us: i64) -> String {
    match jiff::Timestamp::from_microsecond(epoch_us) {
        Ok(instant) => format!("{instant:.6}"),
        Err(_) => format!("{epoch_us}us"),
    }
}

/// Parses RFC 3339, with any zone offset, to microseconds since the Unix epoch.
pub fn parse_utc(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>()
        .ok()
        .map(jiff::Timestamp::as_microsecond)
}

/// One reading of both clocks at once: ties a capture's offsets to wall time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockAnchor {
    /// The wall clock, in microseconds since the Unix epoch.
    pub wall_us: i64,
    /// The monotonic clock, in microseconds since the recorder's epoch.
    pub mono_us: i64,
}
