//! What ties a turn to another.

use truetape_schemas::set::TurnKind;

/// A row's place in its session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Link {
    /// The row whose history this one continues.
    pub(crate) parent: Option<usize>,
    /// What ties it to its parent.
    pub(crate) evidence: Option<Evidence>,
    /// How sure that tie is, 0 to 1.
    pub(crate) confidence: Option<f64>,
    /// The row that must have ended before this one is sent.
    pub(crate) depends_on: Option<usize>,
    /// Depth in the session's tree, from 1.
    pub(crate) depth: i32,
    /// What it is besides an ordinary turn.
    pub(crate) kind: TurnKind,
    /// The row that it repeats.
    pub(crate) retry_of: Option<usize>,
    /// Its session: an index into the names.
    pub(crate) session: u32,
}

/// A tie to an earlier row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tie {
    pub(crate) parent: usize,
    pub(crate) evidence: Evidence,
    pub(crate) confidence: f64,
}

/// What ties a turn to its parent, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Evidence {
    /// It names the parent's answer.
    ResponseId,
    /// It holds the parent's messages, and then the very answer that the parent got.
    Answer,
    /// It holds the parent's messages.
    History,
    /// Its prompt begins with all full blocks of the parent's.
    Blocks,
    /// They are neighbours in a session that the client named.
    SessionId,
    /// It names an answer that was not captured.
    External,
}

impl Evidence {
    /// The word in the set.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ResponseId => "response_id",
            Self::Answer => "answer",
            Self::History => "history",
            Self::Blocks => "blocks",
            Self::SessionId => "session_id",
            Self::External => "external",
        }
    }
}
