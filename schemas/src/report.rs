//! report/1: dimensions, verdicts, directions.
//!
//! Every statistic is defined in `schemas/spec/report-v1.md`.

use crate::file::Format;
use serde::{Deserialize, Serialize};

/// The format that this build writes.
pub const FORMAT: Format = Format {
    name: "report",
    version: 1,
};

/// What a comparison came to. Missing evidence is UNKNOWN, never PASS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// The deviation lies inside the tolerance.
    Pass,
    /// Nobody can say.
    Unknown,
    /// The deviation lies outside.
    Fail,
}

impl Verdict {
    /// The word in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Unknown => "UNKNOWN",
            Self::Fail => "FAIL",
        }
    }
}

/// Which way a deviation bends the result. Optimistic: the replay looks better than production.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Direction {
    /// The replay looks better than production.
    Optimistic,
    /// The replay looks worse than production.
    Pessimistic,
    /// It does not matter.
    Neutral,
    /// It pushes both ways.
    Mixed,
    /// Nobody can say.
    Unknown,
}

impl Direction {
    /// The word in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Optimistic => "OPTIMISTIC",
            Self::Pessimistic => "PESSIMISTIC",
            Self::Neutral => "NEUTRAL",
            Self::Mixed => "MIXED",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// What is compared with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Level 1.
    SetAgainstSource,
    /// Level 2.
    RunAgainstSet,
    /// Level 3.
    Noise,
}

/// One thing that replay can distort.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    /// Its id, as in `input_tokens.p90`.
    pub id: String,
    /// What it says, in a few words.
    pub title: String,
    /// What is compared with what.
    pub level: Level,
    /// Value found; NULL where nobody knows.
    pub value: Option<f64>,
    /// Value wanted; NULL where nobody knows.
    pub target: Option<f64>,
    /// Deviation of the value from the target, in the unit of the threshold.
    pub deviation: Option<f64>,
    /// Largest deviation that passes.
    pub threshold: f64,
    /// Unit of deviation and threshold: `relative`, `rank_points`, `ratio_points`, `ln_ratio`, `ms`, `share`.
    pub unit: String,
    /// What it came to.
    pub verdict: Verdict,
    /// Which way the deviation bends the result.
    pub direction: Direction,
    /// Why it is UNKNOWN, or anything else a reader must know.
    pub note: Option<String>,
}

/// One point of the pre-flight checklist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckPoint {
    /// 1 to 7.
    pub number: u8,
    /// The question.
    pub question: String,
    /// The answer.
    pub verdict: Verdict,
    /// The answer in a sentence.
    pub answer: String,
    /// Ids of the dimensions it rests on.
    pub dimensions: Vec<String>,
}

/// What pushes the overall result one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// The dimension.
    pub dimension: String,
    /// Which way.
    pub direction: Direction,
    /// Why.
    pub reason: String,
}

/// What the engine model makes of two sides: what production would have measured, and the replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// What is compared with what.
    pub level: Level,
    /// Which way the changes go, on all engines.
    pub direction: Direction,
    /// Why nothing was simulated, or how much of the sides was.
    pub note: Option<String>,
    /// Replicas that the wanted side was spread over.
    pub replicas: u64,
    /// Turns of the wanted side that ran.
    pub target_turns: u64,
    /// Turns of the replay that ran.
    pub turns: u64,
    /// The engines, each with its numbers.
    pub engines: Vec<SimulatedEngine>,
}

/// One setting of the engine model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedEngine {
    /// Tokens that its memory holds.
    pub kv_tokens: u64,
    /// The share of its time that a replica of the wanted side keeps it busy.
    pub busy: f64,
    /// What it measures.
    pub measures: Vec<SimulatedMeasure>,
}

/// One quantile of one latency, simulated on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedMeasure {
    /// Its name, as in `ttft_p99`.
    pub name: String,
    /// Of the wanted side: milliseconds, a share of the prompt tokens (`hits`), or tokens.
    pub target: Option<f64>,
    /// Of the replay.
    pub value: Option<f64>,
    /// `value / target - 1`; NULL where either is unknown or 0.
    pub change: Option<f64>,
}

/// A fidelity report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// `report/1`.
    pub format: String,
    /// The set's name.
    pub set_name: String,
    /// The set's digest.
    pub set_digest: String,
    /// The run, for levels 2 and 3.
    pub run_id: Option<String>,
    /// The target, for levels 2 and 3.
    pub target: Option<String>,
    /// The view: `replica` or `fleet`.
    pub view: String,
    /// The worst verdict.
    pub verdict: Verdict,
    /// The overall direction.
    pub direction: Direction,
    /// What pushes each way.
    pub pushes: Vec<Push>,
    /// The overall result in a sentence.
    pub sentence: String,
    /// The seven points, first of all.
    pub checklist: Vec<CheckPoint>,
    /// Every dimension.
    pub dimensions: Vec<Dimension>,
    /// Dimensions that could not be computed, by id.
    pub unknown: Vec<String>,
    /// What the engine model makes of the two sides, by level; empty in reports of before it was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulations: Vec<Simulation>,
    /// Things found on the way.
    pub findings: Vec<String>,
    /// Version of the tool.
    pub tool_version: String,
}
