//! The verb `diff`: where two captures, sets or runs differ, number by number of their profiles.

use crate::cli::DiffArgs;
use crate::error::Error;
use crate::parallel;
use crate::profile::{self, ProfileOptions};
use crate::talk::{self, OutputFormat};
use serde_json::Value;
use std::collections::BTreeMap;
use truetape_schemas::blame::Answer;

/// Cache sizes at which both sides are compared, whatever each of them holds.
const CAPACITIES: [usize; 6] = [1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000];

/// One number that differs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Difference {
    /// Its key in the profile, as in `input_tokens.p90`.
    pub key: String,
    /// The one side; none where it is unknown.
    pub a: Option<f64>,
    /// The other.
    pub b: Option<f64>,
}

/// Carries out `truetape diff`: exit 1 when there is a difference.
pub fn run(args: DiffArgs) -> Result<Answer, Error> {
    let options = ProfileOptions {
        capacities_blocks: CAPACITIES.to_vec(),
        windows_s: Vec::new(),
        block_tokens: None,
        threads: parallel::default_threads(),
    };
    let numbers = |reference: &String| -> Result<BTreeMap<String, f64>, Error> {
        let references = std::slice::from_ref(reference);
        let (profile, _) = profile::of(references, args.store.as_deref(), &options)?;
        let value = serde_json::to_value(profile)
            .map_err(|cause| Error::bug("profile", format!("could not encode JSON: {cause}")))?;
        let mut numbers = BTreeMap::new();
        flatten("", &value, &mut numbers);
        Ok(numbers)
    };
    let differences = differences(&numbers(&args.a)?, &numbers(&args.b)?);
    match args.format {
        OutputFormat::Json => talk::json(&differences)?,
        OutputFormat::Text => talk::data(&text(&differences))?,
    }
    Ok(if differences.is_empty() {
        Answer::Yes
    } else {
        Answer::No
    })
}

fn flatten(prefix: &str, value: &Value, numbers: &mut BTreeMap<String, f64>) {
    let join = |key: &str| {
        if prefix.is_empty() {
            key.to_owned()
        } else {
            format!("{prefix}.{key}")
        }
    };
    match value {
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(key, value)| flatten(&join(key), value, numbers));
        }
        Value::Array(items) => {
            let indexed = items.iter().enumerate();
            indexed.for_each(|(at, item)| flatten(&join(&at.to_string()), item, numbers));
        }
        Value::Number(number) => {
            numbers.extend(number.as_f64().map(|number| (prefix.to_owned(), number)));
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn differences(a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>) -> Vec<Difference> {
    let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let both = keys
        .into_iter()
        .map(|key| (key, a.get(key).copied(), b.get(key).copied()));
    let different = both.filter(|(_, a, b)| a != b);
    different
        .map(|(key, a, b)| Difference {
            key: key.clone(),
            a,
            b,
        })
        .collect()
}

fn text(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "no difference\n".to_owned();
    }
    let show = |n: Option<f64>| n.map_or("unknown".to_owned(), |n| n.to_string());
    let lines = differences.iter().map(|difference| {
        let Difference { key, a, b } = difference;
        let change = match (a, b) {
            (Some(a), Some(b)) if *a != 0.0 => format!(" ({:+.2} %)", 100.0 * (b - a) / a),
            _ => String::new(),
        };
        format!("{key}: {} -> {}{change}\n", show(*a), show(*b))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_named_and_unknown_is_not_zero() {
        let map = |pairs: &[(&str, f64)]| -> BTreeMap<String, f64> {
            pairs
                .iter()
                .map(|(key, n)| ((*key).to_owned(), *n))
                .collect()
        };
        let found = differences(
            &map(&[("a", 1.0), ("b", 2.0)]),
            &map(&[("a", 1.0), ("b", 3.0), ("c", 0.0)]),
        );
        let keys: Vec<&str> = found
            .iter()
            .map(|difference| difference.key.as_str())
            .collect();
        assert_eq!(keys, ["b", "c"]);
        assert_eq!(text(&found), "b: 2 -> 3 (+50.00 %)\nc: unknown -> 0\n");
    }
}
