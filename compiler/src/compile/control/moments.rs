//! What a load generator is told about lengths.

use std::fmt;

/// Moments and extremes of a distribution of lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moments {
    pub(super) mean: f64,
    pub(super) deviation: f64,
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Moments {
    /// Of some lengths; none of none.
    pub(super) fn of(lengths: impl Iterator<Item = u64> + Clone) -> Option<Self> {
        let n = lengths.clone().count() as f64;
        let (least, most) = (lengths.clone().min()?, lengths.clone().max()?);
        let mean = lengths.clone().map(|length| length as f64).sum::<f64>() / n;
        let squares: f64 = lengths.map(|length| (length as f64 - mean).powi(2)).sum();
        Some(Self {
            mean,
            deviation: (squares / n).sqrt(),
            least,
            most,
        })
    }
}

impl fmt::Display for Moments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} tokens on average (deviation {:.0}, {} to {})",
            self.mean, self.deviation, self.least, self.most
        )
    }
}
