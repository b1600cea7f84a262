//! How bursty arrivals are, at several time scales.
//!
//! Time is cut into full windows of length `t` from the first arrival; the part of a window at the
//! end is left out. With `c` arrivals in a window, the index of dispersion is `IDC(t) = Var c / E c`
//! (sample variance), and peak-to-mean is `max c / E c`. Poisson arrivals have an IDC of 1 at every
//! scale. The same with tokens instead of arrivals is `IDW(t) = Var W / (E W · E w)`: it sees burst
//! and size together.
//!
//! A window is valid only if it is at least [`RESOLUTION_STEPS`] clock steps long and fits at least
//! [`WINDOWS_MIN`] times into the span. [`clock`] infers the step; [`thinning`] says what a sample of
//! the sessions does to all of this.

pub mod clock;
pub mod thinning;

/// A window is at least this many steps of the clock: below, the grid of the clock is measured.
pub const RESOLUTION_STEPS: i64 = 3;

/// Windows that must fit into the span: with 20, `SE(IDC)/IDC = √(2/19)`, about a third.
pub const WINDOWS_MIN: i64 = 20;

/// Windows for IDC within ±15 % at 95 %: `1.96·√(2/(n-1)) = 0.15`. With fewer, a source is replayed
/// exactly and still cannot speak for production at that scale.
pub const WINDOWS_FOR_PRODUCTION: u64 = 340;

/// Microseconds in a second.
pub const SECOND_US: i64 = 1_000_000;

/// Sums over the windows of a sequence of arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Full windows.
    pub windows: u64,
    /// Arrivals (or weight) in them.
    pub sum: f64,
    /// Sum of the squares of the windows' counts.
    pub sum_of_squares: f64,
    /// The largest count.
    pub max: f64,
    /// Arrivals in them.
    pub arrivals: u64,
}

impl Counts {
    /// Counts sorted arrivals in full windows from the first one.
    pub fn of(arrivals: &[i64], window_us: i64) -> Self {
        Self::weigh(
            arrivals.iter().map(|arrival| (*arrival, 1.0)),
            span_us(arrivals),
            window_us,
        )
    }

    /// Sums the weights of sorted arrivals in full windows from the first one.
    pub fn weighted(arrivals: &[i64], weights: &[f64], window_us: i64) -> Self {
        let pairs = arrivals.iter().copied().zip(weights.iter().copied());
        Self::weigh(pairs, span_us(arrivals), window_us)
    }

    fn weigh(pairs: impl Iterator<Item = (i64, f64)>, span_us: i64, window_us: i64) -> Self {
        let windows = if window_us > 0 {
            span_us / window_us
        } else {
            0
        };
        let mut counts = Self {
            windows: windows.unsigned_abs(),
            ..Self::default()
        };
        let mut first = None;
        let (mut window, mut inside) = (0, 0.0);
        for (arrival, weight) in pairs {
            let start = *first.get_or_insert(arrival);
            let index = arrival.saturating_sub(start) / window_us.max(1);
            if index >= windows {
                break;
            }
            // Empty windows add nothing to either sum, so they need no visit.
            if index != window {
                counts.close(inside);
                (window, inside) = (index, 0.0);
            }
            inside += weight;
            counts.arrivals += 1;
        }
        counts.close(inside);
        counts
    }

    fn close(&mut self, inside: f64) {
        self.sum += inside;
        self.sum_of_squares += inside * inside;
        self.max = self.max.max(inside);
    }

    /// Variance over mean; none with fewer than two windows or nothing in them.
    pub fn idc(&self) -> Option<f64> {
        if self.windows < 2 || self.sum <= 0.0 {
            return None;
        }
        let n = self.windows as f64;
        let mean = self.sum / n;
        let variance = (self.sum_of_squares - self.sum * mean) / (n - 1.0);
        Some(variance.max(0.0) / mean)
    }

    /// Dispersion of work: the IDC of the weights, in units of the mean weight of an arrival.
    pub fn idw(&self) -> Option<f64> {
        let per_arrival = self.sum / self.arrivals as f64;
        (per_arrival > 0.0)
            .then_some(())
            .and_then(|()| self.idc())
            .map(|idc| idc / per_arrival)
    }

    /// The fullest window over the mean one.
    pub fn peak_to_mean(&self) -> Option<f64> {
        if self.windows == 0 || self.sum <= 0.0 {
            return None;
        }
        Some(self.max * self.windows as f64 / self.sum)
    }
}

/// Time from the first arrival to the last.
pub fn span_us(arrivals: &[i64]) -> i64 {
    match (arrivals.first(), arrivals.last()) {
        (Some(first), Some(last)) => last.saturating_sub(*first).max(0),
        _ => 0,
    }
}

/// Says why a window is not valid for arrivals over `span_us` on a clock with that step.
pub fn invalid(window_us: i64, span_us: i64, resolution_us: Option<i64>) -> Option<String> {
    let seconds = |us: i64| us as f64 / SECOND_US as f64;
    if let Some(step) = resolution_us
        && window_us < step.saturating_mul(RESOLUTION_STEPS)
    {
        return Some(format!(
            "the clock steps by {:.3} s; a window needs {RESOLUTION_STEPS} steps, {:.3} s",
            seconds(step),
            seconds(step.saturating_mul(RESOLUTION_STEPS)),
        ));
    }
    if window_us.saturating_mul(WINDOWS_MIN) > span_us {
        return Some(format!(
            "the arrivals span {:.3} s; {WINDOWS_MIN} windows need {:.0} s",
            seconds(span_us),
            seconds(window_us.saturating_mul(WINDOWS_MIN)),
        ));
    }
    None
}

/// Relative standard error of an IDC over so many windows, for counts that are about Gaussian.
pub fn relative_error(windows: u64) -> f64 {
    if windows < 2 {
        f64::INFINITY
    } else {
        (2.0 / (windows - 1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests;
