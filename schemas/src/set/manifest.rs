//! `manifest.json`: what a set is, what it was made from, and what was left out.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A set's manifest, written last: a directory without one is not a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `set/1`.
    pub format: String,
    /// The set's name.
    pub name: String,
    /// 64 hexadecimal digits over the canonical rows and the recipe, not over file bytes.
    pub digest: String,
    /// The recipe, as it was understood.
    pub recipe: serde_json::Value,
    /// The captures it was made from, ordered by digest.
    pub sources: Vec<Source>,
    /// What it holds.
    pub counts: Counts,
    /// What each stage of the compiler took and left, in order.
    pub stages: Vec<Stage>,
    /// How turns continue each other, and how much of that a cache can see.
    #[serde(default)]
    pub chains: Chains,
    /// What turns text into tokens.
    pub tokenizer: Tokenizer,
    /// Tokens in a block of the turns' `block_hashes`; NULL when there are none.
    pub block_tokens: Option<u32>,
    /// The seed of the permanent random numbers.
    pub seed: u64,
    /// The profile of the source, as `truetape profile` prints it.
    pub source_profile: serde_json::Value,
    /// The profile of the set.
    pub profile: serde_json::Value,
    /// What the numbers mean.
    pub semantics: Semantics,
    /// How its sessions were chosen, and how near that came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// How its arrivals were placed, and which promises of that were checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrangement: Option<Arrangement>,
    /// Things a user should know before trusting the set.
    pub findings: Vec<String>,
    /// Version of the compiler.
    pub tool_version: String,
}

/// One capture that went into a set. It has no path: a set does not know the machine it was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Digest over its rows.
    pub digest: String,
    /// Its format.
    pub format: String,
    /// Its rows.
    pub rows: u64,
    /// Whether all its rows are replayed traffic.
    pub replay: bool,
}

/// What a set holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Turns, retries and probes included.
    pub turns: u64,
    /// Sessions.
    pub sessions: u64,
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Generated tokens.
    pub output_tokens: u64,
    /// Content parts.
    pub content_parts: u64,
}

/// The account of one stage: `read = taken + left`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Rows it was given.
    pub read: u64,
    /// Rows it passed on.
    pub taken: u64,
    /// Rows it left out, by reason.
    pub left: BTreeMap<String, u64>,
    /// Rows it marked without leaving them out, by mark.
    pub marked: BTreeMap<String, u64>,
}

/// How the source's turns continue each other. The canonical chain goes by messages as they are
/// meant and tells sessions; the raw one goes by prompts as they were sent and tells cache hits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Chains {
    /// Turns of the source.
    pub turns: u64,
    /// Turns that bring history along, or were tied to a parent without.
    pub history_turns: u64,
    /// Turns whose parent was found.
    pub linked_turns: u64,
    /// Prompt tokens of the turns that bring history.
    pub history_tokens: u64,
    /// Those of them that their parent's prompt holds.
    pub explained_tokens: u64,
    /// Tokens that turns share with their parents as conversations, where both chains are known.
    pub canonical_tokens: u64,
    /// Those of them that are a common prefix as they were sent.
    pub raw_tokens: u64,
}

/// What turns text into tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokenizer {
    /// `bytes:4` for the engine stub's, `calibrated` for a ratio fitted to reported usage,
    /// `assumed` where no length was reported, `trace` when lengths and blocks come from an
    /// imported trace, `huggingface` or `tiktoken` for a vocabulary that the recipe names.
    pub name: String,
    /// Bytes of a token, for all but `trace` and vocabularies.
    pub bytes_per_token: Option<f64>,
    /// Mean absolute relative error of the tokenizer against reported usage.
    pub calibration_error: Option<f64>,
    /// Digest of the vocabulary's file.
    #[serde(default)]
    pub digest: Option<String>,
    /// Digest of the chat template.
    #[serde(default)]
    pub template_digest: Option<String>,
    /// The fit for each model, of `calibrated`.
    #[serde(default)]
    pub by_model: BTreeMap<String, Calibration>,
}

/// A ratio that was fitted to the reported usage of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calibration {
    /// Bytes of a token.
    pub bytes_per_token: Option<f64>,
    /// Mean absolute relative error that is left.
    pub error: Option<f64>,
    /// Prompts whose length was reported.
    pub prompts: u64,
}

/// How the sessions of a set were chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    /// `balanced`, `random`, `window`, `replica` or `all`.
    pub method: String,
    /// What was taken whole: `session`, or `family` for sessions that share prefix.
    pub unit: String,
    /// Units there were.
    pub units: u64,
    /// Units that were taken.
    pub units_taken: u64,
    /// Share of the source's tokens that was asked for.
    pub share: f64,
    /// Share of the source's tokens that was taken.
    pub share_got: f64,
    /// Replica view: `captured`, `session` or `prefix`: how the source is spread over replicas.
    pub routing: Option<String>,
    /// Replica view: how many replicas there are.
    pub replicas: Option<u32>,
    /// Fleet view: blocks that take room in a cache whatever the sample.
    pub hot_blocks: Option<u64>,
    /// Fleet view: a cache of `C` blocks becomes one of `hot_blocks + cache_factor * (C - hot_blocks)`.
    pub cache_factor: Option<f64>,
    /// Every sum that was looked at.
    pub residuals: Vec<Residual>,
    /// What the engine model measures, against what all replicas measure together.
    pub engines: Vec<EngineError>,
    /// Choices that the engine model was asked about.
    pub simulated: u64,
}

/// A sum over a set, and what it should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Residual {
    /// What it is about: a key of `select.weights`.
    pub group: String,
    /// What it is.
    pub name: String,
    /// What it should be: the share of the source's.
    pub wanted: f64,
    /// What it is in the set.
    pub got: f64,
    /// The difference as a share of all there should be of its kind; a logarithm for a dispersion.
    pub error: f64,
    /// Whether the search never saw it.
    pub held_out: bool,
}

/// What one setting of the engine model says of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineError {
    /// Its memory, as a multiple of the engine at hand.
    pub memory: f64,
    /// Its times, as a multiple.
    pub time: f64,
    /// The tokens of a step, as a multiple.
    pub step_tokens: f64,
    /// Whether the choice was made on it.
    pub chosen_on: bool,
    /// Relative error by measure: `ttft p50`, `e2e p99`, `hits`.
    pub errors: BTreeMap<String, f64>,
}

/// How the arrivals of a set were placed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Arrangement {
    /// `recorded`, `shape` or `stress`.
    pub rate: String,
    /// Copies of the sample for `stress`; 1 otherwise.
    pub copies: u32,
    /// Length of the lead-in, before what is measured begins; 0 without one.
    pub lead_in_us: i64,
    /// Turns of the lead-in.
    pub lead_in_turns: u64,
    /// Longest stretch without any session that is kept; none keeps all.
    pub idle_max_us: Option<i64>,
    /// Time that was cut out of such stretches.
    pub idle_cut_us: i64,
    /// What the rate promises, checked on the set.
    pub invariants: Vec<Invariant>,
}

/// A promise of an arrangement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Invariant {
    /// What should hold.
    pub name: String,
    /// The value it should have.
    pub wanted: Option<f64>,
    /// The value it has.
    pub got: Option<f64>,
    /// Whether it holds; none where it cannot be known.
    pub holds: Option<bool>,
}

/// What the numbers in a set mean: every field here is a bug in a peer that left it out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Semantics {
    /// `cumulative`: `input_tokens` and `block_hashes` include the history.
    pub input: String,
    /// `recorded`: the prompt carries the answers that production gave; `none` in a control set.
    pub history: String,
    /// `recorded`, `shape` or `stress`: what the rate of the set is a sample of.
    pub rate: String,
    /// `replica` or `fleet`.
    pub view: String,
    /// `verbatim`, `synthetic` or `lengths`.
    pub content: String,
    /// Smallest step of the source's clock, where it is coarser than a microsecond.
    pub clock_resolution_us: Option<i64>,
    /// How a control set was generated; NULL for a sample of production.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
}
