//! Which rate to try next: up by doubling, down by halving, then between the two.

/// Rates below the first at most, in halvings: a 64th of it.
const HALVINGS_MAX: u32 = 6;

/// Rates above the first at most, in doublings: a thousand times it.
const DOUBLINGS_MAX: u32 = 10;

/// A search for the highest rate that holds. It takes for granted that what holds at one rate holds
/// below.
#[derive(Clone, Debug)]
pub(super) struct Search {
    first: f64,
    precision: f64,
    /// The highest rate that held.
    low: Option<f64>,
    /// The lowest rate that did not.
    high: Option<f64>,
}

impl Search {
    pub(super) fn new(first: f64, precision: f64) -> Self {
        Self {
            first,
            precision,
            low: None,
            high: None,
        }
    }

    /// The rate to try; none when the search has come to its end.
    pub(super) fn next(&self) -> Option<f64> {
        match (self.low, self.high) {
            (None, None) => Some(self.first),
            (Some(low), None) => {
                let most = self.first * f64::from(1_u32 << DOUBLINGS_MAX);
                (low < most).then_some(low * 2.0)
            }
            (None, Some(high)) => {
                let least = self.first / f64::from(1_u32 << HALVINGS_MAX);
                (least < high).then_some(high / 2.0)
            }
            (Some(low), Some(high)) => {
                let middle = rounded((low * high).sqrt());
                let is_between = low < middle && middle < high;
                (is_between && low * (1.0 + self.precision) < high).then_some(middle)
            }
        }
    }

    /// Takes note of what a rate came to.
    pub(super) fn told(&mut self, rate_scale: f64, holds: bool) {
        let bound = if holds { &mut self.low } else { &mut self.high };
        *bound = Some(rate_scale);
    }

    /// The highest rate that held, and the lowest that did not.
    pub(super) fn interval(&self) -> (Option<f64>, Option<f64>) {
        (self.low, self.high)
    }
}

/// Four digits: a rate that a person can type again.
fn rounded(rate: f64) -> f64 {
    let unit = 10_f64.powf(rate.log10().floor() - 3.0);
    (rate / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn searched(first: f64, precision: f64, holds: impl Fn(f64) -> bool) -> (Search, Vec<f64>) {
        let mut search = Search::new(first, precision);
        let mut tried = Vec::new();
        while let Some(rate) = search.next() {
            assert!(tried.len() < 100, "{tried:?}");
            tried.push(rate);
            search.told(rate, holds(rate));
        }
        (search, tried)
    }

    #[test]
    fn a_knee_is_bracketed_and_then_closed_in_on() {
        let (search, tried) = searched(1.0, 0.1, |rate| rate < 5.0);
        assert_eq!(tried[..5], [1.0, 2.0, 4.0, 8.0, 5.657]);
        let (low, high) = search.interval();
        assert!(low.unwrap() < 5.0 && 5.0 <= high.unwrap() && high.unwrap() <= 1.1 * low.unwrap());
    }

    #[test]
    fn a_target_that_never_holds_or_never_breaks_ends_the_search() {
        let (search, tried) = searched(1.0, 0.1, |_| false);
        assert_eq!(
            (tried.len(), search.interval()),
            (7, (None, Some(1.0 / 64.0)))
        );
        let (search, tried) = searched(1.0, 0.1, |_| true);
        assert_eq!((tried.len(), search.interval()), (11, (Some(1024.0), None)));
    }

    proptest! {
        #[test]
        fn the_knee_lies_in_the_interval(knee in 0.02_f64..1_000.0, first in 0.3_f64..4.0, precision in 0.01_f64..0.5) {
            let (search, tried) = searched(first, precision, |rate| rate <= knee);
            prop_assert!(tried.len() < 40);
            if let (Some(low), Some(high)) = search.interval() {
                prop_assert!(low <= knee && knee < high);
                // Rates are rounded to four digits, which a tight precision may not reach.
                prop_assert!(high <= low * (1.0 + precision) * 1.002);
            }
        }
    }
}
