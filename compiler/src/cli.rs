//! What can be typed: the arguments of each verb.

use crate::talk::OutputFormat;
use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

mod store;

pub use store::{StoreArgs, StoreVerb};

/// A format that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// Tell it by keys that only one format has; refused where they leave a doubt.
    Auto,
    /// Mooncake JSONL: milliseconds, cumulative `hash_ids` of 512 tokens.
    Mooncake,
    /// Qwen-Bailian JSONL: seconds, cumulative `hash_ids` of 16 tokens, chat links.
    Bailian,
    /// LMCache's agent traces: microseconds, prompts and answers as text.
    Lmcache,
    /// LiteLLM's logs: bodies of chats, with usage.
    Litellm,
    /// Azure's inference traces, CSV: instants in UTC, lengths.
    Azure,
    /// BurstGPT, CSV: seconds, lengths, models, session ids of conversations.
    Burstgpt,
    /// GoReplay's files (`.gor`): HTTP/1 messages, answers paired with their requests.
    Goreplay,
}

/// Turns a public trace into a capture.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// The format of the files.
    #[arg(value_enum)]
    pub format: ImportFormat,
    /// The files, in order.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Directory of the capture; empty, absent, or holding this same import.
    #[arg(long)]
    pub out: PathBuf,
    /// Tokens in a block of `hash_ids`, where it is not the format's own.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub block_tokens: Option<u32>,
    /// Instant of the trace's timestamp 0, RFC 3339.
    #[arg(long, default_value = "1970-01-01T00:00:00Z")]
    pub start_at: String,
    /// Fail (exit 65) when a line cannot be used, instead of counting it.
    #[arg(long)]
    pub strict: bool,
}

/// Prints what a capture, a set or a run is made of.
#[derive(Clone, Debug, Args)]
pub struct ProfileArgs {
    /// Captures (directories, files or URLs), a set (a directory, or name@tag), or a run.
    #[arg(required = true)]
    pub paths: Vec<String>,
    /// Directory of sets, for name@tag.
    #[arg(long, env = "TRUETAPE_STORE")]
    pub store: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
    /// Write a page of HTML there as well, with charts; it opens from a file, without a network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Cache sizes of the hit curve, in blocks.
    #[arg(long, value_delimiter = ',')]
    pub capacity_blocks: Vec<usize>,
    /// Tokens in a block, for traffic with text; traces keep their own.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub block_tokens: Option<u32>,
    /// Windows of the burst measures, in seconds.
    #[arg(long, value_delimiter = ',')]
    pub windows_s: Vec<u32>,
    /// Threads that read text.
    #[arg(long, env = "TRUETAPE_THREADS")]
    pub threads: Option<usize>,
}

/// Compiles captures into a replay set.
#[derive(Clone, Debug, Args)]
pub struct CompileArgs {
    /// Captures: directories of Parquet segments, single segments, or URLs of either.
    #[arg(required = true)]
    pub captures: Vec<PathBuf>,
    /// What to make of them (TOML; see `examples/recipe.toml`).
    #[arg(long, env = "TRUETAPE_RECIPE")]
    pub recipe: PathBuf,
    /// Directory of sets.
    #[arg(long, env = "TRUETAPE_STORE")]
    pub store: PathBuf,
    /// A tag to point at the set; `latest` always is.
    #[arg(long = "tag")]
    pub tags: Vec<String>,
    /// Threads; they never change the set.
    #[arg(long, env = "TRUETAPE_THREADS")]
    pub threads: Option<usize>,
    /// How to print the report.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// A format that can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Mooncake JSONL: milliseconds, cumulative `hash_ids`.
    Mooncake,
}

/// What to do with the last block of a prompt where it is not full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PartialBlocks {
    /// Write its id, as Mooncake does.
    #[default]
    Keep,
    /// Leave it out, as tools do that hash full blocks only.
    Drop,
}

/// Writes a set in another tool's format.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// The set: a directory, or name@tag.
    pub set: String,
    /// Directory of sets, for name@tag.
    #[arg(long, env = "TRUETAPE_STORE")]
    pub store: Option<PathBuf>,
    /// The format to write.
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// The file to write.
    #[arg(long)]
    pub out: PathBuf,
    /// What to do with a last block that is not full.
    #[arg(long, value_enum, default_value_t)]
    pub partial_blocks: PartialBlocks,
}

/// Shows what a file or directory of ours is.
#[derive(Clone, Debug, Args)]
pub struct InspectArgs {
    /// A capture or a segment (a path or a URL), a set (a directory, or name@tag), or a run.
    pub path: String,
    /// Directory of sets, for name@tag.
    #[arg(long, env = "TRUETAPE_STORE")]
    pub store: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Checks that a capture, a set or a run is whole and true to itself.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// A capture or a segment (a path or a URL), a set (a directory, or name@tag), or a run.
    pub path: String,
    /// Directory of sets, for name@tag.
    #[arg(long, env = "TRUETAPE_STORE")]
    pub store: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Compares the profiles of two captures, sets or runs.
#[derive(Clone, Debug, Args)]
pub struct DiffArgs {
    /// The one side.
    pub a: String,
    /// The other.
    pub b: String,
    /// Directory of sets, for name@tag.
    #[arg(long, env = "TRUETAPE_STORE")]
    pub store: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Ships sealed segments to an object store, beside a recorder.
///
/// Credentials and endpoints come from the environment: AWS_*, GOOGLE_*, AZURE_*.
#[derive(Clone, Debug, Args)]
pub struct ShipArgs {
    /// The recorder's directory.
    pub dir: PathBuf,
    /// Where to: s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, file:///folder.
    pub url: String,
    /// Ship what is there, and end.
    #[arg(long)]
    pub once: bool,
    /// How often to look for new segments.
    #[arg(long, env = "TRUETAPE_SHIP_EVERY", value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub every: Duration,
    /// Keep the segments here after they were shipped.
    #[arg(long, env = "TRUETAPE_SHIP_KEEP_LOCAL")]
    pub keep_local: bool,
    /// Bytes a second at most, on average, for what is sent.
    #[arg(long, env = "TRUETAPE_SHIP_BANDWIDTH", value_name = "SIZE")]
    pub bandwidth: Option<ByteSize>,
    /// Segments at the same time; each holds 8 MiB or two.
    #[arg(
        long,
        env = "TRUETAPE_SHIP_CONCURRENCY",
        value_name = "N",
        default_value_t = 2
    )]
    pub concurrency: usize,
    /// After a signal to stop, ship what the recorder still seals, for so long; a second signal
    /// ends that at once.
    #[arg(long, env = "TRUETAPE_SHIP_DRAIN", value_name = "TIME", default_value = "20s", value_parser = humantime::parse_duration)]
    pub drain: Duration,
    /// Longest wait for the current part once that is over.
    #[arg(long, env = "TRUETAPE_SHIP_GRACE", value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub grace: Duration,
    /// Serve /livez and /metrics here.
    #[arg(long, env = "TRUETAPE_SHIP_ADMIN", value_name = "ADDR")]
    pub admin: Option<SocketAddr>,
    /// How to print what was shipped.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}
