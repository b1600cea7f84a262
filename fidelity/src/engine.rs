//! The reference engine model: how a server that batches continuously spends its time and memory.
//!
//! The model is pure and knows no clock: [`Engine::step`] says what one step does and how long it
//! takes, and whoever calls it decides whether that time passes. [`simulate`] lets it pass in
//! virtual time, to learn the *direction* of a distortion; the engine stub sleeps through it, so
//! that a replay can be tried without a GPU. Trust its signs, not its magnitudes.
//!
//! One step:
//!
//! 1. Every running sequence is given its next tokens, oldest first, within the step's token
//!    budget: one for a sequence that decodes, as much as is left of its prompt for one that does
//!    not (chunked prefill). Where memory is short, the youngest running sequence is preempted: it
//!    loses its blocks, goes back to the head of the queue and computes itself again.
//! 2. Waiting sequences are admitted in the order they came, while there is budget, a seat, and
//!    memory for all they have to compute. The head of the queue is never overtaken. What the
//!    prefix cache holds of a prompt is not computed again, except that at least one token always
//!    is.
//! 3. The step takes `step_ns + prefill_token_ns * prefill tokens + decode_sequence_ns * decoding
//!    sequences + kv_token_ns * tokens of context of the decoding sequences`.
//! 4. At its end the full blocks it computed can be reused, and every sequence that has computed
//!    all its tokens says one more. The last token it says is never computed, so it is in no block.
//!
//! Memory is counted in blocks. A block is blank, private to a sequence, or cached under its hash;
//! a cached block is pinned while a sequence uses it and idle otherwise. Blank blocks are taken
//! first, then the idle block that was given up longest ago; a sequence gives up its last block
//! first. Two sequences that compute the same block at the same time both pay for it.

use memory::Memory;
use sequence::Sequence;
use std::collections::VecDeque;

pub use config::EngineConfig;
pub use job::{Counters, Emission, Id, Job, Load, Rejected, Step};
pub use simulation::{JobResult, simulate};

mod config;
mod job;
mod memory;
mod sequence;
mod simulation;

/// The state of the model between two steps.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    memory: Memory,
    /// Sequences that hold blocks, oldest admission first.
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    next_id: u64,
    counters: Counters,
}

impl Engine {
    /// Makes an engine with nothing to do and nothing cached.
    pub fn new(config: EngineConfig) -> Self {
        let config = config.at_least_one_of_everything();
        Self {
            memory: Memory::new(config.kv_blocks),
            config,
            running: Vec::new(),
            waiting: VecDeque::new(),
            next_id: 0,
            counters: Counters::default(),
        }
    }

    /// Queues a job, or refuses one that could never run.
    pub fn submit(&mut self, job: Job) -> Result<Id, Rejected> {
        self.config.accepts(job.prompt_tokens, job.output_tokens)?;
        let id = Id(self.next_id);
        self.next_id += 1;
        self.waiting.push_back(Sequence::new(id, job, &self.config));
        Ok(id)
    }

    /// Forgets a job and frees its blocks; what it computed stays cached. Returns whether the job
    /// was there.
    pub fn cancel(&mut self, id: Id) -> bool {
        if let Some(place) = self.running.iter().position(|sequence| sequence.id == id) {
            let mut sequence = self.running.remove(place);
            sequence.release(&mut self.memory);
            return true;
        }
        let before = self.waiting.len();
        self.waiting.retain(|sequence| sequence.id != id);
        self.waiting.len() < before
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Takes one step. An idle engine takes none: its step has no outputs and lasts no time.
    pub fn step(&mut self) -> Step {
        if self.is_idle() {
            return Step {
                duration_ns: 0,
                outputs: Vec::new(),
            };
        }
        let mut budget = self.config.step_tokens_max;
        self.schedule_running(&mut budget);
        // Who was just preempted does not come back at once: some of its blocks are taken.
        self.admit(budget);
        let duration_ns = self.duration_ns();
        Step {
            duration_ns,
            outputs: self.advance(),
        }
    }

    /// Takes at once the steps that only decode and in which nothing begins, ends or needs a block,
    /// as long as each begins before `until_ns` from now. Returns how long they take.
    ///
    /// What follows is what as many single steps would have led to; none of their outputs is a
    /// first or a last token.
    fn glide(&mut self, until_ns: u64) -> u64 {
        let decoding = self.running.len() as u64;
        let alike = self.running.iter().all(Sequence::decodes);
        if !alike || !self.waiting.is_empty() || decoding > self.config.step_tokens_max {
            return 0;
        }
        let steps = self
            .running
            .iter()
            .map(|sequence| sequence.plain_steps(&self.config));
        let steps = steps.min().unwrap_or(0);
        let first_ns = self.decode_ns();
        let more_ns = self.config.kv_token_ns * decoding;
        // Every step of the run has one more token of context in each sequence.
        let after = |steps: u64| {
            let pairs = steps.saturating_mul(steps.saturating_sub(1)) / 2;
            first_ns
                .saturating_mul(steps)
                .saturating_add(more_ns.saturating_mul(pairs))
        };
        let (mut low, mut high) = (0, steps);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if after(middle - 1) < until_ns {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        for sequence in &mut self.running {
            sequence.decode(low);
        }
        self.counters.generation_tokens += low * decoding;
        after(low)
    }

    /// The time of a step in which every running sequence decodes.
    fn decode_ns(&self) -> u64 {
        let contexts = self.running.iter().map(|sequence| sequence.computed + 1);
        let context_tokens: u64 = contexts.sum();
        self.config.step_ns
            + self.config.decode_sequence_ns * self.running.len() as u64
            + self.config.kv_token_ns * context_tokens
    }

    /// Totals since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What the engine is busy with.
    pub fn load(&self) -> Load {
        Load {
            running: self.running.len() as u64,
            waiting: self.waiting.len() as u64,
            kv_blocks_used: self.memory.used(),
            kv_blocks: self.config.kv_blocks,
        }
    }

    /// The settings it runs with.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Empties the prefix cache. Refused, and nothing changes, while sequences run: their blocks
    /// cannot be taken from them.
    pub fn reset_prefix_cache(&mut self) -> bool {
        if self.running.is_empty() {
            self.memory.drop_idle();
        }
        self.running.is_empty()
    }

    /// Gives running sequences their tokens.
    fn schedule_running(&mut self, budget: &mut u64) {
        let mut place = 0;
        while place < self.running.len() {
            let tokens = self.running[place].left_to_compute().min(*budget);
            if self.make_room(place, tokens) {
                self.running[place].scheduled = tokens;
                *budget -= tokens;
            }
            place += 1;
        }
    }

    /// Finds blocks for the next tokens of a running sequence, at the cost of younger ones and at
    /// last of itself.
    fn make_room(&mut self, place: usize, tokens: u64) -> bool {
        while !self.running[place].grow(tokens, &self.config, &mut self.memory) {
            let Some(mut youngest) = self.running.pop() else {
                return false;
            };
            youngest.release(&mut self.memory);
            self.waiting.push_front(youngest);
            self.counters.preemptions += 1;
            if self.running.len() == place {
                return false;
            }
        }
        true
    }

    fn admit(&mut self, mut budget: u64) {
        while budget > 0 && self.running.len() < self.config.sequences_max {
            let Some(head) = self.waiting.front_mut() else {
                return;
            };
            let first_time = !head.was_admitted;
            if !head.admit(&self.config, &mut self.memory) {
                return;
            }
            let Some(mut head) = self.waiting.pop_front() else {
                return;
            };
            if first_time {
                self.counters.prefix_query_tokens += head.prompt_tokens;
                self.counters.prefix_hit_tokens += head.cached_tokens;
            }
            head.scheduled = head.left_to_compute().min(budget);
            budget -= head.scheduled;
            self.running.push(head);
        }
    }

    fn duration_ns(&self) -> u64 {
        let mut duration_ns = self.config.step_ns;
        for sequence in self
            .running
            .iter()
            .filter(|sequence| sequence.scheduled > 0)
        {
            duration_ns += if sequence.decodes() {
                let context_tokens = sequence.computed + 1;
                self.config.decode_sequence_ns + self.config.kv_token_ns * context_tokens
            } else {
                self.config.prefill_token_ns * sequence.scheduled
            };
        }
        duration_ns
    }

    /// Lets the step happen: computes, publishes, says, finishes.
    fn advance(&mut self) -> Vec<(Id, Emission)> {
        let Self {
            config,
            memory,
            running,
            counters,
            ..
        } = self;
        let mut outputs = Vec::new();
        running.retain_mut(|sequence| {
            let Some(emission) = sequence.advance(config, memory) else {
                return true;
            };
            counters.generation_tokens += 1;
            if emission.index == 0 {
                counters.prompt_tokens += sequence.prompt_tokens;
            }
            if emission.last {
                counters.finished += 1;
                sequence.release(memory);
            }
            outputs.push((sequence.id, emission));
            !emission.last
        });
        outputs
    }
}

#[cfg(test)]
mod tests;
