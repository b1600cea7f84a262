//! A made-up tokenizer with its chat template, and what a server with them would count.
//!
//! Bytes, a thousand words of four letters, and their like behind a space. A word begins with a
//! letter that stands nowhere else in any, so no merge of one word gets in the way of another.

use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use tokenizers::Tokenizer;

/// Letters that words begin with, and that stand in the middle.
const FIRST: &str = "bdgkptvz";
const MIDDLE: &str = "lmnrs";
const VOWELS: &str = "aeiou";

/// Begins a prompt, a message of each role, the answer to come; ends a message; stands at the head.
const BEGIN: &str = "<s>";
const USER: &str = "<|user|>";
const ASSISTANT: &str = "<|assistant|>";
const SYSTEM: &str = "<|system|>";
const TOOL: &str = "<|tool|>";
const END: &str = "<|end|>";
const HEAD: &str = "<|head|>";

/// Tokens of a chat of one message beside its words, with nothing at the head.
const CHAT_TOKENS_MIN: usize = 4;

/// A tokenizer in a directory.
#[derive(Debug)]
pub struct Made {
    /// `tokenizer.json`; the template lies beside it.
    pub path: PathBuf,
    reference: Tokenizer,
    heads: usize,
}

impl Made {
    /// Writes the files. `begins` puts one token before every prompt; the template puts
    /// `chat_tokens` tokens (4 or more) around the one message of a chat.
    #[track_caller]
    pub fn write(dir: &Path, begins: bool, chat_tokens: usize) -> Self {
        let heads = chat_tokens.checked_sub(CHAT_TOKENS_MIN);
        let heads = heads.expect("a template of 4 tokens or more");
        let path = dir.join("tokenizer.json");
        std::fs::create_dir_all(dir).expect("a directory");
        std::fs::write(&path, tokenizer_json(begins).to_string()).expect("a file");
        std::fs::write(dir.join("chat_template.jinja"), template(heads)).expect("a file");
        let reference = Tokenizer::from_file(&path).expect("what was written is a tokenizer");
        Self {
            path,
            reference,
            heads,
        }
    }

    /// Tokens of a prompt that is one text, as a server counts it.
    #[track_caller]
    pub fn text_tokens(&self, text: &str) -> usize {
        self.ids(text, true).len()
    }

    /// Tokens of a chat, as a server counts it.
    #[track_caller]
    pub fn chat_tokens(&self, messages: &[Value]) -> usize {
        self.ids(&self.rendered(messages), false).len()
    }

    /// The ids of a rendered text.
    #[track_caller]
    pub fn ids(&self, text: &str, special: bool) -> Vec<u32> {
        let encoding = self.reference.encode(text, special).expect("ids");
        encoding.get_ids().to_vec()
    }

    /// A chat as the template writes it, by other means than the template.
    pub fn rendered(&self, messages: &[Value]) -> String {
        let mut text = BEGIN.to_owned() + &HEAD.repeat(self.heads);
        for message in messages {
            text.push_str(match message["role"].as_str() {
                Some("assistant") => ASSISTANT,
                Some("system") => SYSTEM,
                Some("tool") => TOOL,
                _ => USER,
            });
            text.push_str(message["content"].as_str().unwrap_or_default());
            if let Some(calls) = message["tool_calls"].as_array() {
                for call in calls {
                    text.push_str(call["function"]["name"].as_str().unwrap_or_default());
                }
            }
            text.push_str(END);
        }
        text + ASSISTANT
    }
}

fn template(heads: usize) -> String {
    format!(
        "{BEGIN}{}{{% for m in messages %}}<|{{{{ m.role }}}}|>{{{{ m.content or '' }}}}\
         {{% for c in m.tool_calls or [] %}}{{{{ c.function.name }}}}{{% endfor %}}{END}\
         {{% endfor %}}{ASSISTANT}",
        HEAD.repeat(heads)
    )
}

fn tokenizer_json(begins: bool) -> Value {
    let mut vocab = Map::new();
    let mut merges = Vec::new();
    for byte in 0..=u8::MAX {
        add(&mut vocab, letter(byte).to_string());
    }
    let space = letter(b' ').to_string();
    let mut merge = |vocab: &mut Map<String, Value>, a: &str, b: &str| {
        if !vocab.contains_key(&format!("{a}{b}")) {
            add(vocab, format!("{a}{b}"));
            merges.push(json!([a, b]));
        }
    };
    for (first, second) in pairs(FIRST, VOWELS) {
        merge(&mut vocab, &first, &second);
    }
    for (head, middle) in
        pairs(FIRST, VOWELS).flat_map(|(a, b)| MIDDLE.chars().map(move |m| (format!("{a}{b}"), m)))
    {
        merge(&mut vocab, &head, &middle.to_string());
        for vowel in VOWELS.chars() {
            merge(&mut vocab, &format!("{head}{middle}"), &vowel.to_string());
            merge(&mut vocab, &space, &format!("{head}{middle}{vowel}"));
        }
    }
    let specials = [BEGIN, USER, ASSISTANT, SYSTEM, TOOL, END, HEAD];
    let id = |at: usize| vocab.len() + at;
    let added = specials.iter().enumerate().map(|(at, content)| {
        json!({"id": id(at), "content": content, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true})
    });
    let around = json!({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": BEGIN, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {BEGIN: {"id": BEGIN, "ids": [id(0)], "tokens": [BEGIN]}}});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": added.collect::<Vec<_>>(),
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
            "use_regex": true},
        "post_processor": if begins { around } else { Value::Null },
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
            "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null,
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
            "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": merges},
    })
}

fn add(vocab: &mut Map<String, Value>, token: String) {
    let id = vocab.len();
    vocab.insert(token, json!(id));
}

fn pairs(a: &'static str, b: &'static str) -> impl Iterator<Item = (String, String)> {
    a.chars()
        .flat_map(move |a| b.chars().map(move |b| (a.to_string(), b.to_string())))
}

/// A byte as byte-level vocabularies write it: one that is no printable character is moved up.
fn letter(byte: u8) -> char {
    let plain = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    if plain(&byte) {
        return char::from(byte);
    }
    let moved = (0..byte).filter(|before| !plain(before)).count();
    u32::try_from(moved)
        .ok()
        .and_then(|moved| char::from_u32(256 + moved))
        .unwrap_or('?')
}
