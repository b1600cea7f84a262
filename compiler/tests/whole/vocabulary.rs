//! Captures that are counted with a vocabulary of the recipe's.

use crate::fixture::{Talk, hold, options, turns, write};
use serde_json::json;
use std::path::Path;
use truetape_compiler::compile::{Compiled, compile};
use truetape_compiler::recipe::Recipe;
use truetape_compiler::tokenizer::Vocabulary;
use truetape_schemas::wire::Dialect;

/// One word, one token; a template with a mark around each message.
fn tokenizer(dir: &Path) {
    let words = [
        "You", "are", "a", "helpful", "Canary", "question", "answer", "number", "?", ".",
    ];
    let mut vocab: serde_json::Map<_, _> = words
        .iter()
        .zip(0..)
        .map(|(word, id)| ((*word).to_owned(), json!(id)))
        .collect();
    vocab.insert("[UNK]".to_owned(), json!(99));
    let file = json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null,
        "decoder": null, "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}});
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("tokenizer.json"), file.to_string()).unwrap();
    let template = "{% for m in messages %}{{ m.role }} {{ m.content }}\n{% endfor %}assistant";
    std::fs::write(dir.join("chat_template.jinja"), template).unwrap();
}

/// Compiles a talk whose lengths are those of the vocabulary, or unknown, in a directory that has
/// the recipe and the tokenizer.
fn set(dir: &Path, reported: bool) -> Compiled {
    tokenizer(dir);
    let vocabulary = Vocabulary::open(&dir.join("tokenizer.json"), None, None).unwrap();
    let mut rows = hold(&Talk {
        name: "a".into(),
        start_us: 0,
        turns: 4,
        keyed: false,
    });
    for row in &mut rows {
        let body = serde_json::from_slice(row.request_body.as_ref().unwrap()).unwrap();
        let ids = vocabulary.prompt(Dialect::OpenaiChat, &body).unwrap();
        row.input_tokens = reported.then(|| i64::try_from(ids.len()).unwrap());
    }
    write(&dir.join("c/0.parquet"), &rows);
    let recipe = dir.join("recipe.toml");
    let text = "[tokens]\ntokenizer = \"tokenizer.json\"\nblock_tokens = 4\n\
        [select]\nmethod = \"all\"\n[content]\nkind = \"lengths\"";
    std::fs::write(&recipe, text).unwrap();
    let mut options = options(&[dir.join("c")], "", &dir.join("s"), 2);
    options.recipe = Recipe::read(&recipe).unwrap();
    compile(&options).unwrap()
}

#[test]
fn blocks_and_lengths_are_those_of_the_vocabulary() {
    let dir = tempfile::tempdir().unwrap();
    let reported = set(&dir.path().join("x"), true);
    let tokenizer = &reported.manifest.tokenizer;
    assert_eq!(tokenizer.name, "huggingface");
    assert_eq!(tokenizer.calibration_error, Some(0.0));
    let turns_of = turns(&reported);
    let blocks = |at: usize| turns_of[at].block_hashes.clone().unwrap();
    for turn in &turns_of {
        let blocks = turn.block_hashes.as_ref().unwrap().len();
        assert_eq!(blocks as i64, (turn.input_tokens.unwrap() + 3) / 4);
    }
    let shared = blocks(0)
        .iter()
        .zip(blocks(1))
        .take_while(|(a, b)| *a == b)
        .count();
    assert_eq!(
        shared as i64,
        turns_of[0].input_tokens.unwrap() / 4,
        "the header of an answer is the header of that message"
    );
    let counted = set(&dir.path().join("y"), false);
    assert_eq!(turns(&counted)[0].input_tokens, turns_of[0].input_tokens);
    assert_eq!(
        counted.manifest.stages[1].marked.get("length_counted"),
        Some(&4)
    );
}

#[test]
fn a_set_names_the_files_by_their_digests_and_not_the_machine() {
    let dir = tempfile::tempdir().unwrap();
    let here = set(&dir.path().join("here"), true);
    let there = set(&dir.path().join("there"), true);
    assert_eq!(here.manifest.digest, there.manifest.digest);
    let text = here.manifest.recipe.to_string();
    assert!(text.contains("file:") && !text.contains("here"), "{text}");
    let wrong = Recipe::parse("[tokens]\ntokenizer = \"absent.json\"").unwrap();
    let mut options = options(&[dir.path().join("here/c")], "", &dir.path().join("s"), 1);
    options.recipe = wrong;
    let problem = compile(&options).unwrap_err().to_string();
    assert!(
        problem.starts_with("absent.json: tokens: cannot be read"),
        "{problem}"
    );
}
