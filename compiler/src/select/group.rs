//! What sums are about: the keys of weights and tolerances.

use serde::{Deserialize, Serialize};

/// What a term is about. Weights and tolerances of a recipe go by these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Sums of tokens, turns and sessions.
    Volume,
    /// Prompt lengths.
    Input,
    /// Answer lengths.
    Output,
    /// Turns of a session.
    Turns,
    /// Prefix hits at several capacities.
    Hits,
    /// Tokens by stretches of the source's time.
    Time,
    /// Models and other kinds of requests.
    Mix,
    /// Pauses inside sessions.
    Pauses,
    /// Prompt and answer lengths together.
    Joint,
    /// Dispersion of work.
    Work,
}

impl Group {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 10] = [
        Self::Volume,
        Self::Input,
        Self::Output,
        Self::Turns,
        Self::Hits,
        Self::Time,
        Self::Mix,
        Self::Pauses,
        Self::Joint,
        Self::Work,
    ];

    /// The name in recipes and manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Input => "input",
            Self::Output => "output",
            Self::Turns => "turns",
            Self::Hits => "hits",
            Self::Time => "time",
            Self::Mix => "mix",
            Self::Pauses => "pauses",
            Self::Joint => "joint",
            Self::Work => "work",
        }
    }

    /// The tolerance of a residual of 1: a share of the term's base (its volume, the turns, the
    /// sessions, the blocks asked for).
    pub fn tolerance(self) -> f64 {
        match self {
            Self::Volume => 0.001,
            Self::Input | Self::Output => 0.001,
            Self::Hits => 0.001,
            Self::Turns | Self::Mix | Self::Pauses | Self::Joint => 0.005,
            Self::Time => 0.1,
            Self::Work => 0.1,
        }
    }
}
