//! What can go wrong with the proxy as a process. Nothing here can happen to a request.

use std::path::PathBuf;
use truetape_schemas::blame::{Blame, Blamed};

/// Why the proxy did not start, or ended otherwise than well.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message is its documentation")]
pub enum Error {
    #[error("{subject}: {problem}")]
    Config { subject: String, problem: String },
    #[error("{}: another proxy records into this directory; give each its own --out", .directory.display())]
    Locked { directory: PathBuf },
    #[error("{address}: cannot listen: {cause}; choose another address with --listen or --admin")]
    Listen {
        address: String,
        cause: std::io::Error,
    },
    #[error("{}: {cause}", .path.display())]
    Disk {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("runtime: {cause}")]
    Runtime { cause: std::io::Error },
    #[error(
        "drain: {exchanges} exchanges were cut before they ended; --drain-timeout is how long they may take, unless a second signal cuts them"
    )]
    DrainCut { exchanges: u64 },
    #[error("capture: {spools} spools could not be sealed; they are sealed at the next start")]
    Unsealed { spools: u64 },
}

impl Error {
    /// A setting that cannot be used.
    pub fn config(subject: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Config {
            subject: subject.into(),
            problem: problem.into(),
        }
    }
}

impl Blamed for Error {
    fn blame(&self) -> Blame {
        match self {
            Self::Config { .. } | Self::Locked { .. } => Blame::Config,
            Self::Listen { .. }
            | Self::Disk { .. }
            | Self::Runtime { .. }
            | Self::Unsealed { .. } => Blame::Host,
            Self::DrainCut { .. } => Blame::Drain,
        }
    }
}
