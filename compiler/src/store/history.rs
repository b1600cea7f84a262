//! Which set followed which: `history.jsonl`, a line for each set that a name ever got.
//!
//! It stands beside the sets and not in them: a set does not know when or after what it was made,
//! or the same captures and recipe would give another set each time (C1).

use super::short;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::Path;
use truetape_schemas::set::manifest::Manifest;
use truetape_schemas::time::{format_utc, wall_now_us};

/// The name of the file.
pub const HISTORY: &str = "history.jsonl";

/// A set that a name got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its digest.
    pub digest: String,
    /// What `latest` pointed at before; none for the first.
    pub previous: Option<String>,
    /// When it came, RFC 3339.
    pub at: String,
    /// How it came: `compiled` or `unpacked`.
    pub how: String,
    /// Digests of the captures it was made from.
    pub sources: Vec<String>,
    /// Version of the compiler.
    pub tool_version: String,
}

/// Adds a set to the history of its name.
pub(crate) fn note(
    named: &Path,
    manifest: &Manifest,
    previous: Option<String>,
    how: &str,
) -> Result<(), Error> {
    let step = Step {
        digest: manifest.digest.clone(),
        previous: previous.filter(|previous| *previous != manifest.digest),
        at: format_utc(wall_now_us()),
        how: how.to_owned(),
        sources: manifest
            .sources
            .iter()
            .map(|source| source.digest.clone())
            .collect(),
        tool_version: manifest.tool_version.clone(),
    };
    let path = named.join(HISTORY);
    let mut line = serde_json::to_string(&step)
        .map_err(|cause| Error::bug(path.display(), format!("could not encode JSON: {cause}")))?;
    line.push('\n');
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|cause| Error::io(&path, cause))?;
    // One write: a line is there whole, or a reader meets its beginning at the end of the file.
    file.write_all(line.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|cause| Error::io(&path, cause))
}

/// Reads the history of a name, the oldest first. A last line that a crash cut is not there.
pub fn read(named: &Path) -> Result<Vec<Step>, Error> {
    let path = named.join(HISTORY);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            let problem =
                "no history there; sets that are compiled or unpacked from now on have one";
            return Err(Error::data(named.display(), problem));
        }
        Err(cause) => return Err(Error::io(&path, cause)),
    };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let lines = text.get(..whole).unwrap_or_default().lines();
    (1..)
        .zip(lines)
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|cause| {
                Error::data(path.display(), format!("line {number} is no step: {cause}"))
            })
        })
        .collect()
}

/// For people: a line for each set, the captures below it.
pub(super) fn text(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        let after = step
            .previous
            .as_deref()
            .map_or("the first".to_owned(), |previous| {
                format!("after {}", short(previous))
            });
        text.push_str(&format!(
            "{} sha256:{} {}, {after}, truetape {}\n",
            step.at,
            short(&step.digest),
            step.how,
            step.tool_version
        ));
        for source in &step.sources {
            text.push_str(&format!("  from capture {}\n", short(source)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{HISTORY, note, read};
    use truetape_schemas::set::manifest::{Manifest, Source};

    #[test]
    fn a_set_knows_what_it_followed_and_a_line_that_was_cut_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).is_err());
        let of = |digest: &str| Manifest {
            digest: digest.to_owned(),
            sources: vec![Source {
                digest: "capture".to_owned(),
                ..Source::default()
            }],
            ..Manifest::default()
        };
        note(dir.path(), &of("a"), None, "compiled").unwrap();
        note(dir.path(), &of("b"), Some("a".to_owned()), "compiled").unwrap();
        note(dir.path(), &of("b"), Some("b".to_owned()), "unpacked").unwrap();
        let path = dir.path().join(HISTORY);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend(b"{\"digest\":\"c");
        std::fs::write(&path, bytes).unwrap();
        let steps = read(dir.path()).unwrap();
        let previous: Vec<_> = steps.iter().map(|step| step.previous.as_deref()).collect();
        assert_eq!(previous, [None, Some("a"), None]);
        assert_eq!(steps[1].sources, ["capture"]);
    }
}
