//! `metrics.parquet`: what the target's counters said, before, during and after.

use super::FORMAT;
use crate::column::Column;
use crate::file::{Error, Format, Reader, Row};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One row a sample.
pub const METRICS: &str = "metrics.parquet";

/// One sample of the target's metrics. See [`super::v1::METRIC_COLUMNS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "every field is a column, documented in v1::METRIC_COLUMNS"
)]
pub struct Sample {
    pub scrape: i64,
    pub at: i64,
    pub phase: String,
    pub name: String,
    pub labels: String,
    pub kind: String,
    pub value: f64,
}

impl Row for Sample {
    const FORMAT: Format = FORMAT;

    fn columns() -> &'static [Column] {
        super::v1::METRIC_COLUMNS
    }
}

/// Reads a run's samples.
pub fn samples(dir: &Path) -> Result<Vec<Sample>, Error> {
    Reader::<Sample>::open(&dir.join(METRICS))?.read_all()
}

/// What the target's counters came to over a run. What it does not count is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Where they were read.
    pub url: String,
    /// Whose names they have: `vllm`, `sglang`, `trtllm`, `dynamo`, `llamacpp`; null for others.
    pub names: Option<String>,
    /// Times they were read.
    pub scrapes: u64,
    /// Times they could not be read.
    pub failed: u64,
    /// Prompt tokens, from before the run to after it; everybody's, not only the run's.
    pub prompt_tokens: Option<f64>,
    /// Generated tokens, the same.
    pub generation_tokens: Option<f64>,
    /// Prompt tokens that were looked up in the prefix cache, the same.
    pub queried_tokens: Option<f64>,
    /// Prompt tokens that were found there, the same.
    pub cached_tokens: Option<f64>,
    /// Times a request lost its memory to others, the same.
    pub preemptions: Option<f64>,
    /// Most requests that ran at one time, of those that were seen.
    pub running_peak: Option<f64>,
    /// Most requests that waited, the same.
    pub waiting_peak: Option<f64>,
    /// Most of the memory of prefixes that was in use, 1 is all, the same.
    pub kv_usage_peak: Option<f64>,
}

impl Counters {
    /// Share of the prompts that the target took from its cache, by its own counters.
    pub fn cached_share(&self) -> Option<f64> {
        let looked_up = self.queried_tokens.or(self.prompt_tokens)?;
        (looked_up > 0.0).then_some(self.cached_tokens? / looked_up)
    }
}
