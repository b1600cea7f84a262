//! Prefix reuse: how much, at what capacity, and whose.
//!
//! With a cache without bound, a hit is *hot* when its block is handed from one session to another
//! all the time (a system prompt, tool definitions), else *intra* when the same session had used the
//! block before, else *cross*. The three add up to the infinite hit ratio.

use super::{CurvePoint, Prefix};
use crate::mix::{MixMap, MixSet, mix};
use crate::population::Population;
use crate::prefix::hit_curve;

/// A block is hot when it is handed from session to session at least this often ...
pub const HOT_HANDOVERS_MIN: usize = 20;

/// ... and at least once in this many turns.
pub const HOT_TURNS_PER_HANDOVER: usize = 100;

/// Handovers that make a block hot in a population of that size.
pub fn hot_handovers(population: &Population) -> usize {
    HOT_HANDOVERS_MIN.max(population.turns.len() / HOT_TURNS_PER_HANDOVER)
}

/// Describes the prefix reuse of a population, with the hit curve at the given capacities, or where
/// none are given at so many that are spread over what there is.
pub fn of(population: &Population, capacities_blocks: &[usize], points: u32) -> Prefix {
    let reuse = Reuse::of(population, hot_handovers(population));
    match capacities_blocks {
        [] => reuse.describe(population, &spread(reuse.unique, points)),
        asked => reuse.describe(population, asked),
    }
}

/// Powers of two, the largest of which holds every block.
fn spread(unique: usize, points: u32) -> Vec<usize> {
    if unique == 0 || points == 0 {
        return Vec::new();
    }
    let largest = unique.next_power_of_two().ilog2();
    let least = largest.saturating_sub(points - 1);
    (least..=largest).map(|power| 1 << power).collect()
}

/// Hits of a cache without bound.
///
/// Two passes over the blocks, of which only the first looks anything up by hash: with a hundred
/// million blocks the lookups are the cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reuse {
    /// Blocks asked for.
    pub refs: u64,
    /// Distinct blocks.
    pub unique: usize,
    /// Hot blocks: what a system prompt takes of a cache, whatever else is in it.
    pub hot_blocks: usize,
    /// Their hashes.
    pub hot_hashes: MixSet,
    /// Hits on hot blocks.
    pub hot: u64,
    /// Hits on blocks the session had used.
    pub intra: u64,
    /// Hits on blocks only others had used.
    pub cross: u64,
    /// Hits of each turn: the leading run of blocks that were seen before.
    pub hits_per_turn: Vec<u32>,
}

impl Reuse {
    /// Measures a population, in which so many handovers make a block hot.
    pub fn of(population: &Population, hot_handovers: usize) -> Self {
        Self::measure(population, |_, block| {
            block.handovers as usize >= hot_handovers
        })
    }

    /// Measures a sample of a population whose hot blocks are known: what a block is does not depend
    /// on how much of it was drawn.
    pub fn of_sample(population: &Population, hot: &MixSet) -> Self {
        Self::measure(population, |hash, _| hot.contains(&hash))
    }

    fn measure(population: &Population, is_hot: impl Fn(u64, &Block) -> bool) -> Self {
        let (numbers, mut blocks, hashes) = number_blocks(population);
        for (block, hash) in blocks.iter_mut().zip(&hashes) {
            block.hot = is_hot(*hash, block);
        }
        let hot_hashes = blocks.iter().zip(&hashes).filter(|(block, _)| block.hot);
        let mut reuse = Self {
            refs: numbers.len() as u64,
            unique: blocks.len(),
            hot_blocks: hot_hashes.clone().count(),
            hot_hashes: hot_hashes.map(|(_, hash)| *hash).collect(),
            ..Self::default()
        };
        // Only blocks that change hands are listed here, so a session's own history costs nothing;
        // hot blocks would fill the list and need no entry.
        let mut used_before = MixSet::default();
        let mut rest = numbers.as_slice();
        for turn in &population.turns {
            let (own, others) = rest.split_at(turn.blocks.len().min(rest.len()));
            rest = others;
            let hits = reuse.turn(turn.session, own, &mut blocks, &mut used_before);
            reuse.hits_per_turn.push(hits);
        }
        reuse
    }

    fn turn(
        &mut self,
        session: u32,
        numbers: &[u32],
        blocks: &mut [Block],
        used_before: &mut MixSet,
    ) -> u32 {
        let mut hits = 0;
        let mut cached = true;
        for number in numbers {
            let Some(block) = blocks.get_mut(*number as usize) else {
                continue;
            };
            let hot = block.hot;
            let own = block.last == Some(session);
            let changed_hands = !own && block.last.is_some() && !hot;
            cached &= block.last.is_some();
            if cached {
                hits += 1;
                let again = || changed_hands && used_before.contains(&pair(*number, session));
                let kind = match (hot, own || again()) {
                    (true, _) => &mut self.hot,
                    (false, true) => &mut self.intra,
                    (false, false) => &mut self.cross,
                };
                *kind += 1;
            }
            if changed_hands && let Some(last) = block.last {
                used_before.insert(pair(*number, last));
            }
            block.last = Some(session);
        }
        hits
    }

    /// Puts the shares beside a hit curve. Without capacities there is no curve to compute.
    pub fn describe(&self, population: &Population, capacities_blocks: &[usize]) -> Prefix {
        let turns = &population.turns;
        let share = |hits: u64| (self.refs > 0).then(|| hits as f64 / self.refs as f64);
        let hits = if capacities_blocks.is_empty() {
            Vec::new()
        } else {
            hit_curve(
                turns.iter().map(|turn| turn.blocks.as_slice()),
                capacities_blocks,
            )
            .hits
        };
        let points = capacities_blocks.iter().zip(hits);
        Prefix {
            block_tokens: population.block_tokens,
            refs: self.refs,
            unique: self.unique as u64,
            turns_without_blocks: turns.iter().filter(|turn| turn.blocks.is_empty()).count() as u64,
            infinite_hit_ratio: share(self.hot + self.intra + self.cross),
            hot_ratio: share(self.hot),
            intra_session_ratio: share(self.intra),
            cross_session_ratio: share(self.cross),
            curve: points
                .map(|(capacity, hits)| CurvePoint {
                    capacity_blocks: *capacity as u64,
                    hit_ratio: share(hits),
                })
                .collect(),
        }
    }
}

/// What is known of a block.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The session that used it last; none before its first use.
    last: Option<u32>,
    /// How often it goes from one session to another in the whole population.
    handovers: u32,
    hot: bool,
}

/// Gives each distinct block a number, and each reference its block's, in order; and the hash of each.
fn number_blocks(population: &Population) -> (Vec<u32>, Vec<Block>, Vec<u64>) {
    let refs = population.turns.iter().map(|turn| turn.blocks.len()).sum();
    let mut numbers = Vec::with_capacity(refs);
    let mut blocks: Vec<Block> = Vec::new();
    let mut hashes: Vec<u64> = Vec::new();
    let mut known: MixMap<u32> = MixMap::default();
    for turn in &population.turns {
        for hash in &turn.blocks {
            let number = *known.entry(*hash).or_insert_with(|| {
                blocks.push(Block {
                    last: None,
                    handovers: 0,
                    hot: false,
                });
                hashes.push(*hash);
                u32::try_from(blocks.len() - 1).unwrap_or(u32::MAX)
            });
            if let Some(block) = blocks.get_mut(number as usize) {
                block.handovers += u32::from(block.last.is_some_and(|last| last != turn.session));
                block.last = Some(turn.session);
            }
            numbers.push(number);
        }
    }
    for block in &mut blocks {
        block.last = None;
    }
    (numbers, blocks, hashes)
}

/// A block in the hands of a session, as one key; no two pairs share one.
fn pair(number: u32, session: u32) -> u64 {
    mix(u64::from(number) << 32 | u64::from(session))
}
