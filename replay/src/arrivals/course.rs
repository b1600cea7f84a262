//! How the rate changes on the way: ramps and steps.

/// A rate over time: stretches of equal length, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    stretches: Vec<Stretch>,
}

/// A stretch over which the rate goes evenly from one multiple to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    from: f64,
    to: f64,
}

/// A part of a run with a rate of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Its rate, as a multiple.
    pub rate_scale: f64,
    /// When it begins, from schedule zero.
    pub from_us: i64,
    /// When it ends.
    pub to_us: i64,
}

/// Steps of a run at most: more are a ramp.
const STEPS_MAX: usize = 100;

impl Course {
    /// Reads `FROM..TO`.
    pub fn parse_ramp(text: &str) -> Result<Self, String> {
        let allowed = || "allowed is FROM..TO with rates above 0, as in 0.5..4".to_owned();
        let (from, to) = text.split_once("..").ok_or_else(allowed)?;
        let (from, to) = (rate(from), rate(to));
        let stretch = from.zip(to).map(|(from, to)| Stretch { from, to });
        Ok(Self {
            stretches: vec![stretch.ok_or_else(allowed)?],
        })
    }

    /// Reads `F,F,F`.
    pub fn parse_steps(text: &str) -> Result<Self, String> {
        let rates: Option<Vec<f64>> = text.split(',').map(rate).collect();
        let stretches = rates.filter(|rates| 2 <= rates.len() && rates.len() <= STEPS_MAX);
        let stretches = stretches.ok_or_else(|| {
            format!("allowed are 2 to {STEPS_MAX} rates above 0, as in 0.5,1,2,4")
        })?;
        let level = |rate| Stretch {
            from: rate,
            to: rate,
        };
        Ok(Self {
            stretches: stretches.into_iter().map(level).collect(),
        })
    }

    /// The word of it, as it is typed.
    pub fn word(&self) -> String {
        match self.stretches.as_slice() {
            [only] => format!("{}..{}", only.from, only.to),
            steps => {
                let rates: Vec<String> = steps.iter().map(|step| step.from.to_string()).collect();
                rates.join(",")
            }
        }
    }

    /// Whether the rate stays what it is.
    pub fn is_even(&self) -> bool {
        self.stretches.is_empty()
    }

    /// What of it a user should know.
    pub(super) fn finding(&self) -> Option<String> {
        let (first, last) = (self.stretches.first()?, self.stretches.last()?);
        let steps = match self.stretches.len() {
            1 => "evenly".to_owned(),
            steps => format!("in {steps} steps"),
        };
        Some(format!(
            "rate: it goes {steps} from {} to {} times the set's on the way: figures of the whole run are of no one rate",
            first.from, last.to
        ))
    }

    /// The course over a run: as long as is asked for, or as it takes to start every session.
    pub(super) fn over(&self, last_us: i64, duration_us: Option<i64>) -> Placed {
        let mean = |stretch: &Stretch| f64::midpoint(stretch.from, stretch.to);
        let mean: f64 =
            self.stretches.iter().map(mean).sum::<f64>() / self.stretches.len().max(1) as f64;
        let whole_us = match duration_us {
            Some(duration_us) => duration_us as f64,
            None if mean > 0.0 => last_us as f64 / mean,
            None => 0.0,
        };
        Placed {
            stretches: self.stretches.clone(),
            stretch_us: whole_us / self.stretches.len().max(1) as f64,
        }
    }
}

fn rate(text: &str) -> Option<f64> {
    let rate: f64 = text.trim().parse().ok()?;
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

/// A course that is laid over time.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    stretches: Vec<Stretch>,
    stretch_us: f64,
}

impl Placed {
    /// The steps of it; none where the rate does not step.
    pub(super) fn steps(&self) -> Vec<Step> {
        if self.stretches.len() < 2 {
            return Vec::new();
        }
        let at = |place: u32| (self.stretch_us * f64::from(place)).round() as i64;
        let step = |(stretch, place): (&Stretch, u32)| Step {
            rate_scale: stretch.from,
            from_us: at(place),
            to_us: at(place + 1),
        };
        self.stretches.iter().zip(0..).map(step).collect()
    }

    /// When a session starts that would start at `even_us` at an even rate: when as many have
    /// started. The area under the rate up to there is `even_us`.
    pub(super) fn place(&self, even_us: i64) -> i64 {
        let Some(last) = self.stretches.last() else {
            return even_us;
        };
        let mut left = even_us as f64;
        let mut from_us = 0.0;
        for stretch in &self.stretches {
            let area = f64::midpoint(stretch.from, stretch.to) * self.stretch_us;
            if left < area {
                return (from_us + stretch.reach(left, self.stretch_us)).round() as i64;
            }
            left -= area;
            from_us += self.stretch_us;
        }
        // What is after the course goes on at its last rate.
        (from_us + left / last.to).round() as i64
    }
}

impl Stretch {
    /// The time at which the area under it is `area`: the root of `from*t + (to-from)*t^2/(2*length)`
    /// in the form that loses nothing where the rate hardly changes.
    fn reach(self, area: f64, length: f64) -> f64 {
        let slope = (self.to - self.from) / length;
        let root = (self.from * self.from + 2.0 * slope * area).max(0.0).sqrt();
        2.0 * area / (self.from + root)
    }
}
