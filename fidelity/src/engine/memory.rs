//! Blocks: blank, private or cached.

use crate::mix::MixMap;
use std::collections::VecDeque;

/// Stale entries of the idle queue that are tolerated besides as many as there are live ones.
const STALE_MIN: usize = 1_024;

/// The blocks of an engine.
///
/// `blank + private + cached == total`, where the private blocks are those that sequences hold
/// without a hash, and the cached ones are pinned or idle.
#[derive(Debug)]
pub(super) struct Memory {
    blank: u64,
    private: u64,
    cached: MixMap<Entry>,
    /// Idle blocks, the one given up longest ago first. An entry whose stamp is not its block's is
    /// stale: the block was pinned since.
    idle: VecDeque<(u64, u64)>,
    idle_count: usize,
    stamp: u64,
}

#[derive(Debug)]
struct Entry {
    pins: u32,
    stamp: u64,
}

impl Memory {
    pub(super) fn new(total: u64) -> Self {
        Self {
            blank: total,
            private: 0,
            cached: MixMap::default(),
            idle: VecDeque::new(),
            idle_count: 0,
            stamp: 0,
        }
    }

    /// Blocks that running sequences hold.
    pub(super) fn used(&self) -> u64 {
        self.private + (self.cached.len() - self.idle_count) as u64
    }

    /// Blocks that could be taken now.
    pub(super) fn available(&self) -> u64 {
        self.blank + self.idle_count as u64
    }

    /// All blocks. Never changes.
    #[cfg(test)]
    pub(super) fn total(&self) -> u64 {
        self.blank + self.private + self.cached.len() as u64
    }

    /// The length of the leading run of a chain that is cached.
    pub(super) fn leading_run(&self, chain: &[u64]) -> usize {
        chain
            .iter()
            .take_while(|hash| self.cached.contains_key(hash))
            .count()
    }

    /// How many of these cached blocks are idle.
    pub(super) fn idle_among(&self, chain: &[u64]) -> u64 {
        let is_idle = |hash: &&u64| {
            self.cached
                .get(hash)
                .is_some_and(|entry: &Entry| entry.pins == 0)
        };
        chain.iter().filter(is_idle).count() as u64
    }

    /// Takes a block for a sequence alone: a blank one, else the idle one given up longest ago.
    pub(super) fn take(&mut self) -> bool {
        if self.blank == 0 && !self.evict() {
            return false;
        }
        self.blank -= 1;
        self.private += 1;
        true
    }

    /// Gives a private block back.
    pub(super) fn give_back(&mut self) {
        self.private -= 1;
        self.blank += 1;
    }

    /// Caches a private block under its hash, pinned once. Refused when the hash is cached: the
    /// block then stays private.
    pub(super) fn publish(&mut self, hash: u64) -> bool {
        if self.cached.contains_key(&hash) {
            return false;
        }
        self.cached.insert(hash, Entry { pins: 1, stamp: 0 });
        self.private -= 1;
        true
    }

    /// Pins a cached block.
    pub(super) fn pin(&mut self, hash: u64) {
        if let Some(entry) = self.cached.get_mut(&hash) {
            if entry.pins == 0 {
                self.idle_count -= 1;
                entry.stamp = 0;
            }
            entry.pins += 1;
        }
    }

    /// Unpins a cached block; the last to do so makes it idle, and the most recent of the idle.
    pub(super) fn unpin(&mut self, hash: u64) {
        let Some(entry) = self.cached.get_mut(&hash) else {
            return;
        };
        entry.pins -= 1;
        if entry.pins == 0 {
            self.stamp += 1;
            entry.stamp = self.stamp;
            self.idle.push_back((hash, self.stamp));
            self.idle_count += 1;
        }
        if self.idle.len() > 2 * self.idle_count + STALE_MIN {
            self.drop_stale();
        }
    }

    /// Makes every idle block blank.
    pub(super) fn drop_idle(&mut self) {
        self.cached.retain(|_, entry| entry.pins > 0);
        self.blank += self.idle_count as u64;
        self.idle_count = 0;
        self.idle.clear();
    }

    /// Makes the idle block given up longest ago blank.
    fn evict(&mut self) -> bool {
        while let Some((hash, stamp)) = self.idle.pop_front() {
            if self
                .cached
                .get(&hash)
                .is_some_and(|entry| entry.stamp == stamp)
            {
                self.cached.remove(&hash);
                self.idle_count -= 1;
                self.blank += 1;
                return true;
            }
        }
        false
    }

    fn drop_stale(&mut self) {
        let cached = &self.cached;
        self.idle
            .retain(|(hash, stamp)| cached.get(hash).is_some_and(|entry| entry.stamp == *stamp));
    }
}
