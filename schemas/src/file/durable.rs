//! Files that appear whole or not at all, and names that survive a crash.

use super::{Error, Format};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::path::{Path, PathBuf};

pub(super) fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}

/// Renames and makes the new name survive a crash.
pub fn rename_durably(from: &Path, to: &Path) -> Result<(), Error> {
    std::fs::rename(from, to).map_err(|cause| Error::io(to, cause))?;
    sync_parent(to)
}

/// Makes the entries of a file's directory survive a crash.
pub fn sync_parent(path: &Path) -> Result<(), Error> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = File::open(parent).map_err(|cause| Error::io(parent, cause))?;
    directory
        .sync_all()
        .map_err(|cause| Error::io(parent, cause))
}

/// Reads a JSON file of one of our formats, and refuses one of a newer version.
pub fn read_json<T: DeserializeOwned>(path: &Path, format: Format) -> Result<T, Error> {
    let bytes = std::fs::read(path).map_err(|cause| Error::io(path, cause))?;
    let value: serde_json::Value = serde_json::from_slice(&bytes)
        .map_err(|cause| Error::invalid(path, format!("not JSON: {cause}")))?;
    // The gate comes before the fields: a newer file must be refused by name, not by a field.
    format.gate(
        &path.display().to_string(),
        value.get("format").and_then(|f| f.as_str()),
    )?;
    serde_json::from_value(value).map_err(|cause| Error::invalid(path, cause.to_string()))
}

/// Writes bytes to a file that appears whole or not at all.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    use std::io::Write as _;
    let aside = aside(path);
    let mut file = File::create(&aside).map_err(|cause| Error::io(&aside, cause))?;
    file.write_all(bytes)
        .map_err(|cause| Error::io(&aside, cause))?;
    file.sync_all().map_err(|cause| Error::io(&aside, cause))?;
    rename_durably(&aside, path)
}
