//! Event streams, byte by byte: the framing of WHATWG server-sent events.
//!
//! What it is given may be cut anywhere. An event is complete with the byte that ends its blank
//! line, and is handed on by the push that brought this byte: its time is the time of that read.

use super::line::{Ends, Line, Lines, release};

/// Longest line that is kept, and most data of one event, in bytes.
///
/// One answer with token probabilities or an image inside can be an event of several MiB; 16 MiB
/// lets them through, and bounds what one stream can make us hold to twice that.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// One event that carries data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The last `event:` of it; empty where there was none.
    pub name: &'a [u8],
    /// Its `data:` lines, joined by LF.
    pub data: &'a [u8],
    /// The last `id:` of the stream so far; empty where there was none.
    pub id: &'a [u8],
}

/// Splits a byte stream into events.
///
/// The decoder never looks at how the bytes were cut: feeding `"da"`, `"ta: x\n\n"` yields what
/// feeding `"data: x\n\n"` yields. It never fails either: what is too long is dropped and counted
/// in [`Decoder::skipped`], and the stream goes on.
#[derive(Debug)]
pub struct Decoder {
    lines: Lines,
    pending: Pending,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(LINE_BYTES_MAX)
    }
}

impl Decoder {
    /// Starts a stream in which a line, and the data of one event, have at most so many bytes.
    pub fn new(line_bytes_max: usize) -> Self {
        Self {
            lines: Lines::new(Ends::Any, line_bytes_max),
            pending: Pending {
                data_bytes_max: line_bytes_max,
                ..Pending::default()
            },
        }
    }

    /// Takes bytes, and calls `each` for every event that they complete.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Event<'_>)) {
        let Self { lines, pending } = self;
        lines.push(bytes, |line| pending.line(line, &mut each));
    }

    /// Ends the stream, and calls `each` for an event that no blank line ended.
    ///
    /// The standard discards such an event. Real servers do close right after their last line,
    /// and clients that read lines do see it; so it is handed on, apart from the others, and the
    /// caller decides. It may be half an event.
    pub fn finish(&mut self, mut each: impl FnMut(Event<'_>)) {
        let Self { lines, pending } = self;
        lines.finish(|line| pending.line(line, &mut each));
        pending.dispatch(&mut each);
    }

    /// Lines that were too long, and events whose data was; an event that lost a line is dropped
    /// as a whole, since half of it would be another event.
    pub fn skipped(&self) -> u64 {
        self.pending.skipped
    }
}

/// The event whose blank line has not come yet.
#[derive(Debug, Default)]
struct Pending {
    data_bytes_max: usize,
    name: Vec<u8>,
    data: Vec<u8>,
    id: Vec<u8>,
    has_data: bool,
    damaged: bool,
    skipped: u64,
}

impl Pending {
    fn line(&mut self, line: Line<'_>, each: &mut impl FnMut(Event<'_>)) {
        match line {
            Line::Whole(b"") => self.dispatch(each),
            Line::Whole(line) => self.field(line),
            Line::TooLong { first } => {
                self.skipped += 1;
                self.damaged |= first != b':';
            }
        }
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (
                line.get(..colon).unwrap_or_default(),
                line.get(colon + 1..).unwrap_or_default(),
            ),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => self.data(value),
            b"event" => replace(&mut self.name, value),
            // The standard ignores an id with a NUL in it.
            b"id" if !value.contains(&0) => replace(&mut self.id, value),
            // A comment has an empty name. `retry` and whatever else there is are not for us.
            _ => {}
        }
    }

    fn data(&mut self, value: &[u8]) {
        if self.damaged {
            return;
        }
        if self.data.len() + value.len() > self.data_bytes_max {
            self.skipped += 1;
            self.damaged = true;
            return;
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.has_data = true;
    }

    fn dispatch(&mut self, each: &mut impl FnMut(Event<'_>)) {
        if self.has_data && !self.damaged {
            each(Event {
                name: &self.name,
                data: &self.data,
                id: &self.id,
            });
        }
        release(&mut self.data);
        self.name.clear();
        self.has_data = false;
        self.damaged = false;
    }
}

fn replace(buffer: &mut Vec<u8>, value: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(value);
}

#[cfg(test)]
mod tests;
