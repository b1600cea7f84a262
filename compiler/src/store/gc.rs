//! What nobody points at: sets without a tag, and what compiles that were killed left.
//!
//! A tag protects a set, and so does being among the last that a name got. Nothing else in a store
//! is ever removed: a directory that is neither a set nor ours is left alone.

use super::{bytes_of, entries, history, lock, names, sets, short};
use crate::error::Error;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use truetape_schemas::set::store;

/// Begins the name of a set in the making.
pub(crate) const ASIDE_PREFIX: &str = ".tmp-";

/// What a `gc` removed, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Sets, as `name@sha256:digest12`.
    pub sets: Vec<String>,
    /// Directories of sets that were never finished.
    pub leftovers: Vec<String>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Sets that stay.
    pub kept: u64,
    /// Whether nothing was touched.
    pub dry_run: bool,
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let would = if self.dry_run {
            "would remove"
        } else {
            "removed"
        };
        for set in self.sets.iter().chain(&self.leftovers) {
            writeln!(f, "{would} {set}")?;
        }
        writeln!(
            f,
            "{would} {} sets and {} leftovers, {}; {} sets stay",
            self.sets.len(),
            self.leftovers.len(),
            bytesize::ByteSize(self.bytes),
            self.kept
        )
    }
}

/// Removes what nobody points at.
pub fn gc(in_store: &Path, name: Option<&str>, keep: usize, dry_run: bool) -> Result<Swept, Error> {
    let mut swept = Swept {
        dry_run,
        ..Swept::default()
    };
    for named in names(in_store, name)? {
        // A compile holds it from its first file to its tags.
        let _held = lock::exclusive(&named)?;
        let protected = protected(&named, keep)?;
        for dir in sets(&named)? {
            let manifest = store::manifest(&dir)?;
            if protected.contains(&manifest.digest) {
                swept.kept += 1;
                continue;
            }
            swept.bytes += bytes_of(&dir)?;
            let set = format!("{}@sha256:{}", manifest.name, short(&manifest.digest));
            swept.sets.push(set);
            remove_set(&dir, dry_run)?;
        }
        for dir in leftovers(&named)? {
            swept.bytes += bytes_of(&dir)?;
            swept.leftovers.push(dir.display().to_string());
            remove(&dir, dry_run)?;
        }
    }
    Ok(swept)
}

/// Digests that tags point at, and those that came last.
fn protected(named: &Path, keep: usize) -> Result<BTreeSet<String>, Error> {
    let mut protected: BTreeSet<String> = store::tags(named)?.into_values().collect();
    let path = named.join(history::HISTORY);
    if std::fs::metadata(&path).is_ok() {
        let mut last: Vec<String> = Vec::new();
        for step in history::read(named)?.into_iter().rev() {
            if last.len() < keep && !last.contains(&step.digest) {
                last.push(step.digest);
            }
        }
        protected.extend(last);
    }
    Ok(protected)
}

fn leftovers(named: &Path) -> Result<Vec<PathBuf>, Error> {
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(ASIDE_PREFIX) && path.is_dir()
    };
    Ok(entries(named)?.into_iter().filter(ours).collect())
}

/// The manifest goes first: a set that is half removed is none.
fn remove_set(dir: &Path, dry_run: bool) -> Result<(), Error> {
    if !dry_run {
        let manifest = dir.join(store::MANIFEST);
        std::fs::remove_file(&manifest).map_err(|cause| Error::io(&manifest, cause))?;
    }
    remove(dir, dry_run)
}

fn remove(dir: &Path, dry_run: bool) -> Result<(), Error> {
    if dry_run {
        return Ok(());
    }
    std::fs::remove_dir_all(dir).map_err(|cause| Error::io(dir, cause))
}
