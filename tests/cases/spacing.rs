//! How far apart the times are that a case tells from one another.
//!
//! A busy machine widens a tolerance. Where that reached the distance between two times of the
//! case, one of them could pass for the other, and the case could not fail any more. So the
//! tolerance ends well below that, and a time that is off by more fails.

use crate::case::Case;
use serde_json::Value;

/// The part of the smallest distance that a tolerance may reach.
const PART: f64 = 1.0 / 3.0;

/// The widest tolerance that still tells the case's times apart; never below the case's own.
pub(crate) fn tolerance_max_ms(case: &Case) -> f64 {
    let scheduled = schedules(case);
    let apart = if scheduled.is_empty() {
        wanted(&Value::Object(case.expect.clone()))
    } else {
        scheduled
    };
    let apart = apart.iter().filter_map(|times| smallest_distance(times));
    let apart = apart.chain(forbidden(case)).fold(f64::INFINITY, f64::min);
    if apart.is_finite() {
        case.tolerance_ms.max(apart * PART)
    } else {
        case.tolerance_ms
    }
}

/// The times of each write schedule.
fn schedules(case: &Case) -> Vec<Vec<f64>> {
    let files = case.named("chunks", ".jsonl");
    let lines = |(_, file): &(String, String)| case.lines(file).unwrap_or_default();
    let time = |line: &Value| line.get("t_ms").and_then(Value::as_f64);
    files
        .iter()
        .map(|file| lines(file).iter().filter_map(time).collect())
        .collect()
}

/// Where nothing is scheduled: the times that each key wants, and zero, which a time is when it was
/// not taken.
fn wanted(expect: &Value) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    for (key, want) in expect.as_object().into_iter().flatten() {
        if want.is_object() {
            all.extend(wanted(want));
        } else if is_time(key) {
            let mut times = vec![0.0];
            numbers(want, &mut times);
            all.push(times);
        }
    }
    all
}

/// How far what must not be is from what must be.
fn forbidden(case: &Case) -> Vec<f64> {
    let expect = Value::Object(case.expect.clone());
    let sentences = case.must_not.iter();
    let numbers = sentences.flat_map(|sentence| crate::must_not::numbers(sentence));
    numbers
        .filter(|(key, _)| is_time(key))
        .flat_map(|(key, number)| {
            let mut wants = Vec::new();
            of_key(&expect, &key, &mut wants);
            wants.into_iter().map(move |want| (want - number).abs())
        })
        .filter(|distance| *distance > 0.0)
        .collect()
}

/// Whether a key names a time.
pub(crate) fn is_time(key: &str) -> bool {
    key.ends_with("_ms") || key.contains("_ms_")
}

fn of_key(expect: &Value, name: &str, into: &mut Vec<f64>) {
    for (key, want) in expect.as_object().into_iter().flatten() {
        if key == name {
            numbers(want, into);
        } else {
            of_key(want, name, into);
        }
    }
}

fn numbers(value: &Value, into: &mut Vec<f64>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| numbers(value, into)),
        Value::Object(map) => map.values().for_each(|value| numbers(value, into)),
        _ => into.extend(value.as_f64()),
    }
}

fn smallest_distance(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let apart = sorted.windows(2).filter_map(|pair| match pair {
        [a, b] if a < b => Some(b - a),
        _ => None,
    });
    apart.min_by(f64::total_cmp)
}
