//! What can be asked of `truetape compare`.

use super::Format;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Compare runs of a set with other runs of it: what can be claimed, and what cannot.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Directories of the runs that are judged.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,

    /// Directories of the runs that they are compared with: as many, in the same order, are pairs.
    #[arg(long, value_name = "RUN", required = true, num_args = 1..)]
    pub against: Vec<PathBuf>,

    /// Exit 1 when the answer is this.
    #[arg(long, env = "TRUETAPE_FAIL_ON", value_enum, default_value_t = FailOnClaim::Regression)]
    pub fail_on: FailOnClaim,

    /// Compare runs of different sets, or of different settings, all the same.
    #[arg(long)]
    pub allow_different: bool,

    /// How the comparison is printed.
    #[arg(long, env = "TRUETAPE_FORMAT", value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Which answer of a comparison is no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOnClaim {
    /// The runs are slower in any measure.
    Regression,
    /// The same, or nothing can be claimed.
    Unknown,
    /// None.
    Never,
}
