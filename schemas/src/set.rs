//! Turns chosen for replay: rows, content, manifest, and where they lie.
//!
//! The columns: [`v1`] and `schemas/spec/set-v1.md`.

use crate::column::Column;
use crate::file::{Format, Row, TakenBytes};
use serde::{Deserialize, Serialize};

pub mod manifest;
pub mod store;
pub mod v1;

/// The format that this build writes.
pub const FORMAT: Format = Format {
    name: "set",
    version: 1,
};

/// What a turn is besides an ordinary one. All of them are load, and all are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnKind {
    /// An ordinary turn.
    #[default]
    Turn,
    /// The same request again after a failure: an arrival, not a turn of the conversation.
    Retry,
    /// A health probe.
    Probe,
    /// A title, a suggestion, a moderation call beside the conversation.
    Utility,
}

/// One turn of a replay set. See [`v1::TURN_COLUMNS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "every field is a column, documented in v1::TURN_COLUMNS"
)]
pub struct Turn {
    pub turn_id: i64,
    pub session: String,
    pub turn: i32,
    pub parent: Option<i64>,
    pub depends_on: Vec<i64>,
    pub start_us: i64,
    pub gap_us: Option<i64>,
    pub kind: TurnKind,
    pub retry_of: Option<i64>,

    pub method: String,
    pub path: String,
    pub dialect: String,
    pub model: Option<String>,
    pub stream: Option<bool>,

    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub cached_tokens: Option<i64>,
    pub reasoning_tokens: Option<i64>,

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

    pub block_tokens: Option<i32>,
    pub block_hashes: Option<Vec<u64>>,

    pub template: Option<String>,
    pub content: Vec<String>,

    pub recorded_outcome: crate::capture::Outcome,
    pub recorded_status: Option<i32>,
    pub recorded_ttft_us: Option<i64>,
    pub recorded_e2el_us: Option<i64>,
    pub recorded_end_us: Option<i64>,
    pub recorded_inflight: Option<i32>,
    pub recorded_finish_reasons: Option<Vec<String>>,
    #[serde(default)]
    pub recorded_token_events: Option<i32>,
    #[serde(default)]
    pub recorded_conn: Option<i64>,
    #[serde(default)]
    pub recorded_conn_seq: Option<i32>,

    pub exchange_id: String,
    pub proxy_id: String,
    pub upstream: String,
    pub session_rule: String,
    pub link_evidence: Option<String>,
    pub link_confidence: Option<f64>,
    #[serde(default)]
    pub spawned_by: Option<i64>,
}

impl Row for Turn {
    const FORMAT: Format = FORMAT;

    fn columns() -> &'static [Column] {
        v1::TURN_COLUMNS
    }
}

/// What a content part is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentKind {
    /// One chat message, as a JSON object.
    #[default]
    Message,
    /// A piece of a prompt; a turn's pieces are joined without a separator.
    Text,
    /// The request body without its messages or prompt, as a JSON object.
    Template,
}

/// One content-addressed part; shared history is stored once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "every field is a column, documented in v1::CONTENT_COLUMNS"
)]
pub struct Content {
    pub content_id: String,
    pub kind: ContentKind,
    pub tokens: Option<i64>,
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
}

impl Row for Content {
    const FORMAT: Format = FORMAT;

    fn columns() -> &'static [Column] {
        v1::CONTENT_COLUMNS
    }

    fn take_bytes(rows: &mut [Self]) -> Vec<TakenBytes> {
        let bodies = rows
            .iter_mut()
            .map(|row| Some(std::mem::take(&mut row.body)));
        vec![("body", bodies.collect())]
    }
}
