//! The engine in virtual time.

use super::{Engine, EngineConfig, Id, Job};
use crate::mix::MixMap;

/// Nanoseconds in a microsecond.
const NS_PER_US: i64 = 1_000;

/// How a job fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobResult {
    /// When it arrived.
    pub arrival_us: i64,
    /// Tokens it was to say.
    pub output_tokens: u64,
    /// Tokens of its prompt found in the cache.
    pub cached_tokens: u64,
    /// When it said its first token. Nothing when the engine refused it.
    pub first_token_us: Option<i64>,
    /// When it said its last token. Nothing when the engine refused it.
    pub end_us: Option<i64>,
}

impl JobResult {
    /// Time to first token.
    pub fn ttft_us(&self) -> Option<i64> {
        self.first_token_us.map(|at| at - self.arrival_us)
    }

    /// End-to-end latency.
    pub fn e2el_us(&self) -> Option<i64> {
        self.end_us.map(|at| at - self.arrival_us)
    }

    /// Time per output token after the first; nothing for an output of one token.
    pub fn tpot_us(&self) -> Option<f64> {
        let gaps = self.output_tokens.checked_sub(1).filter(|gaps| *gaps > 0)?;
        Some((self.end_us? - self.first_token_us?) as f64 / gaps as f64)
    }
}

/// Runs jobs through an engine, each at its arrival, ties in the order given.
///
/// The results stand in the order of the jobs. Times are those at which a step ends, to the
/// microsecond.
pub fn simulate(config: &EngineConfig, jobs: &[Job]) -> Vec<JobResult> {
    run(config, jobs, Engine::glide)
}

/// The same with another way to take many steps at once.
pub(super) fn run(
    config: &EngineConfig,
    jobs: &[Job],
    glide: fn(&mut Engine, u64) -> u64,
) -> Vec<JobResult> {
    let mut engine = Engine::new(config.clone());
    let mut results: Vec<JobResult> = jobs
        .iter()
        .map(|job| JobResult {
            arrival_us: job.arrival_us,
            output_tokens: job.output_tokens,
            ..JobResult::default()
        })
        .collect();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&index| jobs[index].arrival_us);
    let mut arrivals = order.into_iter().peekable();
    let mut index_of = MixMap::default();
    let mut now_ns = i64::MIN;
    loop {
        if engine.is_idle() {
            let Some(&next) = arrivals.peek() else {
                return results;
            };
            now_ns = now_ns.max(arrival_ns(&jobs[next]));
        }
        while let Some(index) = arrivals.next_if(|&index| arrival_ns(&jobs[index]) <= now_ns) {
            // A refused job leaves its result without times.
            if let Ok(Id(id)) = engine.submit(jobs[index].clone()) {
                index_of.insert(id, index);
            }
        }
        let until_ns = arrivals.peek().map_or(u64::MAX, |&next| {
            u64::try_from(arrival_ns(&jobs[next]).saturating_sub(now_ns)).unwrap_or(0)
        });
        let glided_ns = glide(&mut engine, until_ns);
        if glided_ns > 0 {
            now_ns = now_ns.saturating_add(i64::try_from(glided_ns).unwrap_or(i64::MAX));
            continue;
        }
        let step = engine.step();
        now_ns = now_ns.saturating_add(i64::try_from(step.duration_ns).unwrap_or(i64::MAX));
        for (Id(id), emission) in step.outputs {
            let Some(&index) = index_of.get(&id) else {
                continue;
            };
            let result = &mut results[index];
            let now_us = now_ns.div_euclid(NS_PER_US);
            if emission.index == 0 {
                result.first_token_us = Some(now_us);
                result.cached_tokens = emission.cached_tokens;
            }
            if emission.last {
                result.end_us = Some(now_us);
                index_of.remove(&id);
            }
        }
    }
}

fn arrival_ns(job: &Job) -> i64 {
    job.arrival_us.saturating_mul(NS_PER_US)
}
