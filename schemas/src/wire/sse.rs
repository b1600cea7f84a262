//! Event streams, byte by byte.

/// Longest line that is kept, in bytes.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// `event:`; empty where none was given.
    pub name: Vec<u8>,
    /// The `data:` lines, joined by `\n`.
    pub data: Vec<u8>,
}

/// Splits a byte stream into events.
#[derive(Debug)]
pub struct Decoder {
    line_bytes_max: usize,
}

impl Decoder {
    /// Starts a stream whose lines are at most so long.
    pub fn new(line_bytes_max: usize) -> Self {
        Self { line_bytes_max }
    }

    /// Takes bytes, and calls `event` for every event that they complete.
    pub fn push(&mut self, bytes: &[u8], event: impl FnMut(&Event)) {
        let (_, _, _) = (bytes, event, self.line_bytes_max);
    }
}
