//! Why a replay could not be done, or cannot be trusted.

use std::path::PathBuf;
use truetape_schemas::blame::{Blame, Blamed};
use truetape_schemas::file;

/// Why a replay could not be done, or cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message is its documentation")]
pub enum Error {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error("{flag}: {problem}")]
    Config { flag: String, problem: String },
    #[error("{subject}: {problem}")]
    Set { subject: String, problem: String },
    #[error("--target {target}: {problem}")]
    TargetRefused { target: String, problem: String },
    #[error("{target}: {problem}; {hint}")]
    Target {
        target: String,
        problem: String,
        hint: String,
    },
    #[error("{}: {problem}", path.display())]
    Out { path: PathBuf, problem: String },
    #[error("{what}: {cause}")]
    Host { what: String, cause: std::io::Error },
    #[error("{}: the run is invalid: {problem}", path.display())]
    Invalid { path: PathBuf, problem: String },
    #[error("{}: the run was stopped: {problem}", path.display())]
    Broken { path: PathBuf, problem: String },
    #[error("{}: the run was stopped: {problem}", path.display())]
    Stopped { path: PathBuf, problem: String },
    #[error("{subject}: {problem}; this is a bug in truetape")]
    Bug { subject: String, problem: String },
}

impl Error {
    /// A flag with a value that cannot be used.
    pub fn config(flag: &str, problem: impl Into<String>) -> Self {
        Self::Config {
            flag: flag.to_owned(),
            problem: problem.into(),
        }
    }
}

impl Blamed for Error {
    fn blame(&self) -> Blame {
        match self {
            Self::File(cause) => cause.blame(),
            Self::Config { .. } | Self::TargetRefused { .. } | Self::Out { .. } => Blame::Config,
            Self::Set { .. } => Blame::Data,
            Self::Target { .. } | Self::Broken { .. } => Blame::Target,
            // A replayer that was too late is a bad ruler: the machine it ran on has to be better.
            Self::Host { .. } | Self::Invalid { .. } => Blame::Host,
            Self::Stopped { .. } => Blame::Drain,
            Self::Bug { .. } => Blame::Bug,
        }
    }
}
