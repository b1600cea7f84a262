//! The spool: what a capture is while it grows. An append-only file of checked frames.
//!
//! ```text
//! file  = magic frame*
//! frame = length:u32le crc32:u32le payload        length and crc of the payload
//! payload = 'h' json        what is true of all rows: Head, the first frame
//!         | 'r' length:u32le json request response
//!                           one row, its two bodies after it: length:u32le bytes,
//!                           length u32::MAX for none
//!         | 'n' json        Note: the ledger when the rows before it were written
//! ```
//!
//! Rows are JSON and not a packed encoding, so that a spool which a crash left behind can be read
//! by the build that comes after an upgrade. Bodies, which are most of it, stay raw.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use truetape_schemas::capture::Exchange;
use truetape_schemas::ledger::Ledger;
use truetape_schemas::time::ClockAnchor;

use crate::limits;

/// Ends the name of a spool.
pub const SUFFIX: &str = ".spool";

/// Begins every spool; the digit is the version of this format.
pub const MAGIC: &[u8; 8] = b"TTSPOOL1";

const HEAD: u8 = b'h';
const ROW: u8 = b'r';
const NOTE: u8 = b'n';
const NO_BODY: u32 = u32::MAX;
const FRAME_HEAD_BYTES: usize = 8;

/// What is true of all rows of a spool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Both clocks when the spool was opened.
    pub opened: ClockAnchor,
    /// Digest of the settings.
    pub config_digest: String,
    /// What is done to secrets.
    pub redaction_profile: String,
    /// The version that wrote it.
    pub tool_version: String,
}

/// The ledger of the segment, when the rows before it were written.
///
/// Its `recorded` and `degraded` are not read: rows are counted where they are found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// The account. While the segment is open, `offered` holds what is still in progress too.
    pub ledger: Ledger,
    /// Both clocks.
    pub anchor: ClockAnchor,
    /// The segment was closed in order: what is in progress belongs to the next.
    pub closed: bool,
}

/// One frame of a spool.
#[derive(Debug, PartialEq)]
#[expect(missing_docs, reason = "each is the struct it holds")]
pub enum Item {
    Head(Head),
    Row(Box<Exchange>),
    Note(Note),
    /// A frame that is whole but means nothing to this build.
    Unreadable,
}

/// The start of a spool.
pub fn begin(head: &Head) -> io::Result<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&json_frame(HEAD, head)?);
    Ok(bytes)
}

/// A note as a frame.
pub fn note(note: &Note) -> io::Result<Vec<u8>> {
    json_frame(NOTE, note)
}

/// A row as a frame.
pub fn row(mut exchange: Exchange) -> io::Result<Vec<u8>> {
    let bodies = [exchange.request_body.take(), exchange.response_body.take()];
    let mut frame = start(ROW);
    let at = frame.len();
    frame.extend_from_slice(&[0; 4]);
    serde_json::to_writer(&mut frame, &exchange)?;
    let length = u32_of(frame.len() - at - 4)?;
    if let Some(slot) = frame.get_mut(at..at + 4) {
        slot.copy_from_slice(&length.to_le_bytes());
    }
    for body in bodies {
        let length = body
            .as_ref()
            .map_or(Ok(NO_BODY), |body| u32_of(body.len()))?;
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(body.as_deref().unwrap_or_default());
    }
    finish(frame)
}

fn json_frame(kind: u8, value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = start(kind);
    serde_json::to_writer(&mut frame, value)?;
    finish(frame)
}

fn start(kind: u8) -> Vec<u8> {
    let mut frame = vec![0; FRAME_HEAD_BYTES];
    frame.push(kind);
    frame
}

fn finish(mut frame: Vec<u8>) -> io::Result<Vec<u8>> {
    let (head, payload) = frame.split_at_mut(FRAME_HEAD_BYTES);
    let length = u32_of(payload.len())?;
    let (length_slot, crc_slot) = head.split_at_mut(4);
    length_slot.copy_from_slice(&length.to_le_bytes());
    crc_slot.copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    Ok(frame)
}

fn u32_of(length: usize) -> io::Result<u32> {
    u32::try_from(length)
        .ok()
        .filter(|length| *length < NO_BODY)
        .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))
}

/// Reads a spool, up to its end or to the frame that a crash cut short.
#[derive(Debug)]
pub struct Reader {
    file: BufReader<File>,
    left: u64,
    torn_bytes: u64,
}

impl Reader {
    /// Opens a spool.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut reader = Self {
            file: BufReader::new(file),
            left: bytes,
            torn_bytes: 0,
        };
        match reader.take(MAGIC.len())? {
            Some(magic) if magic == MAGIC => Ok(reader),
            // Killed before its first write: nothing was in it.
            _ => {
                reader.torn_bytes = bytes;
                reader.left = 0;
                Ok(reader)
            }
        }
    }

    /// Bytes at the end that are not a whole frame. Known once the items have ended.
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// The next frame; `None` at the end of what is whole.
    pub fn next_item(&mut self) -> io::Result<Option<Item>> {
        let before = self.left;
        let payload = self.payload()?;
        if payload.is_none() {
            self.torn_bytes += before;
            self.left = 0;
        }
        Ok(payload.map(|payload| item(&payload)))
    }

    fn payload(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(head) = self.take(FRAME_HEAD_BYTES)? else {
            return Ok(None);
        };
        let mut words = head.chunks_exact(4).map(le_u32);
        let (length, crc) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length == 0 || length > limits::SPOOL_FRAME_BYTES_MAX {
            return Ok(None);
        }
        let payload = self.take(length)?;
        Ok(payload.filter(|payload| crc32fast::hash(payload) == crc))
    }

    fn take(&mut self, bytes: usize) -> io::Result<Option<Vec<u8>>> {
        // Checked against the file first: a length of noise must not allocate gigabytes.
        if bytes as u64 > self.left {
            return Ok(None);
        }
        let mut taken = vec![0; bytes];
        self.file.read_exact(&mut taken)?;
        self.left -= bytes as u64;
        Ok(Some(taken))
    }
}

fn le_u32(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

fn item(payload: &[u8]) -> Item {
    let read = match payload.split_first() {
        Some((&HEAD, json)) => serde_json::from_slice(json).ok().map(Item::Head),
        Some((&NOTE, json)) => serde_json::from_slice(json).ok().map(Item::Note),
        Some((&ROW, row)) => read_row(row).map(|row| Item::Row(Box::new(row))),
        _ => None,
    };
    read.unwrap_or(Item::Unreadable)
}

fn read_row(bytes: &[u8]) -> Option<Exchange> {
    let (json, rest) = counted(bytes)?;
    let mut exchange: Exchange = serde_json::from_slice(json?).ok()?;
    let (request, rest) = counted(rest)?;
    let (response, rest) = counted(rest)?;
    exchange.request_body = request.map(<[u8]>::to_vec);
    exchange.response_body = response.map(<[u8]>::to_vec);
    rest.is_empty().then_some(exchange)
}

fn counted(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    match u32::from_le_bytes(*length) {
        NO_BODY => Some((None, rest)),
        length => {
            let (body, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((Some(body), rest))
        }
    }
}

#[cfg(test)]
mod tests;
