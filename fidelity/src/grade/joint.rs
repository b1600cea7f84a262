//! Dimensions of prompt and answer lengths together.

use super::Pair;
use super::draft::{Draft, Unit};
use super::lengths::SAMPLES_P90_MIN;
use crate::population::Population;
use crate::profile::lengths::spearman;
use crate::quantile::{rank, sorted};
use truetape_schemas::report::{Dimension, Level};

/// Parts of the ranks of each length: ten by ten cells, of about 1 % each where lengths have nothing
/// to do with each other.
const PARTS: usize = 10;

/// Tolerance of a cell's share.
const CELL_POINTS: f64 = 0.01;

/// Tolerance of the rank correlation.
const SPEARMAN: f64 = 0.05;

/// Dimensions of the pairing.
pub(super) fn dimensions(pair: &Pair<'_>) -> Vec<Dimension> {
    vec![correlation(pair), grid(pair)]
}

fn correlation(pair: &Pair<'_>) -> Dimension {
    let draft = Draft::new(
        "joint.spearman",
        "rank correlation of prompt and answer lengths",
        Unit::RankPoints,
        SPEARMAN,
    )
    .compare(spearman(&pair.set.turns), spearman(&pair.source.turns));
    let fewest = pair.set.turns.len().min(pair.source.turns.len());
    let undefined = |population: &Population| spearman(&population.turns).is_none();
    draft
        // The standard error of a correlation of independent values.
        .within_reach(
            pair.chance(1.0 / (fewest as f64).sqrt()),
            "the chance of the draw",
        )
        .unknown_if(fewest < SAMPLES_P90_MIN, || {
            format!("{fewest} turns; a correlation needs {SAMPLES_P90_MIN}")
        })
        .unknown_if(undefined(pair.source) || undefined(pair.set), || {
            "lengths that are unknown, or do not vary, have no correlation".to_owned()
        })
        .finish(Level::SetAgainstSource)
}

/// The cell of the rank grid whose share differs most. Each side has ranks of its own, so that only
/// the pairing is compared, and not the lengths.
fn grid(pair: &Pair<'_>) -> Dimension {
    let sides = cells(pair.set).zip(cells(pair.source));
    let most = sides.as_ref().and_then(|(set, source)| {
        let both = set.iter().copied().zip(source.iter().copied());
        both.max_by(|a, b| (a.0 - a.1).abs().total_cmp(&(b.0 - b.1).abs()))
    });
    let fewest = pair.set.turns.len().min(pair.source.turns.len());
    let target = most.map_or(0.0, |(_, target)| target);
    // The largest of a hundred differences lies this far out by chance: a normal quantile of
    // 1 - 0.05 / 200.
    let error = Z_OF_HUNDRED / super::Z_95 * (target.max(0.01) / fewest.max(1) as f64).sqrt();
    Draft::new(
        "joint.grid",
        "share of a cell of prompt and answer ranks",
        Unit::Share,
        CELL_POINTS,
    )
    .compare(most.map(|(value, _)| value), most.map(|(_, target)| target))
    .within_reach(pair.chance(error), "the chance of the draw")
    .unknown_if(fewest < SAMPLES_P90_MIN, || {
        format!("{fewest} turns; a grid needs {SAMPLES_P90_MIN}")
    })
    .unknown_if(sides.is_none(), || "no turn has both lengths".to_owned())
    .finish(Level::SetAgainstSource)
}

/// The two-sided 95 % quantile of the largest of a hundred normal numbers.
const Z_OF_HUNDRED: f64 = 3.48;

/// The share of each cell, row by row.
fn cells(population: &Population) -> Option<Vec<f64>> {
    let turns = population.turns.iter();
    let both: Vec<(f64, f64)> = turns
        .filter_map(|turn| Some((turn.input_tokens? as f64, turn.output_tokens? as f64)))
        .collect();
    let inputs = sorted(both.iter().map(|(input, _)| *input));
    let outputs = sorted(both.iter().map(|(_, output)| *output));
    let part = |values: &[f64], value: f64| {
        let rank = rank(values, value).unwrap_or(0.0);
        ((rank * PARTS as f64) as usize).min(PARTS - 1)
    };
    let mut cells = vec![0.0; PARTS * PARTS];
    for (input, output) in &both {
        let at = part(&inputs, *input) * PARTS + part(&outputs, *output);
        if let Some(cell) = cells.get_mut(at) {
            *cell += 1.0 / both.len() as f64;
        }
    }
    (!both.is_empty()).then_some(cells)
}
