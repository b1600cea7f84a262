//! Segments that one conditional write cannot carry: sent under a working name, then given their
//! own where nothing has it.

use super::local::{Local, blocking};
use super::{Halt, Shipper};
use crate::error::Error;
use crate::objects::Fault;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Key;
use object_store::{MultipartId, ObjectStoreExt as _};
use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ends a working name: readers look for `*.parquet`.
const STAGING_SUFFIX: &str = ".uploading";

/// The note that names an upload in parts, so that its parts are not left behind by a kill: a store
/// keeps them, and charges for them, without showing them.
const NOTE_PREFIX: &str = ".truetape-ship-";

/// Longest id of an upload that is read back from a note.
const NOTE_BYTES_MAX: usize = 4096;

/// The working name of an object.
pub(super) fn staging(key: &Key) -> Key {
    Key::from(format!("{key}{STAGING_SUFFIX}"))
}

impl Shipper {
    /// Sends under the working name, and copies to the final one unless that is taken: then `false`.
    pub(super) async fn stage(&self, local: &Local, key: &Key) -> Result<bool, Halt> {
        let staging = staging(key);
        match &self.objects.parts {
            Some(parts) => self.stage_in_parts(parts, local, &staging).await?,
            None => self.stage_in_folder(local, &staging).await?,
        }
        self.go_on()?;
        match self.objects.store.copy_if_not_exists(&staging, key).await {
            Ok(()) => Ok(true),
            Err(cause) if Fault::of(&cause) == Fault::Taken => Ok(false),
            Err(cause) => Err(cause.into()),
        }
    }

    async fn stage_in_parts(
        &self,
        parts: &Arc<dyn MultipartStore>,
        local: &Local,
        staging: &Key,
    ) -> Result<(), Halt> {
        self.abort_noted(local, staging).await?;
        let id = parts.create_multipart(staging).await?;
        self.note(local, &id);
        let sent = match self.send_parts(parts, local, staging, &id).await {
            Ok(sent) => parts
                .complete_multipart(staging, &id, sent)
                .await
                .map_err(Halt::from),
            Err(halt) => Err(halt),
        };
        match sent {
            Ok(_) => {
                self.forget(local);
                Ok(())
            }
            Err(halt) => {
                // While the store is down the note stays, and the next try cleans up.
                if self.abort_noted(local, staging).await.is_err() {
                    tracing::debug!(id, "parts are left for the next try to clean");
                }
                Err(halt)
            }
        }
    }

    async fn send_parts(
        &self,
        parts: &Arc<dyn MultipartStore>,
        local: &Local,
        staging: &Key,
        id: &MultipartId,
    ) -> Result<Vec<PartId>, Halt> {
        let mut sent = Vec::new();
        let mut at = 0;
        while at < local.bytes {
            let until = (at + self.part_bytes).min(local.bytes);
            self.pace.turn(until - at, &self.stop).await;
            self.go_on()?;
            let part = local.part(at, until).await?;
            sent.push(parts.put_part(staging, id, sent.len(), part.into()).await?);
            at = until;
        }
        Ok(sent)
    }

    /// Ends the upload that a predecessor noted, so that the store drops its parts.
    pub(super) async fn abort_noted(&self, local: &Local, staging: &Key) -> Result<(), Halt> {
        let Some(parts) = &self.objects.parts else {
            return Ok(());
        };
        let Ok(id) = std::fs::read_to_string(self.note_path(local)) else {
            return Ok(());
        };
        if !id.is_empty() && id.len() <= NOTE_BYTES_MAX {
            match parts.abort_multipart(staging, &id).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        self.forget(local);
        Ok(())
    }

    fn note_path(&self, local: &Local) -> PathBuf {
        let name = local.path.file_name().unwrap_or_default().to_string_lossy();
        self.dir.join(format!("{NOTE_PREFIX}{name}.upload"))
    }

    /// A directory that is only read takes no note: then a kill leaves parts to the bucket's own rules.
    fn note(&self, local: &Local, id: &MultipartId) {
        if let Err(cause) = std::fs::write(self.note_path(local), id) {
            tracing::debug!(%cause, "an upload is not noted");
        }
    }

    fn forget(&self, local: &Local) {
        match std::fs::remove_file(self.note_path(local)) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                tracing::debug!(%cause, "a note is left");
            }
            _ => {}
        }
    }

    /// Into a folder: synced before it gets its name, or a power cut after the local file is removed
    /// would lose both.
    async fn stage_in_folder(&self, local: &Local, staging: &Key) -> Result<(), Halt> {
        let Some(path) = self.objects.path_of(staging) else {
            let problem = "a store in a folder has no path";
            return Err(Halt::Local(Error::bug(staging, problem)));
        };
        let mut file = {
            let path = path.clone();
            blocking(&path.clone(), move || create(&path)).await?
        };
        let mut at = 0;
        while at < local.bytes {
            let until = (at + self.part_bytes).min(local.bytes);
            self.pace.turn(until - at, &self.stop).await;
            self.go_on()?;
            let part = local.part(at, until).await?;
            file = blocking(&path, move || file.write_all(&part).map(|()| file)).await?;
            at = until;
        }
        blocking(&path, move || file.sync_all()).await
    }
}

fn create(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    File::create(path)
}
