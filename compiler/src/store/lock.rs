//! One writer at a time for the sets of a name.
//!
//! A set appears by a rename and tags by another; between the two nothing points at the set, and a
//! `gc` would take it away. So whoever writes sets, moves tags or removes sets holds this lock.

use crate::error::Error;
use std::fs::File;
use std::path::Path;

/// The file that is locked, beside the sets of a name.
pub(super) const LOCK: &str = ".lock";

/// Held until it is dropped; a process that dies lets go.
#[derive(Debug)]
pub(crate) struct Held {
    _file: File,
}

/// Waits for the lock of a name, whose directory must be there.
pub(crate) fn exclusive(named: &Path) -> Result<Held, Error> {
    let path = named.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|cause| Error::io(&path, cause))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|cause| Error::io(&path, cause.into()))?;
    Ok(Held { _file: file })
}
