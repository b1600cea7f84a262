//! Versions of formats, and what can be wrong with a file.

use crate::blame::{Blame, Blamed};
use std::path::Path;

/// A format's name and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its name, as in `capture`.
    pub name: &'static str,
    /// Its version, as in 1.
    pub version: u32,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.name, self.version)
    }
}

impl Format {
    /// Checks a format name found in a file against the one this build reads.
    pub fn gate(&self, subject: &str, found: Option<&str>) -> Result<(), Error> {
        let newest = self.to_string();
        let Some(found) = found else {
            return Err(Error::NotOurs {
                subject: subject.to_owned(),
                wanted: newest,
            });
        };
        let Some((name, version)) = found.split_once('/') else {
            return Err(Error::NotOurs {
                subject: subject.to_owned(),
                wanted: newest,
            });
        };
        let version: u32 = version.parse().unwrap_or(u32::MAX);
        if name != self.name {
            return Err(Error::WrongFormat {
                subject: subject.to_owned(),
                found: found.to_owned(),
                wanted: newest,
            });
        }
        if version > self.version {
            return Err(Error::FormatTooNew {
                subject: subject.to_owned(),
                found: found.to_owned(),
                newest,
            });
        }
        Ok(())
    }
}

/// Why a file could not be written or read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message is its documentation")]
pub enum Error {
    #[error(
        "{subject}: format {found} is newer than this build reads ({newest}); upgrade truetape"
    )]
    FormatTooNew {
        subject: String,
        found: String,
        newest: String,
    },
    #[error("{subject}: is {found}, expected {wanted}")]
    WrongFormat {
        subject: String,
        found: String,
        wanted: String,
    },
    #[error("{subject}: carries no format version, expected {wanted}; was it written by truetape?")]
    NotOurs { subject: String, wanted: String },
    #[error("{subject}: not a readable Parquet file: {cause}")]
    Unreadable { subject: String, cause: String },
    #[error("{subject}: {cause}")]
    Io {
        subject: String,
        cause: std::io::Error,
    },
    #[error("{subject}: could not encode rows: {cause}")]
    Encode { subject: String, cause: String },
    #[error("{subject}: {problem}")]
    Invalid { subject: String, problem: String },
    #[error("{subject}: {problem}")]
    KeyFile { subject: String, problem: String },
    #[error(
        "{subject}: is encrypted with the key {key_id}; pass a key file that holds it with --key-file, or set TRUETAPE_KEY_FILE"
    )]
    NoKey { subject: String, key_id: String },
    #[error(
        "{subject}: does not open with the key {key_id} that it names: it was damaged or changed"
    )]
    Forged { subject: String, key_id: String },
}

impl Error {
    /// An I/O error about a path.
    pub fn io(path: &Path, cause: std::io::Error) -> Self {
        Self::Io {
            subject: path.display().to_string(),
            cause,
        }
    }

    /// Content that cannot be used, about a path.
    pub fn invalid(path: &Path, problem: impl Into<String>) -> Self {
        Self::Invalid {
            subject: path.display().to_string(),
            problem: problem.into(),
        }
    }
}

impl Blamed for Error {
    fn blame(&self) -> Blame {
        match self {
            Self::FormatTooNew { .. }
            | Self::WrongFormat { .. }
            | Self::NotOurs { .. }
            | Self::Unreadable { .. }
            | Self::Invalid { .. }
            | Self::Forged { .. } => Blame::Data,
            Self::KeyFile { .. } | Self::NoKey { .. } => Blame::Config,
            Self::Io { cause, .. } if cause.kind() == std::io::ErrorKind::NotFound => Blame::Data,
            Self::Io { .. } => Blame::Host,
            Self::Encode { .. } => Blame::Bug,
        }
    }
}
