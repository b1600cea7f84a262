//! One choice of an answer, as it grows.

use super::calls::Calls;

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

    /// Adds a piece, and says whether there was one.
    pub(super) fn add(&mut self, text: &mut String, piece: &str) -> bool {
        match self.left.checked_sub(piece.len()) {
            Some(left) => {
                self.left = left;
                text.push_str(piece);
            }
            None => self.exceeded = true,
        }
        !piece.is_empty()
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

/// What an event, or a whole answer, says about a choice, in the words of no dialect. Empty says
/// nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    pub(super) reasoning: &'a str,
    pub(super) refusal: &'a str,
    /// A piece of a call was added.
    pub(super) called: bool,
    pub(super) finish_reason: &'a str,
    /// Tokens that it lists by id, by probability or by count.
    pub(super) listed: i64,
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
    pub(super) calls: Calls,
    last_material: Material,
}

impl Choice {
    /// Takes a piece.
    pub(super) fn add(&mut self, piece: &Piece<'_>, room: &mut Room) -> Material {
        self.seen = true;
        // Some servers send an empty reason where others send null.
        if !piece.finish_reason.is_empty() {
            self.finish_reason = Some(piece.finish_reason.to_owned());
        }
        let mut output = piece.called;
        output |= room.add(&mut self.text, piece.text);
        output |= room.add(&mut self.refusal, piece.refusal);
        let reasoning = room.add(&mut self.reasoning, piece.reasoning);
        let material = match (output, reasoning, piece.listed) {
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
}
