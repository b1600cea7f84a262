//! What a plan is made from, besides the set.

use crate::arrivals::Placing;
use crate::cli::{Output, Pacing};
use crate::shard::Shard;

/// What of the command line shapes a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Only turns due before it are sent.
    pub duration_us: Option<i64>,
    /// When sessions start.
    pub placing: Placing,
    /// Whose sessions are sent; all of them without.
    pub shard: Option<Shard>,
    /// What decides when a turn is sent.
    pub pacing: Pacing,
    /// Think times are multiplied by it.
    pub think_scale: f64,
    /// How the length of answers is controlled.
    pub output: Output,
    /// Value of `cache_salt`.
    pub cache_salt: Option<String>,
    /// Model to ask for instead of the recorded ones.
    pub model: Option<String>,
    /// Prompt and output tokens at most.
    pub token_budget: Option<u64>,
    /// Whether a turn without content is left out. Only a plan that is never sent can do without.
    pub needs_content: bool,
}

/// What the plan must know of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetFacts {
    /// Models it lists; empty when it lists none.
    pub models: Vec<String>,
    /// Tokens of prompt and answer at most, where it says so.
    pub context_tokens_max: Option<i64>,
    /// Whether it takes `ignore_eos` and `min_tokens`.
    pub enforces_lengths: bool,
}
