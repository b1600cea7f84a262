//! Distributions of lengths and times.

use super::{Cached, Lengths, Spread};
use crate::population::PopulationTurn;
use crate::quantile::{mean, quantile, sorted, top_share, total, weighted_quantile};

/// Describes lengths, of which some may be unknown.
pub fn of(values: impl Iterator<Item = Option<u64>>) -> Lengths {
    let mut unknown = 0;
    let mut sum = 0u64;
    let mut known = Vec::new();
    for value in values {
        match value {
            Some(value) => {
                sum = sum.saturating_add(value);
                known.push(value as f64);
            }
            None => unknown += 1,
        }
    }
    let known = sorted(known);
    Lengths {
        p50: quantile(&known, 0.5),
        p90: quantile(&known, 0.9),
        p99: quantile(&known, 0.99),
        sum,
        known: known.len() as u64,
        unknown,
        mean: mean(&known),
        max: known.last().copied(),
        p50_token_weighted: weighted_quantile(&known, 0.5),
        p90_token_weighted: weighted_quantile(&known, 0.9),
        top10_share: top_share(&known, 0.1),
    }
}

/// Describes what the server reported as cached.
pub fn cached(turns: &[PopulationTurn]) -> Cached {
    let known = turns.iter().filter_map(|turn| turn.cached_tokens);
    let both = || {
        turns
            .iter()
            .filter_map(|turn| Some((turn.cached_tokens?, turn.input_tokens?)))
    };
    let asked: u64 = total(both().map(|(_, input)| input));
    let taken: u64 = total(both().map(|(cached, _)| cached));
    Cached {
        sum: total(known.clone()),
        known: known.count() as u64,
        share: (asked > 0).then(|| taken as f64 / asked as f64),
    }
}

/// Describes values.
pub fn spread(values: Vec<f64>) -> Spread {
    let values = sorted(values);
    Spread {
        known: values.len() as u64,
        mean: mean(&values),
        p50: quantile(&values, 0.5),
        p90: quantile(&values, 0.9),
        p99: quantile(&values, 0.99),
        max: values.last().copied(),
    }
}

/// Coefficient of variation of the time between arrivals.
pub fn interarrival_cv(arrivals: &[i64]) -> Option<f64> {
    let gaps: Vec<f64> = arrivals
        .windows(2)
        .filter_map(|pair| Some(pair.last()?.checked_sub(*pair.first()?)? as f64))
        .collect();
    let average = mean(&gaps)?;
    if gaps.len() < 2 || average <= 0.0 {
        return None;
    }
    let squares: f64 = gaps.iter().map(|gap| (gap - average).powi(2)).sum();
    Some((squares / (gaps.len() - 1) as f64).sqrt() / average)
}

/// Rank correlation of input and output lengths, over the turns where both are known.
pub fn spearman(turns: &[PopulationTurn]) -> Option<f64> {
    let both: Vec<(u64, u64)> = turns
        .iter()
        .filter_map(|turn| Some((turn.input_tokens?, turn.output_tokens?)))
        .collect();
    let inputs = ranks(both.iter().map(|(input, _)| *input));
    let outputs = ranks(both.iter().map(|(_, output)| *output));
    pearson(&inputs, &outputs)
}

/// Ranks from 0; equal values share the middle of their ranks.
fn ranks(values: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut order: Vec<(u64, usize)> = values.enumerate().map(|(i, value)| (value, i)).collect();
    order.sort_unstable();
    let mut ranks = vec![0.0; order.len()];
    let mut before = 0usize;
    for ties in order.chunk_by(|a, b| a.0 == b.0) {
        let middle = before as f64 + (ties.len() - 1) as f64 / 2.0;
        for (_, i) in ties {
            if let Some(rank) = ranks.get_mut(*i) {
                *rank = middle;
            }
        }
        before += ties.len();
    }
    ranks
}

fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let (mean_a, mean_b) = (mean(a)?, mean(b)?);
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (a - mean_a, b - mean_b);
        ab += a * b;
        aa += a * a;
        bb += b * b;
    }
    let norm = (aa * bb).sqrt();
    (norm > 0.0).then(|| ab / norm)
}
