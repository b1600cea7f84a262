//! What was seen against what must be: pure, over JSON.

use crate::case::{Case, names_variant, strings};
use crate::findings::{Findings, Wrong};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What one way of running one variant showed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The variant; empty for the file without a suffix, and for the case as a whole.
    pub(crate) variant: String,
    /// How it was run, where there is more than one way.
    pub(crate) by: &'static str,
    /// Every value that it can tell.
    pub(crate) values: BTreeMap<String, Value>,
    /// Tighter tolerances than the case's, by key.
    pub(crate) tolerances: BTreeMap<String, f64>,
    /// What is wrong whatever the case expects.
    pub(crate) faults: Vec<String>,
    /// How long the product's threads waited for a processor while this was seen.
    pub(crate) waited_ms: f64,
    /// The choice of each token event.
    pub(crate) choices: Option<Vec<i32>>,
}

impl Seen {
    pub(crate) fn new(variant: &str, by: &'static str) -> Self {
        Self {
            variant: variant.to_owned(),
            by,
            ..Self::default()
        }
    }

    pub(crate) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.values.insert(key.to_owned(), value.into());
    }
}

/// Checks every key of `expect`, in every way that can tell it, and what must not be.
///
/// `machine_ms` is how late the machine woke threads meanwhile.
pub(crate) fn check(case: &Case, seen: &[Seen], machine_ms: f64) -> Findings {
    let mut findings = Findings {
        machine_ms,
        ..Findings::default()
    };
    for one in seen {
        findings.wrong.extend(
            one.faults
                .iter()
                .map(|fault| Wrong::fault(format!("{}: {fault}", place(one, "")))),
        );
    }
    let variants: Vec<&str> = distinct(seen);
    for (key, want) in &case.expect {
        if let (true, Some(keys)) = (key == "all_variants", want.as_object()) {
            for (key, want) in keys {
                one_key(case, seen, None, key, want, &mut findings);
            }
            continue;
        }
        let named = variants
            .iter()
            .copied()
            .find(|v| names_variant(key, v, &variants));
        let known = seen.iter().any(|one| find(one, key).is_some());
        match (named, want.as_object()) {
            (Some(variant), Some(keys)) if !known => {
                for (key, want) in keys {
                    one_key(case, seen, Some(variant), key, want, &mut findings);
                }
            }
            _ => one_key(case, seen, None, key, want, &mut findings),
        }
    }
    for sentence in &case.must_not {
        if let Some(wrong) = crate::must_not::check(sentence, seen) {
            findings.sentences += 1;
            findings.wrong.extend(wrong);
        }
    }
    findings
}

fn distinct(seen: &[Seen]) -> Vec<&str> {
    let mut variants: Vec<&str> = seen.iter().map(|one| one.variant.as_str()).collect();
    variants.sort_unstable();
    variants.dedup();
    variants
}

fn one_key(
    case: &Case,
    seen: &[Seen],
    variant: Option<&str>,
    key: &str,
    want: &Value,
    findings: &mut Findings,
) {
    let variants = distinct(seen);
    let mut told = false;
    for one in seen
        .iter()
        .filter(|one| variant.is_none_or(|name| name == one.variant))
    {
        let Some((relation, got)) = find(one, key) else {
            continue;
        };
        told = true;
        let by_variant = want
            .as_object()
            .filter(|_| !got.is_object())
            .and_then(|wants| {
                let mine =
                    |(label, _): &(&String, &Value)| names_variant(label, &one.variant, &variants);
                wants.iter().find(mine).map(|(_, want)| want)
            });
        let want = by_variant.unwrap_or(want);
        let noise_ms = findings.machine_ms + one.waited_ms;
        let allowed_ms = allowed_ms(case, noise_ms);
        findings.noise_ms = findings.noise_ms.max(allowed_ms);
        findings.keys += 1;
        let within = tolerance(case, one, key, allowed_ms);
        if !holds(relation, want, got, within) {
            let (place, shown) = (place(one, key), shorten(got));
            let mut text = format!("{place}: got {shown}, wanted {want}");
            if within > 0.0 {
                text += &format!(" +- {within:.1}");
            }
            if holds(relation, want, got, tolerance(case, one, key, noise_ms)) {
                text += &format!(": machine too busy to judge, threads were {noise_ms:.0} ms late");
            }
            findings.wrong.push(Wrong::about(key, text));
        }
    }
    if !told {
        let place = variant.map_or(String::new(), |name| format!("{name}."));
        let text = format!("{place}{key}: key not understood");
        findings.wrong.push(Wrong::about(key, text));
    }
}

fn place(one: &Seen, key: &str) -> String {
    let by = if one.by.is_empty() {
        String::new()
    } else {
        format!(" ({})", one.by)
    };
    let dot = if one.variant.is_empty() || key.is_empty() {
        ""
    } else {
        "."
    };
    format!("{}{dot}{key}{by}", one.variant)
}

fn shorten(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", text.split_at(end).0),
        None => text,
    }
}

/// Longest value that a line shows.
const SHOWN_CHARS: usize = 400;

/// How a wanted value relates to the one seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    /// Every wanted entry of a map is there.
    Includes,
    AtMost,
    AtLeast,
    /// None of the wanted is in the list, or in the text.
    Lacks,
    /// Every wanted is in the list.
    Keeps,
    /// Every pair of names has one value.
    PairsEqual,
    /// No pair of names has one value.
    PairsDiffer,
}

/// Words of a key that put a bound on what the others name.
const BOUNDS: &[(&str, Relation)] = &[
    ("max", Relation::AtMost),
    ("within", Relation::AtMost),
    ("min", Relation::AtLeast),
];

/// Endings of a key that do.
const ENDINGS: &[(&str, Relation)] = &[
    ("_must_not_contain", Relation::Lacks),
    ("_never", Relation::Lacks),
    ("_kept", Relation::Keeps),
];

/// Whether a key is this value's name, or puts a bound on it.
pub(crate) fn asks_for(key: &str, name: &str) -> bool {
    let mut one = Seen::default();
    one.put(name, Value::Null);
    find(&one, key).is_some()
}

/// Finds what a key asks for: the value of that name, or one that the key puts a bound on.
fn find<'a>(one: &'a Seen, key: &str) -> Option<(Relation, &'a Value)> {
    let value = |name: &str| one.values.get(name);
    if let Some(found) = value(key) {
        let part = key.ends_with("_sees") || key.contains("shared");
        return Some((
            if part {
                Relation::Includes
            } else {
                Relation::Equal
            },
            found,
        ));
    }
    match key {
        "equal" => return value("ids").map(|found| (Relation::PairsEqual, found)),
        "different" => return value("ids").map(|found| (Relation::PairsDiffer, found)),
        _ => {}
    }
    for (word, relation) in BOUNDS {
        let words: Vec<&str> = key.split('_').filter(|w| w != word).collect();
        if words.len() < key.split('_').count()
            && let Some(found) = value(&words.join("_"))
        {
            return Some((*relation, found));
        }
    }
    for (ending, relation) in ENDINGS {
        if let Some(found) = key.strip_suffix(ending).and_then(value) {
            return Some((*relation, found));
        }
    }
    None
}

/// What a busy machine may add to the tolerance: never as much as would hide what the case is for.
fn allowed_ms(case: &Case, noise_ms: f64) -> f64 {
    let most = crate::spacing::tolerance_max_ms(case) - case.tolerance_ms;
    noise_ms.min(most.max(0.0))
}

fn tolerance(case: &Case, one: &Seen, key: &str, noise_ms: f64) -> f64 {
    let own = one.tolerances.get(key).copied();
    let timed = crate::spacing::is_time(key);
    match (timed && case.tolerance_ms > 0.0, own) {
        (true, Some(own)) => own.min(case.tolerance_ms) * (1.0 + noise_ms / case.tolerance_ms),
        (true, None) => case.tolerance_ms + noise_ms,
        (false, own) => own.unwrap_or(0.0),
    }
}

fn holds(relation: Relation, want: &Value, got: &Value, tolerance: f64) -> bool {
    if let Some(choices) = want.get("any_of").and_then(Value::as_array) {
        return choices
            .iter()
            .any(|choice| holds(relation, choice, got, tolerance));
    }
    let number = |value: &Value| value.as_f64();
    match relation {
        Relation::Equal => same(want, got, tolerance),
        Relation::Includes => match (want.as_object(), got.as_object()) {
            (Some(wanted), Some(got)) => wanted.iter().all(|(key, want)| {
                let found = got.get(key).or_else(|| got.get(&flipped(key)));
                found.is_some_and(|got| same(want, got, tolerance))
            }),
            _ => same(want, got, tolerance),
        },
        Relation::AtMost => number(got)
            .zip(number(want))
            .is_some_and(|(got, want)| got <= want + tolerance),
        Relation::AtLeast => number(got)
            .zip(number(want))
            .is_some_and(|(got, want)| got >= want),
        Relation::Lacks => {
            let wanted = want.as_array().map(Vec::as_slice).unwrap_or_default();
            wanted.iter().all(|want| !has(got, want))
        }
        Relation::Keeps => {
            let wanted = want.as_array().map(Vec::as_slice).unwrap_or_default();
            wanted.iter().all(|want| has(got, want))
        }
        Relation::PairsEqual => pairs(want, got).is_some_and(|all| all.iter().all(|(a, b)| a == b)),
        Relation::PairsDiffer => {
            pairs(want, got).is_some_and(|all| all.iter().all(|(a, b)| a != b))
        }
    }
}

/// `A-B` and `B-A` are one pair.
fn flipped(key: &str) -> String {
    key.split_once('-')
        .map_or(key.to_owned(), |(a, b)| format!("{b}-{a}"))
}

fn has(got: &Value, want: &Value) -> bool {
    match (got, want.as_str()) {
        (Value::String(text), Some(needle)) => text.contains(needle),
        (Value::Array(list), _) => list.iter().any(|value| same(want, value, 0.0)),
        _ => false,
    }
}

fn pairs<'a>(want: &Value, got: &'a Value) -> Option<Vec<(&'a Value, &'a Value)>> {
    let names = want.as_array()?.iter().map(|pair| strings(Some(pair)));
    let value = |name: Option<&String>| got.get(name?);
    names
        .map(|pair| Some((value(pair.first())?, value(pair.get(1))?)))
        .collect()
}

fn same(want: &Value, got: &Value, tolerance: f64) -> bool {
    match (want, got) {
        (Value::Number(wanted), Value::Number(_)) => {
            if let (Some(want), Some(got)) = (want.as_u64(), got.as_u64())
                && tolerance == 0.0
            {
                return want == got;
            }
            let slack = tolerance.max(last_digit(&wanted.to_string()));
            let (want, got) = (
                want.as_f64().unwrap_or(f64::NAN),
                got.as_f64().unwrap_or(f64::NAN),
            );
            (want - got).abs() <= slack
        }
        (Value::Array(want), Value::Array(got)) => {
            let pair = |(want, got): (&Value, &Value)| same(want, got, tolerance);
            want.len() == got.len() && want.iter().zip(got).all(pair)
        }
        (Value::Object(want), Value::Object(got)) => same_map(want, got, tolerance),
        _ => want == got,
    }
}

fn same_map(want: &Map<String, Value>, got: &Map<String, Value>, tolerance: f64) -> bool {
    let pair =
        |(key, want): (&String, &Value)| got.get(key).is_some_and(|got| same(want, got, tolerance));
    want.len() == got.len() && want.iter().all(pair)
}

/// A number that is written with digits after the point is right to its last digit.
fn last_digit(written: &str) -> f64 {
    let digits = written
        .split_once('.')
        .map_or(0, |(_, digits)| digits.len());
    if digits == 0 {
        1e-9
    } else {
        0.51 * 0.1_f64.powi(i32::try_from(digits).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
