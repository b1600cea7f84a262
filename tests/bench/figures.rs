//! What one round measured, and what all rounds say together.

use crate::load::{Paced, Seen};
use crate::process::Times;
use std::collections::BTreeMap;
use truetape_testkit::eval::figure;

/// Figures by name: the names are keys of the JSON, units last.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

const NS_PER_US: f64 = 1000.0;

/// A quantile of unsorted values, in microseconds.
fn quantile_us(values: &mut [u64], q: f64) -> f64 {
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    let rank = (q * last as f64).round() as usize;
    values
        .get(rank)
        .map_or(f64::NAN, |ns| *ns as f64 / NS_PER_US)
}

/// Processor time of all threads for one of so many things, in microseconds.
pub(crate) fn cpu_us(times: &Times, things: u64) -> f64 {
    times.values().sum::<u64>() as f64 / NS_PER_US / things.max(1) as f64
}

/// Figures of the load at a rate.
pub(crate) fn of_paced(mut paced: Paced) -> Figures {
    Figures::from([
        ("latency_p50_us", quantile_us(&mut paced.latency_ns, 0.5)),
        ("latency_p99_us", quantile_us(&mut paced.latency_ns, 0.99)),
        ("late_p50_us", quantile_us(&mut paced.late_ns, 0.5)),
        ("late_p99_us", quantile_us(&mut paced.late_ns, 0.99)),
    ])
}

/// Figures of streams.
pub(crate) fn of_seen(mut seen: Seen) -> Figures {
    Figures::from([
        ("transit_p50_us", quantile_us(&mut seen.transit_ns, 0.5)),
        ("transit_p99_us", quantile_us(&mut seen.transit_ns, 0.99)),
        ("jitter_p50_us", quantile_us(&mut seen.jitter_ns, 0.5)),
        ("jitter_p99_us", quantile_us(&mut seen.jitter_ns, 0.99)),
    ])
}

/// The median of each figure over rounds.
pub(crate) fn medians(rounds: &[Figures]) -> Figures {
    let names: std::collections::BTreeSet<_> =
        rounds.iter().flat_map(BTreeMap::keys).copied().collect();
    let median = |name: &&'static str| {
        let mut values: Vec<f64> = rounds
            .iter()
            .filter_map(|round| round.get(name).copied())
            .collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    names.iter().map(|name| (*name, median(name))).collect()
}

/// A figure as text, or nothing.
pub(crate) fn show(figures: &Figures, name: &str) -> String {
    figures
        .get(name)
        .map(|value| figure(*value))
        .unwrap_or_default()
}

/// Two quantiles as text.
pub(crate) fn pair(figures: &Figures, p50: &str, p99: &str) -> String {
    match (show(figures, p50), show(figures, p99)) {
        (p50, p99) if p50.is_empty() && p99.is_empty() => String::new(),
        (p50, p99) => format!("{p50}, {p99}"),
    }
}

/// One subject's figure over another's.
pub(crate) fn ratio(ours: &Figures, theirs: &Figures, name: &str) -> String {
    match (ours.get(name), theirs.get(name)) {
        (Some(ours), Some(theirs)) if *theirs > 0.0 => figure(ours / theirs),
        _ => String::new(),
    }
}
