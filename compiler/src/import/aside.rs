//! A directory that appears whole or not at all.
//!
//! It is written beside its place and renamed. Segments that were sealed one by one in their place
//! would each balance: what a crash leaves of them could not be told from a whole capture.

use crate::error::Error;
use std::path::{Path, PathBuf};
use truetape_schemas::file::rename_durably;

/// A directory in the making. It is removed when it is dropped before it was put in its place.
#[derive(Debug)]
pub(super) struct Aside {
    dir: PathBuf,
    place: PathBuf,
    placed: bool,
}

impl Aside {
    /// Makes an empty directory beside `place`, over what a crash left there.
    pub(super) fn create(place: &Path) -> Result<Self, Error> {
        let place = resolve(place)?;
        let dir = beside(&place, "tmp")?;
        remove(&dir)?;
        std::fs::create_dir_all(&dir).map_err(|cause| Error::io(&dir, cause))?;
        Ok(Self {
            dir,
            place,
            placed: false,
        })
    }

    /// Where to write.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Puts the directory, whose files are synced, in its place. What was there makes room first, and goes last: whoever
    /// looks sees all of the one, nothing, or all of the other.
    pub(super) fn place(mut self) -> Result<(), Error> {
        let before = beside(&self.place, "old")?;
        remove(&before)?;
        match std::fs::rename(&self.place, &before) {
            Ok(()) => {}
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
            Err(cause) => return Err(Error::io(&self.place, cause)),
        }
        rename_durably(&self.dir, &self.place)?;
        self.placed = true;
        remove(&before)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.placed {
            // The error on the way out is the one that counts; the next import tries again.
            let _the_next_import_removes_it = remove(&self.dir);
        }
    }
}

/// Follows links and `.`, which have no name beside which to write.
fn resolve(place: &Path) -> Result<PathBuf, Error> {
    let resolved = match std::fs::canonicalize(place) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => std::path::absolute(place),
        other => other,
    };
    resolved.map_err(|cause| Error::io(place, cause))
}

fn beside(place: &Path, what: &str) -> Result<PathBuf, Error> {
    let Some(name) = place.file_name() else {
        let problem = "not a directory that can be made; name one";
        return Err(Error::usage(place.display(), problem));
    };
    let name = name.to_string_lossy();
    Ok(place.with_file_name(format!(".tmp-{name}-{what}")))
}

fn remove(dir: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(dir) {
        Ok(()) => Ok(()),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(Error::io(dir, cause)),
    }
}
