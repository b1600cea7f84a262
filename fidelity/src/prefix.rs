//! Prefix-cache hits at every capacity, in one pass: Mattson's stack distances.
//!
//! A request hits a *prefix*: at capacity `C` its hits are the leading run of blocks that have
//! fewer than `C` distinct blocks more recent than themselves. All blocks of a request are looked
//! up before any is moved, and they are moved tail first, so that every ancestor stays more recent
//! than its descendants: eviction takes leaves first, as in the engines, and LRU inclusion holds.

use stack::Stack;

mod fenwick;
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

/// Counts the hits of requests, in order, at every capacity at once.
pub fn hit_curve<'a>(requests: impl Iterator<Item = &'a [u64]>, capacities: &[usize]) -> Curve {
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
    }
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
