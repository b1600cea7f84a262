//! Whose problem an error is.

/// The party that can make an error go away.
///
/// It picks the exit code of the process, and with it whose pager should ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The operator: the command line cannot be understood.
    Usage,
    /// The operator: a flag, a variable or a file of settings has a bad value.
    Config,
    /// Whoever made the input: a capture, a set or a run cannot be used.
    Data,
    /// Whoever runs the server we talk to.
    Target,
    /// Whoever runs the machine: disk full, permission denied, too slow to keep a schedule.
    Host,
    /// The drain deadline cut something short.
    Drain,
    /// Us.
    Bug,
}

impl Blame {
    /// The exit code of a process that ends with such an error (`docs/exit-codes.md`).
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::Data => 65,
            Self::Target => 69,
            Self::Bug => 70,
            Self::Host => 74,
            Self::Drain => 75,
            Self::Config => 78,
        }
    }

    /// The word in the table of exit codes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Config => "config",
            Self::Data => "data",
            Self::Target => "target",
            Self::Host => "host",
            Self::Drain => "drain",
            Self::Bug => "bug",
        }
    }
}

/// An error that knows who must act on it.
pub trait Blamed: std::error::Error {
    /// The party that can make this error go away.
    fn blame(&self) -> Blame;
}

/// How a command that ran to its end came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done. Exit code 0.
    Yes,
    /// Done, and the answer is no: a verdict is negative, a difference was found. Exit code 1.
    No,
}

impl Answer {
    /// The exit code of a process that ends with it.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
        }
    }
}
