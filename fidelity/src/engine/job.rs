//! What goes into an engine and what comes out.

/// Names a job in its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

/// One request, as lengths and hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// When it arrives. Only [`simulate`](super::simulate) reads it.
    pub arrival_us: i64,
    /// Length of the prompt, at least 1.
    pub prompt_tokens: u64,
    /// Tokens it will say, at least 1.
    pub output_tokens: u64,
    /// Chained hashes of its full blocks: those of the prompt, then, as far as they are known,
    /// those of prompt and output together. What lies beyond can be neither reused nor found.
    pub blocks: Vec<u64>,
}

impl Job {
    /// Makes a job from a list that may end in a partial block, as those of traces do.
    pub fn of_prompt_blocks(
        arrival_us: i64,
        prompt_tokens: u64,
        output_tokens: u64,
        blocks: &[u64],
        block_tokens: u32,
    ) -> Self {
        let full = prompt_tokens / u64::from(block_tokens.max(1));
        let blocks = blocks
            .iter()
            .copied()
            .take(usize::try_from(full).unwrap_or(usize::MAX));
        Self {
            arrival_us,
            prompt_tokens,
            output_tokens,
            blocks: blocks.collect(),
        }
    }
}

/// Why a job can never run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// There is nothing to compute.
    #[error("the prompt is empty, at least one token is needed")]
    EmptyPrompt,
    /// There is nothing to say.
    #[error("no output is asked for, at least one token is needed")]
    EmptyOutput,
    /// It does not fit even alone.
    #[error("the request needs {needed} blocks of memory, there are {kv_blocks}")]
    TooLarge {
        /// Blocks it needs at its end.
        needed: u64,
        /// Blocks there are.
        kv_blocks: u64,
    },
}

/// What one step came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// How long it takes.
    pub duration_ns: u64,
    /// What is said at its end, oldest admission first.
    pub outputs: Vec<(Id, Emission)>,
}

/// One token of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emission {
    /// Which token of the output, from 0.
    pub index: u64,
    /// Tokens of the prompt that were found in the cache when the job was first admitted.
    pub cached_tokens: u64,
    /// Whether the job is done.
    pub last: bool,
}

/// Totals since an engine's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Prompt tokens of jobs that have said something.
    pub prompt_tokens: u64,
    /// Tokens said.
    pub generation_tokens: u64,
    /// Prompt tokens looked up in the prefix cache, once for each job.
    pub prefix_query_tokens: u64,
    /// Those of them that were there.
    pub prefix_hit_tokens: u64,
    /// Times a sequence lost its blocks.
    pub preemptions: u64,
    /// Jobs that said all.
    pub finished: u64,
}

/// What an engine is busy with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Sequences with blocks.
    pub running: u64,
    /// Sequences without.
    pub waiting: u64,
    /// Blocks in use by running sequences. What is only cached is free.
    pub kv_blocks_used: u64,
    /// Blocks there are.
    pub kv_blocks: u64,
}
