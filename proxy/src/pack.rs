//! Long bodies wait packed: a stream's events repeat themselves, and shrink to a tenth.
//!
//! The serving path hands pieces over and forgets them; they are packed on the thread that makes
//! rows, in the order they were handed over, and so are whole when the record of their exchange
//! comes after them.

use crate::budget::{Budget, Held};
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// Fast, and enough for what repeats.
const LEVEL: i32 = 1;

/// The packed part of one body.
#[derive(Debug, Default)]
pub struct Packed {
    pieces: Mutex<Vec<Piece>>,
}

#[derive(Debug)]
struct Piece {
    bytes: Stored,
    held: Held,
}

#[derive(Debug)]
enum Stored {
    Raw(Bytes),
    Zstd { bytes: Vec<u8>, length: usize },
}

/// A piece on its way to be packed.
#[derive(Debug)]
pub struct Job {
    body: Arc<Packed>,
    bytes: Bytes,
    held: Held,
}

impl Job {
    /// The next piece of a body, with what it holds of the budget.
    pub fn new(body: &Arc<Packed>, bytes: Bytes, held: Held) -> Self {
        Self {
            body: Arc::clone(body),
            bytes,
            held,
        }
    }

    /// Packs it, unless there is room enough to keep it as it is.
    pub fn run(mut self, budget: &Budget) {
        let packed = if budget.is_tight() {
            zstd::bulk::compress(&self.bytes, LEVEL).ok()
        } else {
            None
        };
        let bytes = match packed {
            Some(bytes) if bytes.len() < self.bytes.len() => {
                self.held.shrink_to(bytes.len());
                Stored::Zstd {
                    bytes,
                    length: self.bytes.len(),
                }
            }
            _ => Stored::Raw(self.bytes),
        };
        let mut pieces = self
            .body
            .pieces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        pieces.push(Piece {
            bytes,
            held: self.held,
        });
    }
}

impl Packed {
    /// All pieces in order, with `tail` after them; `None` when one cannot be unpacked. What they
    /// hold of the budget goes to `held`.
    pub fn unpack(&self, tail: &[u8], held: &mut Held) -> Option<Vec<u8>> {
        let pieces = {
            let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *pieces)
        };
        let length: usize = pieces.iter().map(Piece::length).sum();
        let mut whole = Vec::with_capacity(length + tail.len());
        for piece in pieces {
            match piece.bytes {
                Stored::Raw(bytes) => whole.extend_from_slice(&bytes),
                Stored::Zstd { bytes, length } => {
                    whole.extend_from_slice(&zstd::bulk::decompress(&bytes, length).ok()?);
                }
            }
            held.absorb(piece.held);
        }
        whole.extend_from_slice(tail);
        Some(whole)
    }
}

impl Piece {
    fn length(&self) -> usize {
        match &self.bytes {
            Stored::Raw(bytes) => bytes.len(),
            Stored::Zstd { length, .. } => *length,
        }
    }
}
