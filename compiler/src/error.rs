//! Why a command of this crate could not be carried out.

use std::path::Path;
use truetape_schemas::blame::{Blame, Blamed};
use truetape_schemas::file;

/// Why importing, compiling or reading could not be carried out.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message is its documentation")]
pub enum Error {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error("{subject}: {problem}")]
    Usage { subject: String, problem: String },
    #[error("{subject}: {problem}")]
    Config { subject: String, problem: String },
    #[error("{subject}: {problem}")]
    Data { subject: String, problem: String },
    #[error("{subject}: {problem}")]
    Target { subject: String, problem: String },
    #[error("{subject}: {problem}")]
    Cut { subject: String, problem: String },
    #[error("{subject}: {problem}; this is a bug of truetape, please report it")]
    Bug { subject: String, problem: String },
}

impl Error {
    /// An input that cannot be used.
    pub fn data(subject: impl std::fmt::Display, problem: impl Into<String>) -> Self {
        Self::Data {
            subject: subject.to_string(),
            problem: problem.into(),
        }
    }

    /// A setting that cannot be used.
    pub fn config(subject: impl std::fmt::Display, problem: impl Into<String>) -> Self {
        Self::Config {
            subject: subject.to_string(),
            problem: problem.into(),
        }
    }

    /// A command line that cannot be understood.
    pub fn usage(subject: impl std::fmt::Display, problem: impl Into<String>) -> Self {
        Self::Usage {
            subject: subject.to_string(),
            problem: problem.into(),
        }
    }

    /// A store that cannot be reached, or refuses what is needed.
    pub(crate) fn target(subject: impl std::fmt::Display, problem: impl Into<String>) -> Self {
        Self::Target {
            subject: subject.to_string(),
            problem: problem.into(),
        }
    }

    /// Work that was cut short by its deadline.
    pub(crate) fn cut(subject: impl std::fmt::Display, problem: impl Into<String>) -> Self {
        Self::Cut {
            subject: subject.to_string(),
            problem: problem.into(),
        }
    }

    /// Something that cannot be, was.
    pub(crate) fn bug(subject: impl std::fmt::Display, problem: impl Into<String>) -> Self {
        Self::Bug {
            subject: subject.to_string(),
            problem: problem.into(),
        }
    }

    /// An operation of the file system that failed.
    pub(crate) fn io(path: &Path, cause: std::io::Error) -> Self {
        Self::File(file::Error::io(path, cause))
    }
}

impl Blamed for Error {
    fn blame(&self) -> Blame {
        match self {
            Self::File(error) => error.blame(),
            Self::Usage { .. } => Blame::Usage,
            Self::Config { .. } => Blame::Config,
            Self::Data { .. } => Blame::Data,
            Self::Target { .. } => Blame::Target,
            Self::Cut { .. } => Blame::Drain,
            Self::Bug { .. } => Blame::Bug,
        }
    }
}
