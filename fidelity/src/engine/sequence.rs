//! A job on its way through the engine.

use super::memory::Memory;
use super::{Emission, EngineConfig, Id, Job};

/// A job and how far it has come.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: Id,
    pub(super) prompt_tokens: u64,
    output_tokens: u64,
    chain: Vec<u64>,
    /// Tokens said.
    emitted: u64,
    /// Tokens whose keys and values are in memory.
    pub(super) computed: u64,
    /// Tokens to compute in the step under way.
    pub(super) scheduled: u64,
    /// Blocks held, in order: a hash where the block is cached and pinned, nothing where private.
    held: Vec<Option<u64>>,
    pub(super) was_admitted: bool,
    pub(super) cached_tokens: u64,
}

impl Sequence {
    pub(super) fn new(id: Id, job: Job, config: &EngineConfig) -> Self {
        Self {
            id,
            prompt_tokens: job.prompt_tokens,
            output_tokens: job.output_tokens,
            chain: if config.prefix_caching {
                job.blocks
            } else {
                Vec::new()
            },
            emitted: 0,
            computed: 0,
            scheduled: 0,
            held: Vec::new(),
            was_admitted: false,
            cached_tokens: 0,
        }
    }

    /// Tokens to compute before it can say its next one.
    pub(super) fn left_to_compute(&self) -> u64 {
        self.known_tokens() - self.computed
    }

    /// Whether the step under way computes only the token said last.
    pub(super) fn decodes(&self) -> bool {
        self.emitted > 0 && self.left_to_compute() == 1
    }

    /// How many steps it could decode in before it says its last token or fills a block.
    pub(super) fn plain_steps(&self, config: &EngineConfig) -> u64 {
        let held = self.held.len() as u64 * u64::from(config.block_tokens);
        let in_block = held.saturating_sub(self.computed + 1);
        in_block.min((self.output_tokens - self.emitted).saturating_sub(1))
    }

    /// Decodes in so many steps of that kind.
    pub(super) fn decode(&mut self, steps: u64) {
        self.computed += steps;
        self.emitted += steps;
    }

    /// Takes blocks for all it has to compute, what is cached first. All or nothing.
    pub(super) fn admit(&mut self, config: &EngineConfig, memory: &mut Memory) -> bool {
        // At least one token is computed: without it there is nothing to say.
        let reusable = (self.known_tokens() - 1) / u64::from(config.block_tokens);
        let reusable = usize::try_from(reusable)
            .unwrap_or(usize::MAX)
            .min(self.chain.len());
        let hits = memory.leading_run(&self.chain[..reusable]);
        let needed = config.blocks_of(self.known_tokens()) - hits as u64;
        if needed > memory.available() - memory.idle_among(&self.chain[..hits]) {
            return false;
        }
        for &hash in &self.chain[..hits] {
            memory.pin(hash);
            self.held.push(Some(hash));
        }
        self.computed = hits as u64 * u64::from(config.block_tokens);
        if !self.was_admitted {
            self.was_admitted = true;
            self.cached_tokens = self.computed;
        }
        self.grow(self.left_to_compute(), config, memory)
    }

    /// Takes the blocks that `tokens` more need. Those it could take it keeps, even if not all.
    pub(super) fn grow(&mut self, tokens: u64, config: &EngineConfig, memory: &mut Memory) -> bool {
        let needed = config.blocks_of(self.computed + tokens);
        while (self.held.len() as u64) < needed {
            if !memory.take() {
                return false;
            }
            self.held.push(None);
        }
        true
    }

    /// Computes what was scheduled, makes its full blocks reusable, and says a token if it can.
    pub(super) fn advance(
        &mut self,
        config: &EngineConfig,
        memory: &mut Memory,
    ) -> Option<Emission> {
        let tokens = std::mem::take(&mut self.scheduled);
        if tokens == 0 {
            return None;
        }
        let full_before = (self.computed / u64::from(config.block_tokens)) as usize;
        self.computed += tokens;
        let full = (self.computed / u64::from(config.block_tokens)) as usize;
        self.publish(full_before..full.min(self.chain.len()), memory);
        if self.left_to_compute() > 0 {
            return None;
        }
        let index = self.emitted;
        self.emitted += 1;
        let last = self.emitted == self.output_tokens;
        Some(Emission {
            index,
            cached_tokens: self.cached_tokens,
            last,
        })
    }

    /// Gives up all blocks, the last one first, so that what others may share stays longest.
    pub(super) fn release(&mut self, memory: &mut Memory) {
        while let Some(block) = self.held.pop() {
            match block {
                Some(hash) => memory.unpin(hash),
                None => memory.give_back(),
            }
        }
        self.computed = 0;
        self.scheduled = 0;
    }

    fn publish(&mut self, blocks: std::ops::Range<usize>, memory: &mut Memory) {
        for place in blocks {
            if memory.publish(self.chain[place]) {
                self.held[place] = Some(self.chain[place]);
            }
        }
    }

    /// Tokens of the prompt and those said so far.
    fn known_tokens(&self) -> u64 {
        self.prompt_tokens + self.emitted
    }
}
