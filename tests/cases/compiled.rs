//! The compiler, as its users run it.

use crate::proxied::TRUETAPE;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use truetape_schemas::set::{Content, Turn, store};
use truetape_testkit::process::{Ended, run, run_with};

/// Takes everything, with its own words.
pub(crate) const RECIPE_ALL: &str = r#"
name = "case"
[select]
method = "all"
[content]
kind = "verbatim"
"#;

/// Takes everything, lengths only.
pub(crate) const RECIPE_LENGTHS: &str = r#"
name = "case"
[select]
method = "all"
[content]
kind = "lengths"
"#;

/// Takes everything, with new text of the same lengths and sharing.
pub(crate) const RECIPE_SYNTHETIC: &str = r#"
name = "case"
[tokens]
tokenizer = "bytes:4"
[select]
method = "all"
[content]
kind = "synthetic"
"#;

/// A set, read back.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) dir: PathBuf,
    pub(crate) turns: Vec<Turn>,
    pub(crate) contents: Vec<Content>,
}

impl Set {
    /// What is left where nothing of a capture is inference.
    pub(crate) fn empty(dir: PathBuf) -> Self {
        Self {
            dir,
            turns: Vec::new(),
            contents: Vec::new(),
        }
    }
}

/// Runs the command.
pub(crate) fn truetape<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Ended {
    run(TRUETAPE.as_ref(), args.into_iter().map(Into::into))
}

/// Compiles captures with a recipe; what the command said when it refuses.
pub(crate) fn compile(captures: &[PathBuf], dir: &Path, recipe: &str) -> Result<Set, Ended> {
    let recipe_file = dir.with_extension("toml");
    write(&recipe_file, recipe);
    let mut args: Vec<OsString> = vec!["compile".into()];
    args.extend(
        captures
            .iter()
            .map(|capture| capture.clone().into_os_string()),
    );
    args.extend(["--recipe".into(), recipe_file.into_os_string()]);
    args.extend(["--store".into(), dir.as_os_str().to_owned()]);
    let ended = truetape(args);
    if !matches!(ended.code, Some(0 | 1)) {
        return Err(ended);
    }
    read(dir).map_err(|cause| Ended {
        stderr: format!("{cause}\n{}", ended.stderr),
        ..ended
    })
}

fn read(dir: &Path) -> Result<Set, String> {
    let text = |e: truetape_schemas::file::Error| e.to_string();
    let dir = store::resolve("case@latest", Some(dir)).map_err(text)?;
    let contents = store::content(&dir).and_then(truetape_schemas::file::Reader::read_all);
    let turns = store::turns(&dir).map_err(text)?;
    let manifest = store::manifest(&dir).map_err(text)?;
    if manifest.counts.turns != turns.len() as u64 {
        return Err(format!(
            "the manifest counts {:?}, not {}",
            manifest.counts,
            turns.len()
        ));
    }
    Ok(Set {
        turns,
        contents: contents.map_err(text)?,
        dir,
    })
}

/// Imports trace files.
pub(crate) fn import(format: &str, files: &[PathBuf], out: &Path, more: &[&str]) -> Ended {
    truetape(import_args(format, files, out, more))
}

/// Imports trace files on a machine that stands in a zone.
pub(crate) fn import_in(format: &str, files: &[PathBuf], out: &Path, zone: &str) -> Ended {
    let args = import_args(format, files, out, &[]);
    run_with(TRUETAPE.as_ref(), args, &[("TZ", zone)])
}

fn import_args(format: &str, files: &[PathBuf], out: &Path, more: &[&str]) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["import".into(), format.into()];
    args.extend(files.iter().map(|file| file.clone().into_os_string()));
    args.extend(["--out".into(), out.as_os_str().to_owned()]);
    args.extend(more.iter().map(OsString::from));
    args
}

/// Writes a file whose folder may not be there yet.
pub(crate) fn write(path: &Path, text: &str) {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
