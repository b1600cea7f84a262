//! Axes: where a value lies, which values are marked, and how they are written.

/// Ticks of an axis at most; more run into each other on a narrow screen.
const TICKS_MAX: usize = 6;

/// How an axis spreads its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Linear,
    Log,
    /// Shares from 0 to below 1, each nine as wide as the one before: p90, p99 and p99.9 are as far
    /// from each other.
    Nines,
}

/// The last share that an axis of nines shows.
pub(super) const NINES_LAST: f64 = 0.999;

/// An axis over an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
}

impl Scale {
    /// An axis that holds all finite values; a logarithmic one holds the positive ones. None where
    /// there is nothing to hold.
    pub(super) fn over(kind: Kind, values: impl Iterator<Item = f64>) -> Option<Self> {
        let fits = |value: &f64| value.is_finite() && (kind != Kind::Log || *value > 0.0);
        let (low, high) = values
            .filter(fits)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        (low <= high).then(|| Self { kind, low, high }.widened())
    }

    /// The same from 0, which a count and a time begin at.
    pub(super) fn with_zero(self) -> Self {
        Self {
            low: self.low.min(0.0),
            ..self
        }
        .widened()
    }

    /// The same, at most so many times as high as it is low: a logarithmic axis that reached down to
    /// the smallest value would have no room for the others.
    pub(super) fn at_most(self, times: f64) -> Self {
        Self {
            low: self.low.max(self.high / times),
            ..self
        }
    }

    /// An axis of no length would put everything at one end.
    fn widened(self) -> Self {
        if self.low < self.high {
            return self;
        }
        let (low, high) = match self.kind {
            Kind::Log => (self.low / 2.0, self.high * 2.0),
            Kind::Linear if self.low == 0.0 => (0.0, 1.0),
            Kind::Linear => (self.low.min(0.0), self.high.max(0.0)),
            Kind::Nines => (0.0, NINES_LAST),
        };
        Self { low, high, ..self }
    }

    fn bent(self, value: f64) -> f64 {
        match self.kind {
            Kind::Linear => value,
            Kind::Log => value.max(self.low).ln(),
            Kind::Nines => -(1.0 - value.clamp(0.0, NINES_LAST)).log10(),
        }
    }

    /// Where a value lies, 0 at the low end and 1 at the high one; beyond an end it lies at the end.
    pub(super) fn place(self, value: f64) -> f64 {
        let (low, high) = (self.bent(self.low), self.bent(self.high));
        ((self.bent(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// The values that are marked.
    pub(super) fn ticks(self) -> Vec<f64> {
        match self.kind {
            Kind::Linear => linear(self.low, self.high),
            Kind::Log => logarithmic(self.low, self.high),
            Kind::Nines => [0.0, 0.5, 0.9, 0.99, NINES_LAST].into(),
        }
    }
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / (TICKS_MAX - 1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    (0..TICKS_MAX as i64 * 2)
        .map(|at| (first + at) as f64 * step)
        .take_while(|tick| *tick <= high + step * 1e-9)
        .collect()
}

/// Powers of ten, with 2 and 5 between them where there are few; every second or third where there
/// are many.
fn logarithmic(low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let of = |times: &[f64]| -> Vec<f64> {
        let all = decades
            .clone()
            .flat_map(|power| times.iter().map(move |times| times * 10f64.powi(power)));
        all.filter(|tick| *tick >= low * (1.0 - 1e-9) && *tick <= high * (1.0 + 1e-9))
            .collect()
    };
    let fine = of(&[1.0, 2.0, 5.0]);
    if fine.len() <= TICKS_MAX {
        return fine;
    }
    let coarse = of(&[1.0]);
    let every = coarse.len().div_ceil(TICKS_MAX).max(1);
    coarse.into_iter().step_by(every).collect()
}

/// A number as it is copied from a table: no separators, four digits or so.
pub(super) fn digits(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if !value.is_finite() => return "inf".to_owned(),
        _ if size >= 1_000.0 || value.fract() == 0.0 => return format!("{value:.0}"),
        _ if size >= 100.0 => format!("{value:.1}"),
        _ if size >= 10.0 => format!("{value:.2}"),
        _ if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    };
    if text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number under an axis: short.
pub(super) fn short(value: f64) -> String {
    let (size, letter) = match value.abs() {
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{}{letter}", digits(value / size))
}

#[cfg(test)]
mod tests {
    use super::{Kind, Scale, digits, short};

    fn scale(kind: Kind, values: &[f64]) -> Scale {
        Scale::over(kind, values.iter().copied()).unwrap()
    }

    #[test]
    fn a_value_lies_between_the_ends_and_never_beyond() {
        let linear = scale(Kind::Linear, &[10.0, 20.0]);
        assert_eq!([5.0, 15.0, 99.0].map(|v| linear.place(v)), [0.0, 0.5, 1.0]);
        let log = scale(Kind::Log, &[0.0, 1.0, 100.0]);
        assert_eq!([0.0, 10.0, 1e9].map(|v| log.place(v)), [0.0, 0.5, 1.0]);
        let nines = scale(Kind::Nines, &[0.0, 0.999]);
        assert!((nines.place(0.9) - 1.0 / 3.0).abs() < 1e-9);
        assert!((nines.place(0.99) - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn an_axis_of_one_value_has_a_length_and_of_none_there_is_none() {
        for kind in [Kind::Linear, Kind::Log, Kind::Nines] {
            let place = scale(kind, &[7.0]).place(7.0);
            assert!((0.0..=1.0).contains(&place), "{kind:?}: {place}");
            assert!(!scale(kind, &[7.0]).ticks().is_empty(), "{kind:?}");
        }
        assert!(scale(Kind::Linear, &[0.0]).place(0.0).is_finite());
        assert_eq!(Scale::over(Kind::Log, [0.0, f64::NAN].into_iter()), None);
    }

    #[test]
    fn ticks_are_round_few_and_inside() {
        assert_eq!(
            scale(Kind::Linear, &[0.0, 1.0]).ticks(),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        assert_eq!(
            scale(Kind::Log, &[3.0, 60.0]).ticks(),
            [5.0, 10.0, 20.0, 50.0]
        );
        let wide = scale(Kind::Log, &[1.0, 1e12]).ticks();
        assert!(wide.len() <= 7 && wide[0] == 1.0, "{wide:?}");
    }

    #[test]
    fn numbers_are_short_under_an_axis_and_whole_in_a_table() {
        let shown = [0.25, 1.5, 512.0, 131_072.0, 2.5e6, 3e9].map(short);
        assert_eq!(shown, ["0.25", "1.5", "512", "131.1k", "2.5M", "3G"]);
        let copied = [0.0, 0.00001, 0.5, 12.345, 131_072.4, f64::INFINITY].map(digits);
        assert_eq!(copied, ["0", "1.00e-5", "0.5", "12.35", "131072", "inf"]);
    }
}
