//! What an engine is made of.

use super::Rejected;
use serde::{Deserialize, Serialize};

/// Sizes and speeds of an engine. The default is the one that the table of directions was made
/// with: one replica with 2,700 blocks of 512 tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineConfig {
    /// Tokens in a block.
    pub block_tokens: u32,
    /// Blocks of memory, for running sequences and the prefix cache together.
    pub kv_blocks: u64,
    /// Sequences that run at the same time.
    pub sequences_max: usize,
    /// Tokens computed in one step.
    pub step_tokens_max: u64,
    /// Whether prompts can reuse blocks.
    pub prefix_caching: bool,
    /// Time of a step that computes nothing.
    pub step_ns: u64,
    /// Time of one prefill token.
    pub prefill_token_ns: u64,
    /// Time of one decoding sequence.
    pub decode_sequence_ns: u64,
    /// Time of one token of context of a decoding sequence.
    pub kv_token_ns: u64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            block_tokens: 512,
            kv_blocks: 2_700,
            sequences_max: 256,
            step_tokens_max: 8_192,
            prefix_caching: true,
            step_ns: 8_000_000,
            prefill_token_ns: 60_000,
            decode_sequence_ns: 50_000,
            kv_token_ns: 17,
        }
    }
}

impl EngineConfig {
    /// Tokens that fit into the memory.
    pub fn kv_tokens(&self) -> u64 {
        self.kv_blocks.saturating_mul(u64::from(self.block_tokens))
    }

    /// Says whether a job could ever run.
    pub fn accepts(&self, prompt_tokens: u64, output_tokens: u64) -> Result<(), Rejected> {
        if prompt_tokens == 0 {
            return Err(Rejected::EmptyPrompt);
        }
        if output_tokens == 0 {
            return Err(Rejected::EmptyOutput);
        }
        // The last token is said, but never computed.
        let needed = self.blocks_of(prompt_tokens.saturating_add(output_tokens - 1));
        if needed > self.kv_blocks {
            return Err(Rejected::TooLarge {
                needed,
                kv_blocks: self.kv_blocks,
            });
        }
        Ok(())
    }

    /// Blocks that hold so many tokens.
    pub(super) fn blocks_of(&self, tokens: u64) -> u64 {
        tokens.div_ceil(u64::from(self.block_tokens))
    }

    /// An engine without a seat, a budget or a block size would never finish anything.
    pub(super) fn at_least_one_of_everything(mut self) -> Self {
        self.block_tokens = self.block_tokens.max(1);
        self.sequences_max = self.sequences_max.max(1);
        self.step_tokens_max = self.step_tokens_max.max(1);
        self
    }
}
