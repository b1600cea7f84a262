//! How far a choice of turns is from its source, dimension by dimension.

use truetape_compiler::select::fleet::{Fleet, curve_of, share_of};
use truetape_compiler::select::source::Source;
use truetape_fidelity::dispersion::{Counts, SECOND_US};
use truetape_fidelity::quantile::{quantile, rank, sorted};

/// Names of the dimensions, their units, and whether the search never saw them.
pub(crate) const DIMENSIONS: [(&str, bool); 23] = [
    ("tokens %", false),
    ("input tokens %", false),
    ("output tokens %", false),
    ("input p50 %", false),
    ("input p90 %", false),
    ("input p99 %", false),
    ("input p99 rank pp", false),
    ("output p50 %", false),
    ("output p90 %", false),
    ("output p99 %", false),
    ("output p99 rank pp", false),
    ("turns/session CDF pp", false),
    ("hit curve MAE pp", false),
    ("hit curve bias pp", false),
    ("hits, unbounded pp", false),
    ("work IDW 60 s ln", false),
    ("hit curve MAE, other capacities pp (held out)", true),
    ("joint grid pp (held out)", true),
    ("pauses CDF pp (held out)", true),
    ("input p95 % (held out)", true),
    ("output p75 token-weighted pp (held out)", true),
    ("arrivals IDC 60 s ln (held out)", true),
    ("arrivals peak 60 s % (held out)", true),
];

/// Errors of a choice, in the order of [`DIMENSIONS`]; NaN where there is nothing to compare.
pub(crate) fn errors(
    fleet: &Fleet<'_>,
    source: &Source<'_>,
    share: f64,
    turns: &[u32],
) -> Vec<f64> {
    let all: Vec<u32> = (0..source.population.turns.len() as u32).collect();
    let percent = |found: Option<f64>, wanted: Option<f64>| match (found, wanted) {
        (Some(found), Some(wanted)) => 100.0 * (found / wanted - 1.0),
        _ => f64::NAN,
    };
    let points = |found: Option<f64>, wanted: Option<f64>| match (found, wanted) {
        (Some(found), Some(wanted)) => 100.0 * (found - wanted),
        _ => f64::NAN,
    };
    let input = |turns: &[u32]| lengths(source, turns, true);
    let output = |turns: &[u32]| lengths(source, turns, false);
    let (in_a, in_b, out_a, out_b) = (input(&all), input(turns), output(&all), output(turns));
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    let q = |values: &[f64], q: f64| quantile(values, q);
    let at = |source: &[f64], set: &[f64], at: f64| percent(q(set, at), q(source, at));
    let rank_error = |source: &[f64], set: &[f64]| {
        let p99 = q(source, 0.99);
        points(
            p99.and_then(|p99| rank(set, p99)),
            p99.and_then(|p99| rank(source, p99)),
        )
    };
    let p = share_of(source, turns);
    let curve = |capacities: &[usize]| -> Vec<f64> {
        let wanted = curve_of(source, &all, capacities).hit_ratios();
        let found = curve_of(source, turns, &fleet.scaled(capacities, p)).hit_ratios();
        found
            .iter()
            .zip(wanted)
            .map(|(found, wanted)| 100.0 * (found - wanted))
            .collect()
    };
    let matched = curve(&fleet.capacities);
    // Between the capacities that were matched.
    let between: Vec<usize> = fleet
        .capacities
        .windows(2)
        .filter_map(|pair| Some(((*pair.first()? * *pair.last()?) as f64).sqrt() as usize))
        .collect();
    let other = curve(&between);
    let mae = |errors: &[f64]| {
        errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len().max(1) as f64
    };
    let infinite = |turns: &[u32]| curve_of(source, turns, &[]).infinite_hit_ratio();
    let ln = |found: Option<f64>, wanted: Option<f64>| match (found, wanted) {
        (Some(found), Some(wanted)) if found > 0.0 && wanted > 0.0 => (found / wanted).ln(),
        _ => f64::NAN,
    };
    let counts = |turns: &[u32]| Counts::of(&arrivals(source, turns), 60 * SECOND_US);
    let idc = |turns: &[u32]| counts(turns).idc();
    let thinned = idc(&all).map(|whole| 1.0 + share * (whole - 1.0));
    let work = |turns: &[u32]| {
        let loads: Vec<f64> = turns
            .iter()
            .map(|turn| {
                source
                    .population
                    .turns
                    .get(*turn as usize)
                    .and_then(|turn| turn.output_tokens)
                    .unwrap_or(0) as f64
            })
            .collect();
        Counts::weighted(&arrivals(source, turns), &loads, 60 * SECOND_US).idw()
    };
    let squares: f64 =
        out_a.iter().map(|v| v * v).sum::<f64>() * out_a.len() as f64 / sum(&out_a).powi(2);
    let work_wanted = work(&all).map(|whole| squares + share * (whole - squares));
    vec![
        100.0 * (p / share - 1.0),
        100.0 * (sum(&in_b) / sum(&in_a) / share - 1.0),
        100.0 * (sum(&out_b) / sum(&out_a) / share - 1.0),
        at(&in_a, &in_b, 0.5),
        at(&in_a, &in_b, 0.9),
        at(&in_a, &in_b, 0.99),
        rank_error(&in_a, &in_b),
        at(&out_a, &out_b, 0.5),
        at(&out_a, &out_b, 0.9),
        at(&out_a, &out_b, 0.99),
        rank_error(&out_a, &out_b),
        100.0
            * distance(
                &turns_per_session(source, &all),
                &turns_per_session(source, turns),
            ),
        mae(&matched),
        matched.iter().sum::<f64>() / matched.len().max(1) as f64,
        points(infinite(turns), infinite(&all)),
        ln(work(turns), work_wanted),
        mae(&other),
        joint(&in_out(source, &all), &in_out(source, turns)),
        100.0 * distance(&pauses(source, &all), &pauses(source, turns)),
        at(&in_a, &in_b, 0.95),
        100.0 * (token_share(&out_a, &out_b) - 0.75),
        ln(idc(turns), thinned),
        percent(counts(turns).peak_to_mean(), counts(&all).peak_to_mean()),
    ]
}

fn lengths(source: &Source<'_>, turns: &[u32], input: bool) -> Vec<f64> {
    let rows = turns
        .iter()
        .filter_map(|turn| source.population.turns.get(*turn as usize));
    sorted(
        rows.filter_map(|turn| {
            if input {
                turn.input_tokens
            } else {
                turn.output_tokens
            }
        })
        .map(|n| n as f64),
    )
}

fn arrivals(source: &Source<'_>, turns: &[u32]) -> Vec<i64> {
    turns
        .iter()
        .filter_map(|turn| source.population.turns.get(*turn as usize))
        .map(|turn| turn.arrival_us)
        .collect()
}

fn turns_per_session(source: &Source<'_>, turns: &[u32]) -> Vec<f64> {
    let mut counts: std::collections::BTreeMap<usize, u32> = std::collections::BTreeMap::new();
    for turn in turns {
        *counts.entry(source.session(*turn as usize)).or_default() += 1;
    }
    sorted(counts.into_values().map(f64::from))
}

fn pauses(source: &Source<'_>, turns: &[u32]) -> Vec<f64> {
    let mut last: std::collections::BTreeMap<u32, i64> = std::collections::BTreeMap::new();
    let mut found = Vec::new();
    for turn in turns
        .iter()
        .filter_map(|turn| source.population.turns.get(*turn as usize))
    {
        if let Some(before) = last.insert(turn.session, turn.arrival_us) {
            found.push((turn.arrival_us - before) as f64);
        }
    }
    sorted(found)
}

/// The largest distance of two distributions.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return f64::NAN;
    }
    let below =
        |values: &[f64], x: f64| values.partition_point(|v| *v <= x) as f64 / values.len() as f64;
    a.iter()
        .map(|x| (below(a, *x) - below(b, *x)).abs())
        .fold(0.0, f64::max)
}

/// The share of the set's answer tokens in answers up to the source's token-weighted p75.
fn token_share(source: &[f64], set: &[f64]) -> f64 {
    let limit = truetape_fidelity::quantile::weighted_quantile(source, 0.75).unwrap_or(0.0);
    let sum = |values: &[f64]| {
        values.iter().filter(|v| **v <= limit).sum::<f64>() / values.iter().sum::<f64>()
    };
    sum(set) + 0.75 - sum(source)
}

fn in_out(source: &Source<'_>, turns: &[u32]) -> Vec<(f64, f64)> {
    let rows = turns
        .iter()
        .filter_map(|turn| source.population.turns.get(*turn as usize));
    rows.filter_map(|turn| Some((turn.input_tokens? as f64, turn.output_tokens? as f64)))
        .collect()
}

/// The largest difference of a cell of the 10 x 10 grid of ranks, in points.
fn joint(source: &[(f64, f64)], set: &[(f64, f64)]) -> f64 {
    let cuts = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let values = sorted(source.iter().map(of));
        (1..10)
            .filter_map(|i| quantile(&values, f64::from(i) / 10.0))
            .collect()
    };
    let (inputs, outputs) = (cuts(|pair| pair.0), cuts(|pair| pair.1));
    let cells = |rows: &[(f64, f64)]| {
        let mut cells = vec![0.0; 100];
        for (input, output) in rows {
            let place = inputs.partition_point(|cut| cut < input) * 10
                + outputs.partition_point(|cut| cut < output);
            if let Some(cell) = cells.get_mut(place) {
                *cell += 100.0 / rows.len() as f64;
            }
        }
        cells
    };
    cells(source)
        .iter()
        .zip(cells(set))
        .map(|(a, b): (&f64, f64)| (a - b).abs())
        .fold(0.0, f64::max)
}
