//! What one replica is on average, computed from the replicas that production has or is said to have.

use super::family::families;
use super::fleet::loads;
use super::judge::{self, Latencies, Measured};
use super::source::{Source, Units};
use super::work::{Dispersion, Load, Work};
use truetape_fidelity::engine::EngineConfig;
use truetape_fidelity::mix::mix;
use truetape_fidelity::population::PopulationTurn;
use truetape_fidelity::prefix::{HitTable, hit_table};

/// Capacities at which hits are matched, as multiples of the engine's memory.
const CAPACITIES: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// The one of them that is the engine's own.
const OWN: usize = 1;

/// Separates the routing from other uses of the same numbers.
const ROUTE: u64 = 0x524F_5554_4500;

/// How production spreads its traffic over replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// As the capture shows.
    Captured,
    /// A session stays on one replica.
    Session(u16),
    /// Sessions with a common prefix stay on one replica.
    Prefix(u16),
}

/// The replica of each turn, and how many there are.
pub fn route(source: &Source<'_>, routing: Routing) -> (Vec<u16>, u16) {
    let turns = 0..source.population.turns.len();
    match routing {
        Routing::Captured => {
            let count = source.replica.iter().max().map_or(1, |last| last + 1);
            (source.replica.clone(), count)
        }
        Routing::Session(replicas) => {
            let replicas = replicas.max(1);
            let of = |session: usize| {
                let random = source.random.get(session).copied().unwrap_or_default();
                (mix(random ^ ROUTE) % u64::from(replicas)) as u16
            };
            (
                turns.map(|turn| of(source.session(turn))).collect(),
                replicas,
            )
        }
        Routing::Prefix(replicas) => {
            let replicas = replicas.max(1);
            let units = Units::new(source, &families(source, 1.0 / f64::from(replicas)).labels);
            let of = |session: usize| {
                let unit = units.of_session.get(session).copied().unwrap_or_default();
                (mix(u64::from(unit) ^ ROUTE) % u64::from(replicas)) as u16
            };
            (
                turns.map(|turn| of(source.session(turn))).collect(),
                replicas,
            )
        }
    }
}

/// What a replica is on average.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Turns of each replica.
    pub turns: Vec<Vec<u32>>,
    /// Hits of each turn in its own replica's traffic.
    pub(super) hits: HitTable,
    /// Capacities of those hits.
    pub(super) capacities: Vec<usize>,
    /// What arrives with each turn.
    pub(super) loads: Vec<Load>,
    /// The mean dispersion of the replicas' work.
    pub work: Dispersion,
    /// By setting: what all replicas measure together.
    pub pooled: Vec<Measured>,
    /// By setting: what each replica measures.
    pub each: Vec<Vec<Measured>>,
}

impl Reference {
    /// Computes the reference of a source that is spread over replicas: hits around the memory of an
    /// engine, latencies on several.
    pub fn new(
        source: &Source<'_>,
        replicas: &(Vec<u16>, u16),
        engine: &EngineConfig,
        engines: &[EngineConfig],
        hidden_us: i64,
    ) -> Self {
        let (of_turn, count) = replicas;
        let mut turns = vec![Vec::new(); usize::from(*count)];
        for (turn, replica) in (0_u32..).zip(of_turn) {
            if let Some(turns) = turns.get_mut(usize::from(*replica)) {
                turns.push(turn);
            }
        }
        let memory = engine.kv_blocks;
        let capacities = CAPACITIES
            .map(|factor| (memory as f64 * factor) as usize)
            .to_vec();
        let hits = hits_by_replica(source, &turns, &capacities);
        let loads = loads(source, &hits, OWN);
        let work = mean_dispersion(source, &turns, &loads, hidden_us);
        let mut pooled = Vec::new();
        let mut each = Vec::new();
        for engine in engines {
            let mut together = Latencies::default();
            let mut own = Vec::new();
            for turns in &turns {
                let jobs = judge::jobs(source, turns, engine.block_tokens, hidden_us);
                let results = truetape_fidelity::engine::simulate(engine, &jobs);
                together.add(&jobs, &results);
                let mut alone = Latencies::default();
                alone.add(&jobs, &results);
                own.push(alone.measured());
            }
            pooled.push(together.measured());
            each.push(own);
        }
        Self {
            turns,
            hits,
            capacities,
            loads,
            work,
            pooled,
            each,
        }
    }

    /// The replica that is nearest to what all measure together; to the mean load, where nothing was
    /// measured.
    pub fn typical(&self, source: &Source<'_>) -> Option<usize> {
        let tokens = |turns: &Vec<u32>| -> f64 {
            turns
                .iter()
                .map(|turn| source.tokens(*turn as usize) as f64)
                .sum()
        };
        let mean = source.tokens_all() as f64 / self.turns.len().max(1) as f64;
        let misfit = |replica: usize| -> f64 {
            let settings = self.each.iter().zip(&self.pooled);
            let measured = settings
                .filter_map(|(each, pooled)| Some(judge::misfit(each.get(replica)?, pooled)));
            let load = self.turns.get(replica).map_or(0.0, tokens) / mean.max(1.0);
            measured.sum::<f64>() + (load - 1.0).powi(2)
        };
        (0..self.turns.len()).min_by(|a, b| misfit(*a).total_cmp(&misfit(*b)))
    }
}

/// Share of its time that a replica of the engine at hand is busy.
const BUSY: f64 = 0.6;

/// Memory of that engine, in tokens: what a card of 80 GB has left beside a model of 70 billion
/// weights in eight bits, about.
const MEMORY_TOKENS: u64 = 1_382_400;

/// How much slower or faster than the reference engine it may be.
const TIME_MIN: f64 = 0.02;
const TIME_MAX: f64 = 50.0;

/// An engine that the traffic of a replica keeps busy for 60 % of the time: how fast production's is
/// nobody says, and queues depend on little else.
pub fn busy_engine(
    source: &Source<'_>,
    replicas: &(Vec<u16>, u16),
    block_tokens: u32,
) -> EngineConfig {
    let engine = EngineConfig {
        block_tokens,
        kv_blocks: MEMORY_TOKENS / u64::from(block_tokens.max(1)),
        ..EngineConfig::default()
    };
    let reference = Reference::new(source, replicas, &engine, &[], 1);
    let turns = &source.population.turns;
    let work_ns = |(turn, load): (&PopulationTurn, &Load)| {
        let [prefill, output] = load.map(f64::from);
        let context = turn.input_tokens.unwrap_or(0) as f64 + output / 2.0;
        let token_ns = engine.decode_sequence_ns as f64 + engine.kv_token_ns as f64 * context;
        prefill * engine.prefill_token_ns as f64 + output * token_ns
    };
    let all_ns: f64 = turns.iter().zip(&reference.loads).map(work_ns).sum();
    let span_us = match (turns.first(), turns.last()) {
        (Some(first), Some(last)) => last.arrival_us.saturating_sub(first.arrival_us),
        _ => 0,
    };
    let busy = all_ns / f64::from(replicas.1.max(1)) / (span_us as f64 * 1e3).max(1.0);
    let time = (BUSY / busy.max(1e-9)).clamp(TIME_MIN, TIME_MAX);
    judge::Setting {
        memory: 1.0,
        time,
        step_tokens: 1.0,
    }
    .of(&engine)
}

fn hits_by_replica(source: &Source<'_>, turns: &[Vec<u32>], capacities: &[usize]) -> HitTable {
    let all = &source.population.turns;
    let mut hits = HitTable::empty(all.len(), capacities.len());
    for turns in turns {
        let blocks = turns.iter().filter_map(|turn| all.get(*turn as usize));
        let own = hit_table(blocks.map(|turn| turn.blocks.as_slice()), capacities);
        for (place, turn) in turns.iter().enumerate() {
            hits.set(*turn as usize, own.of(place));
        }
    }
    hits
}

/// The mean over the replicas of the logarithm of each one's dispersion.
fn mean_dispersion(
    source: &Source<'_>,
    turns: &[Vec<u32>],
    loads: &[Load],
    resolution_us: i64,
) -> Dispersion {
    let mut sums = [[(0.0, 0.0); 2]; 3];
    for turns in turns {
        let mut work = Work::new(source, loads, resolution_us);
        for turn in turns {
            work.turn(*turn as usize, true);
        }
        for (sums, found) in sums.iter_mut().zip(work.dispersion()) {
            for ((sum, count), found) in sums.iter_mut().zip(found) {
                if let Some(found) = found.filter(|found| *found > 0.0) {
                    *sum += found.ln();
                    *count += 1.0;
                }
            }
        }
    }
    sums.map(|scale| {
        scale.map(|(sum, count): (f64, f64)| (count > 0.0).then(|| (sum / count).exp()))
    })
}
