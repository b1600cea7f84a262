//! The spool that is being written: whole frames or nothing.

use super::Rotation;
use crate::disk::Appender;
use crate::limits;
use crate::spool::{self, Frame, Head, Pen};
use std::io::{self, Write};
use std::time::Instant;
use truetape_schemas::file::key::Key;

pub(super) struct Open {
    file: Box<dyn Appender>,
    pen: Pen,
    bytes: u64,
    pub(super) rows: u64,
    pub(super) unsynced: bool,
    /// The file holds more than `bytes`: what a failed write left could not be cut off yet.
    pub(super) torn: bool,
    pub(super) opened: Instant,
    pub(super) synced: Instant,
}

impl Open {
    /// Begins a file that was just made.
    pub(super) fn begin(
        mut file: Box<dyn Appender>,
        key: Option<&Key>,
        head: &Head,
    ) -> io::Result<Self> {
        let (mut pen, mut bytes) = Pen::new(key)?;
        pen.write(&spool::head(head)?, &mut bytes)?;
        file.append(&bytes)?;
        let now = Instant::now();
        Ok(Self {
            file,
            pen,
            bytes: bytes.len() as u64,
            rows: 0,
            unsynced: true,
            torn: false,
            opened: now,
            synced: now,
        })
    }

    /// Appends whole frames or nothing: what a failed write left is cut off again, before anything
    /// else is written. A spool that was let go of with it would show rows that count as lost.
    pub(super) fn append<'a>(
        &mut self,
        frames: impl Iterator<Item = &'a Frame>,
        rows: u64,
    ) -> io::Result<()> {
        if self.torn {
            self.file.truncate(self.bytes)?;
            self.torn = false;
        }
        match self.write(frames) {
            Ok(bytes) => {
                self.bytes += bytes;
                self.rows += rows;
                self.unsynced = true;
                Ok(())
            }
            Err(cause) => {
                self.torn = self.file.truncate(self.bytes).is_err();
                Err(cause)
            }
        }
    }

    fn write<'a>(&mut self, frames: impl Iterator<Item = &'a Frame>) -> io::Result<u64> {
        let mut gather = Gather {
            file: &mut *self.file,
            gathered: Vec::with_capacity(limits::GATHER_BYTES),
        };
        let mut bytes = 0;
        for frame in frames {
            bytes += self.pen.write(frame, &mut gather)?;
        }
        gather.flush()?;
        Ok(bytes)
    }

    /// Makes what was written survive a power cut.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync()?;
        self.unsynced = false;
        Ok(())
    }

    /// Whether it is time for the next one. Without rows its age is no reason: a quiet hour makes
    /// no files.
    pub(super) fn is_full(&self, rotation: &Rotation, now: Instant) -> bool {
        let old = now >= self.opened + rotation.every;
        self.bytes >= rotation.bytes || self.rows >= rotation.rows || self.rows > 0 && old
    }
}

/// Small pieces are written together, long ones as they are.
struct Gather<'a> {
    file: &'a mut dyn Appender,
    gathered: Vec<u8>,
}

impl Write for Gather<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.gathered.len() + piece.len() > limits::GATHER_BYTES {
            self.flush()?;
        }
        if piece.len() >= limits::GATHER_BYTES {
            self.file.append(piece)?;
        } else {
            self.gathered.extend_from_slice(piece);
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.gathered.is_empty() {
            self.file.append(&self.gathered)?;
            self.gathered.clear();
        }
        Ok(())
    }
}
