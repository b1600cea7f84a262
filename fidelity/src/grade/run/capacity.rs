//! The target's cache against the set's share of production's.
//!
//! A tenth of the traffic against a whole cache reuses more than production does. Production's cache
//! is taken for that of as many targets as there were replicas: how large it was, no capture says.

use super::Log;
use crate::grade::draft::{Draft, Unit};
use crate::prefix::hit_curve;
use std::collections::HashSet;
use truetape_schemas::report::{Dimension, Level};
use truetape_schemas::set::Turn;

/// Tolerance of the hits.
const HITS_POINTS: f64 = 0.02;

/// Selections that are a stretch of time at the whole rate: their cache is production's.
const WHOLE_RATE: [&str; 2] = ["all", "window"];

/// What a set is of production, as far as a cache is concerned.
struct Part {
    /// Share of production's prompts that a cache sees.
    share: f64,
    /// Replicas that production had.
    replicas: f64,
    /// Blocks that take room whatever the share.
    hot_blocks: f64,
}

pub(super) fn dimension(log: &Log<'_>) -> Dimension {
    let blocks = blocks_of(log);
    let part = Part::of(log);
    let capacity = blocks.as_ref().ok().copied();
    let scaled = capacity.zip(part.as_ref().ok()).map(|(capacity, part)| {
        let production = part.replicas * capacity;
        let free = (production - part.hot_blocks).max(0.0);
        part.hot_blocks.min(production) + part.share * free
    });
    let hits = capacity.zip(scaled).and_then(|(capacity, scaled)| {
        let capacities = [capacity, scaled].map(|blocks| blocks.round() as usize);
        let turns = log.planned.iter();
        let requests = turns.map(|turn| turn.block_hashes.as_deref().unwrap_or_default());
        match hit_curve(requests, &capacities).hit_ratios().as_slice() {
            [value, target] => Some((*value, *target)),
            _ => None,
        }
    });
    let draft = Draft::new(
        "run.cache.capacity",
        "hits at the target's capacity, against the set's share of production's",
        Unit::RatioPoints,
        HITS_POINTS,
    )
    .compare(hits.map(|(value, _)| value), hits.map(|(_, target)| target));
    let why = blocks.err().or(part.err());
    let draft = draft.unknown_if(why.is_some(), || why.clone().unwrap_or_default());
    match (capacity, scaled) {
        (Some(capacity), Some(scaled)) => draft.note(format!(
            "the target's cache holds {capacity:.0} of the set's blocks; {scaled:.0} are the set's \
             share, if production's replicas were like the target"
        )),
        _ => draft,
    }
    .finish(Level::RunAgainstSet)
}

/// The target's cache in blocks of the set.
fn blocks_of(log: &Log<'_>) -> Result<f64, String> {
    let hashed = |turn: &&Turn| turn.block_hashes.as_ref().is_some_and(|b| !b.is_empty());
    let block = log.manifest.block_tokens.filter(|block| *block > 0);
    let Some(block) = block.filter(|_| log.planned.iter().any(hashed)) else {
        return Err("the set has no block hashes".to_owned());
    };
    let tokens = log.run.engine.kv_tokens.filter(|tokens| *tokens > 0);
    let tokens = tokens.ok_or("the target does not say how many tokens its cache holds")?;
    Ok(tokens as f64 / f64::from(block))
}

impl Part {
    fn of(log: &Log<'_>) -> Result<Self, String> {
        let Some(selection) = &log.manifest.selection else {
            return Err("the set does not say which part of production it is".to_owned());
        };
        let one_replica = log.manifest.semantics.view == "replica" || selection.method == "replica";
        if one_replica && selection.replicas.is_none_or(|replicas| replicas <= 1) {
            // What one replica saw, on one replica.
            return Ok(Self {
                share: 1.0,
                replicas: 1.0,
                hot_blocks: 0.0,
            });
        }
        let share = if WHOLE_RATE.contains(&selection.method.as_str()) {
            1.0
        } else {
            selection.share_got
        };
        if !(share.is_finite() && share > 0.0) {
            return Err("the set does not say which part of production it is".to_owned());
        }
        let replicas = selection.replicas.map_or_else(|| upstreams(log), f64::from);
        Ok(Self {
            share: if one_replica { 1.0 / replicas } else { share },
            replicas,
            hot_blocks: selection.hot_blocks.unwrap_or(0) as f64,
        })
    }
}

/// The servers that the set's turns were recorded at; one where none is named.
fn upstreams(log: &Log<'_>) -> f64 {
    let named: HashSet<(&str, &str)> = log
        .turns
        .iter()
        .filter(|turn| !turn.upstream.is_empty())
        .map(|turn| (turn.upstream.as_str(), turn.proxy_id.as_str()))
        .collect();
    named.len().max(1) as f64
}
