//! Bytes to lines, whatever the network cut them into.

use memchr::{memchr, memchr2};

/// Capacity that a buffer keeps between lines. Most lines are a few hundred bytes; one long line
/// must not hold its memory for the rest of a long stream.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// The byte order mark of UTF-8: skipped where a stream starts with it.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// What ends a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// LF. A CR before it belongs to the line.
    Lf,
    /// LF, CR, or CR LF.
    Any,
}

/// One line, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It was longer than allowed, and dropped; this is how it began.
    TooLong { first: u8 },
}

/// Splits a byte stream into lines.
#[derive(Debug)]
pub(super) struct Lines {
    ends: Ends,
    line_bytes_max: usize,
    /// The line so far, where a push ended inside it.
    held: Vec<u8>,
    /// The line so far is too long: how it began.
    too_long: Option<u8>,
    /// The last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    /// Bytes of the byte order mark seen; `None` once past the place where it can be.
    bom: Option<usize>,
}

impl Lines {
    pub(super) fn new(ends: Ends, line_bytes_max: usize) -> Self {
        Self {
            ends,
            line_bytes_max,
            held: Vec::new(),
            too_long: None,
            after_cr: false,
            bom: Some(0),
        }
    }

    /// Takes bytes, and calls `each` for every line that they complete.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        let mut bytes = self.skip_bom(bytes);
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = match self.ends {
                Ends::Lf => memchr(b'\n', bytes),
                Ends::Any => memchr2(b'\n', b'\r', bytes),
            };
            let Some((line, rest)) = end.and_then(|end| bytes.split_at_checked(end)) else {
                self.hold(bytes);
                return;
            };
            // The CR ends the line at once: whoever waits for the LF that may follow gives the
            // line the time of a later read.
            self.after_cr = rest.first() == Some(&b'\r');
            self.complete(line, &mut each);
            bytes = rest.get(1..).unwrap_or_default();
        }
    }

    /// Calls `each` for the last line, if the stream ended inside one.
    pub(super) fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        let bom = BOM.get(..self.bom.take().unwrap_or(0)).unwrap_or_default();
        self.hold(bom);
        if self.too_long.is_some() || !self.held.is_empty() {
            self.complete(&[], &mut each);
        }
    }

    fn complete(&mut self, line: &[u8], each: &mut impl FnMut(Line<'_>)) {
        // The usual case costs no copy: the whole line is in one push.
        if self.held.is_empty() && self.too_long.is_none() && line.len() <= self.line_bytes_max {
            each(Line::Whole(line));
            return;
        }
        self.hold(line);
        match self.too_long.take() {
            Some(first) => each(Line::TooLong { first }),
            None => each(Line::Whole(&self.held)),
        }
        release(&mut self.held);
    }

    fn hold(&mut self, piece: &[u8]) {
        if self.too_long.is_some() {
            return;
        }
        if self.held.len() + piece.len() > self.line_bytes_max {
            self.too_long = self.held.first().or(piece.first()).copied();
            self.held = Vec::new();
        } else {
            self.held.extend_from_slice(piece);
        }
    }

    fn skip_bom<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while let (Some(seen), Some(first)) = (self.bom, bytes.first()) {
            if BOM.get(seen) == Some(first) {
                bytes = bytes.get(1..).unwrap_or_default();
                self.bom = if seen + 1 < BOM.len() {
                    Some(seen + 1)
                } else {
                    None
                };
            } else {
                // It only looked like one: what was skipped belongs to the first line.
                self.bom = None;
                self.hold(BOM.get(..seen).unwrap_or_default());
            }
        }
        bytes
    }
}

/// Empties a buffer, and gives back its memory where it is a lot.
pub(super) fn release(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES_MAX {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}
