//! When sessions start.

use super::{Select, duration_us};
use serde::{Deserialize, Serialize};

/// When sessions start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Arrange {
    /// `recorded`: every arrival keeps its offset from the source's first arrival. `shape`: starts of
    /// sessions move to where the source's bursts are. `stress`: several samples at once.
    pub rate: String,
    /// Samples of `stress`: how many times the users of one.
    pub copies: u32,
    /// How long the beginning fills the cache and is not measured, as in `"2m"`. A window takes the
    /// sessions of so long before it, too.
    pub lead_in: Option<String>,
    /// Longest stretch without any session that is kept, as in `"10s"`; all of it where it is not
    /// stated.
    pub idle_max: Option<String>,
}

/// Arrivals as captured.
pub const RATE_RECORDED: &str = "recorded";

/// A smaller cluster that feels the fleet's relative bursts.
pub const RATE_SHAPE: &str = "shape";

/// More users.
pub const RATE_STRESS: &str = "stress";

impl Default for Arrange {
    fn default() -> Self {
        Self {
            rate: RATE_RECORDED.to_owned(),
            copies: 1,
            lead_in: None,
            idle_max: None,
        }
    }
}

impl Arrange {
    pub(super) fn check(&self, select: &Select) -> Result<(), String> {
        if ![RATE_RECORDED, RATE_SHAPE, RATE_STRESS].contains(&self.rate.as_str()) {
            return Err(format!(
                "arrange.rate: `{}`, allowed are `{RATE_RECORDED}`, `{RATE_SHAPE}` and `{RATE_STRESS}`",
                self.rate
            ));
        }
        let stress = self.rate == RATE_STRESS;
        match self.copies {
            0 | 1 if stress => {
                return Err(format!(
                    "arrange.copies: {}, rate = \"stress\" needs 2 or more",
                    self.copies
                ));
            }
            1 => {}
            copies if !stress => {
                return Err(format!(
                    "arrange.copies: {copies}, goes with rate = \"stress\" only"
                ));
            }
            _ => {}
        }
        if self.rate != RATE_RECORDED && !select.method.has_budget() {
            return Err(format!(
                "arrange.rate: `{}` goes with select.method = \"balanced\" and \"random\" only",
                self.rate
            ));
        }
        self.lead_in_us()?;
        self.idle_max_us().map(|_| ())
    }

    /// The length of the lead-in in microseconds; 0 without one.
    pub fn lead_in_us(&self) -> Result<i64, String> {
        let lead_in = self.lead_in.as_ref();
        lead_in.map_or(Ok(0), |text| duration_us("arrange.lead_in", text))
    }

    /// The longest idle stretch that is kept, in microseconds.
    pub fn idle_max_us(&self) -> Result<Option<i64>, String> {
        let idle_max = self.idle_max.as_ref();
        idle_max
            .map(|text| duration_us("arrange.idle_max", text))
            .transpose()
    }
}
