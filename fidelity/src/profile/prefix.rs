//! Prefix reuse: how much, at what capacity, and whose.
//!
//! With a cache without bound, a hit is *hot* when its block is handed from one session to another
//! all the time (a system prompt, tool definitions), else *intra* when the same session had used the
//! block before, else *cross*. The three add up to the infinite hit ratio.

use super::{CurvePoint, Prefix};
use crate::mix::{MixMap, MixSet};
use crate::population::Population;
use crate::prefix::hit_curve;

/// A block is hot when it is handed from session to session at least this often ...
pub const HOT_HANDOVERS_MIN: usize = 20;

/// ... and at least once in this many turns.
pub const HOT_TURNS_PER_HANDOVER: usize = 100;

/// Describes the prefix reuse of a population, with the hit curve at the given capacities.
pub fn of(population: &Population, capacities_blocks: &[usize]) -> Prefix {
    with_hot(population, capacities_blocks, hot_handovers(population))
}

/// The same, with the handovers that make a block hot.
pub fn with_hot(population: &Population, capacities_blocks: &[usize], hot: usize) -> Prefix {
    let turns = &population.turns;
    let curve = hit_curve(
        turns.iter().map(|turn| turn.blocks.as_slice()),
        capacities_blocks,
    );
    let share = |hits: u64| (curve.refs > 0).then(|| hits as f64 / curve.refs as f64);
    let kinds = if curve.refs > 0 {
        Kinds::with_hot(population, hot)
    } else {
        Kinds::default()
    };
    Prefix {
        block_tokens: population.block_tokens,
        refs: curve.refs,
        unique: curve.unique,
        turns_without_blocks: turns.iter().filter(|turn| turn.blocks.is_empty()).count() as u64,
        infinite_hit_ratio: curve.infinite_hit_ratio(),
        hot_ratio: share(kinds.hot),
        intra_session_ratio: share(kinds.intra),
        cross_session_ratio: share(kinds.cross),
        curve: capacities_blocks
            .iter()
            .zip(&curve.hits)
            .map(|(capacity, hits)| CurvePoint {
                capacity_blocks: *capacity as u64,
                hit_ratio: share(*hits),
            })
            .collect(),
    }
}

/// Number of hot blocks: what a system prompt takes of a cache, whatever else is in it.
pub fn hot_blocks(population: &Population) -> usize {
    let hot = hot_handovers(population);
    handovers(population)
        .values()
        .filter(|block| block.handovers as usize >= hot)
        .count()
}

/// Handovers that make a block hot in a population of that size.
pub fn hot_handovers(population: &Population) -> usize {
    HOT_HANDOVERS_MIN.max(population.turns.len() / HOT_TURNS_PER_HANDOVER)
}

/// Hits of an infinite cache, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Hits on hot blocks.
    pub hot: u64,
    /// Hits on blocks the session had used.
    pub intra: u64,
    /// Hits on blocks only others had used.
    pub cross: u64,
}

/// What the walk knows of a block.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The session that used it last; none before its first use.
    last: Option<u32>,
    /// How often it went from one session to another in the whole population.
    handovers: u32,
}

impl Kinds {
    /// Classifies the hits of a population.
    pub fn of(population: &Population) -> Self {
        Self::with_hot(population, hot_handovers(population))
    }

    fn with_hot(population: &Population, hot: usize) -> Self {
        let mut blocks = handovers(population);
        // Only blocks that change hands are listed here, so a session's own history costs nothing;
        // hot blocks would fill the list and need no entry.
        let mut used_before = MixSet::default();
        let mut kinds = Self::default();
        for turn in &population.turns {
            let mut cached = true;
            for hash in &turn.blocks {
                let Some(block) = blocks.get_mut(hash) else {
                    continue;
                };
                cached &= block.last.is_some();
                let is_hot = block.handovers as usize >= hot;
                let own = block.last == Some(turn.session);
                let changed_hands = !own && block.last.is_some() && !is_hot;
                if cached {
                    let intra =
                        own || (changed_hands && used_before.contains(&pair(*hash, turn.session)));
                    kinds.add(is_hot, intra);
                }
                if changed_hands && let Some(last) = block.last {
                    used_before.insert(pair(*hash, last));
                }
                block.last = Some(turn.session);
            }
        }
        kinds
    }

    fn add(&mut self, hot: bool, intra: bool) {
        let kind = match (hot, intra) {
            (true, _) => &mut self.hot,
            (false, true) => &mut self.intra,
            (false, false) => &mut self.cross,
        };
        *kind += 1;
    }
}

fn handovers(population: &Population) -> MixMap<Block> {
    let mut blocks: MixMap<Block> = MixMap::default();
    for turn in &population.turns {
        for hash in &turn.blocks {
            let block = blocks.entry(*hash).or_insert(Block {
                last: None,
                handovers: 0,
            });
            if block.last.is_some_and(|last| last != turn.session) {
                block.handovers += 1;
            }
            block.last = Some(turn.session);
        }
    }
    for block in blocks.values_mut() {
        block.last = None;
    }
    blocks
}

/// A block in the hands of a session, as one key: 64 bits mixed, so that two pairs are the same by
/// chance once in 2^64.
fn pair(hash: u64, session: u32) -> u64 {
    crate::mix::mix(hash) ^ crate::mix::mix(u64::from(session).wrapping_add(1) << 32)
}
