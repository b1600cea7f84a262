//! Where sets lie: `<store>/<name>/<digest12>/`, with `<store>/<name>/tags.json` beside them.

use super::manifest::{Manifest, Source};
use super::{Content, FORMAT, Turn};
use crate::file::{Error, Reader, read_json, write_atomically};
use crate::ids::DIGEST_SHORT_CHARS;
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Names of the files of a set.
pub const MANIFEST: &str = "manifest.json";
/// One row a turn.
pub const TURNS: &str = "turns.parquet";
/// Content-addressed parts.
pub const CONTENT: &str = "content.parquet";
/// The level 1 report.
pub const FIDELITY: &str = "fidelity.json";
/// The data card.
pub const CARD: &str = "README.md";
/// Tags of a name, beside its sets.
pub const TAGS: &str = "tags.json";
/// The tag of the set compiled last.
pub const LATEST: &str = "latest";

/// The directory of a set.
pub fn set_dir(store: &Path, name: &str, digest: &str) -> PathBuf {
    let short: String = digest.chars().take(DIGEST_SHORT_CHARS).collect();
    store.join(name).join(short)
}

/// Finds a set: a directory that holds one, or `name@tag`, `name@sha256:…` or `name` in `store`
/// (`store/name@tag` names the store at the same time).
pub fn resolve(reference: &str, store: Option<&Path>) -> Result<PathBuf, Error> {
    let direct = Path::new(reference);
    if is_file(&direct.join(MANIFEST))? {
        return Ok(direct.to_owned());
    }
    let (name, tag) = reference.split_once('@').unwrap_or((reference, LATEST));
    let named = match store {
        Some(store) => store.join(name),
        None => PathBuf::from(name),
    };
    let asked = tag.strip_prefix("sha256:");
    let digest = match asked {
        Some(digest) => digest.to_owned(),
        None => tags(&named)?.get(tag).cloned().ok_or_else(|| Error::Invalid {
            subject: reference.to_owned(),
            problem: format!(
                "nothing is there, and no store has the tag `{tag}` of such a name; give a path, or \
                 name@tag with --store"
            ),
        })?,
    };
    let short: String = digest.chars().take(DIGEST_SHORT_CHARS).collect();
    let dir = named.join(short);
    if !is_file(&dir.join(MANIFEST))? {
        return Err(Error::Invalid {
            subject: reference.to_owned(),
            problem: format!("{} holds no {MANIFEST}", dir.display()),
        });
    }
    if let Some(asked) = asked {
        is_that_set(reference, asked, &dir)?;
    }
    Ok(dir)
}

/// The directory's name is the beginning of a digest: the rest of what was asked for must agree.
fn is_that_set(reference: &str, asked: &str, dir: &Path) -> Result<(), Error> {
    let found = manifest(dir)?.digest;
    if found.starts_with(asked) {
        return Ok(());
    }
    Err(Error::Invalid {
        subject: reference.to_owned(),
        problem: format!("{} holds the set sha256:{found}", dir.display()),
    })
}

fn is_file(path: &Path) -> Result<bool, Error> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotADirectory => Ok(false),
        Err(cause) => Err(Error::io(path, cause)),
    }
}

/// The tags of a name: tag -> digest. Empty when there are none yet.
pub fn tags(named: &Path) -> Result<BTreeMap<String, String>, Error> {
    let path = named.join(TAGS);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|cause| Error::invalid(&path, format!("not a map of tags: {cause}"))),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(cause) => Err(Error::io(&path, cause)),
    }
}

/// Points a tag at a digest.
pub fn tag(named: &Path, tag: &str, digest: &str) -> Result<(), Error> {
    let mut all = tags(named)?;
    all.insert(tag.to_owned(), digest.to_owned());
    write_tags(named, &all)
}

/// Takes a tag away. Returns whether there was one.
pub fn untag(named: &Path, tag: &str) -> Result<bool, Error> {
    let mut all = tags(named)?;
    let there = all.remove(tag).is_some();
    if there {
        write_tags(named, &all)?;
    }
    Ok(there)
}

fn write_tags(named: &Path, all: &BTreeMap<String, String>) -> Result<(), Error> {
    let text =
        serde_json::to_vec_pretty(all).map_err(|cause| Error::invalid(named, cause.to_string()))?;
    write_atomically(&named.join(TAGS), &text)
}

/// Reads a set's manifest, and refuses one of a newer format.
pub fn manifest(dir: &Path) -> Result<Manifest, Error> {
    read_json(&dir.join(MANIFEST), FORMAT)
}

/// Reads a set's turns.
pub fn turns(dir: &Path) -> Result<Vec<Turn>, Error> {
    Reader::<Turn>::open(&dir.join(TURNS))?.read_all()
}

/// Opens a set's turns, batch by batch.
pub fn read_turns(dir: &Path) -> Result<Reader<Turn>, Error> {
    Reader::<Turn>::open(&dir.join(TURNS))
}

/// Opens a set's content, part by part.
pub fn content(dir: &Path) -> Result<Reader<Content>, Error> {
    Reader::<Content>::open(&dir.join(CONTENT))
}

/// The digest of a set, over its recipe, its sources and its canonical rows.
pub fn digest(
    recipe: &serde_json::Value,
    sources: &[Source],
    turns: &[Turn],
    contents: &[Content],
) -> String {
    let ids = contents.iter().map(|part| part.content_id.as_str());
    digest_of(recipe, sources, turns.iter(), ids)
}

/// The same, for who does not hold all turns at once, nor the content itself: turns as they come,
/// and the names of the content, in order.
pub fn digest_of<T: Borrow<Turn>, I: AsRef<str>>(
    recipe: &serde_json::Value,
    sources: &[Source],
    turns: impl Iterator<Item = T>,
    content_ids: impl Iterator<Item = I>,
) -> String {
    let mut digester = crate::ids::Digester::new();
    digester.add(FORMAT.to_string().as_bytes());
    digester.add(sorted_by_key(recipe).to_string().as_bytes());
    // The report of a set is about its sources: equal rows of other sources are another set.
    let sources: BTreeSet<&str> = sources.iter().map(|s| s.digest.as_str()).collect();
    for source in sources {
        digester.add(source.as_bytes());
    }
    for turn in turns {
        // Serde writes fields in the order of the struct, which is part of the format.
        let row = serde_json::to_string(turn.borrow()).unwrap_or_default();
        // A column that came later, and says nothing, leaves older digests as they are.
        let known = row.strip_suffix(LATER).map(|row| format!("{row}}}"));
        digester.add(known.unwrap_or(row).as_bytes());
    }
    for id in content_ids {
        digester.add(id.as_ref().as_bytes());
    }
    digester.finish()
}

/// How a row ends that says nothing in the columns that came after the first sets.
const LATER: &str = ",\"spawned_by\":null}";

/// The same value whatever tool wrote it: the keys of objects in their order.
fn sorted_by_key(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, Value> = fields
                .iter()
                .map(|(key, value)| (key, sorted_by_key(value)))
                .collect();
            let fields = sorted.into_iter().map(|(key, value)| (key.clone(), value));
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(sorted_by_key).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{MANIFEST, Manifest, resolve, set_dir};
    use crate::set::FORMAT;

    #[test]
    fn a_digest_names_one_set_and_none_that_only_begins_like_it() {
        let store = tempfile::tempdir().unwrap();
        let digest = "0123456789ab".repeat(5) + "cdef";
        let dir = set_dir(store.path(), "chat", &digest);
        std::fs::create_dir_all(&dir).unwrap();
        let manifest = Manifest {
            format: FORMAT.to_string(),
            digest: digest.clone(),
            ..Manifest::default()
        };
        std::fs::write(dir.join(MANIFEST), serde_json::to_vec(&manifest).unwrap()).unwrap();
        let named = |asked: &str| resolve(&format!("chat@sha256:{asked}"), Some(store.path()));
        for length in [12, 13, 64] {
            let asked: String = digest.chars().take(length).collect();
            assert_eq!(named(&asked).unwrap(), dir);
        }
        for other in ["0123456789abf", "0123456789ab0123456789ac"] {
            let error = named(other).unwrap_err().to_string();
            assert!(error.contains(&digest) && error.contains(other), "{error}");
        }
        assert!(named(&(digest.clone() + "0")).is_err());
    }
}
