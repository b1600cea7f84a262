//! The calls of one choice, as they grow.

use super::choice::Room;
use crate::wire::limits::TOOL_CALLS_MAX;
use serde_json::{Value, json};

/// The calls of one choice.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Clone, Debug, Default)]
struct Call {
    /// What the pieces of this call are known by, where that is not its position.
    key: i64,
    id: String,
    name: String,
    arguments: String,
    is_custom: bool,
}

/// What is said about a call. Empty says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallPiece<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
    pub(super) is_custom: bool,
}

impl Calls {
    /// How many calls there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The call of this id.
    pub(super) fn position_of(&self, id: &str) -> Option<usize> {
        self.0.iter().position(|call| call.id == id)
    }

    /// The call of this key, where there is one.
    pub(super) fn known(&self, key: i64) -> Option<usize> {
        self.0.iter().position(|call| call.key == key)
    }

    /// The call of this key; the next one where it is new.
    pub(super) fn keyed(&mut self, key: i64) -> usize {
        if let Some(known) = self.known(key) {
            return known;
        }
        if self.0.len() < TOOL_CALLS_MAX {
            self.0.push(Call {
                key,
                ..Call::default()
            });
            return self.0.len() - 1;
        }
        TOOL_CALLS_MAX
    }

    /// Whether a call has its arguments, or some of them.
    pub(super) fn has_arguments(&self, index: usize) -> bool {
        let call = self.0.get(index);
        call.is_some_and(|call| !call.arguments.is_empty())
    }

    /// Adds a piece to a call, and says whether it has anything that was generated.
    pub(super) fn add(&mut self, index: usize, piece: &CallPiece<'_>, room: &mut Room) -> bool {
        if index >= TOOL_CALLS_MAX {
            room.exceeded = true;
            return false;
        }
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Call::default);
        }
        let Some(call) = self.0.get_mut(index) else {
            return false;
        };
        if call.id.is_empty() {
            piece.id.clone_into(&mut call.id);
        }
        call.is_custom |= piece.is_custom;
        // Some servers repeat the whole name in every piece.
        if call.name != piece.name {
            room.add(&mut call.name, piece.name);
        }
        room.add(&mut call.arguments, piece.arguments);
        !piece.name.is_empty() || !piece.arguments.is_empty()
    }

    /// The calls as a message of the history holds them.
    pub(super) fn to_values(&self) -> Vec<Value> {
        self.0.iter().map(Call::to_value).collect()
    }
}

impl Call {
    fn to_value(&self) -> Value {
        let (kind, input) = if self.is_custom {
            ("custom", "input")
        } else {
            ("function", "arguments")
        };
        let mut call = json!({ "type": kind, kind: { "name": self.name, input: self.arguments } });
        if let Some(call) = call.as_object_mut().filter(|_| !self.id.is_empty()) {
            call.insert("id".to_owned(), Value::from(self.id.as_str()));
        }
        call
    }
}
