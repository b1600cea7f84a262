//! The repository obeys itself: arrows, words, sizes, and pages that must agree with the code.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod arrows;
mod deploy;
mod deploy_kubernetes;
mod pages;
mod sources;

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Folders that are not ours to keep tidy.
const SKIPPED: &[&str] = &["target", ".git"];

/// Every file of the repository, by path.
fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(root(), &mut found);
    found.sort();
    found
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if SKIPPED.iter().any(|skipped| name == *skipped) {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The files with this ending and their text, named from the root.
fn texts(ending: &str) -> Vec<(String, String)> {
    let named = |path: PathBuf| {
        let name = path
            .strip_prefix(root())
            .ok()?
            .to_string_lossy()
            .into_owned();
        let text = name
            .ends_with(ending)
            .then(|| std::fs::read_to_string(&path).ok())??;
        Some((name, text))
    };
    files().into_iter().filter_map(named).collect()
}

/// Fails with every complaint at once.
#[track_caller]
fn complain(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
