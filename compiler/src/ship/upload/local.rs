//! The file of a segment: hashed, read in parts, removed.

use super::Halt;
use crate::error::Error;
use bytes::Bytes;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use truetape_schemas::file::sync_parent;

/// Bytes that are hashed at once.
const HASH_BYTES: usize = 1 << 20;

/// A segment on this machine, as it was when it was hashed.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) hash: blake3::Hash,
}

impl Local {
    /// Reads the whole file.
    pub(super) fn hash(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; HASH_BYTES];
        let mut bytes = 0;
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hasher.update(buffer.get(..read).unwrap_or_default());
            bytes += read as u64;
        }
        Ok(Self {
            path: path.to_owned(),
            bytes,
            hash: hasher.finalize(),
        })
    }

    /// Some of its bytes.
    pub(super) async fn part(&self, at: u64, until: u64) -> Result<Bytes, Halt> {
        let path = self.path.clone();
        let read = move || {
            let mut part = vec![0; usize::try_from(until - at).unwrap_or(0)];
            File::open(&path)?.read_exact_at(&mut part, at)?;
            Ok(Bytes::from(part))
        };
        blocking(&self.path, read).await
    }

    /// Removes the file, for good. One that the recorder removed first is as gone.
    pub(super) fn remove(&self) -> Result<(), Halt> {
        match std::fs::remove_file(&self.path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(Halt::Local(Error::io(&self.path, cause)))
            }
            _ => sync_parent(&self.path).map_err(|cause| Halt::Local(cause.into())),
        }
    }
}

/// Runs what waits for a disk on a thread that may.
pub(super) async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Halt> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(cause)) => Err(Halt::Local(Error::io(path, cause))),
        Err(cause) => Err(Halt::Local(Error::bug(path.display(), cause.to_string()))),
    }
}
