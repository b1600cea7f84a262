//! Prefix-cache hits at every capacity, in one pass: Mattson's stack distances.
//!
//! A request hits a *prefix*: at capacity `C` its hits are the leading run of blocks that have
//! fewer than `C` distinct blocks more recent than themselves. All blocks of a request are looked
//! up before any is moved, and they are moved tail first, so that every ancestor stays more recent
//! than its descendants: eviction takes leaves first, as in the engines, and LRU inclusion holds.

use stack::Stack;

mod fenwick;
pub mod handed;
pub mod sampled;
pub mod stack;

/// Hits of a sequence of requests, at every capacity asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// Blocks referred to, with repetition.
    pub refs: u64,
    /// Distinct blocks.
    pub unique: u64,
    /// Hits of a cache without bound.
    pub infinite_hits: u64,
    /// Capacities, in blocks, in the order asked for.
    pub capacities: Vec<usize>,
    /// Hits at each capacity.
    pub hits: Vec<u64>,
    /// One block in so many was followed (hot blocks all); 1 where the numbers are exact.
    pub one_in: u64,
}

impl Curve {
    /// Share of the references that hit without bound; unknown for no references.
    pub fn infinite_hit_ratio(&self) -> Option<f64> {
        self.ratio(self.infinite_hits)
    }

    /// Share of the references that hit, per capacity; empty for no references.
    pub fn hit_ratios(&self) -> Vec<f64> {
        self.hits
            .iter()
            .filter_map(|&hits| self.ratio(hits))
            .collect()
    }

    fn ratio(&self, hits: u64) -> Option<f64> {
        (self.refs > 0).then(|| hits as f64 / self.refs as f64)
    }
}

/// Counts the hits of requests, in order, at every capacity at once; estimates them from a sample of
/// the blocks where there are more than [`sampled::REFS_EXACT_MAX`] references.
pub fn hit_curve<'a>(
    requests: impl Iterator<Item = &'a [u64]> + Clone,
    capacities: &[usize],
) -> Curve {
    let refs = requests.clone().map(|blocks| blocks.len() as u64).sum();
    match sampled::one_in(refs) {
        1 => exact_curve(requests, capacities),
        one_in => sampled::hit_curve(requests, capacities, one_in),
    }
}

fn exact_curve<'a>(requests: impl Iterator<Item = &'a [u64]>, capacities: &[usize]) -> Curve {
    let mut stack = Stack::new();
    let mut refs = 0;
    let mut depths = Vec::new();
    let mut by_depth: Vec<u64> = Vec::new();
    for blocks in requests {
        refs += blocks.len() as u64;
        stack.request(blocks, &mut depths);
        if let Some(&deepest) = depths.last() {
            by_depth.resize(by_depth.len().max(deepest + 1), 0);
        }
        for &depth in &depths {
            by_depth[depth] += 1;
        }
    }
    let hits_below = |capacity: &usize| by_depth.iter().take(*capacity).sum();
    Curve {
        refs,
        unique: stack.live() as u64,
        infinite_hits: by_depth.iter().sum(),
        capacities: capacities.to_vec(),
        hits: capacities.iter().map(hits_below).collect(),
        one_in: 1,
    }
}

/// Hits of each request at several capacities, as found in one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitTable {
    capacities: usize,
    hits: Vec<u32>,
}

impl HitTable {
    /// A table of no hits, to be filled from the tables of caches that each saw a part.
    pub fn empty(requests: usize, capacities: usize) -> Self {
        Self {
            capacities,
            hits: vec![0; requests * (capacities + 1)],
        }
    }

    /// Sets the hits of one request.
    pub fn set(&mut self, request: usize, hits: &[u32]) {
        let width = self.capacities + 1;
        let start = request.saturating_mul(width);
        if let Some(slots) = self.hits.get_mut(start..start + width) {
            slots
                .iter_mut()
                .zip(hits)
                .for_each(|(slot, hits)| *slot = *hits);
        }
    }

    /// The hits of one request: a number for each capacity, and last that of a cache without bound.
    pub fn of(&self, request: usize) -> &[u32] {
        let width = self.capacities + 1;
        let start = request.saturating_mul(width);
        self.hits.get(start..start + width).unwrap_or_default()
    }
}

/// Counts the hits of each request, in order, at every capacity at once and without bound; estimates
/// them where there are more than [`sampled::REFS_EXACT_MAX`] references.
pub fn hit_table<'a>(
    requests: impl Iterator<Item = &'a [u64]> + Clone,
    capacities: &[usize],
) -> HitTable {
    let refs = requests.clone().map(|blocks| blocks.len() as u64).sum();
    match sampled::one_in(refs) {
        1 => exact_table(requests, capacities),
        one_in => sampled::hit_table(requests, capacities, one_in),
    }
}

fn exact_table<'a>(requests: impl Iterator<Item = &'a [u64]>, capacities: &[usize]) -> HitTable {
    let mut stack = Stack::new();
    let mut depths = Vec::new();
    let mut hits = Vec::new();
    for blocks in requests {
        stack.request(blocks, &mut depths);
        let bounded = capacities
            .iter()
            .map(|capacity| stack::hits(&depths, *capacity));
        let all = bounded.chain(std::iter::once(depths.len()));
        hits.extend(all.map(|hits| u32::try_from(hits).unwrap_or(u32::MAX)));
    }
    HitTable {
        capacities: capacities.len(),
        hits,
    }
}

/// Prompt tokens that so many hits save: whole blocks, and never the last token, which must be
/// computed.
pub fn saved_tokens(input_tokens: u64, block_tokens: u64, hits: u64) -> u64 {
    let whole = input_tokens.saturating_sub(1).checked_div(block_tokens);
    hits.min(whole.unwrap_or(0)) * block_tokens
}

/// Counts the hits of each request, in order, at one capacity; `None` is a cache without bound.
pub fn hits_per_request<'a>(
    requests: impl Iterator<Item = &'a [u64]>,
    capacity: Option<usize>,
) -> Vec<u32> {
    let mut stack = Stack::new();
    let mut depths = Vec::new();
    requests
        .map(|blocks| {
            stack.request(blocks, &mut depths);
            let hits = capacity.map_or(depths.len(), |capacity| stack::hits(&depths, capacity));
            u32::try_from(hits).unwrap_or(u32::MAX)
        })
        .collect()
}

#[cfg(test)]
mod tests;
