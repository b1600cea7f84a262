//! Under a tokenizer, a synthetic prompt is as many tokens as the old one, and shares as many.

use super::conversation;
use crate::compile::content::Notes;
use crate::compile::content::exact::Exact;
use crate::compile::content::rebuild;
use crate::compile::content::synthetic::Synthetic;
use crate::compile::ingest::Secret;
use crate::tokenizer::Vocabulary;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::{LazyLock, OnceLock};
use truetape_schemas::wire::Dialect;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::tokenizer::Made;

/// Tokens around a chat, as a template would add them.
const CHAT_TOKENS: usize = 8;

/// A tokenizer with its words, made once: finding the words takes longer than any test here.
struct Fixture {
    made: Made,
    exact: Exact<'static>,
    vocabulary: &'static Vocabulary,
}

fn fixture() -> &'static Fixture {
    static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
        static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();
        let dir = TempDir::new("exact");
        let made = Made::write(&dir.join("tokenizer"), true, CHAT_TOKENS);
        let vocabulary =
            VOCABULARY.get_or_init(|| Vocabulary::open(&made.path, None, None).unwrap());
        let exact = Exact::of(vocabulary).unwrap();
        Fixture {
            made,
            exact,
            vocabulary,
        }
    });
    &FIXTURE
}

/// The new bodies of old ones, made by one maker as a compile does.
fn new_bodies(dialect: Dialect, bodies: &[Value]) -> Vec<Value> {
    let synthetic = Synthetic::new(&Secret([9; 32]), 1, Some(&fixture().exact));
    let new = |body: &Value| {
        let body = body.as_object().unwrap();
        let prompt = synthetic.prompt(dialect, body, &mut Notes::default());
        rebuild::body(dialect, &prompt.unwrap()).unwrap()
    };
    bodies.iter().map(new).collect()
}

fn chat_ids(body: &Value) -> Vec<u32> {
    let prompt = fixture().vocabulary.prompt(Dialect::OpenaiChat, body);
    prompt.unwrap()
}

fn shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[test]
fn a_conversation_keeps_its_tokens_and_nothing_of_what_was_said() {
    let old = conversation("And the other Canary?\n\n  ");
    let new = &new_bodies(Dialect::OpenaiChat, std::slice::from_ref(&old))[0];
    assert!(!new.to_string().to_lowercase().contains("canary"), "{new}");
    assert_eq!(chat_ids(new).len(), chat_ids(&old).len());
    // And by the reference encoder, over a rendering that is not the template's.
    let counted = |body: &Value| {
        let mut messages = body["messages"].as_array().unwrap().clone();
        for message in &mut messages {
            if let Some(parts) = message["content"].as_array() {
                let texts = parts.iter().filter_map(|part| part["text"].as_str());
                message["content"] = texts.collect::<Vec<_>>().join("\n").into();
            }
        }
        fixture().made.chat_tokens(&messages)
    };
    assert_eq!(counted(new), counted(&old));
    assert_eq!(counted(new), chat_ids(new).len());
}

#[test]
fn turns_that_share_messages_share_tokens() {
    let first = conversation("And the other?");
    let mut second = first.clone();
    let list = second["messages"].as_array_mut().unwrap();
    list.push(json!({"role": "assistant", "content": "There is none, as far as I know."}));
    list.push(json!({"role": "user", "content": "Sure?"}));
    let old = [first, second];
    let new = new_bodies(Dialect::OpenaiChat, &old);
    let ids = |bodies: &[Value]| bodies.iter().map(chat_ids).collect::<Vec<_>>();
    let (old, new) = (ids(&old), ids(&new));
    assert_eq!(shared(&new[0], &new[1]), shared(&old[0], &old[1]));
    assert_eq!((new[0].len(), new[1].len()), (old[0].len(), old[1].len()));
}

#[test]
fn texts_keep_their_length_whatever_they_begin_and_end_with() {
    let texts = [
        "",
        " ",
        "\n\nx",
        "balo",
        " balo balo",
        "\u{4f60}\u{597d} ",
        "a  b\t\n",
    ];
    for text in texts {
        let new = &new_bodies(Dialect::OpenaiCompletions, &[json!({ "prompt": text })])[0];
        let new = new["prompt"].as_str().unwrap();
        let count = |text: &str| fixture().made.text_tokens(text);
        assert_eq!(count(new), count(text), "{text:?} {new:?}");
    }
}

proptest! {
    #[test]
    fn any_prompt_is_as_long_and_shares_as_much(
        common in "\\PC{0,60}", a in "\\PC{0,30}", b in "\\PC{0,30}",
    ) {
        let chat = |text: String| json!({"messages": [{"role": "user", "content": text}]});
        let old = [chat(format!("{common}{a}")), chat(format!("{common}{b}"))];
        let new = new_bodies(Dialect::OpenaiChat, &old);
        for (new, old) in new.iter().zip(&old) {
            prop_assert_eq!(chat_ids(new).len(), chat_ids(old).len());
        }
        let old = shared(&chat_ids(&old[0]), &chat_ids(&old[1]));
        let new = shared(&chat_ids(&new[0]), &chat_ids(&new[1]));
        // A word is one of a thousand: one that should differ may agree by chance.
        prop_assert!(new >= old && new < old + 3, "{} for {}", new, old);
    }
}
