//! A set as one file: a tar archive of its files in a fixed order, without times and owners, so
//! that the same set is the same bytes.
//!
//! What is unpacked is trusted with nothing: only the files that a set has are taken, each once,
//! and the set is put in place only when its rows have the digest that it claims.

use super::{check_tag, history, lock, short};
use crate::compile::emit;
use crate::error::Error;
use crate::source::{Subject, subject};
use crate::verify;
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};
use truetape_schemas::file::{rename_durably, sync_parent};
use truetape_schemas::set::manifest::Manifest;
use truetape_schemas::set::store;

mod tar;

/// The files of a set, in the order of an archive: the manifest first, so that whoever lists an
/// archive meets it first.
const FILES: [&str; 5] = [
    store::MANIFEST,
    store::CARD,
    store::FIDELITY,
    store::TURNS,
    store::CONTENT,
];

/// Bytes of a manifest, card or report at most: profiles and findings are kilobytes.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// A set that was packed or unpacked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// Its name.
    pub name: String,
    /// Its digest.
    pub digest: String,
    /// The file, or the directory.
    pub path: PathBuf,
    /// Bytes of the archive.
    pub bytes: u64,
}

impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}@sha256:{} to {}, {}",
            self.name,
            short(&self.digest),
            self.path.display(),
            bytesize::ByteSize(self.bytes)
        )
    }
}

/// Packs a set into one file.
pub fn pack(reference: &str, in_store: Option<&Path>, out: &Path) -> Result<Packed, Error> {
    let Subject::Set(dir) = subject(reference, in_store)? else {
        return Err(Error::usage(reference, "not a set; compile it first"));
    };
    let manifest = store::manifest(&dir)?;
    let aside = out.with_extension("tmp");
    let file = File::create(&aside).map_err(|cause| Error::io(&aside, cause))?;
    let mut writer = BufWriter::new(file);
    for name in FILES {
        append(&mut writer, &dir.join(name), name)?;
    }
    tar::finish(&mut writer).map_err(|cause| Error::io(&aside, cause))?;
    let file = writer
        .into_inner()
        .map_err(|cause| Error::io(&aside, cause.into_error()))?;
    file.sync_all().map_err(|cause| Error::io(&aside, cause))?;
    let bytes = file
        .metadata()
        .map_err(|cause| Error::io(&aside, cause))?
        .len();
    rename_durably(&aside, out)?;
    Ok(Packed {
        name: manifest.name,
        digest: manifest.digest,
        path: out.to_owned(),
        bytes,
    })
}

fn append(archive: &mut BufWriter<File>, path: &Path, name: &str) -> Result<(), Error> {
    let file = File::open(path).map_err(|cause| Error::io(path, cause))?;
    let size = file
        .metadata()
        .map_err(|cause| Error::io(path, cause))?
        .len();
    tar::append(archive, name, size, file).map_err(|cause| Error::io(path, cause))
}

/// Puts a packed set into a store.
pub fn unpack(file: &Path, in_store: &Path, tags: &[String]) -> Result<Packed, Error> {
    for tag in tags {
        check_tag("--tag", tag)?;
    }
    let bytes = std::fs::metadata(file)
        .map_err(|cause| Error::io(file, cause))?
        .len();
    std::fs::create_dir_all(in_store).map_err(|cause| Error::io(in_store, cause))?;
    let scratch = tempfile::Builder::new()
        .prefix(".unpack-")
        .tempdir_in(in_store)
        .map_err(|cause| Error::io(in_store, cause))?;
    // The scratch folder is its owner's only; the set in it is not, unless it must be.
    let inside = scratch.path().join("set");
    std::fs::create_dir(&inside).map_err(|cause| Error::io(&inside, cause))?;
    extract(file, &inside)?;
    let manifest = checked(file, &inside)?;
    let dir = place(in_store, &manifest, &inside)?;
    let named = in_store.join(&manifest.name);
    if store::tags(&named)?.is_empty() {
        store::tag(&named, store::LATEST, &manifest.digest)?;
    }
    for tag in tags {
        store::tag(&named, tag, &manifest.digest)?;
    }
    Ok(Packed {
        name: manifest.name,
        digest: manifest.digest,
        path: dir,
        bytes,
    })
}

/// Writes the files of an archive, and nothing else that it may hold.
fn extract(file: &Path, into: &Path) -> Result<(), Error> {
    let bad = |problem: String| Error::data(file.display(), problem);
    let reader = File::open(file).map_err(|cause| Error::io(file, cause))?;
    let mut archive = tar::Reader(BufReader::new(reader));
    let mut missing = FILES.to_vec();
    while let Some(entry) = archive
        .next()
        .map_err(|cause| bad(format!("not a packed set: {cause}")))?
    {
        let known = missing.iter().position(|wanted| entry.name == *wanted);
        let Some(at) = known.filter(|_| entry.is_file) else {
            let problem = format!(
                "holds `{}`; a packed set has {}, each once",
                entry.name,
                FILES.join(", ")
            );
            return Err(bad(problem));
        };
        let name = missing.remove(at);
        if !name.ends_with(".parquet") && entry.size > TEXT_BYTES_MAX {
            let problem = format!(
                "`{name}` has {} bytes, allowed are {TEXT_BYTES_MAX}",
                entry.size
            );
            return Err(bad(problem));
        }
        let path = into.join(name);
        let written =
            write(&path, &mut archive, &entry).map_err(|cause| Error::io(&path, cause))?;
        if written != entry.size {
            return Err(bad(format!("is cut off inside `{name}`")));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(bad(format!(
        "is no whole set: {} not there",
        missing.join(", ")
    )))
}

fn write(
    path: &Path,
    archive: &mut tar::Reader<impl Read>,
    entry: &tar::Entry,
) -> std::io::Result<u64> {
    let mut file = File::create(path)?;
    let written = archive.copy(entry, &mut file)?;
    file.sync_all()?;
    Ok(written)
}

/// Checks what was unpacked, under the name that it will have.
fn checked(file: &Path, dir: &Path) -> Result<Manifest, Error> {
    let manifest = store::manifest(dir)?;
    crate::recipe::check_name(&manifest.name)
        .map_err(|problem| Error::data(file.display(), problem))?;
    let found = verify::of_unpacked(dir)?;
    match found.faults.first() {
        None => Ok(manifest),
        Some(fault) => Err(Error::data(
            file.display(),
            format!("is not the set that it says: {fault}"),
        )),
    }
}

fn place(in_store: &Path, manifest: &Manifest, inside: &Path) -> Result<PathBuf, Error> {
    let named = in_store.join(&manifest.name);
    std::fs::create_dir_all(&named).map_err(|cause| Error::io(&named, cause))?;
    let _held = lock::exclusive(&named)?;
    let dir = store::set_dir(in_store, &manifest.name, &manifest.digest);
    if emit::existing(in_store, &manifest.name, &manifest.digest)?.is_some() {
        return Ok(dir);
    }
    emit::restrict(inside, &manifest.semantics.content)?;
    sync_parent(&inside.join(store::MANIFEST))?;
    let previous = store::tags(&named)?.remove(store::LATEST);
    rename_durably(inside, &dir)?;
    history::note(&named, manifest, previous, "unpacked")?;
    Ok(dir)
}
