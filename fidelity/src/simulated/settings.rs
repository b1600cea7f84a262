//! Engines to simulate on.

use super::measures::Measures;
use super::place;
use crate::engine::{EngineConfig, Job, simulate};
use crate::population::Population;
use crate::prefix::hits_per_request;
use crate::quantile::{quantile, sorted};

/// A small memory, in tokens: what a card of 80 GB has left beside a model of 70 billion weights in
/// eight bits, about; and a large one, that of a node, or of a card with a host's memory behind it.
const MEMORIES_TOKENS: [u64; 2] = [1_382_400, 10_240_000];

/// The share of its time that a replica is busy where nothing tells its speed.
const BUSY: f64 = 0.6;

/// The same where the memory is known: two loads are simulated.
const BUSY_OF_TARGET: [f64; 2] = [0.5, 0.7];

/// No engine is so slow that its load does not fit: its queue would measure when the data ends.
const BUSY_MAX: f64 = 0.85;

/// How much slower or faster than the reference engine it may be.
const TIME_MIN: f64 = 0.02;
const TIME_MAX: f64 = 50.0;

/// Recorded latencies that say how fast an engine was, as a share of the turns.
const RECORDED_MIN: f64 = 0.9;

/// Turns that a speed is found on, and halvings of the range it may lie in: 2,500 to the power of
/// 1/256 leaves 3 %.
const FOUND_ON_MAX: usize = 2_000;
const HALVINGS: u32 = 8;

/// How fast an engine is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Speed {
    /// So fast that its median answer takes as long as was recorded, in microseconds.
    AsRecorded(f64),
    /// So fast that it is busy for this share of its time.
    Busy(f64),
}

/// An engine in the making.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setting {
    kv_tokens: u64,
    speed: Speed,
}

/// The settings to simulate a side on.
pub(super) fn of(kv_tokens: Option<u64>, wanted: &Population) -> Vec<Setting> {
    let recorded = recorded_us(wanted).map(Speed::AsRecorded);
    let memories = match kv_tokens {
        Some(kv_tokens) => vec![kv_tokens],
        None => MEMORIES_TOKENS.to_vec(),
    };
    let speeds = match (recorded, kv_tokens) {
        (Some(speed), _) => vec![speed],
        (None, Some(_)) => BUSY_OF_TARGET.map(Speed::Busy).to_vec(),
        (None, None) => vec![Speed::Busy(BUSY)],
    };
    let each = |kv_tokens: u64| {
        speeds.iter().map(move |speed| Setting {
            kv_tokens,
            speed: *speed,
        })
    };
    memories.into_iter().flat_map(each).collect()
}

/// The median of the recorded latencies, where nearly all are known.
fn recorded_us(population: &Population) -> Option<f64> {
    let turns = population.turns.iter();
    let known = turns.filter_map(|turn| Some(turn.end_us?.checked_sub(turn.arrival_us)? as f64));
    let known = sorted(known.filter(|us| *us > 0.0));
    let enough = known.len() as f64 >= RECORDED_MIN * population.turns.len() as f64;
    quantile(&known, 0.5).filter(|_| enough)
}

impl Setting {
    /// The engine for the pieces of a population, and the share of its time that they keep it busy.
    ///
    /// A speed that was found for one engine is that of the next: memory does not make it faster.
    pub(super) fn engine(
        self,
        block_tokens: u32,
        pieces: &[Vec<Job>],
        found: &mut Option<f64>,
    ) -> (EngineConfig, f64) {
        let engine = EngineConfig {
            block_tokens,
            kv_blocks: (self.kv_tokens / u64::from(block_tokens.max(1))).max(1),
            ..EngineConfig::default()
        };
        let loads = pieces.iter().map(|jobs| load(&engine, jobs));
        let (work_ns, span_ns) = loads.fold((0.0, 0.0), |(work, span), (more, time)| {
            (work + more, span + time)
        });
        // Of the reference engine: an engine that takes twice as long is busy for twice the time.
        let busy = (work_ns / f64::max(span_ns, 1.0)).max(1e-9);
        let most = (BUSY_MAX / busy).clamp(TIME_MIN, TIME_MAX);
        let times = match self.speed {
            Speed::Busy(share) => (share / busy).clamp(TIME_MIN, TIME_MAX),
            Speed::AsRecorded(us) => {
                *found.get_or_insert_with(|| as_recorded(&engine, pieces, us, most))
            }
        };
        (slower(&engine, times), busy * times)
    }
}

/// How many times as long everything takes so that the median answer takes that long, at most `most`.
fn as_recorded(engine: &EngineConfig, pieces: &[Vec<Job>], wanted_us: f64, most: f64) -> f64 {
    let first = pieces.iter().max_by_key(|jobs| jobs.len());
    let jobs = first.map_or(&[][..], |jobs| jobs.get(..FOUND_ON_MAX).unwrap_or(jobs));
    let median = place("e2el_p50").unwrap_or(0);
    let e2el_us = |times: f64| {
        let results = simulate(&slower(engine, times), jobs);
        Measures::of(jobs, &results)
            .measured()
            .get(median)
            .copied()
            .flatten()
    };
    let (mut low, mut high) = (TIME_MIN.ln(), most.ln());
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if e2el_us(middle.exp()).is_some_and(|us| us > wanted_us) {
            high = middle;
        } else {
            low = middle;
        }
    }
    low.exp()
}

/// The time that jobs take beside each other's, as far as it is their own, and the time there is.
/// What a step costs whoever is in it is left out.
fn load(engine: &EngineConfig, jobs: &[Job]) -> (f64, f64) {
    let capacity = usize::try_from(engine.kv_blocks).ok();
    let hits = hits_per_request(jobs.iter().map(|job| job.blocks.as_slice()), capacity);
    let work_ns = jobs.iter().zip(hits).map(|(job, hits)| {
        let cached = u64::from(hits) * u64::from(engine.block_tokens);
        let prefill = job.prompt_tokens.saturating_sub(cached) as f64;
        let output = job.output_tokens as f64;
        let context = job.prompt_tokens as f64 + output / 2.0;
        let token_ns = engine.decode_sequence_ns as f64 + engine.kv_token_ns as f64 * context;
        let fits = engine.accepts(job.prompt_tokens, job.output_tokens).is_ok();
        if fits {
            prefill * engine.prefill_token_ns as f64 + output * token_ns
        } else {
            0.0
        }
    });
    let arrivals = || jobs.iter().map(|job| job.arrival_us);
    let span_us = match (arrivals().min(), arrivals().max()) {
        (Some(first), Some(last)) => last.saturating_sub(first),
        _ => 0,
    };
    (work_ns.sum(), span_us as f64 * 1e3)
}

/// The same engine, everything taking so many times as long.
fn slower(engine: &EngineConfig, times: f64) -> EngineConfig {
    let of = |ns: u64| (ns as f64 * times).round() as u64;
    EngineConfig {
        step_ns: of(engine.step_ns),
        prefill_token_ns: of(engine.prefill_token_ns),
        decode_sequence_ns: of(engine.decode_sequence_ns),
        // Whole nanoseconds would round a small number away.
        kv_token_ns: of(engine.kv_token_ns).max(1),
        ..engine.clone()
    }
}
