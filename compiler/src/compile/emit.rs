//! Stage 9: the set on disk, whole or not at all (C3).
//!
//! Everything is written aside, synced, and renamed; the manifest is written last, so a directory
//! without one is not a set.

use super::content::Made;
use super::content::parts::Named;
use crate::error::Error;
use crate::recipe::ContentKind;
use crate::store::gc::ASIDE_PREFIX;
use crate::store::{history, lock};
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

/// The rows of a set, and where they belong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) name: &'a str,
    pub(crate) digest: &'a str,
    pub(crate) kind: ContentKind,
    pub(crate) turns: &'a [Turn],
    pub(crate) content: &'a Made,
}

/// A set whose rows are written, aside. The name is locked as long as it is here.
#[derive(Debug)]
pub(crate) struct Aside {
    named: PathBuf,
    aside: PathBuf,
    dir: PathBuf,
    _held: lock::Held,
}

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

/// Writes the rows of a set.
pub(crate) fn begin(store: &Path, rows: &Rows<'_>, threads: usize) -> Result<Aside, Error> {
    let dir = store::set_dir(store, rows.name, rows.digest);
    let short: String = rows.digest.chars().take(DIGEST_SHORT_CHARS).collect();
    let named = store.join(rows.name);
    std::fs::create_dir_all(&named).map_err(|cause| Error::io(&named, cause))?;
    let held = lock::exclusive(&named)?;
    let aside = named.join(format!("{ASIDE_PREFIX}{short}"));
    remove_leftovers(&aside)?;
    std::fs::create_dir_all(&aside).map_err(|cause| Error::io(&aside, cause))?;
    restrict(&aside, rows.kind.name())?;
    write_turns(&aside.join(store::TURNS), rows)?;
    write_content(&aside.join(store::CONTENT), &rows.content.parts, threads)?;
    Ok(Aside {
        named,
        aside,
        dir,
        _held: held,
    })
}

impl Aside {
    /// Writes what is said about the rows, and puts the set in its place. Returns its directory.
    pub(crate) fn finish(self, manifest: &Manifest, report: &Report) -> Result<PathBuf, Error> {
        let Self {
            named, aside, dir, ..
        } = &self;
        write_json(&aside.join(store::FIDELITY), report)?;
        let card = card::render(manifest, report);
        write_atomically(&aside.join(store::CARD), card.as_bytes())?;
        write_json(&aside.join(store::MANIFEST), manifest)?;
        sync_parent(&aside.join(store::MANIFEST))?;
        // A directory there that is not a set is what a crash of another tool left.
        remove_leftovers(dir)?;
        let previous = store::tags(named)?.remove(store::LATEST);
        rename_durably(aside, dir)?;
        history::note(named, manifest, previous, "compiled")?;
        // Under the same lock: between the rename and the tag nothing points at the set.
        store::tag(named, store::LATEST, &manifest.digest)?;
        Ok(self.dir)
    }
}

/// Keeps a set that holds production's text to its owner, as the capture is.
pub(crate) fn restrict(dir: &Path, content: &str) -> Result<(), Error> {
    if content != ContentKind::Verbatim.name() {
        return Ok(());
    }
    let owner_only = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(dir, owner_only).map_err(|cause| Error::io(dir, cause))
}

/// Points tags at a set.
pub(crate) fn tag(store: &Path, name: &str, digest: &str, tags: &[String]) -> Result<(), Error> {
    let named = store.join(name);
    let _held = lock::exclusive(&named)?;
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

/// Turns get the names of their content batch by batch: all names at once would be more than all
/// turns.
fn write_turns(path: &Path, rows: &Rows<'_>) -> Result<(), Error> {
    let mut writer = Writer::<Turn>::create(path)?;
    let content = rows.content;
    let mut turns = content.prompts.fill(rows.turns, &content.parts);
    loop {
        let batch: Vec<Turn> = turns.by_ref().take(READ_BATCH_ROWS).collect();
        if batch.is_empty() {
            break;
        }
        writer.write_owned(batch)?;
    }
    writer.finish(&[])?;
    Ok(())
}

fn write_content(path: &Path, parts: &Named, threads: usize) -> Result<(), Error> {
    let mut writer = Writer::<Content>::create(path)?;
    for batch in parts.batches(threads, Named::batch_bytes(threads)) {
        writer.write_owned(batch?)?;
    }
    writer.finish(&[])?;
    Ok(())
}

fn write_json<T: serde::Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|cause| Error::bug(path.display(), format!("could not encode JSON: {cause}")))?;
    bytes.push(b'\n');
    Ok(write_atomically(path, &bytes)?)
}
