//! Lines of JSON, byte by byte.
//!
//! The same contract as [`sse`](super::sse): what it is given may be cut anywhere, and a line is
//! handed on by the push that brought its LF.

use super::line::{Ends, Line, Lines};

/// Longest line that is kept, in bytes. See [`sse::LINE_BYTES_MAX`](super::sse::LINE_BYTES_MAX).
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// Splits a byte stream into lines. Blank lines are left out; a CR before the LF is not part of
/// the line. It never fails: what is too long is dropped and counted in [`Decoder::skipped`].
#[derive(Debug)]
pub struct Decoder {
    lines: Lines,
    skipped: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(LINE_BYTES_MAX)
    }
}

impl Decoder {
    /// Starts a stream whose lines have at most so many bytes.
    pub fn new(line_bytes_max: usize) -> Self {
        Self {
            lines: Lines::new(Ends::Lf, line_bytes_max),
            skipped: 0,
        }
    }

    /// Takes bytes, and calls `each` for every line that they complete.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        let Self { lines, skipped } = self;
        lines.push(bytes, |line| deliver(line, skipped, &mut each));
    }

    /// Ends the stream, and calls `each` for a last line that no LF ended. It may be half a line.
    pub fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        let Self { lines, skipped } = self;
        lines.finish(|line| deliver(line, skipped, &mut each));
    }

    /// Lines that were too long.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

fn deliver(line: Line<'_>, skipped: &mut u64, each: &mut impl FnMut(&[u8])) {
    match line {
        Line::Whole(line) if line.trim_ascii().is_empty() => {}
        Line::Whole(line) => each(line.strip_suffix(b"\r").unwrap_or(line)),
        Line::TooLong { .. } => *skipped += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::Decoder;
    use proptest::prelude::*;

    fn decode<'a>(
        line_bytes_max: usize,
        pushes: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, u64) {
        let mut decoder = Decoder::new(line_bytes_max);
        let (mut lines, mut last) = (Vec::new(), Vec::new());
        for push in pushes {
            decoder.push(push, |line| lines.push(line.to_vec()));
        }
        decoder.finish(|line| last.push(line.to_vec()));
        (lines, last, decoder.skipped())
    }

    #[test]
    fn lines_end_with_lf_and_the_last_may_not() {
        let (lines, last, skipped) = decode(9, [&b"\xef\xbb\xbf{\"a\":1}\r\n\n \t\n[\r]\nx"[..]]);
        assert_eq!(lines, [&b"{\"a\":1}"[..], b"[\r]"]);
        assert_eq!((last, skipped), (vec![b"x".to_vec()], 0));
    }

    #[test]
    fn a_long_line_is_counted_and_the_stream_goes_on() {
        let (lines, last, skipped) = decode(4, [&b"12345\n1234\n123456"[..]]);
        assert_eq!((lines, last, skipped), (vec![b"1234".to_vec()], vec![], 2));
    }

    proptest! {
        #[test]
        fn chunking_is_invisible(
            stream in prop::collection::vec(prop::sample::select(&b"\n\r x\xef\xbb\xbf"[..]), 0..60),
            cut in 1usize..9,
        ) {
            prop_assert_eq!(decode(6, [&stream[..]]), decode(6, stream.chunks(cut)));
        }
    }
}
