//! What ties a turn to another.

use truetape_schemas::set::TurnKind;

/// A row's place in its session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Link {
    /// The row whose history this one continues.
    pub(crate) parent: Option<usize>,
    /// What ties it to its parent, or to its session.
    pub(crate) evidence: Option<Evidence>,
    /// How sure that tie is, 0 to 1.
    pub(crate) confidence: Option<f64>,
    /// The row that must have ended before this one is sent.
    pub(crate) depends_on: Option<usize>,
    /// Other rows that must have ended: the last turns of sub-agents that were waited for.
    pub(crate) joins: Vec<usize>,
    /// The row of the session that started this conversation inside of it: no parent, since it
    /// has a history of its own.
    pub(crate) spawned_by: Option<usize>,
    /// A row of the same session, where there is no parent to say so.
    pub(crate) beside: Option<usize>,
    /// Depth in the session's tree, from 1.
    pub(crate) depth: i32,
    /// What it is besides an ordinary turn.
    pub(crate) kind: TurnKind,
    /// The row that it repeats.
    pub(crate) retry_of: Option<usize>,
    /// Its session: an index into the names.
    pub(crate) session: u32,
}

impl Link {
    /// The earlier row whose session this one is in.
    pub(super) fn tied_to(&self) -> Option<usize> {
        self.parent
            .or(self.retry_of)
            .or(self.spawned_by)
            .or(self.beside)
    }
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
    /// It holds the parent's answer or its latest messages, after a history that was changed: cut
    /// at its beginning, edited, or partly replaced.
    Overlap,
    /// Its prompt begins with all full blocks of the parent's.
    Blocks,
    /// It begins with what the parent said, or follows it in a session that the client named, and
    /// is much shorter: what came before was summed up.
    Compacted,
    /// It begins with what a turn of the session said, or names the session that started it: a
    /// sub-agent. It has no parent.
    Spawned,
    /// It is the same prompt again, right after the one before. It has that one's parent.
    Repeat,
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
            Self::Overlap => "overlap",
            Self::Blocks => "blocks",
            Self::Compacted => "compacted",
            Self::Spawned => "spawned",
            Self::Repeat => "repeat",
            Self::SessionId => "session_id",
            Self::External => "external",
        }
    }
}
