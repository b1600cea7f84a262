//! Public traces and acceptance cases beside the repository, where they are at hand.

use std::path::{Path, PathBuf};

/// A file or folder of `../shared`. Where it is missing, a line says that a test does less.
pub fn path(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../shared")
        .join(name);
    match path.try_exists() {
        Ok(true) => Some(path),
        _ => {
            eprintln!("{name} is not at hand: what needs it is not checked");
            None
        }
    }
}

/// The text of a file of `../shared`.
pub fn text(name: &str) -> Option<String> {
    std::fs::read_to_string(path(name)?).ok()
}
