//! What can be asked of `truetape report`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Draw the report of runs again, as a page, for CI, and through a gate.
#[derive(Clone, Debug, Default, Args)]
pub struct ReportArgs {
    /// Directories of runs.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,

    /// The set that the runs are of: with it, the shards of one run are merged into one report, and
    /// the page of one run has production's numbers and the set's blocks.
    #[arg(long, value_name = "SET")]
    pub set: Option<String>,

    /// Directory that holds sets by name: the page of a run finds its set there.
    #[arg(long, env = "TRUETAPE_STORE", value_name = "DIR")]
    pub store: Option<PathBuf>,

    /// How the reports are printed.
    #[arg(long, env = "TRUETAPE_FORMAT", value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,

    /// Write the report of one run as a page, which opens from the file without a network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// What the reports must hold (docs/ci.md): exit 1 where one does not.
    #[arg(long, env = "TRUETAPE_GATE", value_name = "FILE")]
    pub gate: Option<PathBuf>,

    /// Write the dimensions, and the rules of the gate, as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For documents.
    Markdown,
    /// One page with charts.
    Html,
}

impl From<super::Format> for ReportFormat {
    fn from(format: super::Format) -> Self {
        match format {
            super::Format::Text => Self::Text,
            super::Format::Json => Self::Json,
            super::Format::Markdown => Self::Markdown,
        }
    }
}
