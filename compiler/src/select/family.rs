//! Families: sessions that share prefix deeper than what nearly everybody shares.
//!
//! Blocks form a forest, and a prompt is a path from a root. A block that so many prompts hold that a
//! sample keeps nearly all of its reuse anyway is *split*: it ties nobody together (a system prompt,
//! tool definitions). A prompt's key is its first block below those. Sessions with a key in common
//! are one family, so that whatever two families share is split, and a family that is taken whole
//! loses no reuse but that of split blocks, `1/(p·n)` of each.

use super::source::Source;
use truetape_fidelity::mix::{MixMap, MixSet};
use truetape_fidelity::prefix::handed::handed_on;

/// A block is split when a sample would hold this many uses of it: at most 1 in 20 is lost.
const USES_IN_SAMPLE_MIN: f64 = 20.0;

/// A family of more than this share of the budget is cut lower ...
const GIANT_SHARE_MAX: f64 = 0.05;

/// ... so many times at most.
const CUTS_MAX: usize = 16;

/// Families, and what lies above them.
#[derive(Clone, Debug, Default)]
pub struct Families {
    /// By session: the label of its family.
    pub labels: Vec<u32>,
    /// Split blocks: they take room in a cache whatever the sample.
    pub split: MixSet,
    /// The cost of the largest family.
    pub largest_tokens: u64,
}

/// Finds the families of a source for a sample that keeps the share `p` of its tokens.
pub fn families(source: &Source<'_>, p: f64) -> Families {
    let mut split = split_blocks(source, p);
    let budget = p * source.tokens_all() as f64;
    for _ in 0..CUTS_MAX {
        let labels = join(source, &split);
        let costs = costs(source, &labels);
        let largest = costs.iter().copied().max().unwrap_or(0);
        let is_giant = |cost: u64| cost as f64 > GIANT_SHARE_MAX * budget;
        let giants: Vec<bool> = costs.iter().map(|cost| is_giant(*cost)).collect();
        let lower = if is_giant(largest) {
            cut(source, &labels, &giants, &split)
        } else {
            Vec::new()
        };
        if lower.is_empty() {
            return Families {
                labels,
                split,
                largest_tokens: largest,
            };
        }
        split.extend(lower);
    }
    let labels = join(source, &split);
    let largest_tokens = costs(source, &labels).into_iter().max().unwrap_or(0);
    Families {
        labels,
        split,
        largest_tokens,
    }
}

/// Blocks that go from session to session often enough; what one session holds ties nobody else.
/// Counts fall along a path, so what lies above a split block is split too.
fn split_blocks(source: &Source<'_>, p: f64) -> MixSet {
    let turns = &source.population.turns;
    let prompts = turns
        .iter()
        .map(|turn| (turn.session, turn.blocks.as_slice()));
    handed_on(prompts, (USES_IN_SAMPLE_MIN / p).max(2.0))
}

/// The first block of each prompt that is not split.
fn key(blocks: &[u64], split: &MixSet) -> Option<u64> {
    blocks.iter().find(|block| !split.contains(*block)).copied()
}

/// Labels sessions: one label for all that have a key in common, the least of their numbers.
fn join(source: &Source<'_>, split: &MixSet) -> Vec<u32> {
    let mut above: Vec<u32> = (0..source.population.sessions).collect();
    let mut holder: MixMap<u32> = MixMap::default();
    for turn in &source.population.turns {
        let Some(key) = key(&turn.blocks, split) else {
            continue;
        };
        let other = *holder.entry(key).or_insert(turn.session);
        let (a, b) = (top(&mut above, other), top(&mut above, turn.session));
        if let Some(slot) = above.get_mut(a.max(b) as usize) {
            *slot = a.min(b);
        }
    }
    (0..source.population.sessions)
        .map(|session| top(&mut above, session))
        .collect()
}

/// The label of a session so far; the way there becomes shorter.
fn top(above: &mut [u32], mut session: u32) -> u32 {
    while let Some(&next) = above.get(session as usize) {
        if next == session {
            break;
        }
        let further = above.get(next as usize).copied().unwrap_or(next);
        if let Some(slot) = above.get_mut(session as usize) {
            *slot = further;
        }
        session = further;
    }
    session
}

fn costs(source: &Source<'_>, labels: &[u32]) -> Vec<u64> {
    let mut costs = vec![0_u64; labels.len()];
    for turn in 0..source.population.turns.len() {
        let label = labels
            .get(source.session(turn))
            .copied()
            .unwrap_or(u32::MAX);
        if let Some(cost) = costs.get_mut(label as usize) {
            *cost = cost.saturating_add(source.tokens(turn));
        }
    }
    costs
}

/// The keys by which several sessions became one giant family. A giant session has none: it cannot
/// be cut.
fn cut(source: &Source<'_>, labels: &[u32], giants: &[bool], split: &MixSet) -> Vec<u64> {
    let mut first: MixMap<u32> = MixMap::default();
    let mut shared = MixSet::default();
    for turn in &source.population.turns {
        let label = labels
            .get(turn.session as usize)
            .copied()
            .unwrap_or(u32::MAX);
        if giants.get(label as usize) != Some(&true) {
            continue;
        }
        let Some(key) = key(&turn.blocks, split) else {
            continue;
        };
        if *first.entry(key).or_insert(turn.session) != turn.session {
            shared.insert(key);
        }
    }
    let mut keys: Vec<u64> = shared.into_iter().collect();
    keys.sort_unstable();
    keys
}
