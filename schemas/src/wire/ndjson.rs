//! Lines of JSON, byte by byte.

/// Splits a byte stream into lines.
#[derive(Debug)]
pub struct Decoder {
    line_bytes_max: usize,
}

impl Decoder {
    /// Starts a stream whose lines are at most so long.
    pub fn new(line_bytes_max: usize) -> Self {
        Self { line_bytes_max }
    }

    /// Takes bytes, and calls `line` for every line that they complete.
    pub fn push(&mut self, bytes: &[u8], line: impl FnMut(&[u8])) {
        let (_, _, _) = (bytes, line, self.line_bytes_max);
    }
}
