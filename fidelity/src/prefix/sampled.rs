//! The hit curve of a sample of the blocks: SHARDS, stratified and adjusted.
//!
//! A block is kept when it is *hot*, or when its hash falls into one of `one_in` classes. A kept
//! block that is not hot stands for `one_in` blocks, in the references it makes and in the depth of
//! others; a hot block stands for itself, because one system prompt that was or was not kept would
//! move the whole curve. What the kept references stand for is then brought to the references that
//! there are. The error falls with the root of the references kept.

use super::fenwick::Weights;
use super::{Curve, HitTable};
use crate::mix::{MixMap, MixSet, mix};

/// References up to which every block is followed: each takes at most 40 bytes (its place in a map,
/// its slot, twice its place on the clock), so at most 640 MiB.
pub const REFS_EXACT_MAX: u64 = 1 << 24;

/// References kept of more than that: an error of a fraction of a thousandth.
const REFS_KEPT: u64 = 1 << 22;

/// One in so many requests is read to learn which blocks are hot.
const HOT_REQUESTS_ONE_IN: usize = 16;

/// A block is hot when this share of the requests refer to it.
const HOT_SHARE_MIN: f64 = 0.01;

/// Requests that must refer to it at least, of those that are read.
const HOT_REQUESTS_MIN: u32 = 4;

/// Slots of a new clock.
const SLOTS_MIN: usize = 1_024;

/// Separates the choice of blocks from other uses of the same mix.
const CHOICE: u64 = 0x5348_4152_4453;

/// One block in how many is kept of so many references; 1 keeps all.
pub fn one_in(refs: u64) -> u64 {
    if refs <= REFS_EXACT_MAX {
        1
    } else {
        refs.div_ceil(REFS_KEPT)
    }
}

/// Estimates the hits of requests, in order, from one block in `one_in` and all hot ones.
pub fn hit_curve<'a>(
    requests: impl Iterator<Item = &'a [u64]> + Clone,
    capacities: &[usize],
    one_in: u64,
) -> Curve {
    let one_in = one_in.max(1);
    let hot = hot_blocks(requests.clone());
    let mut sums = Sums::new(capacities.len());
    let mut clock = Clock::new();
    let mut kept = Vec::new();
    for blocks in requests {
        sums.refs += blocks.len() as u64;
        keep(blocks, &hot, one_in, &mut kept);
        sums.hot_refs += kept.iter().filter(|(block, _)| hot.contains(block)).count() as u64;
        clock.request(&kept, |weight, depth| sums.hit(weight, depth, capacities));
        sums.kept += kept.iter().map(|(_, weight)| weight).sum::<u64>();
    }
    sums.curve(capacities, clock.total, one_in)
}

/// Estimates the hits of each request: a sum over a thousand of them is about right, one may be far
/// off.
pub fn hit_table<'a>(
    requests: impl Iterator<Item = &'a [u64]> + Clone,
    capacities: &[usize],
    one_in: u64,
) -> HitTable {
    let one_in = one_in.max(1);
    let hot = hot_blocks(requests.clone());
    let mut table = HitTable::empty(requests.clone().count(), capacities.len());
    let mut clock = Clock::new();
    let mut kept = Vec::new();
    let mut row = vec![0_u32; capacities.len() + 1];
    for (request, blocks) in requests.enumerate() {
        keep(blocks, &hot, one_in, &mut kept);
        row.fill(0);
        clock.request(&kept, |weight, depth| {
            let weight = u32::try_from(weight).unwrap_or(u32::MAX);
            let bounds = capacities.iter().map(|capacity| *capacity as u64);
            for (hits, bound) in row.iter_mut().zip(bounds.chain(std::iter::once(u64::MAX))) {
                if depth < bound {
                    *hits = hits.saturating_add(weight);
                }
            }
        });
        table.set(request, &row);
    }
    table
}

/// The blocks of a request that are followed, each with what it stands for.
fn keep(blocks: &[u64], hot: &MixSet, one_in: u64, kept: &mut Vec<(u64, u64)>) {
    kept.clear();
    kept.extend(blocks.iter().filter_map(|block| {
        if hot.contains(block) {
            return Some((*block, 1));
        }
        mix(block ^ CHOICE)
            .is_multiple_of(one_in)
            .then_some((*block, one_in))
    }));
}

/// Blocks that many requests refer to.
fn hot_blocks<'a>(requests: impl Iterator<Item = &'a [u64]>) -> MixSet {
    let mut uses: MixMap<u32> = MixMap::default();
    let mut read = 0_u32;
    for blocks in requests.step_by(HOT_REQUESTS_ONE_IN) {
        read += 1;
        for block in blocks {
            *uses.entry(*block).or_default() += 1;
        }
    }
    let least = (HOT_SHARE_MIN * f64::from(read)).max(f64::from(HOT_REQUESTS_MIN));
    let hot = uses
        .into_iter()
        .filter(|(_, uses)| f64::from(*uses) >= least);
    hot.map(|(block, _)| block).collect()
}

/// What is added up on the way.
struct Sums {
    refs: u64,
    hot_refs: u64,
    /// What the kept references stand for.
    kept: u64,
    infinite: [u64; 2],
    /// Hits of hot blocks, and of the others, at each capacity.
    hits: Vec<[u64; 2]>,
}

impl Sums {
    fn new(capacities: usize) -> Self {
        Self {
            refs: 0,
            hot_refs: 0,
            kept: 0,
            infinite: [0; 2],
            hits: vec![[0; 2]; capacities],
        }
    }

    fn hit(&mut self, weight: u64, depth: u64, capacities: &[usize]) {
        let kind = usize::from(weight > 1);
        self.infinite[kind] += weight;
        for (hits, capacity) in self.hits.iter_mut().zip(capacities) {
            if depth < *capacity as u64 {
                hits[kind] += weight;
            }
        }
    }

    /// Brings what the kept references stand for to what there is.
    fn curve(self, capacities: &[usize], unique: u64, one_in: u64) -> Curve {
        let cold_kept = self.kept - self.hot_refs;
        let cold = self.refs - self.hot_refs;
        let adjust = if cold_kept > 0 {
            cold as f64 / cold_kept as f64
        } else {
            1.0
        };
        let whole = |[hot, cold]: [u64; 2]| (hot as f64 + cold as f64 * adjust).round() as u64;
        Curve {
            refs: self.refs,
            unique,
            infinite_hits: whole(self.infinite),
            capacities: capacities.to_vec(),
            hits: self.hits.into_iter().map(whole).collect(),
            one_in,
        }
    }
}

/// The LRU stack of blocks that stand for more than themselves.
struct Clock {
    index: MixMap<u32>,
    /// The slot and the weight of each index.
    last: Vec<(u32, u64)>,
    /// The index in each slot used so far.
    occupant: Vec<u32>,
    weights: Weights,
    total: u64,
    seen: Vec<u32>,
}

impl Clock {
    fn new() -> Self {
        Self {
            index: MixMap::default(),
            last: Vec::new(),
            occupant: Vec::new(),
            weights: Weights::new(SLOTS_MIN),
            total: 0,
            seen: Vec::new(),
        }
    }

    /// Looks up the leading run of a request, then moves it to the top, its tail first.
    fn request(&mut self, kept: &[(u64, u64)], mut hit: impl FnMut(u64, u64)) {
        self.seen.clear();
        let mut deepest = 0;
        for (block, weight) in kept {
            let Some(&index) = self.index.get(block) else {
                break;
            };
            let Some((slot, _)) = self.last.get(index as usize) else {
                break;
            };
            deepest = self.weights.after(*slot as usize).max(deepest);
            hit(*weight, deepest);
            self.seen.push(index);
        }
        for (block, weight) in kept.iter().skip(self.seen.len()).rev() {
            let next = self.last.len() as u32;
            let index = *self.index.entry(*block).or_insert(next);
            self.raise(index, *weight);
        }
        for place in (0..self.seen.len()).rev() {
            if let Some(&index) = self.seen.get(place) {
                self.raise(index, 0);
            }
        }
    }

    fn raise(&mut self, index: u32, weight_of_new: u64) {
        if self.occupant.len() == self.weights.slots() {
            self.compact();
        }
        let slot = self.occupant.len() as u32;
        let weight = match self.last.get_mut(index as usize) {
            Some((last, weight)) => {
                self.weights.take(*last as usize, *weight);
                *last = slot;
                *weight
            }
            None => {
                self.last.push((slot, weight_of_new));
                self.total += weight_of_new;
                weight_of_new
            }
        };
        self.weights.add(slot as usize, weight);
        self.occupant.push(index);
    }

    fn compact(&mut self) {
        let last = &mut self.last;
        let mut at = 0_u32..;
        let mut slot = 0_u32;
        self.occupant.retain(|index| {
            let here = at.next();
            let live = last
                .get_mut(*index as usize)
                .filter(|(last, _)| Some(*last) == here);
            let is_live = live.is_some();
            if let Some((last, _)) = live {
                *last = slot;
                slot += 1;
            }
            is_live
        });
        self.weights = Weights::new(SLOTS_MIN.max(2 * self.occupant.len()));
        for (slot, weight) in &self.last {
            self.weights.add(*slot as usize, *weight);
        }
    }
}
