//! One segment: sent, read back, removed.
//!
//! A kill at any point leaves one of three states, and each is resumed from without a duplicate:
//! nothing there (send), an object under the working name (send again over it), the object itself
//! (compare, then remove the local file). An object of another content is never written over: every
//! write to a final name is conditional on nothing being there.

use super::pace::Pace;
use super::scan::{Segment, check, folder_of};
use super::tally::Tally;
use crate::error::Error;
use crate::objects::{Fault, Objects};
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt as _, PutMode, PutPayload};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use truetape_schemas::file::sync_parent;

mod local;
mod stage;

use local::Local;

/// Bytes of a part: what is held in memory for each segment on its way, what a stop waits for, and
/// what is read back at once. S3 takes 10,000 parts of 5 MiB at least, so a segment of 80 GB fits.
pub(super) const PART_BYTES: u64 = 8 << 20;

/// Ships the segments of one directory.
#[derive(Debug)]
pub(super) struct Shipper {
    pub(super) objects: Objects,
    pub(super) dir: PathBuf,
    pub(super) pace: Pace,
    pub(super) keep_local: bool,
    pub(super) stop: CancellationToken,
    pub(super) tally: Arc<Tally>,
    /// Bytes of a part; a test has small ones.
    pub(super) part_bytes: u64,
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shipped {
    /// It was sent, and what the store gave back is the same.
    Sent,
    /// The store had it already, the same.
    There,
    /// The recorder removed it to make room.
    Gone,
}

/// Why a segment was not shipped.
#[derive(Debug)]
pub(super) enum Halt {
    /// We were asked to stop.
    Stopped,
    /// The store: its trouble is every segment's.
    Store(object_store::Error),
    /// The store has another object of that name.
    Conflict(String),
    /// The file is no segment of ours.
    Refused(String),
    /// The machine did not let us.
    Local(Error),
}

impl From<object_store::Error> for Halt {
    fn from(cause: object_store::Error) -> Self {
        Self::Store(cause)
    }
}

impl Shipper {
    /// Ships one segment.
    pub(super) async fn ship(&self, segment: &Segment) -> Result<Shipped, Halt> {
        let Some(local) = self.look(segment).await? else {
            return Ok(Shipped::Gone);
        };
        let key = self.key(segment);
        let sent = self.send(&local, &key).await?;
        self.compare(&local, &key, sent).await?;
        if self.is_staged(&local) {
            self.clear_staging(&local, &key).await?;
        }
        if !self.keep_local {
            local.remove()?;
        }
        Ok(if sent { Shipped::Sent } else { Shipped::There })
    }

    fn key(&self, segment: &Segment) -> Key {
        let folder = self.objects.prefix.clone().join(folder_of(&segment.name));
        folder.join(segment.name.as_str())
    }

    /// The segment's content, by its hash; `None` when it has gone meanwhile.
    async fn look(&self, segment: &Segment) -> Result<Option<Local>, Halt> {
        let path = segment.path.clone();
        let looked = local::blocking(&segment.path, move || match check(&path)? {
            Err(problem) => Ok(Err(problem)),
            Ok(()) => Local::hash(&path).map(Ok),
        });
        match looked.await {
            Ok(Ok(local)) => Ok(Some(local)),
            Ok(Err(problem)) => Err(Halt::Refused(problem)),
            Err(Halt::Local(cause)) if is_gone(&cause) => Ok(None),
            Err(halt) => Err(halt),
        }
    }

    /// A single conditional write carries what fits in one part. S3 has none for an upload in parts,
    /// and none of the stores leaves a folder whole after a crash, so the rest goes by a working name.
    fn is_staged(&self, local: &Local) -> bool {
        self.objects.parts.is_none() || local.bytes > self.part_bytes
    }

    /// Sends, unless an object of that name is there: then `false`.
    async fn send(&self, local: &Local, key: &Key) -> Result<bool, Halt> {
        if self.is_staged(local) {
            return match self.objects.store.head(key).await {
                Ok(_) => Ok(false),
                Err(object_store::Error::NotFound { .. }) => self.stage(local, key).await,
                Err(cause) => Err(cause.into()),
            };
        }
        let payload: PutPayload = local.part(0, local.bytes).await?.into();
        self.pace.turn(local.bytes, &self.stop).await;
        self.go_on()?;
        match self
            .objects
            .store
            .put_opts(key, payload, PutMode::Create.into())
            .await
        {
            Ok(_) => Ok(true),
            Err(cause) if Fault::of(&cause) == Fault::Taken => Ok(false),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Reads the object back, part by part, and compares it with the file.
    ///
    /// No store's own word is taken for it: an ETag is a digest in some stores and encryption modes
    /// and none in others, a size says little, and what matters is what a reader will get.
    async fn compare(&self, local: &Local, key: &Key, sent: bool) -> Result<(), Halt> {
        let differs = |what: String| {
            let problem = if sent {
                format!("{key} came back as something else than was sent: {what}")
            } else {
                format!("another object is at {key}: {what}; move one of them away")
            };
            Err(Halt::Conflict(problem))
        };
        let bytes = self.objects.store.head(key).await?.size;
        if bytes != local.bytes {
            return differs(format!("{bytes} bytes, the segment has {}", local.bytes));
        }
        let mut hasher = blake3::Hasher::new();
        let mut at = 0;
        while at < bytes {
            self.go_on()?;
            let until = (at + self.part_bytes).min(bytes);
            let part = self.objects.store.get_range(key, at..until).await?;
            if part.len() as u64 != until - at {
                return Err(short(key, part.len(), until - at).into());
            }
            hasher.update(&part);
            at = until;
        }
        if hasher.finalize() == local.hash {
            Ok(())
        } else {
            differs(format!("{bytes} bytes of another content"))
        }
    }

    fn go_on(&self) -> Result<(), Halt> {
        if self.stop.is_cancelled() {
            Err(Halt::Stopped)
        } else {
            Ok(())
        }
    }

    /// What a killed predecessor left under the working name, and what this one did.
    async fn clear_staging(&self, local: &Local, key: &Key) -> Result<(), Halt> {
        let staging = stage::staging(key);
        match self.objects.store.delete(&staging).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(cause) => return Err(cause.into()),
        }
        self.abort_noted(local, &staging).await?;
        // The name in a folder must outlive a crash before the local file may go.
        match self.objects.path_of(key) {
            Some(path) => sync_parent(&path).map_err(|cause| Halt::Local(cause.into())),
            None => Ok(()),
        }
    }
}

fn short(key: &Key, found: usize, wanted: u64) -> object_store::Error {
    object_store::Error::Generic {
        store: "read-back",
        source: format!("{key}: {found} bytes came, {wanted} were asked for").into(),
    }
}

fn is_gone(error: &Error) -> bool {
    use truetape_schemas::file::Error::Io;
    matches!(error, Error::File(Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound)
}
