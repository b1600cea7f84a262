//! The statistics of a population of turns.
//!
//! The JSON keys are part of what users script against: `truetape profile --format json` prints a
//! [`Profile`], and a set's manifest holds two. Every number is finite; what is not known is null.
//! The definitions stand in `schemas/spec/report-v1.md`.

use crate::dispersion::{self, Counts, SECOND_US, clock};
use crate::population::Population;
use serde::{Deserialize, Serialize};

pub mod lengths;
pub mod portrait;
pub mod prefix;
pub mod sessions;

/// What to compute beyond the fixed statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Cache capacities of the hit curve, in blocks.
    pub capacities_blocks: Vec<usize>,
    /// Points of the curve where no capacities are named: powers of two, the largest of which holds
    /// every block; 0 for no curve.
    pub curve_points: u32,
    /// Windows of the dispersion of arrivals, in seconds.
    pub windows_s: Vec<u32>,
}

impl Default for Options {
    /// No hit curve beyond the infinite cache, and the windows of a report.
    fn default() -> Self {
        Self {
            capacities_blocks: Vec::new(),
            curve_points: 0,
            windows_s: vec![1, 10, 60, 300],
        }
    }
}

/// The statistics of a population.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Turns, whatever came of them.
    pub turns: u64,
    /// Sessions.
    pub sessions: u64,
    /// Prompt lengths, history included.
    pub input_tokens: Lengths,
    /// Generated lengths, of complete answers only.
    pub output_tokens: Lengths,
    /// Prompt tokens the server took from its cache, as it reported.
    pub cached_tokens: Cached,
    /// Prefix reuse.
    pub prefix: Prefix,
    /// When turns arrive.
    pub arrivals: Arrivals,
    /// Length of sessions.
    pub turns_per_session: Spread,
    /// Time from the end of an answer to the next turn of the session, in seconds.
    pub think_time_s: Spread,
    /// Turns in flight at an arrival, the arriving one included.
    pub concurrency: Spread,
    /// Rank correlation (Spearman) of input and output lengths.
    pub input_output_correlation: Option<f64>,
}

/// A distribution of lengths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lengths {
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Sum of the known lengths.
    pub sum: u64,
    /// Turns whose length is known.
    pub known: u64,
    /// Turns whose length is not known.
    pub unknown: u64,
    /// Mean of the known lengths.
    pub mean: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// The length that half of all tokens do not exceed.
    pub p50_token_weighted: Option<f64>,
    /// The length that 90 % of all tokens do not exceed.
    pub p90_token_weighted: Option<f64>,
    /// Share of all tokens in the longest tenth of the turns.
    pub top10_share: Option<f64>,
}

/// Cached tokens as the server reported them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cached {
    /// Sum of the known counts.
    pub sum: u64,
    /// Turns whose count is known.
    pub known: u64,
    /// Share of prompt tokens, over the turns where both are known.
    pub share: Option<f64>,
}

/// Prefix reuse.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prefix {
    /// Tokens in a block.
    pub block_tokens: Option<u32>,
    /// Blocks asked for.
    pub refs: u64,
    /// Distinct blocks.
    pub unique: u64,
    /// Turns without blocks: nothing is known about their reuse.
    pub turns_without_blocks: u64,
    /// Share of blocks that a cache without bound would have held.
    pub infinite_hit_ratio: Option<f64>,
    /// Hits on blocks that are handed from session to session all the time, as a share of all blocks.
    pub hot_ratio: Option<f64>,
    /// Hits on blocks that the same session had used before.
    pub intra_session_ratio: Option<f64>,
    /// Hits on blocks that only other sessions had used before.
    pub cross_session_ratio: Option<f64>,
    /// Hit ratio of an LRU cache, by capacity.
    pub curve: Vec<CurvePoint>,
}

/// The hit ratio at one capacity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CurvePoint {
    /// Capacity of the cache in blocks.
    pub capacity_blocks: u64,
    /// Hits over blocks asked for.
    pub hit_ratio: Option<f64>,
}

/// When turns arrive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Arrivals {
    /// Time from the first arrival to the last.
    pub span_s: Option<f64>,
    /// Mean rate over that time.
    pub rate_per_s: Option<f64>,
    /// Step of the clock that gave the arrivals, where it is coarser than a microsecond.
    pub clock_resolution_us: Option<i64>,
    /// Whether that step was inferred from the arrivals themselves.
    pub clock_resolution_inferred: bool,
    /// Coefficient of variation of the time between arrivals.
    pub interarrival_cv: Option<f64>,
    /// Dispersion over windows.
    pub dispersion: Vec<Dispersion>,
}

/// Dispersion of arrivals over windows of one length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dispersion {
    /// Length of a window.
    pub window_s: u32,
    /// Index of dispersion: variance over mean of the counts; null where the window is not valid.
    pub idc: Option<f64>,
    /// Largest count over the mean count; null where the window is not valid.
    pub peak_to_mean: Option<f64>,
    /// Full windows.
    pub windows: u64,
    /// Why the window is not valid.
    pub unknown: Option<String>,
}

/// A small distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spread {
    /// Values known.
    pub known: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

/// Computes the statistics of a population.
pub fn profile(population: &Population, options: &Options) -> Profile {
    let turns = &population.turns;
    let turns_per_session = population.turns_per_session();
    Profile {
        turns: turns.len() as u64,
        sessions: turns_per_session.len() as u64,
        input_tokens: lengths::of(turns.iter().map(|turn| turn.input_tokens)),
        output_tokens: lengths::of(turns.iter().map(|turn| turn.output_tokens)),
        cached_tokens: lengths::cached(turns),
        prefix: prefix::of(population, &options.capacities_blocks, options.curve_points),
        arrivals: arrivals(population, &options.windows_s),
        turns_per_session: lengths::spread(turns_per_session.into_iter().map(f64::from).collect()),
        think_time_s: lengths::spread(sessions::think_times_s(population)),
        concurrency: lengths::spread(sessions::concurrency(turns)),
        input_output_correlation: lengths::spearman(turns),
    }
}

/// The step of a population's clock, and whether it was inferred: the coarser of what the recorder
/// states and what the arrivals show, because a recorder can keep microseconds of a coarse clock.
pub fn clock_resolution_us(population: &Population) -> (Option<i64>, bool) {
    let stated = population.clock_resolution_us;
    let inferred = clock::resolution_us(&population.arrivals());
    (stated.max(inferred), inferred > stated)
}

fn arrivals(population: &Population, windows_s: &[u32]) -> Arrivals {
    let arrivals = population.arrivals();
    let span_us = dispersion::span_us(&arrivals);
    let (resolution, inferred) = clock_resolution_us(population);
    let span_s = (!arrivals.is_empty()).then(|| span_us as f64 / SECOND_US as f64);
    let gaps = arrivals.len().saturating_sub(1) as f64;
    Arrivals {
        span_s,
        rate_per_s: span_s.filter(|span| *span > 0.0).map(|span| gaps / span),
        clock_resolution_us: resolution,
        clock_resolution_inferred: inferred,
        interarrival_cv: lengths::interarrival_cv(&arrivals),
        dispersion: windows_s
            .iter()
            .map(|s| window(&arrivals, *s, resolution))
            .collect(),
    }
}

fn window(arrivals: &[i64], window_s: u32, resolution_us: Option<i64>) -> Dispersion {
    let window_us = i64::from(window_s) * SECOND_US;
    let counts = Counts::of(arrivals, window_us);
    let unknown = dispersion::invalid(window_us, dispersion::span_us(arrivals), resolution_us);
    let valid = unknown.is_none();
    Dispersion {
        window_s,
        idc: counts.idc().filter(|_| valid),
        peak_to_mean: counts.peak_to_mean().filter(|_| valid),
        windows: counts.windows,
        unknown,
    }
}

#[cfg(test)]
mod tests;
