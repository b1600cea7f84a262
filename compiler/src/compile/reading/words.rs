//! Text as a list of paragraphs: who says what somebody else said before.
//!
//! A paragraph ends at a blank line. White space around it says nothing: a prompt that is put
//! together from pieces has other white space between them each time.

use super::super::row::{End, PromptChain};
use super::hash;
use serde_json::Value;
use truetape_fidelity::mix::mix;

/// Ends of paragraphs that are kept of a prompt, the last ones: an earlier prompt ends near the
/// end of a later one. 256 of 16 bytes are 4 KiB.
const ENDS_MAX: usize = 256;

/// A paragraph shorter than this may be anybody's.
const SAID_BYTES_MIN: usize = 32;

/// Paragraphs that are kept of an answer: 16 of 8 bytes.
const SAID_MAX: usize = 16;

/// Paragraphs that are kept of what came from outside, the last ones.
const HEARD_MAX: usize = 32;

/// The paragraphs of a text, in order, none of them empty.
fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return None;
            }
            let (paragraph, after) = at_blank_line(rest);
            rest = after;
            let paragraph = paragraph.trim_end();
            if !paragraph.is_empty() {
                return Some(paragraph);
            }
        }
    })
}

/// Cuts a text at its first blank line.
fn at_blank_line(text: &str) -> (&str, &str) {
    let mut line_starts = text.match_indices('\n').map(|(at, _)| at + 1);
    let blank = line_starts.find(|start| {
        let line = text.get(*start..).unwrap_or_default();
        let end = line.find('\n').unwrap_or(line.len());
        line.get(..end).unwrap_or_default().trim().is_empty()
    });
    text.split_at_checked(blank.unwrap_or(text.len()))
        .unwrap_or((text, ""))
}

/// A step of a chain: it depends on every paragraph before.
fn step(chain: u64, paragraph: u64) -> u64 {
    mix(chain ^ paragraph).rotate_left(17) ^ mix(paragraph)
}

/// Takes a prompt apart; none where it is empty.
pub(super) fn prompt_chain(text: &str) -> Option<PromptChain> {
    let hashes: Vec<u64> = paragraphs(text).map(|text| hash(text.as_bytes())).collect();
    let last = *hashes.last()?;
    let mut chain = 0;
    let mut ends = Vec::new();
    for pair in hashes.windows(2) {
        if let [this, next] = pair {
            chain = step(chain, *this);
            ends.push(End { chain, next: *next });
        }
    }
    let cut = ends.len().saturating_sub(ENDS_MAX);
    Some(PromptChain {
        full: step(chain, last),
        last,
        ends: ends.split_off(cut).into_boxed_slice(),
    })
}

/// The first paragraph of a text, whatever its length.
pub(super) fn first(text: &str) -> Option<u64> {
    paragraphs(text).next().map(|text| hash(text.as_bytes()))
}

fn telling(text: &str) -> impl Iterator<Item = u64> {
    let long = paragraphs(text).filter(|text| text.len() >= SAID_BYTES_MIN);
    long.map(|text| hash(text.as_bytes()))
}

/// The paragraphs of an answer, and of the texts in the arguments of its calls.
pub(super) fn said(message: &Value) -> Box<[u64]> {
    let mut said: Vec<u64> = Vec::new();
    let calls = message.get("tool_calls").and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        match call.pointer("/function/arguments") {
            Some(Value::String(text)) => match serde_json::from_str(text) {
                Ok(arguments) => texts(&arguments, &mut |text| said.extend(telling(text))),
                Err(_) => said.extend(telling(text)),
            },
            Some(arguments) => texts(arguments, &mut |text| said.extend(telling(text))),
            None => {}
        }
    }
    if let Some(content) = message.get("content") {
        texts(content, &mut |text| said.extend(telling(text)));
    }
    said.truncate(SAID_MAX);
    said.into_boxed_slice()
}

/// The paragraphs of contents that came from outside.
pub(super) fn heard<'a>(contents: impl Iterator<Item = &'a Value>) -> Box<[u64]> {
    let mut heard = Vec::new();
    for content in contents {
        texts(content, &mut |text| heard.extend(telling(text)));
    }
    last_of(heard)
}

/// The same of a prompt that is one text.
pub(super) fn heard_in_prompt(text: &str) -> Box<[u64]> {
    last_of(telling(text).collect())
}

fn last_of(mut heard: Vec<u64>) -> Box<[u64]> {
    let cut = heard.len().saturating_sub(HEARD_MAX);
    heard.split_off(cut).into_boxed_slice()
}

/// Calls `f` with every text inside a value.
fn texts(value: &Value, f: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => f(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, f)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, f)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{first, heard_in_prompt, paragraphs, prompt_chain, said};
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_paragraph_ends_at_a_blank_line() {
        let all: Vec<&str> = paragraphs("\n a\nb \n \t\n\r\n c\n\n").collect();
        assert_eq!(all, ["a\nb", "c"]);
        assert_eq!(paragraphs(" \n\n ").count(), 0);
    }

    #[test]
    fn a_prompt_ends_inside_the_one_that_goes_on_after_a_blank_line() {
        let short = prompt_chain("ask\nthis").unwrap();
        let long = prompt_chain("ask\nthis\n\nand that\n\nand more").unwrap();
        assert_eq!(long.ends.len(), 2);
        assert_eq!(long.ends[0].chain, short.full);
        assert_eq!(Some(long.ends[0].next), first("and that"));
        assert_eq!(Some(long.last), first("and more"));
        let other = prompt_chain("ask\nthat\n\nand that").unwrap();
        assert_ne!(other.ends[0].chain, short.full);
        assert_eq!(prompt_chain("  \n"), None);
    }

    #[test]
    fn what_an_answer_says_is_heard_where_it_is_repeated() {
        let task = "Find out who wrote the first line of this file, and tell me when.";
        let message = json!({"role": "assistant", "content": "short",
            "tool_calls": [{"function": {"name": "spawn",
                "arguments": json!({"prompt": task}).to_string()}}]});
        let said = said(&message);
        assert_eq!(said.len(), 1);
        assert_eq!(heard_in_prompt(&format!("Context.\n\n{task}\n")), said);
    }

    proptest! {
        #[test]
        fn every_text_that_is_put_behind_a_prompt_keeps_its_end(a in "[a-z \n]{1,60}", b in "[a-z \n]{0,60}") {
            let long = prompt_chain(&format!("{a}\n\n{b}"));
            if let (Some(short), Some(long)) = (prompt_chain(&a), long) {
                let kept = long.full == short.full
                    || long.ends.iter().any(|end| end.chain == short.full);
                prop_assert!(kept);
            }
        }
    }
}
