//! One observed exchange, as a row of a capture.
//!
//! The columns, their units and what absence means: [`v1`] and `schemas/spec/capture-v1.md`.

use crate::file::{Format, Row, TakenBytes};
use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};

pub mod blob;
mod decode;
mod encode;
mod fields;
pub mod footer;
pub mod v1;

/// The format that this build writes.
pub const FORMAT: Format = Format {
    name: "capture",
    version: 1,
};

/// Ends the name of a sealed segment: footer written, synced, renamed.
pub const SEGMENT_SUFFIX: &str = ".parquet";

/// One header field, in wire order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its name, with the case it was sent in where that is known.
    pub name: String,
    /// Its value; bytes that are not UTF-8 are replaced.
    pub value: String,
}

/// What stands in for the text of one message where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The role of the message.
    pub role: String,
    /// Its length in bytes.
    pub bytes: i64,
    /// Its keyed chain hash: it depends on every message before it.
    pub hash: u64,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The answer is whole. Only these give observed output lengths (D7).
    #[default]
    Complete,
    /// A status of 400 or more, or an error event inside a 200.
    Error,
    /// The upstream went away before the end of its answer.
    Truncated,
    /// The client went away first.
    ClientAborted,
    /// A time limit of ours passed.
    Timeout,
    /// The recording process ended first.
    ProxyShutdown,
}

impl Outcome {
    /// The word in the column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Error => "error",
            Self::Truncated => "truncated",
            Self::ClientAborted => "client_aborted",
            Self::Timeout => "timeout",
            Self::ProxyShutdown => "proxy_shutdown",
        }
    }
}

/// Where a length comes from. Events are never counted as tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthSource {
    /// The server's `usage`, or the field of an imported trace.
    Usage,
    /// Native counters or token ids.
    Exact,
    /// Nobody said; the length is NULL.
    #[default]
    Absent,
}

/// How well the bodies of an exchange could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParseStatus {
    /// Everything that the dialect defines was read.
    Ok,
    /// Some of it could not be read; what could is in the row.
    Partial,
    /// The parser panicked or met bytes it could not place; timings are kept.
    Failed,
    /// Not an inference dialect, or no body: nothing to read.
    #[default]
    NotApplicable,
}

/// One HTTP request and what came back, as seen by the proxy. See [`v1::COLUMNS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "every field is a column, documented in v1::COLUMNS"
)]
pub struct Exchange {
    pub exchange_id: String,
    pub proxy_id: String,
    pub proxy_epoch_us: Option<i64>,
    pub conn_id: i64,
    pub conn_seq: i32,
    pub upstream: String,

    pub arrival: i64,
    pub arrival_mono_us: i64,
    pub arrival_rest_ns: Option<i32>,
    pub request_end_us: Option<i64>,
    pub response_head_us: Option<i64>,
    pub first_byte_us: Option<i64>,
    pub first_token_us: Option<i64>,
    pub first_output_us: Option<i64>,
    pub last_token_us: Option<i64>,
    pub end_us: Option<i64>,
    pub inflight: Option<i32>,
    pub client_stall_us: Option<i64>,

    pub method: String,
    pub path: String,
    pub dialect: String,
    pub model: Option<String>,
    pub stream: Option<bool>,
    pub request_headers: Vec<Header>,
    #[serde(with = "serde_bytes")]
    pub request_body: Option<Vec<u8>>,
    pub request_bytes: Option<i64>,
    pub request_encoding: Option<String>,
    #[serde(default)]
    pub request_blobs: Option<Vec<blob::Blob>>,
    pub max_tokens: Option<i64>,
    pub min_tokens: Option<i64>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub n: Option<i32>,
    pub stop: Option<Vec<String>>,
    pub ignore_eos: Option<bool>,
    pub seed: Option<i64>,
    pub response_format: Option<String>,
    pub tool_count: Option<i32>,

    pub status: Option<i32>,
    pub response_headers: Vec<Header>,
    #[serde(with = "serde_bytes")]
    pub response_body: Option<Vec<u8>>,
    pub response_bytes: Option<i64>,
    pub response_encoding: Option<String>,
    pub finish_reasons: Option<Vec<String>>,
    pub error_code: Option<String>,
    pub error_type: Option<String>,

    pub input_tokens: Option<i64>,
    pub input_tokens_source: LengthSource,
    pub output_tokens: Option<i64>,
    pub output_tokens_source: LengthSource,
    pub cached_tokens: Option<i64>,
    pub cached_tokens_source: LengthSource,
    pub reasoning_tokens: Option<i64>,
    pub reasoning_tokens_source: LengthSource,

    pub frame_offsets_us: Option<Vec<i64>>,
    pub frame_bytes: Option<Vec<i64>>,
    pub token_event_offsets_us: Option<Vec<i64>>,
    pub token_event_choices: Option<Vec<i32>>,

    pub block_tokens: Option<i32>,
    pub block_hashes: Option<Vec<u64>>,
    pub segments: Option<Vec<Segment>>,
    #[serde(default)]
    pub segment_hashes: Option<Vec<u64>>,
    #[serde(default)]
    pub text_block_bytes: Option<i32>,
    #[serde(default)]
    pub text_block_hashes: Option<Vec<u64>>,
    #[serde(default)]
    pub answer_hash: Option<u64>,

    pub session_key: Option<String>,
    pub session_rule: Option<String>,
    pub parent_session_key: Option<String>,
    pub previous_response_id: Option<String>,
    pub response_id: Option<String>,
    pub trace_id: Option<String>,
    pub client_key: Option<String>,
    pub replay_run: Option<String>,

    pub outcome: Outcome,
    pub parse_status: ParseStatus,
    pub degraded: Option<Vec<String>>,
}

impl Row for Exchange {
    const FORMAT: Format = FORMAT;

    fn columns() -> &'static [crate::column::Column] {
        v1::COLUMNS
    }

    fn from_columns(batch: &RecordBatch) -> Option<Vec<Self>> {
        decode::rows(batch)
    }

    fn to_columns(rows: &[Self]) -> Option<RecordBatch> {
        encode::columns(rows)
    }

    fn take_bytes(rows: &mut [Self]) -> Vec<TakenBytes> {
        let take = |body: fn(&mut Self) -> &mut Option<Vec<u8>>, rows: &mut [Self]| {
            rows.iter_mut().map(|row| body(row).take()).collect()
        };
        vec![
            ("request_body", take(|row| &mut row.request_body, rows)),
            ("response_body", take(|row| &mut row.response_body, rows)),
        ]
    }
}
