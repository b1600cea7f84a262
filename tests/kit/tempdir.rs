//! Scratch folders that are removed, unless a failed test is asked to keep them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The variable that keeps the folders of failed tests.
pub const KEEP: &str = "TRUETAPE_TEST_KEEP";

/// A folder of one test.
#[derive(Debug)]
pub struct TempDir {
    dir: Option<tempfile::TempDir>,
    failed: AtomicBool,
}

impl TempDir {
    /// Makes a folder whose name starts with `label`.
    pub fn new(label: &str) -> Self {
        let dir = tempfile::Builder::new()
            .prefix(&format!("truetape-{label}-"))
            .tempdir();
        Self {
            dir: Some(dir.expect("a scratch folder")),
            failed: AtomicBool::new(false),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.as_ref().expect("it is there until dropped").path()
    }

    /// A path inside.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Tells that what happened here is worth a look, without a panic in this thread.
    pub fn mark_failed(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let failed = std::thread::panicking() || self.failed.load(Ordering::Relaxed);
        let keep = failed && std::env::var_os(KEEP).is_some_and(|value| value == "1");
        if let Some(dir) = self.dir.take().filter(|_| keep) {
            eprintln!("kept {}", dir.keep().display());
        }
    }
}
