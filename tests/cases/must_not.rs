//! Sentences of `must_not` that a machine can read; the others are covered by keys.

use crate::case::names_variant;
use crate::check::Seen;
use crate::findings::Wrong;
use serde_json::Value;

/// Outcomes, as sentences name them.
const OUTCOMES: &[&str] = &[
    "complete",
    "error",
    "truncated",
    "client_aborted",
    "timeout",
];

/// What one sentence forbids.
#[derive(Clone, Debug, PartialEq)]
enum Forbidden {
    /// Any of these values.
    Values(Vec<Value>),
    /// Values above.
    Above(f64),
    /// Values below.
    Below(f64),
}

/// `None` when the sentence is for people. Otherwise: who did what it forbids.
pub(crate) fn check(sentence: &str, seen: &[Seen]) -> Option<Vec<Wrong>> {
    let mut wrong = Vec::new();
    let mut read = false;
    for part in sentence.split(';').map(str::trim) {
        let Some((variant, key, forbidden)) = parse(part) else {
            continue;
        };
        let variants: Vec<&str> = seen.iter().map(|one| one.variant.as_str()).collect();
        for one in seen {
            let named = |label: &String| names_variant(label, &one.variant, &variants);
            if !variant.as_ref().is_none_or(named) {
                continue;
            }
            let Some(value) = one.values.get(&key) else {
                continue;
            };
            read = true;
            if matches(&forbidden, value) {
                let text = format!("must not: {part}: {key} is {value} ({})", one.by);
                wrong.push(Wrong::about(&key, text));
            }
        }
    }
    read.then_some(wrong)
}

/// Values that a sentence forbids, by the key that must not have them.
pub(crate) fn numbers(sentence: &str) -> Vec<(String, f64)> {
    let parts = sentence.split(';').filter_map(|part| parse(part.trim()));
    let numbers = |(_, key, forbidden): (_, String, Forbidden)| match forbidden {
        Forbidden::Values(values) => values
            .iter()
            .filter_map(Value::as_f64)
            .map(|number| (key.clone(), number))
            .collect(),
        Forbidden::Above(number) | Forbidden::Below(number) => vec![(key, number)],
    };
    parts.flat_map(numbers).collect()
}

fn matches(forbidden: &Forbidden, value: &Value) -> bool {
    match forbidden {
        Forbidden::Values(values) => {
            values
                .iter()
                .any(|forbidden| match (forbidden.as_f64(), value.as_f64()) {
                    (Some(forbidden), Some(value)) => (forbidden - value).abs() < NEAR,
                    _ => forbidden == value,
                })
        }
        Forbidden::Above(bound) => value.as_f64().is_some_and(|value| value > *bound),
        Forbidden::Below(bound) => value.as_f64().is_some_and(|value| value < *bound),
    }
}

/// Times are forbidden to the millisecond.
const NEAR: f64 = 1.0;

fn parse(sentence: &str) -> Option<(Option<String>, String, Forbidden)> {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let (first, rest) = words.split_first()?;
    let (variant, name) = match first.split_once('.') {
        Some((variant, name)) => (Some(variant.to_owned()), name),
        None => (None, *first),
    };
    if let ([outcome], true) = (rest, variant.is_none() && name != "outcome")
        && OUTCOMES.contains(outcome)
        && name.len() <= 2
    {
        let values = Forbidden::Values(vec![Value::from(*outcome)]);
        return Some((Some(name.to_owned()), "outcome".to_owned(), values));
    }
    let key = key_of(name)?;
    let (operator, values) = match rest.split_first()? {
        (&("=" | "in" | ">" | "<" | "below" | "above"), values) => (*rest.first()?, values),
        _ => ("=", rest),
    };
    let values = values.join(" ");
    let list = values.trim_matches(['[', ']']).replace(" or ", ",");
    let values: Option<Vec<Value>> = list.split(',').map(|value| literal(value.trim())).collect();
    let values = values?;
    let number = values.first().and_then(Value::as_f64);
    let forbidden = match operator {
        ">" | "above" => Forbidden::Above(number?),
        "<" | "below" => Forbidden::Below(number?),
        _ => Forbidden::Values(values),
    };
    Some((variant, key, forbidden))
}

fn key_of(name: &str) -> Option<String> {
    let key = match name {
        "TTFT" => "ttft_ms",
        "E2EL" => "e2el_ms",
        "TPOT" => "tpot_ms",
        "p50" => "success_p50_ms",
        "prompt" => "prompt_tokens",
        "output" => "output_tokens",
        name if name.chars().all(|c| c.is_ascii_lowercase() || c == '_') => name,
        _ => return None,
    };
    Some(key.to_owned())
}

fn literal(word: &str) -> Option<Value> {
    if word == "NULL" {
        return Some(Value::Null);
    }
    if let Ok(number) = word.parse::<f64>() {
        return Some(Value::from(number));
    }
    let plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    plain.then(|| Value::from(word))
}
