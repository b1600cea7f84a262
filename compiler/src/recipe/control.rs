//! Control sets: load that is generated from a few numbers of the source, as load generators do.

use serde::{Deserialize, Serialize};

/// What is generated instead of selected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// How prompt and answer lengths are drawn.
    pub lengths: ControlLengths,
    /// How arrivals are drawn.
    pub arrivals: ControlArrivals,
    /// Coefficient of variation of the time between arrivals, for `gamma`; the source's own where
    /// nothing is given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arrival_cv: Option<f64>,
}

/// How lengths are drawn, from the source's moments and extremes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlLengths {
    /// All the same: the mean.
    Fixed,
    /// Normal with the mean and the standard deviation, cut at the extremes.
    Gaussian,
    /// Each length between the extremes as likely as another.
    MinMax,
}

impl ControlLengths {
    /// The word in recipe and manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Gaussian => "gaussian",
            Self::MinMax => "min-max",
        }
    }
}

/// How arrivals are drawn, at the mean rate that the set would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlArrivals {
    /// One after the other at equal distances.
    Constant,
    /// Exponential distances.
    Poisson,
    /// Gamma distances: bursts without memory.
    Gamma,
}

impl ControlArrivals {
    /// The word in recipe and manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
            Self::Gamma => "gamma",
        }
    }
}

/// Largest coefficient of variation: a gamma of shape 10^-4 has all its arrivals in a handful of
/// instants, which no traffic has.
const CV_MAX: f64 = 100.0;

impl Control {
    /// Checks what types cannot.
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.arrivals, self.arrival_cv) {
            (_, None) => Ok(()),
            (ControlArrivals::Gamma, Some(cv)) if cv > 0.0 && cv <= CV_MAX => Ok(()),
            (ControlArrivals::Gamma, Some(cv)) => Err(format!(
                "control.arrival_cv: {cv}, allowed is more than 0, up to {CV_MAX}"
            )),
            (_, Some(_)) => {
                Err("control.arrival_cv goes with arrivals = \"gamma\" only".to_owned())
            }
        }
    }

    /// What a manifest calls it.
    pub fn name(&self) -> String {
        let (lengths, arrivals) = (self.lengths.name(), self.arrivals.name());
        format!("{lengths} lengths, {arrivals} arrivals")
    }
}
