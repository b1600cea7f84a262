//! A message is made as long as the old one was, in tokens.
//!
//! Word for token makes a text of as many tokens as the old one had alone. In a prompt it is not
//! alone: its first token may join with what the template puts before it, and tools and arguments
//! of calls keep their bytes, not their tokens. What is missing or left over is settled in the
//! last text of the message, or, where it has none, in the next message that has one.
//!
//! What is settled depends on what stands before it only, so prompts that began alike still do.

use super::super::Notes;
use super::super::exact::Exact;
use super::super::rebuild::list_field;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use truetape_schemas::set::ContentKind;
use truetape_schemas::wire::Dialect;

/// Times that a text is made longer or shorter. Once is enough unless a word joins with what is
/// behind it.
const ROUNDS: usize = 4;

/// Bytes of messages that are remembered: each turn of a conversation repeats the ones before.
const REMEMBERED_BYTES_MAX: usize = 256 << 20;

/// How far a prompt has been made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Walk {
    /// Hash of everything before.
    pub(super) chain: u64,
    /// Tokens that the new prompt lacks so far; negative where it has too many.
    pub(super) debt: i64,
}

/// A message that was made, and how far it took the walk.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) kind: ContentKind,
    pub(super) body: Vec<u8>,
    pub(super) walk: Walk,
    pub(super) notes: Notes,
}

/// Messages made before, by what stood before them and what they were.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    bytes: usize,
    done: HashMap<(Walk, u64), Done>,
}

impl Memory {
    /// The same message in the same place, or a new one.
    pub(super) fn or_make(&self, key: (Walk, u64), make: impl FnOnce() -> Done) -> Done {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = lock().done.get(&key) {
            return done.clone();
        }
        let done = make();
        let mut remembered = lock();
        remembered.bytes += done.body.len();
        if remembered.bytes > REMEMBERED_BYTES_MAX {
            // What is made again is the same.
            *remembered = Remembered::default();
            remembered.bytes = done.body.len();
        }
        remembered.done.insert(key, done.clone());
        done
    }
}

/// What stands before the first message: tools, and a system prompt beside the messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) old: &'a Map<String, Value>,
    pub(super) new: &'a Map<String, Value>,
}

impl Exact<'_> {
    /// Makes a new message as long as the old one, and returns what stays owed.
    pub(super) fn settled(
        &self,
        dialect: Dialect,
        fields: Option<Fields<'_>>,
        old: &Value,
        new: &mut Value,
        walk: Walk,
    ) -> i64 {
        let context = |of: fn(Fields<'_>) -> &Map<String, Value>| fields.map(of);
        let counted = |said: &Value, around: Option<&Map<String, Value>>| {
            self.count_alone(dialect, around, said)
        };
        let Some(wanted) = counted(old, context(|fields| fields.old)) else {
            return walk.debt;
        };
        let mut owed = walk.debt;
        for round in 0..ROUNDS {
            let Some(found) = counted(new, context(|fields| fields.new)) else {
                return walk.debt;
            };
            owed = walk.debt + wanted - found;
            let Some(text) = last_text(new).filter(|_| owed != 0) else {
                break;
            };
            self.stretch(text, owed, walk.chain.wrapping_add(round as u64));
        }
        owed
    }

    /// Tokens of a prompt that holds a message and little else.
    fn count_alone(
        &self,
        dialect: Dialect,
        around: Option<&Map<String, Value>>,
        said: &Value,
    ) -> Option<i64> {
        // Without what is said, which may be long and is put in its place below.
        let field = super::places::prompt_field(dialect)?;
        let fields = around.into_iter().flatten();
        let others = fields.filter(|(key, _)| *key != field);
        let mut body: Map<String, Value> = others
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let Some(list) = list_field(dialect) else {
            body.insert(field.to_owned(), said.clone());
            return self.count(dialect, &Value::Object(body));
        };
        body.insert(list.to_owned(), json!([said]));
        let alone = self.count(dialect, &Value::Object(body.clone()));
        // Some templates want a user to speak first.
        alone.or_else(|| {
            let user = json!({"role": "user", "content": "x"});
            body.insert(list.to_owned(), json!([user, said]));
            self.count(dialect, &Value::Object(body))
        })
    }

    /// Adds words at the end of a text, or takes some away; one word stays.
    fn stretch(&self, text: &mut String, by: i64, seed: u64) {
        if by > 0 {
            let more = self.stock().text(seed, by.unsigned_abs(), text.is_empty());
            text.push_str(&more);
            return;
        }
        for _ in 0..by.unsigned_abs() {
            match text.rfind(' ') {
                Some(space) if space > 0 => text.truncate(space),
                _ => break,
            }
        }
    }
}

/// The last text of a message, of its parts or of the results in them.
fn last_text(value: &mut Value) -> Option<&mut String> {
    match value {
        Value::String(text) => Some(text),
        Value::Array(parts) => parts.iter_mut().rev().find_map(last_text),
        Value::Object(fields) => {
            let held = |key: &&str| fields.get(*key).is_some_and(holds_text);
            let key = TEXTS.into_iter().find(held)?;
            last_text(fields.get_mut(key)?)
        }
        _ => None,
    }
}

/// Where messages, parts and results keep what is said.
const TEXTS: [&str; 3] = ["text", "content", "output"];

fn holds_text(value: &Value) -> bool {
    match value {
        Value::String(_) => true,
        Value::Array(parts) => parts.iter().any(holds_text),
        Value::Object(fields) => TEXTS
            .iter()
            .any(|key| fields.get(*key).is_some_and(holds_text)),
        _ => false,
    }
}
