//! One choice of an answer, as it grows.

use crate::wire::limits::TOOL_CALLS_MAX;
use crate::wire::openai;
use serde_json::{Value, json};

/// How much more text an answer may have.
#[derive(Debug)]
pub(super) struct Room {
    left: usize,
    /// Some text did not fit, and was dropped.
    pub(super) exceeded: bool,
}

impl Room {
    pub(super) fn new(text_bytes_max: usize) -> Self {
        Self {
            left: text_bytes_max,
            exceeded: false,
        }
    }

    fn add(&mut self, text: &mut String, piece: &str) {
        match self.left.checked_sub(piece.len()) {
            Some(left) => {
                self.left = left;
                text.push_str(piece);
            }
            None => self.exceeded = true,
        }
    }
}

/// What an event brought to a choice (D1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Material {
    /// Nothing that was generated: a role, an end, an empty text.
    #[default]
    Nothing,
    /// Reasoning only.
    Reasoning,
    /// Text, refusal or a call.
    Output,
}

/// One choice of an answer.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) refusal: String,
    pub(super) finish_reason: Option<String>,
    /// An event was for this choice; it is not only a gap below a higher index.
    pub(super) seen: bool,
    calls: Vec<Call>,
    last_material: Material,
}

#[derive(Clone, Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
    is_custom: bool,
}

impl Choice {
    /// Takes what an event, or a whole answer, says about this choice. `listed` are the tokens
    /// that it lists by id or by probability.
    pub(super) fn add(
        &mut self,
        choice: &openai::Choice<'_>,
        listed: i64,
        is_whole: bool,
        room: &mut Room,
    ) -> Material {
        self.seen = true;
        // Some servers send an empty text where others send null.
        if let Some(reason) = choice.finish_reason.some_text() {
            self.finish_reason = Some(reason);
        }
        let mut output = add(&mut self.text, choice.text.text(), room);
        let mut reasoning = false;
        if let Some(delta) = choice.delta.get_ref() {
            let content = delta.content.get_ref();
            output |= add(
                &mut self.text,
                content.map_or("", |content| &content.text),
                room,
            );
            output |= add(&mut self.refusal, delta.refusal.text(), room);
            output |= self.calls(delta, is_whole, room);
            let thinking = content.map_or("", |content| &content.thinking);
            reasoning |= add(&mut self.reasoning, thinking, room);
            reasoning |= add(&mut self.reasoning, reasoning_of(delta), room);
        }
        let material = match (output, reasoning, listed) {
            (true, _, _) => Material::Output,
            (false, true, _) => Material::Reasoning,
            // Tokens without a text: held back by a parser or a stop string. They belong to
            // whatever is being generated.
            (false, false, 1..) if self.last_material == Material::Reasoning => Material::Reasoning,
            (false, false, 1..) => Material::Output,
            (false, false, _) => Material::Nothing,
        };
        if material != Material::Nothing {
            self.last_material = material;
        }
        material
    }

    fn calls(&mut self, delta: &openai::Delta<'_>, is_whole: bool, room: &mut Room) -> bool {
        let mut generated = false;
        if let Some(function) = delta.function_call.get_ref() {
            generated |= self.call(0).is_some_and(|call| call.add(function, room));
        }
        let pieces = delta
            .tool_calls
            .get_ref()
            .map_or(&[][..], |list| &list.items);
        for (position, piece) in pieces.iter().enumerate() {
            let Some(piece) = piece.get_ref() else {
                continue;
            };
            let index = self.call_index(position, piece, is_whole);
            let Some(call) = self.call(index) else {
                room.exceeded = true;
                continue;
            };
            if call.id.is_empty() {
                piece.id.text().clone_into(&mut call.id);
            }
            let custom = piece.custom.get_ref();
            call.is_custom |= custom.is_some();
            for function in [piece.function.get_ref(), custom].into_iter().flatten() {
                generated |= call.add(function, room);
            }
        }
        generated
    }

    /// Which call a piece belongs to. A whole message lists its calls in order. In a stream, where
    /// a server leaves the index out, a new id begins a new call, and a piece without an id goes
    /// on with the last.
    fn call_index(&self, position: usize, piece: &openai::ToolCall<'_>, is_whole: bool) -> usize {
        if is_whole {
            return position;
        }
        match (piece.index.get_ref(), piece.id.text()) {
            (Some(index), _) => usize::try_from(*index).unwrap_or(usize::MAX),
            (None, "") => self.calls.len().saturating_sub(1).max(position),
            (None, id) => {
                let known = self.calls.iter().position(|call| call.id == id);
                known.unwrap_or(self.calls.len())
            }
        }
    }

    fn call(&mut self, index: usize) -> Option<&mut Call> {
        if index >= TOOL_CALLS_MAX {
            return None;
        }
        if index >= self.calls.len() {
            self.calls.resize_with(index + 1, Call::default);
        }
        self.calls.get_mut(index)
    }

    /// The calls as a message of the history holds them.
    pub(super) fn tool_calls(&self) -> Vec<Value> {
        self.calls.iter().map(Call::to_value).collect()
    }
}

impl Call {
    fn add(&mut self, function: &openai::Function<'_>, room: &mut Room) -> bool {
        let name = function.name.text();
        let arguments = function
            .arguments
            .get_ref()
            .map_or("", |arguments| &arguments.0);
        // Some servers repeat the whole name in every piece.
        if self.name != name {
            room.add(&mut self.name, name);
        }
        room.add(&mut self.arguments, arguments);
        !name.is_empty() || !arguments.is_empty()
    }

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

/// Adds a piece, and says whether there was one.
fn add(text: &mut String, piece: &str, room: &mut Room) -> bool {
    room.add(text, piece);
    !piece.is_empty()
}

/// The reasoning of a delta. Servers that send it under both names send it twice.
fn reasoning_of<'a>(delta: &'a openai::Delta<'_>) -> &'a str {
    match delta.reasoning_content.text() {
        "" => delta.reasoning.text(),
        text => text,
    }
}
