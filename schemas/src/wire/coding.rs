//! Content codings: what a body was packed with, undone.
//!
//! Bodies are recorded as they were sent and unpacked by whoever reads them. A decoder takes the
//! bytes as they came and gives what they say so far, so that an event of a packed stream has the
//! time of the frame that completed it. What comes out is bounded: a body of 1 MiB can be made to
//! say a gigabyte.

use super::limits::DECODED_BYTES_MAX;
use std::borrow::Cow;
use std::io::{self, Write};

mod stage;

use stage::Stage;

/// Codings on top of each other at most; honest servers use one.
const STAGES_MAX: usize = 4;

/// Why a body could not be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    /// The label names a coding that nobody here knows, or too many.
    #[error("the content coding is none of gzip, deflate, br and zstd")]
    Unknown,
    /// The bytes are not what the label says.
    #[error("the body is not coded as its label says")]
    Malformed,
    /// It says more than is read.
    #[error("the body unpacks to more than is read")]
    TooLong,
}

/// Whether the label says that the body is as it reads.
pub fn is_identity(content_encoding: Option<&str>) -> bool {
    content_encoding.is_none_or(|label| names(label).next().is_none())
}

/// The codings of a label, in the order in which they were applied.
fn names(label: &str) -> impl DoubleEndedIterator<Item = &str> {
    let named = |name: &&str| !name.is_empty() && !name.eq_ignore_ascii_case("identity");
    label.split(',').map(str::trim).filter(named)
}

/// Unpacks a body as it comes.
#[derive(Debug)]
pub struct Decoder {
    /// The one that was applied last stands first.
    stages: Vec<Stage>,
}

impl Decoder {
    /// One for a label, as in `gzip` or `deflate, br`; names are read without regard to case.
    pub fn new(content_encoding: Option<&str>) -> Result<Self, CodingError> {
        Self::within(content_encoding, DECODED_BYTES_MAX)
    }

    /// One that gives at most so many bytes.
    pub fn within(content_encoding: Option<&str>, bytes_max: usize) -> Result<Self, CodingError> {
        let names = names(content_encoding.unwrap_or_default()).rev();
        let stages: Option<Vec<Stage>> = names.map(|name| Stage::new(name, bytes_max)).collect();
        match stages {
            Some(stages) if stages.len() <= STAGES_MAX => Ok(Self { stages }),
            _ => Err(CodingError::Unknown),
        }
    }

    /// Takes more bytes, and gives what they add. After an error nothing more can be had.
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, CodingError> {
        let mut bytes = Cow::Borrowed(bytes);
        for stage in &mut self.stages {
            bytes = Cow::Owned(stage.push(&bytes).map_err(|cause| error(&cause))?);
        }
        Ok(bytes)
    }
}

fn error(cause: &io::Error) -> CodingError {
    if cause.kind() == io::ErrorKind::FileTooLarge {
        CodingError::TooLong
    } else {
        CodingError::Malformed
    }
}

/// Unpacks a whole body. One that was cut gives what it says up to there.
pub fn decode<'a>(
    content_encoding: Option<&str>,
    body: &'a [u8],
) -> Result<Cow<'a, [u8]>, CodingError> {
    Decoder::new(content_encoding)?.push(body)
}

/// Takes what comes out, up to a bound.
#[derive(Debug)]
struct Sink {
    bytes: Vec<u8>,
    left: usize,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self
            .left
            .checked_sub(bytes.len())
            .ok_or(io::ErrorKind::FileTooLarge)?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
