//! The verb `store`: versions of sets, their tags, and the room they take.
//!
//! A set is named by its digest and never changed (C3), so a version is a digest, and everything
//! here is about names: tags point at digests, and `history.jsonl` says which digest followed
//! which. Read in this order: [`lock`] (one writer a name), [`history`] (what followed what),
//! [`gc`] (what nobody points at), [`pack`] (a set as one file).

use crate::cli::{StoreArgs, StoreVerb};
use crate::error::Error;
use crate::talk::{self, OutputFormat};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use truetape_schemas::blame::Answer;
use truetape_schemas::ids::DIGEST_SHORT_CHARS;
use truetape_schemas::set::manifest::{Counts, Manifest};
use truetape_schemas::set::store;

pub mod gc;
pub mod history;
pub(crate) mod lock;
pub mod pack;

/// One set of a store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its digest.
    pub digest: String,
    /// The tags that point at it.
    pub tags: Vec<String>,
    /// What it holds.
    pub counts: Counts,
    /// `verbatim`, `synthetic` or `lengths`.
    pub content: String,
    /// Bytes of its files.
    pub bytes: u64,
}

/// Lists the sets of a store by name, then by digest.
pub fn list(in_store: &Path, name: Option<&str>) -> Result<Vec<Listed>, Error> {
    let mut listed = Vec::new();
    for named in names(in_store, name)? {
        let tags = store::tags(&named)?;
        for dir in sets(&named)? {
            let manifest = store::manifest(&dir)?;
            listed.push(Listed {
                tags: tags_of(&tags, &manifest.digest),
                bytes: bytes_of(&dir)?,
                name: manifest.name,
                digest: manifest.digest,
                counts: manifest.counts,
                content: manifest.semantics.content,
            });
        }
    }
    Ok(listed)
}

fn tags_of(tags: &BTreeMap<String, String>, digest: &str) -> Vec<String> {
    let of = tags.iter().filter(|(_, pointed)| *pointed == digest);
    of.map(|(tag, _)| tag.clone()).collect()
}

/// The directories of names in a store, in order.
pub(crate) fn names(in_store: &Path, name: Option<&str>) -> Result<Vec<PathBuf>, Error> {
    if let Some(name) = name {
        let named = in_store.join(name);
        if !is_dir(&named) {
            let problem = format!("no set of the name `{name}` there");
            return Err(Error::data(in_store.display(), problem));
        }
        return Ok(vec![named]);
    }
    Ok(entries(in_store)?
        .into_iter()
        .filter(|path| is_dir(path) && !hidden(path))
        .collect())
}

/// The directories of whole sets under a name, in order.
pub(crate) fn sets(named: &Path) -> Result<Vec<PathBuf>, Error> {
    let whole = |path: &PathBuf| {
        !hidden(path) && std::fs::metadata(path.join(store::MANIFEST)).is_ok_and(|m| m.is_file())
    };
    Ok(entries(named)?.into_iter().filter(whole).collect())
}

/// The entries of a directory, in the order of their names.
pub(crate) fn entries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|cause| Error::io(dir, cause))? {
        found.push(entry.map_err(|cause| Error::io(dir, cause))?.path());
    }
    found.sort();
    Ok(found)
}

pub(crate) fn hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with('.')
}

fn is_dir(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Bytes of the files in a directory.
pub(crate) fn bytes_of(dir: &Path) -> Result<u64, Error> {
    let mut bytes = 0;
    for path in entries(dir)? {
        let metadata = std::fs::metadata(&path).map_err(|cause| Error::io(&path, cause))?;
        bytes += metadata.len();
    }
    Ok(bytes)
}

/// Refuses a tag that could not be told from other parts of a reference.
pub(crate) fn check_tag(subject: &str, tag: &str) -> Result<(), Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !tag.is_empty() && tag.chars().all(allowed) {
        return Ok(());
    }
    let problem = format!("`{tag}`, allowed are letters, digits, `-`, `_` and `.`");
    Err(Error::usage(subject, problem))
}

/// Points a tag of a name at the set in a directory.
pub fn tag(in_store: &Path, reference: &str, tag: &str) -> Result<Manifest, Error> {
    check_tag("tag", tag)?;
    let dir = store::resolve(reference, Some(in_store))?;
    let manifest = store::manifest(&dir)?;
    let named = in_store.join(&manifest.name);
    let _held = lock::exclusive(&named)?;
    store::tag(&named, tag, &manifest.digest)?;
    Ok(manifest)
}

/// Takes a tag away. The set stays until a `gc` finds that nothing points at it.
pub fn untag(in_store: &Path, reference: &str, tag: &str) -> Result<(), Error> {
    let name = reference.split('@').next().unwrap_or(reference);
    let named = in_store.join(name);
    let _held = lock::exclusive(&named)?;
    if store::untag(&named, tag)? {
        return Ok(());
    }
    let problem = format!("has no tag `{tag}`; `truetape store list {name}` shows those it has");
    Err(Error::data(named.display(), problem))
}

/// The first digits of a digest, as they stand in paths.
pub(crate) fn short(digest: &str) -> String {
    digest.chars().take(DIGEST_SHORT_CHARS).collect()
}

/// Carries out `truetape store`.
pub fn run(args: StoreArgs) -> Result<Answer, Error> {
    let json = args.format == OutputFormat::Json;
    if let StoreVerb::Pack { set, out } = &args.verb {
        let packed = pack::pack(set, args.store.as_deref(), out)?;
        return say(json, &packed, || format!("packed {packed}")).map(|()| Answer::Yes);
    }
    let Some(in_store) = args.store.as_deref() else {
        let problem = "which one? Give --store DIR, or set TRUETAPE_STORE";
        return Err(Error::usage("store", problem));
    };
    match &args.verb {
        StoreVerb::List { name } => {
            let listed = list(in_store, name.as_deref())?;
            say(json, &listed, || listed.iter().map(line).collect())?;
        }
        StoreVerb::Tag {
            set,
            tag: name,
            remove: true,
        } => {
            untag(in_store, set, name)?;
            talk::say(&format!("{set}: {name} is taken away"));
        }
        StoreVerb::Tag { set, tag: name, .. } => {
            let manifest = tag(in_store, set, name)?;
            let digest = short(&manifest.digest);
            talk::say(&format!("{}@{name} is sha256:{digest}", manifest.name));
        }
        StoreVerb::History { name } => {
            let steps = history::read(&in_store.join(name))?;
            say(json, &steps, || history::text(&steps))?;
        }
        StoreVerb::Gc {
            name,
            keep,
            dry_run,
        } => {
            let swept = gc::gc(in_store, name.as_deref(), *keep, *dry_run)?;
            say(json, &swept, || swept.to_string())?;
        }
        StoreVerb::Unpack { file, tags } => {
            let unpacked = pack::unpack(file, in_store, tags)?;
            say(json, &unpacked, || format!("unpacked {unpacked}"))?;
        }
        StoreVerb::Pack { .. } => {}
    }
    Ok(Answer::Yes)
}

fn say<T: Serialize>(json: bool, value: &T, text: impl FnOnce() -> String) -> Result<(), Error> {
    if json {
        talk::json(value)
    } else {
        talk::data(&text())
    }
}

fn line(listed: &Listed) -> String {
    let Listed {
        name,
        digest,
        tags,
        counts,
        content,
        bytes,
    } = listed;
    format!(
        "{name}@sha256:{}  {} turns, {} sessions, {} prompt tokens, {content}, {}{}\n",
        short(digest),
        counts.turns,
        counts.sessions,
        counts.input_tokens,
        bytesize::ByteSize(*bytes),
        if tags.is_empty() {
            "  (no tag)".to_owned()
        } else {
            format!("  {}", tags.join(" "))
        }
    )
}
