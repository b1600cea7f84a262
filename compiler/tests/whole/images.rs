//! Prompts with images: what is counted, and what is sent again.

use crate::fixture::{compiled, contents, turns, write};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::Path;
use truetape_compiler::compile::Compiled;
use truetape_schemas::capture::{Exchange, blob};

/// A picture of 9,000 bytes, as base64.
fn picture() -> String {
    "QUJD".repeat(3_000)
}

fn exchange(id: &str, at: i64) -> Exchange {
    let url = format!("data:image/png;base64,{}", picture());
    let body = json!({"model": "m", "messages": [{"role": "user", "content": [
        {"type": "text", "text": "what is this"},
        {"type": "image_url", "image_url": {"url": url}},
    ]}]});
    Exchange {
        exchange_id: id.into(),
        proxy_id: "p".into(),
        arrival: at,
        arrival_mono_us: at,
        end_us: Some(5),
        method: "POST".into(),
        path: "/v1/chat/completions".into(),
        dialect: "openai_chat".into(),
        request_body: Some(body.to_string().into_bytes()),
        status: Some(200),
        input_tokens: Some(1_105),
        output_tokens: Some(3),
        ..Exchange::default()
    }
}

fn set(dir: &Path, keep: bool) -> (Compiled, Vec<Exchange>) {
    let sent = vec![exchange("1", 0), exchange("2", 1_000_000)];
    let mut rows = sent.clone();
    let mut kept = HashSet::new();
    for row in &mut rows {
        blob::keep_once(row, &mut kept);
        assert!(row.request_blobs.is_some());
        for blob in row.request_blobs.iter_mut().flatten().filter(|_| !keep) {
            blob.data = None;
        }
    }
    write(&dir.join("c/0.parquet"), &rows);
    let recipe = "[select]\nmethod = \"all\"\n[content]\nkind = \"verbatim\"";
    (compiled(&[dir.join("c")], recipe, &dir.join("s")), sent)
}

fn messages(set: &Compiled) -> Vec<Value> {
    let contents = contents(set);
    let part = |id: &String| serde_json::from_slice(&contents[id].body).unwrap();
    turns(set)
        .iter()
        .flat_map(|turn| &turn.content)
        .map(part)
        .collect()
}

#[test]
fn a_picture_is_sent_again_as_it_was_and_is_no_text() {
    let dir = tempfile::tempdir().unwrap();
    let (set, sent) = set(dir.path(), true);
    let sent: Value = serde_json::from_slice(sent[0].request_body.as_ref().unwrap()).unwrap();
    for message in messages(&set) {
        assert_eq!(message, sent["messages"][0], "in both turns, kept once");
    }
    assert_eq!(turns(&set)[0].input_tokens, Some(1_105));
    let stage = &set.manifest.stages[1];
    assert_eq!(stage.marked.get("multimodal"), Some(&2));
    let blocks = turns(&set)[0].block_hashes.as_ref().map_or(0, Vec::len);
    assert!(blocks < 20, "{blocks} blocks: base64 is no text");
}

#[test]
fn a_picture_that_nobody_kept_is_said_to_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (set, _) = set(dir.path(), false);
    let text = messages(&set)[0].to_string();
    assert!(text.contains("blob:blake3:") && !text.contains("QUJDQUJD"));
    let findings = set.manifest.findings.join(" ");
    assert!(
        findings.contains("2 turns: images or sounds were not kept"),
        "{findings}"
    );
}
