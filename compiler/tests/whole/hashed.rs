//! Captures of hashes: sessions and sharing without a word.

use crate::fixture::{Talk, compiled, hold, turns, write};
use std::path::Path;
use truetape_compiler::compile::Compiled;
use truetape_schemas::capture::{Exchange, Segment};
use truetape_schemas::wire::{self, Dialect, canonical};

/// Bytes of a block, as recorders cut them.
const BLOCK_BYTES: usize = 256;

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(&[9; 32]);
    for part in parts {
        hasher.update(part);
    }
    u64::from_le_bytes(*hasher.finalize().as_bytes().first_chunk().unwrap())
}

/// What a recorder keeps of an exchange under the content policy `digest`.
fn hashed(exchange: Exchange) -> Exchange {
    let body = exchange.request_body.as_deref().unwrap();
    let messages = wire::read_messages(Dialect::OpenaiChat, body).unwrap();
    let segments = messages.iter().map(|message| Segment {
        role: message.role.clone(),
        bytes: i64::try_from(message.raw.len()).unwrap(),
        hash: hash(&[b"chain", &message.raw]),
    });
    let raw: Vec<u8> = messages.iter().flat_map(|m| m.raw.clone()).collect();
    let mut chain = 0_u64;
    let blocks = raw.chunks(BLOCK_BYTES).map(|block| {
        chain = hash(&[&chain.to_le_bytes(), block]);
        chain
    });
    let answer: serde_json::Value =
        serde_json::from_slice(exchange.response_body.as_deref().unwrap()).unwrap();
    let answer = canonical::identity(&answer["choices"][0]["message"]);
    Exchange {
        segments: Some(segments.collect()),
        segment_hashes: Some(messages.iter().map(|m| hash(&[&m.canonical])).collect()),
        text_block_bytes: Some(BLOCK_BYTES as i32),
        text_block_hashes: Some(blocks.collect()),
        answer_hash: Some(hash(&[&answer])),
        request_body: None,
        response_body: None,
        ..exchange
    }
}

fn set(dir: &Path, rows: &[Exchange]) -> Compiled {
    write(&dir.join("c/0.parquet"), rows);
    let recipe = "[select]\nmethod = \"all\"\n[content]\nkind = \"lengths\"";
    compiled(&[dir.join("c")], recipe, &dir.join("s"))
}

fn talks() -> Vec<Exchange> {
    let talk = |name: &str, start_us| Talk {
        name: name.into(),
        start_us,
        turns: 9,
        keyed: false,
    };
    [hold(&talk("a", 0)), hold(&talk("b", 1_000))].concat()
}

/// Leading blocks that two turns have in common.
fn shared(set: &Compiled, a: usize, b: usize) -> usize {
    let turns = turns(set);
    let blocks = |at: usize| turns[at].block_hashes.clone().unwrap();
    let pairs = blocks(a).into_iter().zip(blocks(b));
    pairs.take_while(|(a, b)| a == b).count()
}

#[test]
fn hashes_tell_the_sessions_that_text_tells_and_most_of_what_they_share() {
    let dir = tempfile::tempdir().unwrap();
    let rows = talks();
    let from_text = set(&dir.path().join("text"), &rows);
    let rows: Vec<Exchange> = rows.into_iter().map(hashed).collect();
    let from_hashes = set(&dir.path().join("hashes"), &rows);
    let parents = |set: &Compiled| -> Vec<(Option<i64>, Option<String>)> {
        let link = |turn: truetape_schemas::set::Turn| (turn.parent, turn.link_evidence);
        turns(set).into_iter().map(link).collect()
    };
    assert_eq!(parents(&from_hashes), parents(&from_text));
    assert_eq!(from_hashes.manifest.counts.sessions, 2);
    assert_eq!(from_hashes.manifest.block_tokens, Some(16));
    // The last two turns of one talk: a block of bytes is four of tokens, so as many are not told.
    let (text, hashes) = (shared(&from_text, 14, 16), shared(&from_hashes, 14, 16));
    assert!(
        hashes > 0 && hashes <= text && hashes + 6 >= text,
        "{hashes} of {text}"
    );
    let tokenizer = &from_hashes.manifest.tokenizer;
    assert_eq!(tokenizer.name, "calibrated");
    assert!(
        tokenizer.by_model.contains_key("stub, hashed"),
        "{tokenizer:?}"
    );
    let findings = from_hashes.manifest.findings.join(" ");
    assert!(
        findings.contains("18 requests are known by a recorder's hashes"),
        "{findings}"
    );
    let stage = &from_hashes.manifest.stages[1];
    assert_eq!(stage.marked.get("hashed_text"), Some(&18));
}

#[test]
fn hashes_of_two_keys_tie_nobody_and_break_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows: Vec<Exchange> = talks().into_iter().take(2).map(hashed).collect();
    for hash in rows[1].segment_hashes.iter_mut().flatten() {
        *hash = !*hash;
    }
    for hash in rows[1].text_block_hashes.iter_mut().flatten() {
        *hash = !*hash;
    }
    let set = set(dir.path(), &rows);
    assert_eq!(set.manifest.counts.sessions, 2);
    assert_eq!(shared(&set, 0, 1), 0);
}
