//! What can be typed after `truetape store`.

use crate::talk::OutputFormat;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Looks after a directory of sets: versions, tags, room.
#[derive(Clone, Debug, Args)]
pub struct StoreArgs {
    /// Directory of sets.
    #[arg(long, env = "TRUETAPE_STORE", global = true)]
    pub store: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: OutputFormat,
    /// What to do.
    #[command(subcommand)]
    pub verb: StoreVerb,
}

/// What can be done with a store.
#[derive(Clone, Debug, Subcommand)]
pub enum StoreVerb {
    /// Lists sets with their tags.
    List {
        /// Only the sets of this name.
        name: Option<String>,
    },
    /// Points a tag at a set, or takes it away.
    Tag {
        /// The set: name@tag, or name@sha256:digest.
        set: String,
        /// The tag: letters, digits, `-`, `_` and `.`.
        tag: String,
        /// Take the tag away from the name instead.
        #[arg(long)]
        remove: bool,
    },
    /// Shows which set followed which, and the captures each was made from.
    History {
        /// The name.
        name: String,
    },
    /// Removes sets that no tag points at, and what compiles that were killed left.
    Gc {
        /// Only this name.
        name: Option<String>,
        /// Keep so many of the sets compiled last for each name, tagged or not.
        #[arg(long, default_value_t = 1)]
        keep: usize,
        /// Only say what would go.
        #[arg(long)]
        dry_run: bool,
    },
    /// Packs a set into one file, a tar archive that any tool opens.
    Pack {
        /// The set: a directory, or name@tag.
        set: String,
        /// The file to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Puts a packed set into a store, after checking that it is what its digest says.
    Unpack {
        /// The file.
        file: PathBuf,
        /// A tag to point at it; `latest` moves only when there is none yet.
        #[arg(long = "tag")]
        tags: Vec<String>,
    },
}
