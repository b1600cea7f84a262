//! When sessions start: as recorded, or as a control has it, and at what rate.
//!
//! Only starts of sessions are placed; think times inside a session are never scaled. Three steps,
//! each a pure function of the starts that the set has:
//!
//! 1. **left out**: `shape` below 1 keeps every so manieth session of the set, in the order of their
//!    starts, where it was. Every burst gets smaller by the same factor and none is drawn by luck:
//!    peak to mean stays, and the dispersion is multiplied by the factor. More than the set has
//!    cannot be made by a replayer without inventing sessions, so `shape` above 1 is refused;
//! 2. **drawn**: a control takes the count and the mean rate of what is left, and draws the gaps;
//! 3. **hurried**: `stress` divides starts by the factor, and a [`Course`] changes the rate on the
//!    way. Bursts then get denser: the dispersion over `t` becomes the one over `F * t`.

mod course;
mod gaps;

pub use course::{Course, Step};

/// What decides when sessions start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// As the set has it.
    #[default]
    Recorded,
    /// Control: one after the other at equal distances.
    Constant,
    /// Control: exponential distances.
    Poisson,
    /// Control: gamma distances with this coefficient of variation.
    Gamma(f64),
}

/// Largest coefficient of variation of a gamma: above, all sessions start in a handful of instants,
/// which no traffic does.
const CV_MAX: f64 = 100.0;

impl Arrivals {
    /// Reads `recorded`, `constant`, `poisson` or `gamma:<cv>`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let found = match text.split_once(':') {
            None => match text {
                "recorded" => Some(Self::Recorded),
                "constant" => Some(Self::Constant),
                "poisson" => Some(Self::Poisson),
                _ => None,
            },
            Some(("gamma", cv)) => {
                let cv = cv.parse().ok();
                cv.filter(|cv: &f64| *cv > 0.0 && *cv <= CV_MAX)
                    .map(Self::Gamma)
            }
            Some(_) => None,
        };
        found.ok_or_else(|| {
            format!(
                "allowed are recorded, constant, poisson and gamma:CV with a CV above 0, up to {CV_MAX}"
            )
        })
    }

    /// The word of it, as it is typed and as `run.json` holds it.
    pub fn word(self) -> String {
        match self {
            Self::Recorded => "recorded".to_owned(),
            Self::Constant => "constant".to_owned(),
            Self::Poisson => "poisson".to_owned(),
            Self::Gamma(cv) => format!("gamma:{cv}"),
        }
    }

    /// Whether it is a control, and no sample of production.
    pub fn is_control(self) -> bool {
        self != Self::Recorded
    }
}

/// How a rate is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum RateMode {
    /// Start all sessions, F times as fast: so many more users.
    #[default]
    Stress,
    /// Start a share F of the sessions where they were: a smaller cluster under the same bursts. F is 1 at most.
    Shape,
}

/// Sessions with a place in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placed {
    /// When each starts; none for one that is left out.
    pub starts_us: Vec<Option<i64>>,
    /// The steps of the rate, where it has any.
    pub steps: Vec<Step>,
}

/// How sessions are placed.
#[derive(Clone, Debug, PartialEq)]
pub struct Placing {
    /// What decides when they start.
    pub arrivals: Arrivals,
    /// Seeds the controls.
    pub seed: u64,
    /// The rate, as a multiple of the set's.
    pub rate_scale: f64,
    /// What that means.
    pub rate_mode: RateMode,
    /// How the rate changes on the way, on top of that.
    pub course: Course,
}

impl Default for Placing {
    fn default() -> Self {
        Self {
            arrivals: Arrivals::default(),
            seed: 0,
            rate_scale: 1.0,
            rate_mode: RateMode::default(),
            course: Course::default(),
        }
    }
}

impl Placing {
    /// Recorded arrivals, hurried by a factor.
    pub fn stressed(rate_scale: f64) -> Self {
        Self {
            rate_scale,
            ..Self::default()
        }
    }

    /// Places sessions whose starts are sorted. `duration_us` is how long the run is to last; a course
    /// spans it, or else all that there is.
    pub fn place(&self, starts_us: &[i64], duration_us: Option<i64>) -> Placed {
        let kept = self.kept(starts_us.len());
        let chosen: Vec<i64> = kept
            .iter()
            .filter_map(|at| starts_us.get(*at).copied())
            .collect();
        let mut placed = vec![None; starts_us.len()];
        let drawn = gaps::draw(self.arrivals, self.seed, &chosen);
        let hurried: Vec<i64> = drawn.iter().map(|start| self.hurried(*start)).collect();
        let course = self
            .course
            .over(hurried.last().copied().unwrap_or(0), duration_us);
        for (at, start_us) in kept.into_iter().zip(hurried) {
            if let Some(slot) = placed.get_mut(at) {
                *slot = Some(course.place(start_us));
            }
        }
        Placed {
            starts_us: placed,
            steps: course.steps(),
        }
    }

    /// The sessions that are kept, by their place in the order of starts: those in the middle of
    /// equal shares of the way.
    fn kept(&self, sessions: usize) -> Vec<usize> {
        if self.rate_mode == RateMode::Stress || self.rate_scale >= 1.0 {
            return (0..sessions).collect();
        }
        let count =
            ((sessions as f64 * self.rate_scale).round() as usize).clamp(1, sessions.max(1));
        (0..count)
            .map(|place| (2 * place + 1) * sessions / (2 * count))
            .filter(|at| *at < sessions)
            .collect()
    }

    fn hurried(&self, start_us: i64) -> i64 {
        // Exact for a factor of 1, whatever the size of the number.
        if self.rate_scale == 1.0 || self.rate_mode == RateMode::Shape {
            return start_us;
        }
        (start_us as f64 / self.rate_scale).round() as i64
    }

    /// What a user should know of arrivals that are not the set's own.
    pub fn findings(&self, sessions: usize, left_out: usize) -> Vec<String> {
        let mut findings = Vec::new();
        if self.arrivals.is_control() {
            let word = self.arrivals.word();
            findings.push(format!(
                "arrivals are a control ({word}): {} sessions at the mean rate that they had, and not production's bursts",
                sessions - left_out
            ));
        }
        if left_out > 0 {
            findings.push(format!(
                "rate: {left_out} of {sessions} sessions are left out and the bursts keep their shape: what sessions share is shared less often (pessimistic)"
            ));
        }
        if self.rate_mode == RateMode::Stress && self.rate_scale != 1.0 {
            findings.push(format!(
                "rate: sessions start {} times as fast as in the set; bursts are as much denser",
                self.rate_scale
            ));
        }
        findings.extend(self.course.finding());
        findings
    }
}

#[cfg(test)]
mod tests;
