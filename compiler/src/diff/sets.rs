//! What two sets have in common, and what their manifests say differently.

use crate::error::Error;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use truetape_schemas::set::manifest::Manifest;
use truetape_schemas::set::store;

/// Two sets, as sets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sets {
    /// Digests of the one and of the other.
    pub digests: [String; 2],
    /// Settings of the recipe that differ, and other words of the manifest.
    pub settings: Vec<Setting>,
    /// Captures that only the one was made from, by digest.
    pub only_a_sources: Vec<String>,
    /// Captures that only the other was made from.
    pub only_b_sources: Vec<String>,
    /// Sessions of both, by name.
    pub sessions: Overlap,
    /// Turns of both, by the exchange that they come from.
    pub turns: Overlap,
    /// Prompt and generated tokens of those turns.
    pub tokens: Overlap,
    /// Content parts of both.
    pub content: Overlap,
}

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Its key, as in `recipe.select.token_share`.
    pub key: String,
    /// The one side; null where it is not set.
    pub a: Value,
    /// The other.
    pub b: Value,
}

/// How much two sets share of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// What the one holds.
    pub a: u64,
    /// What the other holds.
    pub b: u64,
    /// What both hold.
    pub both: u64,
}

/// Compares two sets.
pub(super) fn compare(a: &Path, b: &Path) -> Result<Sets, Error> {
    let (one, other) = (Held::read(a)?, Held::read(b)?);
    let sources = |held: &Held| -> BTreeSet<String> {
        let sources = held.manifest.sources.iter();
        sources.map(|source| source.digest.clone()).collect()
    };
    let (sources_a, sources_b) = (sources(&one), sources(&other));
    Ok(Sets {
        settings: settings(&words(&one.manifest), &words(&other.manifest)),
        only_a_sources: sources_a.difference(&sources_b).cloned().collect(),
        only_b_sources: sources_b.difference(&sources_a).cloned().collect(),
        sessions: overlap(&one.sessions, &other.sessions),
        turns: Overlap {
            a: one.turns.len() as u64,
            b: other.turns.len() as u64,
            both: one.both(&other).count() as u64,
        },
        tokens: Overlap {
            a: one.turns.values().sum(),
            b: other.turns.values().sum(),
            both: one.both(&other).sum(),
        },
        content: overlap(&one.content, &other.content),
        digests: [one.manifest.digest, other.manifest.digest],
    })
}

/// What is compared of a set.
struct Held {
    manifest: Manifest,
    sessions: BTreeSet<String>,
    /// Tokens of each turn, by the exchange that it comes from.
    turns: BTreeMap<String, u64>,
    content: BTreeSet<String>,
}

impl Held {
    fn read(dir: &Path) -> Result<Self, Error> {
        let mut held = Self {
            manifest: store::manifest(dir)?,
            sessions: BTreeSet::new(),
            turns: BTreeMap::new(),
            content: BTreeSet::new(),
        };
        for batch in store::read_turns(dir)? {
            for turn in batch? {
                let count = |tokens: Option<i64>| tokens.map_or(0, |n| n.max(0).unsigned_abs());
                let tokens = count(turn.input_tokens).saturating_add(count(turn.output_tokens));
                held.turns.insert(turn.exchange_id, tokens);
                held.sessions.insert(turn.session);
            }
        }
        for batch in store::content(dir)? {
            held.content
                .extend(batch?.into_iter().map(|part| part.content_id));
        }
        Ok(held)
    }

    /// Tokens of the turns that both hold.
    fn both<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = u64> + 'a {
        let shared = self.turns.iter();
        shared
            .filter(|(id, _)| other.turns.contains_key(*id))
            .map(|(_, tokens)| *tokens)
    }
}

fn overlap(a: &BTreeSet<String>, b: &BTreeSet<String>) -> Overlap {
    Overlap {
        a: a.len() as u64,
        b: b.len() as u64,
        both: a.intersection(b).count() as u64,
    }
}

/// What a manifest says in words, by key.
fn words(manifest: &Manifest) -> BTreeMap<String, Value> {
    let mut words = BTreeMap::new();
    leaves("recipe", &manifest.recipe, &mut words);
    let semantics = serde_json::to_value(&manifest.semantics).unwrap_or_default();
    leaves("semantics", &semantics, &mut words);
    leaves("block_tokens", &manifest.block_tokens.into(), &mut words);
    let tokenizer = serde_json::to_value(&manifest.tokenizer).unwrap_or_default();
    leaves("tokenizer", &tokenizer, &mut words);
    leaves(
        "tool_version",
        &manifest.tool_version.clone().into(),
        &mut words,
    );
    words
}

fn leaves(key: &str, value: &Value, words: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                leaves(&format!("{key}.{name}"), value, words);
            }
        }
        other => {
            words.insert(key.to_owned(), other.clone());
        }
    }
}

fn settings(a: &BTreeMap<String, Value>, b: &BTreeMap<String, Value>) -> Vec<Setting> {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let both = keys.into_iter().map(|key| Setting {
        key: key.clone(),
        a: a.get(key).cloned().unwrap_or_default(),
        b: b.get(key).cloned().unwrap_or_default(),
    });
    both.filter(|setting| setting.a != setting.b).collect()
}

/// For people.
pub(super) fn text(sets: &Sets) -> String {
    let mut text = String::new();
    for setting in &sets.settings {
        text.push_str(&format!(
            "{}: {} -> {}\n",
            setting.key, setting.a, setting.b
        ));
    }
    for (sources, which) in [
        (&sets.only_a_sources, "first"),
        (&sets.only_b_sources, "second"),
    ] {
        for source in sources {
            let short = crate::store::short(source);
            text.push_str(&format!("only the {which} comes from capture {short}\n"));
        }
    }
    for (what, overlap) in [
        ("sessions", sets.sessions),
        ("turns", sets.turns),
        ("tokens of turns", sets.tokens),
        ("content parts", sets.content),
    ] {
        let Overlap { a, b, both } = overlap;
        let least = a.min(b);
        if least > 0 {
            let share = 100.0 * both as f64 / least as f64;
            text.push_str(&format!(
                "{what}: {a} and {b}, in both {both} ({share:.1} %)\n"
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Overlap, overlap, settings, words};
    use serde_json::json;
    use std::collections::BTreeSet;
    use truetape_schemas::set::manifest::Manifest;

    #[test]
    fn settings_are_named_by_their_key_and_absence_is_null() {
        let of = |recipe: serde_json::Value| {
            words(&Manifest {
                recipe,
                ..Manifest::default()
            })
        };
        let a = of(json!({"seed": 1, "select": {"token_share": 0.1}}));
        let b = of(json!({"seed": 1, "select": {"token_share": 0.2, "tokens": 5}}));
        let found = settings(&a, &b);
        let keys: Vec<&str> = found.iter().map(|setting| setting.key.as_str()).collect();
        assert_eq!(keys, ["recipe.select.token_share", "recipe.select.tokens"]);
        assert_eq!((&found[1].a, &found[1].b), (&json!(null), &json!(5)));
        assert!(settings(&a, &a).is_empty());
    }

    #[test]
    fn what_both_hold_is_counted_once() {
        let set = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let found = overlap(&set(&["a", "b", "c"]), &set(&["b", "c", "d", "e"]));
        assert_eq!(
            found,
            Overlap {
                a: 3,
                b: 4,
                both: 2
            }
        );
    }
}
