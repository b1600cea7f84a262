//! Two populations on the engine model: what a difference does to latencies.
//!
//! The production side is what one replica of production's would have measured: the source is routed
//! over as many replicas as the other side is a fraction of it, each with a cache of its own, and
//! what they measure is pooled. The other side runs on one replica. The model is so fast that its
//! median answer takes as long as was recorded; where nothing was, so fast that a replica is busy for
//! 60 % of its time. Its memory is the target's where that is known, else a small and a large one.
//! Trust signs, not magnitudes.
//!
//! The cost is bounded: at most [`TURNS_MAX`] turns of each side run, in a stretch of time that both
//! sides have, or on some of the replicas; and at most [`BLOCKS_MAX`] blocks, coarser ones where
//! there would be more. A side that is its other measures exactly the same.

use crate::engine::EngineConfig;
use crate::noise::student;
use crate::population::Population;
use measures::{MEASURES, Measured, Measures};

pub mod measures;
mod pieces;
mod settings;

pub use pieces::Routing;

/// Turns of each side that run: two hours of a replica at three turns a second.
pub const TURNS_MAX: usize = 24_000;

/// Blocks of each side that are looked up: as many as take about a second.
pub const BLOCKS_MAX: usize = 4_000_000;

/// Lengths that may be unknown before nothing can be simulated.
const UNKNOWN_SHARE_MAX: f64 = 0.01;

/// Two sides and what relates them.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// What the replay stands for.
    pub wanted: &'a Population,
    /// The replay.
    pub found: &'a Population,
    /// Share of the wanted rate that the replay should have.
    pub rate_share: f64,
    /// How the wanted side's sessions are spread over replicas, where it has several.
    pub routing: Routing,
    /// Tokens that the target's memory holds, where it says so.
    pub kv_tokens: Option<u64>,
}

/// What the model makes of two sides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulated {
    /// By engine.
    pub engines: Vec<OnEngine>,
    /// Replicas that the wanted side was spread over.
    pub replicas: u64,
    /// Turns of the wanted side that ran, and all it has.
    pub wanted_turns: (u64, u64),
    /// The same of the replay.
    pub found_turns: (u64, u64),
    /// How many blocks of the population are one of the model's.
    pub coarser: u32,
}

impl Simulated {
    /// Whether all turns of both sides ran.
    pub fn is_whole(&self) -> bool {
        // Few replicas are drawn several times.
        let whole = |(ran, all): (u64, u64)| ran >= all;
        whole(self.wanted_turns) && whole(self.found_turns)
    }
}

/// What one engine measures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OnEngine {
    /// The engine.
    pub config: EngineConfig,
    /// The share of its time that a replica of the wanted side is busy.
    pub busy: f64,
    /// Of the wanted side.
    pub wanted: Measured,
    /// Of the replay.
    pub found: Measured,
    /// Of each piece of the wanted side: how much real replicas differ.
    pub each: Vec<Measured>,
}

impl OnEngine {
    /// How far a measure of one piece of the wanted side lies from its mean by chance: the half-width
    /// of the 95 % interval of its logarithm; none for fewer than three pieces.
    pub fn chance_ln(&self, measure: usize) -> Option<f64> {
        let of = |each: &Measured| each.get(measure).copied().flatten();
        let logs = self.each.iter().filter_map(of).filter(|value| *value > 0.0);
        let logs: Vec<f64> = logs.map(f64::ln).collect();
        let mean = crate::quantile::mean(&logs)?;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let freedom = logs.len().saturating_sub(1) as f64;
        (logs.len() > 2).then(|| student::quantile(0.975, freedom) * (squares / freedom).sqrt())
    }
}

/// Runs both sides; says why where it cannot.
pub fn simulate(sides: &Sides<'_>) -> Result<Simulated, String> {
    for (population, whose) in [
        (sides.wanted, "production's"),
        (sides.found, "the replay's"),
    ] {
        if let Some(reason) = missing(population, whose) {
            return Err(reason);
        }
    }
    let cut = pieces::cut(sides);
    let coarser = pieces::coarser(sides, &cut);
    let jobs = |population: &Population, pieces: &[Vec<u32>]| -> Vec<_> {
        let of = |piece: &Vec<u32>| pieces::jobs(population, piece, coarser);
        pieces.iter().map(of).collect()
    };
    let (wanted, found) = (
        jobs(sides.wanted, &cut.wanted),
        jobs(sides.found, &cut.found),
    );
    let block_tokens = pieces::block_tokens(sides.wanted).saturating_mul(coarser);
    let settings = settings::of(sides.kv_tokens, sides.wanted);
    let mut speed = None;
    let engines = settings.iter().map(|setting| {
        let (config, busy) = setting.engine(block_tokens, &wanted, &mut speed);
        let run = |pieces: &[Vec<crate::engine::Job>]| {
            let mut pooled = Measures::default();
            let mut each = Vec::new();
            for jobs in pieces {
                let results = crate::engine::simulate(&config, jobs);
                each.push(Measures::of(jobs, &results).measured());
                pooled.add(jobs, &results);
            }
            (pooled.measured(), each)
        };
        let (wanted, each) = run(&wanted);
        let (found, _) = run(&found);
        OnEngine {
            busy,
            config,
            wanted,
            found,
            each,
        }
    });
    let count = |pieces: &[Vec<u32>]| pieces.iter().map(|piece| piece.len() as u64).sum();
    Ok(Simulated {
        engines: engines.collect(),
        replicas: cut.replicas,
        wanted_turns: (count(&cut.wanted), sides.wanted.turns.len() as u64),
        found_turns: (count(&cut.found), sides.found.turns.len() as u64),
        coarser,
    })
}

fn missing(population: &Population, whose: &str) -> Option<String> {
    let turns = population.turns.len();
    let unknown = |of: fn(&crate::population::PopulationTurn) -> bool| {
        population.turns.iter().filter(|turn| of(turn)).count()
    };
    let prompts = unknown(|turn| turn.input_tokens.is_none());
    let answers = unknown(|turn| turn.output_tokens.is_none());
    let limit = UNKNOWN_SHARE_MAX * turns as f64;
    if turns == 0 {
        return Some(format!("{whose} side has no turn to simulate"));
    }
    let silent = prompts.max(answers);
    (silent as f64 > limit).then(|| {
        format!("{silent} of {turns} of {whose} lengths are unknown: nothing can be simulated")
    })
}

/// The place of a measure by name.
pub fn place(name: &str) -> Option<usize> {
    MEASURES.iter().position(|measure| *measure == name)
}

#[cfg(test)]
mod tests;
