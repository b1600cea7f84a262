//! Session inference against traffic whose sessions are known, where it is at hand: the labels
//! are hidden, and what was inferred is compared with them.

use crate::fixture::{compiled, turns, write};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use truetape_schemas::capture::Exchange;
use truetape_schemas::set::{Turn, TurnKind};
use truetape_schemas::time::parse_utc;

fn traces(name: &str) -> Option<PathBuf> {
    truetape_testkit::shared::path(&format!("traces/{name}"))
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            found.push(path);
        }
    }
    found.sort();
}

/// Rows of all files, each labelled with its file.
fn rows(dir: &Path, row: impl Fn(&Value) -> Exchange) -> (Vec<Exchange>, HashMap<String, usize>) {
    let mut paths = Vec::new();
    files(dir, &mut paths);
    let (mut rows, mut labels) = (Vec::new(), HashMap::new());
    for (label, path) in paths.iter().enumerate() {
        for (number, line) in std::fs::read_to_string(path).unwrap().lines().enumerate() {
            let value: Value = serde_json::from_str(line).unwrap();
            let exchange_id = format!("{label:03}-{number:04}");
            labels.insert(exchange_id.clone(), label);
            rows.push(Exchange {
                exchange_id,
                proxy_id: "p".into(),
                conn_id: -1,
                method: "POST".into(),
                end_us: Some(1),
                status: Some(200),
                ..row(&value)
            });
        }
    }
    (rows, labels)
}

fn set(dir: &Path, rows: &[Exchange]) -> Vec<Turn> {
    write(&dir.join("c/0.parquet"), rows);
    let recipe = "[select]\nmethod = \"all\"\n[content]\nkind = \"lengths\"";
    turns(&compiled(&[dir.join("c")], recipe, &dir.join("s")))
}

/// Ties across labels, ties inside one, and first turns of what has a label.
fn judge(turns: &[Turn], labels: &HashMap<String, usize>) -> (usize, usize, usize) {
    let label = |turn: &Turn| labels[&turn.exchange_id];
    let mut roots: BTreeMap<usize, usize> = BTreeMap::new();
    let (mut wrong, mut right) = (0, 0);
    for turn in turns.iter().filter(|turn| turn.kind != TurnKind::Probe) {
        match turn.parent.map(|id| &turns[usize::try_from(id).unwrap()]) {
            None => *roots.entry(label(turn)).or_default() += 1,
            Some(parent) if label(parent) == label(turn) => right += 1,
            Some(_) => wrong += 1,
        }
    }
    (wrong, right, roots.values().sum())
}

#[test]
fn messages_find_the_sessions_of_agents_and_never_join_two() {
    let Some(dir) = traces("exgentic/tau2_retail_10") else {
        return;
    };
    let (rows, labels) = rows(&dir, |value| Exchange {
        arrival: parse_utc(value["timestamp"].as_str().unwrap()).unwrap(),
        path: "/v1/chat/completions".into(),
        dialect: "openai_chat".into(),
        max_tokens: value["request"]["max_tokens"].as_i64(),
        request_body: Some(value["request"].to_string().into_bytes()),
        ..Exchange::default()
    });
    let scratch = tempfile::tempdir().unwrap();
    let turns = set(scratch.path(), &rows);
    let probes = turns
        .iter()
        .filter(|turn| turn.kind == TurnKind::Probe)
        .count();
    let (wrong, right, roots) = judge(&turns, &labels);
    assert_eq!(right, turns.len() - 40);
    assert_eq!(wrong, 0);
    assert_eq!(probes, 20, "every agent says hi first");
    assert_eq!(roots, 20, "and then holds one conversation");
}

#[test]
fn blocks_find_who_extends_a_plain_prompt_and_never_join_two() {
    let Some(dir) = traces("lmcache/miniswe") else {
        return;
    };
    let (rows, labels) = rows(&dir, |value| Exchange {
        arrival: value["timestamp"].as_i64().unwrap(),
        path: "/v1/completions".into(),
        dialect: "openai_completions".into(),
        request_body: Some(json!({"prompt": value["input"]}).to_string().into_bytes()),
        ..Exchange::default()
    });
    let scratch = tempfile::tempdir().unwrap();
    let turns = set(scratch.path(), &rows);
    let (wrong, right, roots) = judge(&turns, &labels);
    assert_eq!(wrong, 0);
    // These agents take back a third of their steps: a prompt is then a piece of the one before,
    // which ties nobody. The others are all found.
    assert!(
        right > 240 && right + roots == turns.len(),
        "{right} {roots}"
    );
}
