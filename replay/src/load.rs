//! A set, read and checked before anything is sent.

use crate::error::Error;
use std::path::{Path, PathBuf};
use truetape_schemas::file;
use truetape_schemas::report::{FORMAT, Report};
use truetape_schemas::set::manifest::Manifest;
use truetape_schemas::set::{Content, Turn, store};

/// The value of `semantics.content` of sets that hold lengths and no prompts.
const LENGTHS: &str = "lengths";

/// A set in memory.
#[derive(Debug)]
pub struct Loaded {
    /// Where it lies.
    pub dir: PathBuf,
    /// What it is.
    pub manifest: Manifest,
    /// Its turns, in the order of the file.
    pub turns: Vec<Turn>,
    /// Its content.
    pub contents: Vec<Content>,
    /// Its level 1 report, where it can be read.
    pub level1: Option<Report>,
    /// Things a user should know.
    pub findings: Vec<String>,
}

impl Loaded {
    /// Whether it has only lengths, and no prompts to send.
    pub fn is_lengths_only(&self) -> bool {
        self.manifest.semantics.content == LENGTHS
    }
}

/// Finds a set, reads it whole, and checks it against its digest.
pub fn load(reference: &str, named_store: Option<&Path>) -> Result<Loaded, Error> {
    let dir = store::resolve(reference, named_store)?;
    let manifest = store::manifest(&dir)?;
    let turns = store::turns(&dir)?;
    let has_content = file_exists(&dir.join(store::CONTENT))?;
    let contents = if has_content {
        store::content(&dir)?.read_all()?
    } else {
        Vec::new()
    };
    verify(reference, &manifest, &turns, &contents)?;
    let mut findings = Vec::new();
    let path = dir.join(store::FIDELITY);
    let level1 = if file_exists(&path)? {
        readable(&path)
    } else {
        None
    };
    if level1.is_none() {
        findings.push("level 1: the set has no report of its own that can be read".to_owned());
    }
    Ok(Loaded {
        dir,
        manifest,
        turns,
        contents,
        level1,
        findings,
    })
}

/// A set that was changed after it was compiled is another set under the same name.
fn verify(
    reference: &str,
    manifest: &Manifest,
    turns: &[Turn],
    contents: &[Content],
) -> Result<(), Error> {
    let found = store::digest(&manifest.recipe, &manifest.sources, turns, contents);
    if found != manifest.digest {
        let problem = format!(
            "its rows have the digest {found}, its manifest says {}; compile it again",
            manifest.digest
        );
        return Err(Error::Set {
            subject: reference.to_owned(),
            problem,
        });
    }
    let altered = contents
        .iter()
        .find(|content| truetape_schemas::ids::content_id(&content.body) != content.content_id);
    match altered {
        None => Ok(()),
        Some(content) => {
            let problem = format!(
                "content {} does not match its id; compile it again",
                content.content_id
            );
            Err(Error::Set {
                subject: reference.to_owned(),
                problem,
            })
        }
    }
}

/// The set's own report; the run does not depend on it. The path stays in the log: a report does not
/// know the machine it was made on.
fn readable(path: &Path) -> Option<Report> {
    match report(path) {
        Ok(report) => Some(report),
        Err(cause) => {
            tracing::warn!(%cause, "could not read the set's own report");
            None
        }
    }
}

fn file_exists(path: &Path) -> Result<bool, Error> {
    path.try_exists()
        .map_err(|cause| file::Error::io(path, cause).into())
}

/// Reads a report, and refuses one of a newer format.
pub fn report(path: &Path) -> Result<Report, Error> {
    Ok(file::read_json(path, FORMAT)?)
}
