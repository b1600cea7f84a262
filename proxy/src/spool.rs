//! The spool: what a capture is while it grows. An append-only file of checked frames.
//!
//! ```text
//! file  = magic frame*                           TTSPOOL3
//!       | magic id:u8-counted salt[32] frame*    TTSPOOLF: payloads are sealed, see crate::cipher
//! frame = length:u32le crc32:u32le payload       length and crc of the payload
//! payload = 'h' json        what is true of all rows, the names of their columns among it: Head, the
//!                           first frame
//!         | 'p' list:u32le request:u32le response:u32le list request response
//!                           one row: the lengths of its parts (u32::MAX for no body), then they; the
//!                           list holds the columns' values in MessagePack
//!         | 'n' json        Note: the ledger when the rows before it were written
//! ```
//!
//! A spool which a crash left behind can be read by the build that comes after an upgrade: its head
//! names the columns, once, and a build that has others finds those it knows. What is nested in a
//! column (a header, a blob, a segment) is a list without names: a change of those is a new version. Bodies, which are most
//! of it, stay raw.

mod pen;
mod reader;

pub use pen::{Frame, Pen};
pub use reader::Reader;

use serde::{Deserialize, Serialize};
use std::io;
use std::sync::OnceLock;
use truetape_schemas::capture::Exchange;
use truetape_schemas::ledger::Ledger;
use truetape_schemas::time::ClockAnchor;

/// Ends the name of a spool.
pub const SUFFIX: &str = ".spool";

/// Begins every spool, whatever its version.
const MAGIC_ANY: &[u8; 7] = b"TTSPOOL";

/// Begins a spool in the clear; the last byte is the version of this format.
pub const MAGIC: &[u8; 8] = b"TTSPOOL3";

/// Begins an encrypted one.
pub const MAGIC_ENCRYPTED: &[u8; 8] = b"TTSPOOLF";

const HEAD: u8 = b'h';
const ROW: u8 = b'p';
const NOTE: u8 = b'n';
const NO_BODY: u32 = u32::MAX;
const FRAME_HEAD_BYTES: usize = 8;

/// What is true of all rows of a spool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Both clocks when the spool was opened.
    pub opened: ClockAnchor,
    /// By what settings it was written.
    #[serde(flatten)]
    pub terms: Terms,
    /// The version that wrote it.
    pub tool_version: String,
    /// The columns of its rows, in the order of their values.
    pub columns: Vec<String>,
}

/// The columns of a row as this build writes it.
pub fn columns() -> &'static [String] {
    static COLUMNS: OnceLock<Vec<String>> = OnceLock::new();
    COLUMNS.get_or_init(|| match serde_json::to_value(Exchange::default()) {
        Ok(serde_json::Value::Object(columns)) => {
            columns.into_iter().map(|(name, _)| name).collect()
        }
        // A row is a struct.
        Ok(_) | Err(_) => Vec::new(),
    })
}

/// The settings that say what the rows of a spool mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Digest of all settings.
    pub config_digest: String,
    /// What is kept.
    pub redaction_profile: String,
    /// Names the key of what stands for text.
    #[serde(default)]
    pub digest_key_fingerprint: Option<String>,
    /// The share of sessions that is recorded, where it is not all.
    #[serde(default)]
    pub sampling_rate: Option<f64>,
    /// The salt of the hash that decides.
    #[serde(default)]
    pub sampling_salt: Option<String>,
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

/// The head as a frame.
pub fn head(head: &Head) -> io::Result<Frame> {
    json_frame(HEAD, head)
}

/// A note as a frame.
pub fn note(note: &Note) -> io::Result<Frame> {
    json_frame(NOTE, note)
}

/// A row as a frame. Its bodies are not copied.
pub fn row(mut exchange: Exchange) -> io::Result<Frame> {
    const LENGTHS_AT: usize = 1;
    const LIST_AT: usize = LENGTHS_AT + 3 * size_of::<u32>();
    let bodies = [exchange.request_body.take(), exchange.response_body.take()];
    let mut lead = Vec::with_capacity(ROW_LIST_BYTES);
    lead.resize(LIST_AT, ROW);
    rmp_serde::encode::write(&mut lead, &exchange).map_err(io::Error::other)?;
    let body =
        |body: &Option<Vec<u8>>| body.as_ref().map_or(Ok(NO_BODY), |body| u32_of(body.len()));
    let [request, response] = &bodies;
    let lengths = [
        u32_of(lead.len() - LIST_AT)?,
        body(request)?,
        body(response)?,
    ];
    let slots = lead.get_mut(LENGTHS_AT..LIST_AT).unwrap_or_default();
    for (slot, length) in slots.chunks_exact_mut(4).zip(lengths) {
        slot.copy_from_slice(&length.to_le_bytes());
    }
    Ok(Frame::new(lead, bodies))
}

/// What the columns of a usual row take, so that they are written without growing a buffer.
const ROW_LIST_BYTES: usize = 1024;

fn json_frame(kind: u8, value: &impl Serialize) -> io::Result<Frame> {
    let mut payload = vec![kind];
    serde_json::to_writer(&mut payload, value)?;
    Ok(Frame::new(payload, [None, None]))
}

fn u32_of(length: usize) -> io::Result<u32> {
    u32::try_from(length)
        .ok()
        .filter(|length| *length < NO_BODY)
        .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))
}

#[cfg(test)]
mod tests;
