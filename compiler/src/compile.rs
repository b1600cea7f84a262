//! Captures and a recipe become a set.

use crate::cli::CompileArgs;
use crate::error::Error;
use crate::recipe::Recipe;
use std::path::PathBuf;
use truetape_schemas::blame::Answer;
use truetape_schemas::report::Report;
use truetape_schemas::set::manifest::Manifest;

/// What to compile, and how.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Captures: directories of Parquet segments, or single segments.
    pub captures: Vec<PathBuf>,
    /// What to make of them.
    pub recipe: Recipe,
    /// Directory of sets.
    pub store: PathBuf,
    /// Tags to point at the set, besides `latest`.
    pub tags: Vec<String>,
    /// Threads; they never change the set.
    pub threads: usize,
}

/// A set that was compiled, or was there already.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Its directory.
    pub dir: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// The level 1 report.
    pub report: Report,
    /// Whether the store held this very set before.
    pub existed: bool,
}

/// Compiles captures into a set.
pub fn compile(options: &CompileOptions) -> Result<Compiled, Error> {
    Err(Error::bug(format!("{options:?}"), "not built yet"))
}

/// Carries out `truetape compile`.
pub fn run(args: CompileArgs) -> Result<Answer, Error> {
    Err(Error::bug(format!("{args:?}"), "not built yet"))
}
