//! What prompts hold, from captures with text.

use crate::fixture::{Talk, compiled, contents, hold, turns, write};
use serde_json::{Value, json};
use std::path::Path;
use truetape_compiler::compile::Compiled;
use truetape_fidelity::tokens::{count, render_chat};
use truetape_schemas::set::{ContentKind, Turn};

fn talk(name: &str) -> Talk {
    Talk {
        name: name.into(),
        start_us: 0,
        turns: 3,
        keyed: false,
    }
}

fn set(dir: &Path, kind: &str) -> Compiled {
    let mut rows = [hold(&talk("a")), hold(&talk("b"))].concat();
    rows[0].stop = Some(vec!["Canary".into()]);
    write(&dir.join("c/0.parquet"), &rows);
    let recipe = format!("[select]\nmethod = \"all\"\n[content]\nkind = \"{kind}\"");
    compiled(&[dir.join("c")], &recipe, &dir.join("store"))
}

/// Puts the body of a turn together, as the spec of set/1 says.
fn body(compiled: &Compiled, turn: &Turn) -> Value {
    let contents = contents(compiled);
    let part = |id: &String| -> Value { serde_json::from_slice(&contents[id].body).unwrap() };
    let mut body = part(turn.template.as_ref().unwrap());
    body["messages"] = turn.content.iter().map(part).collect();
    body
}

#[test]
fn verbatim_prompts_are_what_production_sent() {
    let dir = tempfile::tempdir().unwrap();
    let set = set(dir.path(), "verbatim");
    let sent = [hold(&talk("a")), hold(&talk("b"))].concat();
    for turn in turns(&set) {
        let exchange = sent
            .iter()
            .find(|row| row.exchange_id == turn.exchange_id)
            .unwrap();
        let sent: Value = serde_json::from_slice(exchange.request_body.as_ref().unwrap()).unwrap();
        assert_eq!(body(&set, &turn), sent);
    }
    let messages = contents(&set)
        .into_values()
        .filter(|part| part.kind == ContentKind::Message);
    assert_eq!(messages.count(), 1 + 2 * 5, "shared history is stored once");
}

#[test]
fn synthetic_prompts_have_the_lengths_and_none_of_the_words() {
    let dir = tempfile::tempdir().unwrap();
    let set = set(dir.path(), "synthetic");
    assert_eq!(set.manifest.tokenizer.name, "bytes:4");
    assert_eq!(set.manifest.tokenizer.calibration_error, Some(0.0));
    for turn in turns(&set) {
        let body = body(&set, &turn);
        assert_eq!(
            i64::try_from(count(&render_chat(&body))).ok(),
            turn.input_tokens
        );
        assert_eq!(body["max_tokens"], json!(64));
    }
    // Parquet compresses, so files are searched as what they hold.
    let mut text = format!("{:?}{:?}", turns(&set), set.manifest);
    for part in contents(&set).into_values() {
        text.push_str(&String::from_utf8(part.body).unwrap());
    }
    assert!(!text.contains("Canary"));
}

#[test]
fn sharing_in_the_plan_is_sharing_in_the_text() {
    let dir = tempfile::tempdir().unwrap();
    let set = set(dir.path(), "synthetic");
    let turns = turns(&set);
    for a in &turns {
        for b in &turns {
            let rendered = [a, b].map(|turn| render_chat(&body(&set, turn)));
            let block = 4 * usize::try_from(a.block_tokens.unwrap()).unwrap();
            let shared = rendered[0]
                .chunks_exact(block)
                .zip(rendered[1].chunks_exact(block));
            let shared = shared.take_while(|(a, b)| a == b).count();
            let hashes = [a, b].map(|turn| turn.block_hashes.clone().unwrap());
            let planned = hashes[0]
                .iter()
                .zip(&hashes[1])
                .take_while(|(a, b)| a == b)
                .count();
            // A last block that is not full is planned too, but no whole block of text.
            assert!(
                planned == shared || a.exchange_id == b.exchange_id,
                "{planned} {shared}"
            );
        }
    }
}

#[test]
fn turns_of_a_conversation_depend_on_each_other_and_keep_their_think_time() {
    let dir = tempfile::tempdir().unwrap();
    let set = set(dir.path(), "synthetic");
    let turns = turns(&set);
    for turn in &turns {
        let parent = turn.parent.map(|id| &turns[usize::try_from(id).unwrap()]);
        match parent {
            None => assert_eq!((turn.turn, turn.gap_us), (1, None)),
            Some(parent) => {
                assert_eq!(turn.link_evidence.as_deref(), Some("answer"));
                assert_eq!(
                    (turn.turn, &turn.session),
                    (parent.turn + 1, &parent.session)
                );
                assert_eq!(turn.depends_on, [parent.turn_id]);
                assert_eq!(turn.gap_us, Some(5_000_000 - 2_050));
            }
        }
    }
    assert_eq!(set.manifest.counts.sessions, 2);
}

#[test]
fn lengths_have_no_content() {
    let dir = tempfile::tempdir().unwrap();
    let set = set(dir.path(), "lengths");
    assert_eq!(set.manifest.counts.content_parts, 0);
    assert!(
        turns(&set)
            .iter()
            .all(|turn| turn.content.is_empty() && turn.template.is_none() && turn.stop.is_none())
    );
}

#[test]
fn tenants_that_production_kept_apart_share_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows = [hold(&talk("a")), hold(&talk("b"))].concat();
    // One conversation of two tenants, and again of the first.
    for (at, salt) in ["one", "two", "one"].iter().enumerate() {
        let mut row = hold(&talk("c")).remove(0);
        let mut body: Value = serde_json::from_slice(row.request_body.as_ref().unwrap()).unwrap();
        body["cache_salt"] = (*salt).into();
        row.request_body = Some(body.to_string().into_bytes());
        row.exchange_id = format!("salted-{at}");
        row.arrival += 60_000_000 * (1 + at as i64);
        rows.push(row);
    }
    write(&dir.path().join("c/0.parquet"), &rows);
    let all = "[tokens]\nblock_tokens = 4\n[select]\nmethod = \"all\"";
    let set = compiled(&[dir.path().join("c")], all, dir.path());
    let turns = turns(&set);
    let of = |id: &str| turns.iter().find(|turn| turn.exchange_id == id).unwrap();
    let first = |id: &str| of(id).block_hashes.as_ref().unwrap()[0];
    assert_eq!(first("salted-0"), first("salted-2"));
    assert_ne!(first("salted-0"), first("salted-1"));
    assert_eq!(first("a-0000"), first("b-0000"));
    assert_ne!(first("a-0000"), first("salted-0"));
    let salts =
        ["salted-0", "salted-1", "salted-2"].map(|id| body(&set, of(id))["cache_salt"].clone());
    assert!(salts[0] == salts[2] && salts[0] != salts[1], "{salts:?}");
    assert!(
        salts
            .iter()
            .all(|salt| salt.is_string() && salt != "one" && salt != "two")
    );
    let findings = &set.manifest.findings;
    assert!(
        findings
            .iter()
            .any(|finding| finding.starts_with("3 requests carry a cache_salt"))
    );
}
