//! One replay of one set against one target.
//!
//! The columns: [`v1`] and `schemas/spec/run-v1.md`.

use crate::capture::Outcome;
use crate::column::Column;
use crate::file::{Error, Format, Reader, Row, read_json};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

pub mod metrics;
pub mod v1;

/// The format that this build writes.
pub const FORMAT: Format = Format {
    name: "run",
    version: 1,
};

/// What the run was, and whether it can be trusted.
pub const RUN: &str = "run.json";
/// One row a dispatch.
pub const TURNS: &str = "turns.parquet";
/// The report, levels 1 and 2.
pub const FIDELITY: &str = "fidelity.json";
/// The same for people.
pub const REPORT: &str = "report.md";
/// The same as a page with charts.
pub const PAGE: &str = "report.html";

/// One dispatch of a run. See [`v1::COLUMNS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "every field is a column, documented in v1::COLUMNS"
)]
pub struct Dispatch {
    pub turn_id: i64,
    pub session: String,
    pub turn: i32,
    pub due_us: i64,
    pub ready_us: Option<i64>,
    pub sent_us: Option<i64>,
    pub lateness_us: Option<i64>,
    pub session_delay_us: Option<i64>,
    pub not_sent_reason: Option<String>,

    pub connect_us: Option<i64>,
    pub request_end_us: Option<i64>,
    pub first_byte_us: Option<i64>,
    pub first_token_us: Option<i64>,
    pub first_output_us: Option<i64>,
    pub last_token_us: Option<i64>,
    pub end_us: Option<i64>,
    pub token_event_offsets_us: Option<Vec<i64>>,
    pub token_event_choices: Option<Vec<i32>>,

    pub input_tokens_asked: Option<i64>,
    pub input_tokens: Option<i64>,
    pub output_tokens_asked: Option<i64>,
    pub output_tokens: Option<i64>,
    pub cached_tokens: Option<i64>,
    pub reasoning_tokens: Option<i64>,
    pub enforcement: String,
    pub length_miss: Option<String>,

    pub status: Option<i32>,
    pub outcome: Option<Outcome>,
    pub error_code: Option<String>,
    pub finish_reasons: Option<Vec<String>>,
    pub request_bytes: Option<i64>,
    pub response_bytes: Option<i64>,
    pub conn_reused: Option<bool>,
}

impl Row for Dispatch {
    const FORMAT: Format = FORMAT;

    fn columns() -> &'static [Column] {
        v1::COLUMNS
    }
}

/// `run.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// `run/1`.
    pub format: String,
    /// Names the run; every request carried it as `x-truetape-run`.
    pub run_id: String,
    /// The set's name.
    pub set_name: String,
    /// The set's digest.
    pub set_digest: String,
    /// Where it was sent.
    pub target: String,
    /// What the target said it is.
    pub engine: Engine,
    /// Every flag that shaped the run, as it was understood.
    pub flags: BTreeMap<String, serde_json::Value>,
    /// Schedule zero, wall clock, RFC 3339.
    pub zero: String,
    /// Schedule zero, wall clock, microseconds since the Unix epoch.
    pub zero_us: i64,
    /// Time from schedule zero to the end of the last exchange.
    pub duration_us: i64,
    /// `valid`, `invalid` (the replayer itself was too late) or `stopped` (Ctrl-C, or a
    /// limit).
    pub validity: String,
    /// Why it is not `valid`.
    pub validity_reasons: Vec<String>,
    /// `due = sent + not_sent`; `sent = answered + failed`.
    pub account: Account,
    /// Latencies and rates, both clocks.
    pub summary: serde_json::Value,
    /// The same for each step of the rate, where it had steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Digest of the whole plan: what shards of one run agree on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan_digest: String,
    /// What the target itself counted; null where it was not asked.
    #[serde(default)]
    pub counters: Option<metrics::Counters>,
    /// Things a user should know before trusting the run.
    pub findings: Vec<String>,
    /// Version of the replayer.
    pub tool_version: String,
}

/// A part of a run with a rate of its own: turns that were due in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The rate of session starts, as a multiple.
    pub rate_scale: f64,
    /// When it begins, from schedule zero.
    pub from_us: i64,
    /// When it ends; the last one holds what is due later, too.
    pub to_us: i64,
    /// Latencies and rates, both clocks.
    pub summary: serde_json::Value,
}

/// What the target said it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    /// `vllm`, `sglang`, `trtllm`, `dynamo`, `llamacpp` or `truetape`; null for others.
    pub name: Option<String>,
    /// `server` header or `/version`, where there was one.
    pub server: Option<String>,
    /// Version it reports.
    pub version: Option<String>,
    /// Models it lists.
    pub models: Vec<String>,
    /// Tokens in a block of its prefix cache, where it says so.
    pub block_tokens: Option<i64>,
    /// Tokens that its prefix cache holds, where it says so.
    pub kv_tokens: Option<i64>,
    /// Whether it says that prefix caching is on.
    pub prefix_caching: Option<bool>,
}

/// The account of a run: nothing is skipped silently.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Dispatches planned.
    pub due: u64,
    /// Dispatches sent.
    pub sent: u64,
    /// Dispatches not sent, by reason.
    pub not_sent: BTreeMap<String, u64>,
    /// Complete answers.
    pub answered: u64,
    /// The others, by outcome.
    pub failed: BTreeMap<String, u64>,
}

impl Account {
    /// Whether every dispatch is accounted for.
    pub fn balances(&self) -> bool {
        let not_sent: u64 = self.not_sent.values().sum();
        let failed: u64 = self.failed.values().sum();
        self.due == self.sent + not_sent && self.sent == self.answered + failed
    }
}

/// Reads `run.json`, and refuses one of a newer format.
pub fn open(dir: &Path) -> Result<Run, Error> {
    let path = dir.join(RUN);
    match read_json(&path, FORMAT) {
        Err(Error::Io { cause, .. }) if is_absent(&cause) => Err(Error::invalid(dir, no_run(dir))),
        read => read,
    }
}

fn is_absent(cause: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(cause.kind(), NotFound | NotADirectory)
}

/// Why a path is not a run, and what would be one.
fn no_run(dir: &Path) -> String {
    let found = if !dir.is_dir() {
        "no such directory".to_owned()
    } else if dir.join(crate::set::store::MANIFEST).is_file() {
        "is a set, wanted a run of it".to_owned()
    } else {
        format!("holds no {RUN}, which a replay writes last, so that this is none or did not end")
    };
    format!("{found}; name a directory that `truetape replay --out` wrote")
}

/// Reads a run's dispatches, ordered by turn.
pub fn dispatches(dir: &Path) -> Result<Vec<Dispatch>, Error> {
    let mut rows = Reader::<Dispatch>::open(&dir.join(TURNS))?.read_all()?;
    rows.sort_by_key(|row| row.turn_id);
    Ok(rows)
}

/// The same without their token events, of which a long run has too many for memory.
pub fn dispatches_without_events(dir: &Path) -> Result<Vec<Dispatch>, Error> {
    let mut rows = Vec::new();
    for batch in Reader::<Dispatch>::open(&dir.join(TURNS))? {
        rows.extend(batch?.into_iter().map(|row| Dispatch {
            token_event_offsets_us: None,
            token_event_choices: None,
            ..row
        }));
    }
    rows.sort_by_key(|row| row.turn_id);
    Ok(rows)
}
