//! The engine model as a judge: what a choice of turns does to latencies.
//!
//! Sums can be right and latencies wrong, because a queue remembers who came together. The model is
//! cheap, so every candidate is run on one replica, on several settings, and compared with what all
//! replicas of the reference do.

use super::source::Source;
use serde::{Deserialize, Serialize};
use truetape_fidelity::engine::{EngineConfig, Job, JobResult, simulate};
use truetape_fidelity::mix::mix;
use truetape_fidelity::quantile::{quantile, sorted};

/// What is measured, and the relative error that counts as 1.
pub const MEASURES: [(&str, f64); 20] = [
    ("ttft p25", 0.03),
    ("ttft p50", 0.02),
    ("ttft p75", 0.03),
    ("ttft p90", 0.03),
    ("ttft p95", 0.04),
    ("ttft p97", 0.04),
    ("ttft p99", 0.04),
    ("tpot p25", 0.03),
    ("tpot p50", 0.02),
    ("tpot p75", 0.03),
    ("tpot p90", 0.04),
    ("e2e p25", 0.03),
    ("e2e p50", 0.02),
    ("e2e p75", 0.03),
    ("e2e p90", 0.04),
    ("e2e p95", 0.05),
    ("e2e p97", 0.05),
    ("e2e p98", 0.05),
    ("e2e p99", 0.035),
    ("hits", 0.01),
];

/// Separates the times that a coarse clock hides from other uses of the same mix.
const HIDDEN: u64 = 0x4A49_5454_4552;

/// Values of the measures; none where nothing was measured.
pub type Measured = [Option<f64>; MEASURES.len()];

/// The latencies of some turns.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    ttft: Vec<f64>,
    tpot: Vec<f64>,
    e2e: Vec<f64>,
    cached_tokens: u64,
    input_tokens: u64,
}

impl Latencies {
    /// Adds the results of jobs.
    pub fn add(&mut self, jobs: &[Job], results: &[JobResult]) {
        for (job, result) in jobs.iter().zip(results) {
            self.ttft.extend(result.ttft_us().map(|us| us as f64));
            self.tpot.extend(result.tpot_us());
            self.e2e.extend(result.e2el_us().map(|us| us as f64));
            if result.end_us.is_some() {
                self.cached_tokens += result.cached_tokens;
                self.input_tokens += job.prompt_tokens;
            }
        }
    }

    /// The values of the measures.
    pub fn measured(self) -> Measured {
        let hits = self.cached_tokens as f64 / (self.input_tokens as f64).max(1.0);
        let [ttft, tpot, e2e] = [self.ttft, self.tpot, self.e2e].map(sorted);
        let mut measured = Measured::default();
        for (slot, (name, _)) in measured.iter_mut().zip(MEASURES) {
            let (what, rank) = name.split_once(" p").unwrap_or((name, ""));
            let rank = rank.parse::<f64>().unwrap_or(0.0) / 100.0;
            *slot = match what {
                "ttft" => quantile(&ttft, rank),
                "tpot" => quantile(&tpot, rank),
                "e2e" => quantile(&e2e, rank),
                _ => Some(hits),
            };
        }
        measured
    }
}

/// Logarithms of what was found over what was wanted; none where either is missing or nothing.
pub fn errors_ln(found: &Measured, wanted: &Measured) -> Measured {
    let mut errors = Measured::default();
    for ((error, found), wanted) in errors.iter_mut().zip(found).zip(wanted) {
        let both = found
            .zip(*wanted)
            .filter(|(found, wanted)| *found > 0.0 && *wanted > 0.0);
        *error = both.map(|(found, wanted)| (found / wanted).ln());
    }
    errors
}

/// How far measures are from what is wanted, in squares of what counts as 1.
pub fn misfit(found: &Measured, wanted: &Measured) -> f64 {
    let errors = errors_ln(found, wanted).into_iter().zip(MEASURES);
    errors
        .filter_map(|(error, (_, one))| Some((error? / one).powi(2)))
        .sum()
}

/// Turns as jobs of one engine. What a coarse clock hides of a turn's arrival is made up, the same in
/// every choice.
pub fn jobs(source: &Source<'_>, turns: &[u32], block_tokens: u32, hidden_us: i64) -> Vec<Job> {
    let job = |turn: &u32| {
        let at = source.population.turns.get(*turn as usize)?;
        let hidden = mix(u64::from(*turn) ^ HIDDEN) % hidden_us.max(1).unsigned_abs();
        Some(Job::of_prompt_blocks(
            at.arrival_us + i64::try_from(hidden).unwrap_or(0),
            at.input_tokens.filter(|tokens| *tokens > 0)?,
            at.output_tokens.unwrap_or(1).max(1),
            &at.blocks,
            block_tokens,
        ))
    };
    turns.iter().filter_map(job).collect()
}

/// Runs some turns on one replica.
pub fn run(engine: &EngineConfig, jobs: &[Job]) -> Latencies {
    let mut latencies = Latencies::default();
    latencies.add(jobs, &simulate(engine, jobs));
    latencies
}

/// An engine of other sizes and speeds: a change to the default one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Blocks of memory, as a multiple.
    pub memory: f64,
    /// Time of everything, as a multiple.
    pub time: f64,
    /// Tokens computed in one step, as a multiple.
    pub step_tokens: f64,
}

impl Setting {
    /// The engine with this change.
    pub fn of(self, engine: &EngineConfig) -> EngineConfig {
        let times = |value: u64, factor: f64| (value as f64 * factor).round() as u64;
        EngineConfig {
            kv_blocks: times(engine.kv_blocks, self.memory),
            step_tokens_max: times(engine.step_tokens_max, self.step_tokens),
            step_ns: times(engine.step_ns, self.time),
            prefill_token_ns: times(engine.prefill_token_ns, self.time),
            decode_sequence_ns: times(engine.decode_sequence_ns, self.time),
            // Whole nanoseconds would round a small number away.
            kv_token_ns: times(engine.kv_token_ns, self.time).max(1),
            ..engine.clone()
        }
    }
}

/// Settings that candidates are chosen on: the engine at hand, and others around it with less or more
/// memory, time and work in a step. One alone would be fitted in its accidents.
pub const CHOSEN_ON: [Setting; 5] = [
    Setting {
        memory: 1.0,
        time: 1.0,
        step_tokens: 1.0,
    },
    Setting {
        memory: 0.4,
        time: 0.75,
        step_tokens: 0.7,
    },
    Setting {
        memory: 1.6,
        time: 1.4,
        step_tokens: 1.0,
    },
    Setting {
        memory: 0.7,
        time: 1.15,
        step_tokens: 0.4,
    },
    Setting {
        memory: 3.0,
        time: 0.9,
        step_tokens: 1.5,
    },
];

/// Settings that no choice is made on: what is measured there says whether a choice is right for more
/// than the engines it was made on.
pub const HELD_OUT: [Setting; 2] = [
    Setting {
        memory: 2.2,
        time: 1.3,
        step_tokens: 1.0,
    },
    Setting {
        memory: 0.6,
        time: 0.8,
        step_tokens: 0.5,
    },
];
