//! Stage 9: the set on disk, whole or not at all (C3).
//!
//! Everything is written aside, synced, and renamed; the manifest is written last, so a directory
//! without one is not a set.

use super::content::parts::Parts;
use crate::error::Error;
use crate::recipe::ContentKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use truetape_schemas::file::{
    READ_BATCH_ROWS, Writer, rename_durably, sync_parent, write_atomically,
};
use truetape_schemas::ids::DIGEST_SHORT_CHARS;
use truetape_schemas::report::Report;
use truetape_schemas::set::manifest::Manifest;
use truetape_schemas::set::{Content, Turn, store};

pub(crate) mod card;

/// Bytes of content handed to the writer at once, at most.
const CONTENT_BATCH_BYTES_MAX: usize = 4 << 20;

/// Whether the store holds this very set already.
pub(crate) fn existing(store: &Path, name: &str, digest: &str) -> Result<Option<Manifest>, Error> {
    let dir = store::set_dir(store, name, digest);
    if !dir
        .join(store::MANIFEST)
        .try_exists()
        .map_err(|cause| Error::io(&dir, cause))?
    {
        return Ok(None);
    }
    let manifest = store::manifest(&dir)?;
    if manifest.digest == digest {
        return Ok(Some(manifest));
    }
    let problem = format!(
        "holds {}, which begins like {digest}: two sets have one short digest; give one of them \
         another name",
        manifest.digest
    );
    Err(Error::data(dir.display(), problem))
}

/// Writes a set. Returns its directory.
pub(crate) fn emit(
    store: &Path,
    manifest: &Manifest,
    report: &Report,
    turns: &[Turn],
    parts: &Parts,
) -> Result<PathBuf, Error> {
    let dir = store::set_dir(store, &manifest.name, &manifest.digest);
    let short: String = manifest.digest.chars().take(DIGEST_SHORT_CHARS).collect();
    let named = store.join(&manifest.name);
    let aside = named.join(format!(".tmp-{short}"));
    remove_leftovers(&aside)?;
    std::fs::create_dir_all(&aside).map_err(|cause| Error::io(&aside, cause))?;
    if manifest.semantics.content == ContentKind::Verbatim.name() {
        // It holds production's text, as the capture does that only its owner may read.
        let owner_only = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&aside, owner_only).map_err(|cause| Error::io(&aside, cause))?;
    }
    write_turns(&aside.join(store::TURNS), turns)?;
    write_content(&aside.join(store::CONTENT), parts)?;
    write_json(&aside.join(store::FIDELITY), report)?;
    write_atomically(
        &aside.join(store::CARD),
        card::render(manifest, report).as_bytes(),
    )?;
    write_json(&aside.join(store::MANIFEST), manifest)?;
    sync_parent(&aside.join(store::MANIFEST))?;
    // A directory there that is not a set is what a crash of another tool left.
    remove_leftovers(&dir)?;
    rename_durably(&aside, &dir)?;
    Ok(dir)
}

/// Points tags at a set.
pub(crate) fn tag(store: &Path, name: &str, digest: &str, tags: &[String]) -> Result<(), Error> {
    let named = store.join(name);
    store::tag(&named, store::LATEST, digest)?;
    for tag in tags {
        store::tag(&named, tag, digest)?;
    }
    Ok(())
}

fn remove_leftovers(dir: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(dir) {
        Ok(()) => Ok(()),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(Error::io(dir, cause)),
    }
}

fn write_turns(path: &Path, turns: &[Turn]) -> Result<(), Error> {
    let mut writer = Writer::<Turn>::create(path)?;
    for batch in turns.chunks(READ_BATCH_ROWS) {
        writer.write(batch)?;
    }
    writer.finish(&[])?;
    Ok(())
}

fn write_content(path: &Path, parts: &Parts) -> Result<(), Error> {
    let mut writer = Writer::<Content>::create(path)?;
    let mut batch: Vec<Content> = Vec::new();
    let mut bytes = 0;
    for part in parts.rows() {
        bytes += part.body.len();
        batch.push(part);
        if bytes >= CONTENT_BATCH_BYTES_MAX {
            writer.write(&batch)?;
            batch.clear();
            bytes = 0;
        }
    }
    writer.write(&batch)?;
    writer.finish(&[])?;
    Ok(())
}

fn write_json<T: serde::Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|cause| Error::bug(path.display(), format!("could not encode JSON: {cause}")))?;
    bytes.push(b'\n');
    Ok(write_atomically(path, &bytes)?)
}
