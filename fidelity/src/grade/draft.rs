//! One dimension in the making, and the rule that turns numbers into a verdict.

use crate::direction;
use truetape_schemas::report::{Dimension, Direction, Level, Verdict};

/// How a deviation is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `value / target - 1`.
    Relative,
    /// `value - target`, of ranks between 0 and 1.
    RankPoints,
    /// `value - target`, of ratios between 0 and 1.
    RatioPoints,
    /// `ln(value / target)`.
    LnRatio,
    /// `value - target`, in milliseconds.
    Ms,
    /// `value - target`, of shares between 0 and 1.
    Share,
}

/// Values below this count as this under [`Unit::LnRatio`]: a perfectly steady stream has an IDC
/// of 0, and a logarithm must stay finite.
const LN_FLOOR: f64 = 1e-3;

/// Rounding of floating-point sums is no deviation.
const EPSILON: f64 = 1e-12;

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Relative => "relative",
            Self::RankPoints => "rank_points",
            Self::RatioPoints => "ratio_points",
            Self::LnRatio => "ln_ratio",
            Self::Ms => "ms",
            Self::Share => "share",
        }
    }

    /// The deviation of a value from its target. A target of nothing that was missed counts as 100 %.
    pub(super) fn deviation(self, value: f64, target: f64) -> f64 {
        let deviation = match self {
            Self::Relative if target == 0.0 => {
                if value == 0.0 {
                    0.0
                } else {
                    value.signum()
                }
            }
            Self::Relative => value / target - 1.0,
            Self::LnRatio => (value.max(LN_FLOOR) / target.max(LN_FLOOR)).ln(),
            Self::RankPoints | Self::RatioPoints | Self::Ms | Self::Share => value - target,
        };
        if deviation.abs() < EPSILON {
            0.0
        } else {
            deviation
        }
    }
}

/// A dimension in the making.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    id: String,
    title: String,
    unit: Unit,
    threshold: f64,
    value: Option<f64>,
    target: Option<f64>,
    deviation: Option<f64>,
    /// What is not known about the deviation: it lies somewhere in here.
    information: Option<(f64, f64)>,
    /// What could be reached from here by the smallest step the set can take, or by chance.
    reach: Option<(f64, f64)>,
    reach_is: &'static str,
    unknown: Option<String>,
    direction: Option<Direction>,
    notes: Vec<String>,
}

impl Draft {
    pub(super) fn new(id: impl Into<String>, title: &str, unit: Unit, threshold: f64) -> Self {
        Self {
            id: id.into(),
            title: title.to_owned(),
            unit,
            threshold,
            value: None,
            target: None,
            deviation: None,
            information: None,
            reach: None,
            reach_is: "",
            unknown: None,
            direction: None,
            notes: Vec::new(),
        }
    }

    /// Sets what was found and what was wanted.
    pub(super) fn compare(mut self, value: Option<f64>, target: Option<f64>) -> Self {
        self.value = value;
        self.target = target;
        self.deviation = value.zip(target).map(|(v, t)| self.unit.deviation(v, t));
        self
    }

    /// Says that the target may be anywhere between two values.
    pub(super) fn target_between(mut self, low: f64, high: f64) -> Self {
        if let Some(value) = self.value {
            let ends = [low, high].map(|target| self.unit.deviation(value, target));
            self.information = Some((ends[0].min(ends[1]), ends[0].max(ends[1])));
        }
        self
    }

    /// Says how far the deviation could move by `what`, to either side.
    pub(super) fn within_reach(self, half_width: f64, what: &'static str) -> Self {
        match self.deviation {
            Some(at) => self.reach_between(at - half_width, at + half_width, what),
            None => self,
        }
    }

    /// Says which deviations could be reached by `what`.
    pub(super) fn reach_between(mut self, low: f64, high: f64, what: &'static str) -> Self {
        self.reach = Some((low.min(high), low.max(high)));
        self.reach_is = what;
        self
    }

    /// Makes it UNKNOWN, for the first reason given.
    pub(super) fn unknown_if(mut self, is: bool, reason: impl FnOnce() -> String) -> Self {
        if is && self.unknown.is_none() {
            self.unknown = Some(reason());
        }
        self
    }

    /// Makes it UNKNOWN and takes the numbers away: they would measure something else.
    pub(super) fn void_if(self, reason: Option<String>) -> Self {
        match reason {
            Some(reason) => self.compare(None, None).unknown_if(true, || reason),
            None => self,
        }
    }

    /// Takes the direction from elsewhere than the sign of the deviation.
    pub(super) fn direction(mut self, direction: Direction) -> Self {
        self.direction = Some(direction);
        self
    }

    /// Adds what a reader must know.
    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds a note where it applies.
    pub(super) fn note_if(self, is: bool, note: impl FnOnce() -> String) -> Self {
        if is { self.note(note()) } else { self }
    }

    /// Ends with the verdict.
    ///
    /// PASS: everything the deviation may be lies inside the tolerance. FAIL: everything it may be,
    /// and everything within reach, lies outside. UNKNOWN: anything else, and wherever evidence is
    /// missing. What is within reach forgives a failure; it never makes a PASS.
    pub(super) fn finish(mut self, level: Level) -> Dimension {
        let verdict = self.verdict();
        // Where evidence is missing, the sign of what is left is no evidence either.
        let direction = match self.direction {
            _ if self.deviation.is_none() || self.unknown.is_some() => Direction::Unknown,
            Some(direction) => direction,
            None => direction::of(&self.id, self.deviation, self.threshold),
        };
        if let Some(reason) = self.unknown.take() {
            self.notes.insert(0, reason);
        }
        Dimension {
            id: self.id,
            title: self.title,
            level,
            value: finite(self.value),
            target: finite(self.target),
            deviation: finite(self.deviation),
            threshold: self.threshold,
            unit: self.unit.name().to_owned(),
            verdict,
            direction,
            note: (!self.notes.is_empty()).then(|| self.notes.join("; ")),
        }
    }

    fn verdict(&mut self) -> Verdict {
        let Some(deviation) = finite(self.deviation) else {
            self.unknown
                .get_or_insert_with(|| "nothing to compare".to_owned());
            return Verdict::Unknown;
        };
        if self.unknown.is_some() {
            return Verdict::Unknown;
        }
        let limit = self.threshold + EPSILON;
        let (low, high) = self.information.unwrap_or((deviation, deviation));
        let (low, high) = (low.min(deviation), high.max(deviation));
        if -limit <= low && high <= limit {
            return Verdict::Pass;
        }
        let outside = |low: f64, high: f64| low > limit || high < -limit;
        if !outside(low, high) {
            self.notes
                .insert(0, "what is not known spans the tolerance".to_owned());
            return Verdict::Unknown;
        }
        let (reach_low, reach_high) = self.reach.unwrap_or((low, high));
        if !outside(reach_low.min(low), reach_high.max(high)) {
            self.notes.insert(
                0,
                format!("outside the tolerance, but {} is as large", self.reach_is),
            );
            return Verdict::Unknown;
        }
        Verdict::Fail
    }
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> Draft {
        Draft::new("output_tokens.p50", "", Unit::Relative, 0.02)
    }

    fn verdict(draft: Draft) -> Verdict {
        draft.finish(Level::SetAgainstSource).verdict
    }

    #[test]
    fn verdicts_follow_the_interval() {
        let off = |by: f64| draft().compare(Some(100.0 + by), Some(100.0));
        let cases = [
            (off(0.0), Verdict::Pass),
            (off(2.0), Verdict::Pass),
            (off(2.1), Verdict::Fail),
            (off(-2.1), Verdict::Fail),
            // A step of 0.5 % could bring 2.1 % back inside, and could not bring 5 %.
            (
                off(2.1).within_reach(0.005, "one session"),
                Verdict::Unknown,
            ),
            (off(5.0).within_reach(0.005, "one session"), Verdict::Fail),
            // What is within reach never makes a pass, and never unmakes one.
            (off(1.9).within_reach(0.5, "one session"), Verdict::Pass),
            // Not knowing the target can unmake a pass.
            (off(0.0).target_between(95.0, 100.0), Verdict::Unknown),
            (off(0.0).target_between(99.5, 100.0), Verdict::Pass),
            (off(10.0).target_between(95.0, 100.0), Verdict::Fail),
            (
                off(0.0).unknown_if(true, || "why".to_owned()),
                Verdict::Unknown,
            ),
            (draft(), Verdict::Unknown),
            (draft().compare(Some(1.0), None), Verdict::Unknown),
        ];
        for (index, (draft, want)) in cases.into_iter().enumerate() {
            assert_eq!(verdict(draft), want, "case {index}");
        }
    }

    #[test]
    fn deviations_are_finite_whatever_they_compare() {
        for unit in [Unit::Relative, Unit::LnRatio, Unit::Share] {
            for (value, target) in [(0.0, 0.0), (5.0, 0.0), (0.0, 5.0)] {
                assert!(
                    unit.deviation(value, target).is_finite(),
                    "{unit:?} {value} {target}"
                );
            }
            assert_eq!(unit.deviation(0.0, 0.0), 0.0);
        }
        assert!(Unit::LnRatio.deviation(0.0, 10.0) < -5.0);
        assert_eq!(Unit::Relative.deviation(7.0, 0.0), 1.0);
    }

    #[test]
    fn the_reason_of_an_unknown_comes_first_in_the_note() {
        let dimension = draft()
            .compare(Some(1.0), Some(1.0))
            .note("a detail")
            .unknown_if(true, || "no usage".to_owned())
            .unknown_if(true, || "a second reason".to_owned())
            .finish(Level::RunAgainstSet);
        assert_eq!(dimension.note.as_deref(), Some("no usage; a detail"));
        assert_eq!(dimension.deviation, Some(0.0));
    }
}
