use super::Vocabulary;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use truetape_schemas::wire::Dialect;

/// A vocabulary of bytes and a few merges, as `tokenizer.json`.
fn tokenizer_json() -> Value {
    let letter = |byte: u32| match byte {
        33..=126 | 161..=172 | 174..=255 => char::from_u32(byte).unwrap(),
        // Bytes that are no printable character are moved up, as byte-level vocabularies do.
        byte => char::from_u32(256 + moved(byte)).unwrap(),
    };
    let mut vocab = serde_json::Map::new();
    for byte in 0..256 {
        vocab.insert(letter(byte).to_string(), json!(byte));
    }
    for (id, word) in [(256, "he"), (257, "ll"), (258, "hell"), (259, "hello")] {
        vocab.insert(word.to_owned(), json!(id));
    }
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [{"id": 260, "content": "<|end|>", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
            "use_regex": true},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false,
            "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
            "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null,
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
            "byte_fallback": false, "ignore_merges": false, "vocab": vocab,
            "merges": [["h", "e"], ["l", "l"], ["he", "ll"], ["hell", "o"]]},
    })
}

/// How many bytes before this one are no printable character.
fn moved(byte: u32) -> u32 {
    let plain = |byte: &u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    byte - (0..byte).filter(plain).count() as u32
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_vocabulary_and_the_template_beside_it_are_one_tokenizer() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "tokenizer.json", &tokenizer_json().to_string());
    let config = json!({"eos_token": {"content": "<|end|>"},
        "chat_template": "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"});
    write(dir.path(), "tokenizer_config.json", &config.to_string());
    let vocabulary = Vocabulary::open(&path, None, None).unwrap();
    assert!(vocabulary.has_template() && vocabulary.encoder.is_fast());
    assert_eq!(vocabulary.encode("hello", false).unwrap(), [259]);
    assert_eq!(vocabulary.decode(&[259, 260]).unwrap(), "hello<|end|>");
    let chat = json!({"messages": [{"role": "user", "content": "hello"}]});
    let ids = vocabulary.prompt(Dialect::OpenaiChat, &chat).unwrap();
    assert_eq!(ids, [259, 260]);
    let text = json!({"prompt": "hell"});
    assert_eq!(
        vocabulary
            .prompt(Dialect::OpenaiCompletions, &text)
            .unwrap(),
        [258]
    );
    let ids_prompt = json!({"prompt": [1, 2]});
    assert!(
        vocabulary
            .prompt(Dialect::OpenaiCompletions, &ids_prompt)
            .is_err()
    );
    let described = vocabulary.described();
    assert_eq!(described.name, "huggingface");
    assert!(described.digest.is_some() && described.template_digest.is_some());
}

#[test]
fn what_the_fast_encoder_cannot_read_is_read_by_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let words = json!({"version": "1.0", "truncation": {"direction": "Right", "max_length": 2,
            "strategy": "LongestFirst", "stride": 0}, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null,
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "?": 2}, "unk_token": "?"}});
    let path = write(dir.path(), "tokenizer.json", &words.to_string());
    let vocabulary = Vocabulary::open(&path, None, None).unwrap();
    assert!(!vocabulary.encoder.is_fast() && !vocabulary.has_template());
    assert_eq!(
        vocabulary.encode("a b c a", false).unwrap(),
        [0, 1, 2, 0],
        "no prompt is cut"
    );
}

#[test]
fn ranks_of_tiktoken_are_split_as_their_encoding_says() {
    let dir = tempfile::tempdir().unwrap();
    // The ranks of all single bytes, in base64.
    let line = |byte: u8| {
        let encoded = base64(byte);
        format!("{encoded} {byte}\n")
    };
    let ranks: String = (0..=255).map(line).collect();
    let path = write(dir.path(), "o200k_base.tiktoken", &ranks);
    let vocabulary = Vocabulary::open(&path, None, None).unwrap();
    assert_eq!(vocabulary.encode("ab", false).unwrap(), [97, 98]);
    assert_eq!(vocabulary.described().name, "tiktoken");
    let unnamed = write(dir.path(), "ranks.tiktoken", &ranks);
    let problem = Vocabulary::open(&unnamed, None, None)
        .unwrap_err()
        .to_string();
    assert!(problem.contains("o200k_base"), "{problem}");
    Vocabulary::open(&unnamed, None, Some("cl100k_base")).unwrap();
}

/// One byte.
fn base64(byte: u8) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |at: u8| char::from(LETTERS[usize::from(at)]);
    format!("{}{}==", letter(byte >> 2), letter((byte & 3) << 4))
}

#[test]
fn what_is_no_tokenizer_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        (write(dir.path(), "a.json", "{}"), "not a tokenizer.json"),
        (write(dir.path(), "a.bin", ""), "allowed are"),
        (dir.path().join("absent.json"), "cannot be read"),
    ];
    for (path, wanted) in cases {
        let problem = Vocabulary::open(&path, None, None).unwrap_err().to_string();
        assert!(problem.contains(wanted), "{problem}");
    }
}
