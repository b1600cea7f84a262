//! SGLang's own `/generate`.

use super::answer::{Answer, Source};
use super::choice::Piece;
use super::dialects::Family;
use super::lengths::Report;
use crate::wire::json::{Count, Field, Readable, object};
use crate::wire::openai::{Fault, Text};
use serde::de::MapAccess;

/// SGLang's own `/generate`.
pub(super) struct Sglang;

object! {
    /// An event, or a whole answer, of one prompt of the batch.
    Document<'de> {
        index: i64 = "index",
        text: Text<'de> = "text",
        output_ids: Count = "output_ids",
        meta: Meta<'de> = "meta_info",
        error: Fault<'de> = "error",
    }
}

object! {
    /// What the server counts.
    Meta<'de> {
        id: Text<'de> = "id",
        finish: Finish<'de> = "finish_reason",
        input: i64 = "prompt_tokens",
        output: i64 = "completion_tokens",
        cached: i64 = "cached_tokens",
        reasoning: i64 = "reasoning_tokens",
    }
}

/// Why it ended: an object with a type, in older versions a word.
#[derive(Debug, Default)]
pub(super) struct Finish<'de> {
    kind: Text<'de>,
    status: Option<i64>,
}

object! {
    /// The reason as an object.
    FinishObject<'de> {
        kind: Text<'de> = "type",
        status: i64 = "status_code",
    }
}

impl<'de> Readable<'de> for Finish<'de> {
    fn from_text(kind: Text<'de>) -> Option<Self> {
        Some(Self { kind, status: None })
    }

    fn from_object<A: MapAccess<'de>>(object: &mut A) -> Result<Option<Self>, A::Error> {
        let object = FinishObject::from_object(object)?.unwrap_or_default();
        Ok(Some(Self {
            kind: object.kind.get().unwrap_or_default(),
            status: object.status.get(),
        }))
    }
}

/// What the text of an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Counting {
    /// Not known yet: all events so far fit both.
    #[default]
    Unknown,
    /// The whole text so far, as by default.
    Whole,
    /// What is new, as with `--incremental-streaming-output`.
    New,
}

impl Family for Sglang {
    type Document<'de> = Document<'de>;

    fn take(answer: &mut Answer, document: Document<'_>, position: usize, source: Source) {
        if let Some(fault) = document.error.get_ref() {
            return answer.fail(fault.code.as_deref(), fault.kind.as_deref());
        }
        if source.is_error() {
            return answer.fail(None, None);
        }
        let Some(index) = answer.admit(&document.index, position) else {
            return;
        };
        let meta = document.meta.get().unwrap_or_default();
        answer.id(&meta.id);
        let count = |field: &Field<i64>| field.get_ref().copied();
        let before = answer.tally.of(index).output.unwrap_or(0);
        let now = count(&meta.output);
        let listed = document.output_ids.get_ref().map(|ids| ids.0);
        answer.tally.put(
            index,
            Report {
                input: count(&meta.input),
                output: now,
                cached: count(&meta.cached),
                reasoning: count(&meta.reasoning),
            },
        );
        let text = document.text.text();
        let news = news(
            answer,
            index,
            text,
            Counts {
                before,
                now,
                listed,
            },
        );
        let finish = meta.finish.get().unwrap_or_default();
        let piece = Piece {
            text: text.get(news..).unwrap_or_default(),
            finish_reason: &finish.kind,
            listed: now.map_or(0, |now| now.saturating_sub(before).max(0)),
            ..Piece::default()
        };
        answer.add(index, &piece, source);
        if finish.kind == "abort" {
            // Over-long prompts and lost workers end so, with a status where one applies.
            let status = finish.status.map(|status| status.to_string());
            answer.fail(status.as_deref(), Some("abort"));
        }
    }
}

/// Tokens before an event, after it, and those that it lists.
struct Counts {
    before: i64,
    now: Option<i64>,
    listed: Option<i64>,
}

/// Where the new text of an event begins.
fn news(answer: &mut Answer, index: usize, text: &str, counts: Counts) -> usize {
    let known = answer.choices.get(index).map_or("", |choice| &choice.text);
    if answer.counting == Counting::Unknown {
        answer.counting = match counts {
            // A first event fits both, and so does one that says nothing about its tokens.
            Counts { before: 0, .. } if known.is_empty() => Counting::Unknown,
            Counts {
                before,
                now: Some(now),
                listed: Some(listed),
            } if before > 0 && listed > 0 && now != listed => Counting::New,
            Counts {
                before,
                now: Some(now),
                listed: Some(listed),
            } if before > 0 && listed > 0 && now == listed => Counting::Whole,
            _ if text.starts_with(known) || known.starts_with(text) => Counting::Unknown,
            _ => Counting::New,
        };
    }
    match answer.counting {
        Counting::New => 0,
        Counting::Unknown | Counting::Whole => {
            let shared = shared_bytes(known, text);
            // A stop string may be taken back at the end.
            if let Some(choice) = answer.choices.get_mut(index) {
                choice.text.truncate(shared);
            }
            shared
        }
    }
}

/// Bytes of the longest common beginning, up to a whole character.
fn shared_bytes(one: &str, other: &str) -> usize {
    let pairs = one.char_indices().zip(other.chars());
    let mut shared = 0;
    for ((at, a), b) in pairs {
        if a != b {
            break;
        }
        shared = at + a.len_utf8();
    }
    shared
}
