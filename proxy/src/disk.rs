//! The little that is asked of a disk while traffic flows. A seam: tests have one that fails.

use crate::room::{self, Room};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Captures hold prompts: they are for the owner only.
pub const FILE_MODE: u32 = 0o600;

/// Makes files.
pub trait Disk: Send {
    /// Creates a file that does not exist yet.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Appender>>;
    /// Looks how much room there is around a directory and, where that is asked for, in it.
    fn room(&mut self, directory: &Path, counted: bool) -> io::Result<Room> {
        room::look(directory, counted)
    }
    /// Removes the oldest segment of a directory; says which, if there was one.
    fn remove_oldest(&mut self, directory: &Path) -> io::Result<Option<PathBuf>> {
        room::remove_oldest(directory)
    }
}

/// A file that grows.
pub trait Appender: Send {
    /// Writes all of the bytes at the end, or fails having written some of them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file back, after a write that failed half-way.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;
    /// Makes what was written survive a power cut.
    fn sync(&mut self) -> io::Result<()>;
}

/// The real one.
#[derive(Debug)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Appender>> {
        let file = create(path)?;
        // The file's name must survive a power cut as well.
        if let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(Box::new(file))
    }
}

impl Appender for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        // The file is open for appending, so the next write goes to its new end.
        self.set_len(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Creates a file for appending that does not exist yet and that only the owner can read.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
}
