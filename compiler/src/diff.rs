//! The verb `diff`: what changed from one capture, set or run to another.
//!
//! Three views, from what matters to what is exact: the dimensions of a fidelity report with the
//! first side as the source, so that a difference comes with a verdict and a direction; what two
//! sets have in common ([`sets`]); and every number of the two profiles.

use crate::cli::DiffArgs;
use crate::error::Error;
use crate::parallel;
use crate::profile::{self, ProfileOptions};
use crate::source::{Subject, subject};
use crate::talk::{self, OutputFormat};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use truetape_fidelity::grade::{self, SetContext};
use truetape_fidelity::population::Population;
use truetape_fidelity::profile::{Options, profile};
use truetape_fidelity::render;
use truetape_schemas::blame::Answer;
use truetape_schemas::report::{Dimension, Verdict};

pub mod sets;

/// Cache sizes at which both sides are compared, whatever each of them holds.
const CAPACITIES: [usize; 6] = [1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000];

/// What changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// The dimensions of a report on the second side, with the first as its source.
    pub dimensions: Vec<Dimension>,
    /// Two sets as sets; none where one of them is none.
    pub sets: Option<sets::Sets>,
    /// Numbers of the profiles that differ.
    pub numbers: Vec<Difference>,
}

impl Diff {
    /// Whether there is any difference.
    pub fn is_empty(&self) -> bool {
        let same_set = |sets: &sets::Sets| {
            let [a, b] = &sets.digests;
            a == b
        };
        self.numbers.is_empty() && self.sets.as_ref().is_none_or(same_set)
    }
}

/// One number that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Its key in the profile, as in `input_tokens.p90`.
    pub key: String,
    /// The one side; none where it is unknown.
    pub a: Option<f64>,
    /// The other.
    pub b: Option<f64>,
}

/// Compares two captures, sets or runs.
pub fn of(a: &str, b: &str, in_store: Option<&Path>) -> Result<Diff, Error> {
    let options = ProfileOptions {
        capacities_blocks: CAPACITIES.to_vec(),
        windows_s: Vec::new(),
        block_tokens: None,
        threads: parallel::default_threads(),
    };
    let read = |reference: &str| -> Result<Population, Error> {
        let seen = profile::population(&[reference.to_owned()], in_store, &options)?;
        Ok(seen.population)
    };
    let (one, other) = (read(a)?, read(b)?);
    let sets = match (subject(a, in_store)?, subject(b, in_store)?) {
        (Subject::Set(a), Subject::Set(b)) => Some(sets::compare(&a, &b)?),
        _ => None,
    };
    // Each side stands for itself: nothing is a sample of the other.
    let context = SetContext {
        view: "fleet".to_owned(),
        rate: "recorded".to_owned(),
        capacities_blocks: CAPACITIES.to_vec(),
        ..SetContext::default()
    };
    Ok(Diff {
        dimensions: grade::set_against_source(&one, &other, &context).dimensions,
        sets,
        numbers: differences(&numbers(&one)?, &numbers(&other)?),
    })
}

fn numbers(population: &Population) -> Result<BTreeMap<String, f64>, Error> {
    let options = Options {
        capacities_blocks: CAPACITIES.to_vec(),
        ..Options::default()
    };
    let value = serde_json::to_value(profile(population, &options))
        .map_err(|cause| Error::bug("profile", format!("could not encode JSON: {cause}")))?;
    let mut numbers = BTreeMap::new();
    flatten("", &value, &mut numbers);
    Ok(numbers)
}

/// Carries out `truetape diff`: exit 1 when there is a difference.
pub fn run(args: DiffArgs) -> Result<Answer, Error> {
    let diff = of(&args.a, &args.b, args.store.as_deref())?;
    match args.format {
        OutputFormat::Json => talk::json(&diff)?,
        OutputFormat::Text => talk::data(&text(&diff))?,
    }
    Ok(if diff.is_empty() {
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

fn text(diff: &Diff) -> String {
    if diff.is_empty() {
        return "no difference\n".to_owned();
    }
    let mut text = diff.sets.as_ref().map(sets::text).unwrap_or_default();
    let changed = diff.dimensions.iter().filter(|dimension| {
        dimension.verdict != Verdict::Unknown && dimension.deviation.is_some_and(|off| off != 0.0)
    });
    for dimension in changed {
        text.push_str(&dimension_line(dimension));
    }
    for difference in &diff.numbers {
        text.push_str(&number_line(difference));
    }
    text
}

fn dimension_line(dimension: &Dimension) -> String {
    let far = match dimension.verdict {
        Verdict::Fail => "beyond the tolerance of a set",
        Verdict::Pass | Verdict::Unknown => "within it",
    };
    format!(
        "{}: {} ({far}, {})\n",
        dimension.id,
        render::deviation(dimension),
        dimension.direction.name()
    )
}

fn number_line(difference: &Difference) -> String {
    let Difference { key, a, b } = difference;
    let show = |n: Option<f64>| n.map_or("unknown".to_owned(), |n| n.to_string());
    let change = match (a, b) {
        (Some(a), Some(b)) if *a != 0.0 => format!(" ({:+.2} %)", 100.0 * (b - a) / a),
        _ => String::new(),
    };
    format!("{key}: {} -> {}{change}\n", show(*a), show(*b))
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
        let numbers = differences(
            &map(&[("a", 1.0), ("b", 2.0)]),
            &map(&[("a", 1.0), ("b", 3.0), ("c", 0.0)]),
        );
        let keys: Vec<&str> = numbers
            .iter()
            .map(|difference| difference.key.as_str())
            .collect();
        assert_eq!(keys, ["b", "c"]);
        let diff = Diff {
            dimensions: Vec::new(),
            sets: None,
            numbers,
        };
        assert_eq!(text(&diff), "b: 2 -> 3 (+50.00 %)\nc: unknown -> 0\n");
    }
}
