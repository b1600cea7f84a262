//! Prefix reuse over cache sizes, and what the target's size comes to.

use super::Evidence;
use super::chart::{Axis, Lines, Mark, Series, Whose};
use super::scale::Kind;
use crate::population::Population;
use crate::prefix::hit_curve;
use crate::profile::{CurvePoint, Profile};

/// Sizes of the curve: halved this often from one that holds every block.
const HALVED: u32 = 12;

/// The hit curve.
pub(super) fn chart(evidence: &Evidence<'_>) -> Lines {
    let block = evidence
        .set
        .and_then(|set| set.manifest.block_tokens)
        .map(f64::from);
    let held = evidence
        .run
        .and_then(|run| run.engine.kv_tokens)
        .map(|tokens| tokens as f64);
    let of_set = curve_of_set(evidence, held);
    let source = evidence.source_profile();
    let of_source = source
        .as_ref()
        .map(|profile| scaled(evidence, profile))
        .unwrap_or_default();
    let tokens = |blocks: f64| blocks * block.unwrap_or(1.0);
    let mut grid: Vec<f64> = of_set
        .iter()
        .chain(&of_source)
        .map(|(blocks, _)| tokens(*blocks))
        .collect();
    grid.sort_by(f64::total_cmp);
    grid.dedup();
    let over = |points: &[(f64, f64)]| -> Vec<Option<f64>> {
        let at = |place: &f64| points.iter().find(|(blocks, _)| tokens(*blocks) == *place);
        grid.iter()
            .map(|place| at(place).map(|(_, hits)| *hits))
            .collect()
    };
    let series = vec![
        Series::new(
            "production, sizes scaled to the set",
            Whose::Production,
            over(&of_source),
        )
        .dots(),
        Series::new("set", Whose::Set, over(&of_set)).dots(),
    ];
    Lines {
        id: "hit-curve",
        title: "Prefix hits by cache size",
        about: "The share of the prompts' blocks that a cache of that size would hold (LRU). A set that \
                is a share of production needs the same share of the cache."
            .to_owned(),
        x: Axis::new("tokens that the cache holds", Kind::Log),
        y: Axis::percent("hits", Kind::Linear),
        series,
        grid,
        at_x: held
            .map(|at| Mark { at, says: "the target's cache".to_owned(), whose: Whose::Wanted })
            .into_iter()
            .collect(),
        at_y: levels(evidence, source.as_ref()),
        lacks: lacks(evidence, held, &of_set, &of_source),
    }
}

/// Hits of the set by cache size in blocks, the target's size among them.
fn curve_of_set(evidence: &Evidence<'_>, held_tokens: Option<f64>) -> Vec<(f64, f64)> {
    let Some(set) = evidence.set else {
        return Vec::new();
    };
    let population = Population::of_turns(set.turns, set.manifest.block_tokens, None);
    let requests = || population.turns.iter().map(|turn| turn.blocks.as_slice());
    let unique = hit_curve(requests(), &[]).unique;
    if unique == 0 {
        return Vec::new();
    }
    let largest = unique.next_power_of_two().ilog2();
    let mut sizes: Vec<usize> = (largest.saturating_sub(HALVED)..=largest)
        .map(|power| 1 << power)
        .collect();
    if let (Some(tokens), Some(block)) = (held_tokens, set.manifest.block_tokens) {
        sizes.push((tokens / f64::from(block.max(1))) as usize);
    }
    sizes.sort_unstable();
    sizes.dedup();
    let curve = hit_curve(requests(), &sizes);
    let ratios = curve.hit_ratios();
    sizes.iter().map(|size| *size as f64).zip(ratios).collect()
}

/// Production's curve, each size as large as it has to be for the set.
fn scaled(evidence: &Evidence<'_>, source: &Profile) -> Vec<(f64, f64)> {
    let selection = evidence.set.and_then(|set| set.manifest.selection.as_ref());
    let hot = selection.and_then(|chosen| chosen.hot_blocks).unwrap_or(0) as f64;
    let factor = selection
        .and_then(|chosen| chosen.cache_factor)
        .unwrap_or(1.0);
    let size = |point: &CurvePoint| hot + factor * (point.capacity_blocks as f64 - hot);
    source
        .prefix
        .curve
        .iter()
        .filter_map(|point| Some((size(point), point.hit_ratio?)))
        .filter(|(size, _)| *size > 0.0)
        .collect()
}

fn levels(evidence: &Evidence<'_>, source: Option<&Profile>) -> Vec<Mark> {
    let production = source.and_then(|profile| profile.prefix.infinite_hit_ratio);
    let cached = evidence.summary().throughput.cached_share;
    let mark = |at: Option<f64>, says: &str, whose| {
        at.map(|at| Mark {
            at,
            says: says.to_owned(),
            whose,
        })
    };
    [
        mark(
            production,
            "production, cache without bound",
            Whose::Production,
        ),
        mark(cached, "run, as the target reported", Whose::Run),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn lacks(
    evidence: &Evidence<'_>,
    held: Option<f64>,
    of_set: &[(f64, f64)],
    of_source: &[(f64, f64)],
) -> Vec<String> {
    let mut lacks = Vec::new();
    match evidence.set {
        None => lacks.push("the set's blocks; name the set with --set or --store".to_owned()),
        Some(_) if of_set.is_empty() => lacks.push("the set has no block hashes".to_owned()),
        Some(_) if of_source.is_empty() => {
            lacks.push("production's curve, which the set's manifest does not hold".to_owned());
        }
        Some(_) => {}
    }
    if evidence.run.is_some() && held.is_none() {
        lacks.push("how much the target's cache holds, which it does not say".to_owned());
    }
    lacks
}
