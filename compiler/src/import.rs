//! A public trace becomes a capture.
//!
//! What a line says is carried over as it is, what it does not say is NULL, and what cannot be
//! used is reported with its line number and counted: nothing is reshaped in silence.
//!
//! Read in this order: [`format`](mod@format) (units and block sizes), [`line`](mod@line) (one
//! line), [`spoken`] (lines that hold text), [`table`] (lines of a table), [`gor`] (HTTP messages),
//! [`scan`] (all lines, before anything is written), [`write`](mod@write) (segments, in a directory
//! [`aside`]).

use crate::cli::{ImportArgs, ImportFormat};
use crate::error::Error;
use crate::talk;
use format::TraceFormat;
use scan::Scan;
use std::path::PathBuf;
use truetape_schemas::blame::Answer;
use truetape_schemas::ledger::Ledger;
use truetape_schemas::time::{format_utc, parse_utc};

mod aside;
pub mod format;
mod gor;
pub mod line;
pub mod scan;
pub mod spoken;
mod table;
pub mod write;

/// Lines that cannot be used, named on stderr at most; the others are counted.
const BAD_LINES_SHOWN_MAX: usize = 20;

/// What to import, and how.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The format of the files.
    pub format: TraceFormat,
    /// The files, in order.
    pub files: Vec<PathBuf>,
    /// Directory of the capture.
    pub out: PathBuf,
    /// Tokens in a block of `hash_ids`, where it is not the format's own.
    pub block_tokens: Option<u32>,
    /// Instant of the trace's timestamp 0, in microseconds since the Unix epoch.
    pub start_us: i64,
    /// Whether a line that cannot be used is an error.
    pub strict: bool,
}

/// A trace that was imported.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Lines offered, rows recorded, lines excluded by reason.
    pub ledger: Ledger,
    /// The lines that could not be used.
    pub bad: Vec<scan::BadLine>,
    /// What could not be carried over.
    pub losses: Vec<String>,
    /// The step of the trace's clock, where it is coarse.
    pub clock_resolution_us: Option<i64>,
    /// The segments written.
    pub segments: Vec<PathBuf>,
}

/// Imports a trace.
pub fn import(options: &ImportOptions) -> Result<Imported, Error> {
    let block_tokens = options
        .block_tokens
        .unwrap_or(options.format.block_tokens());
    let scan = Scan::of(options.format, &options.files, block_tokens)?;
    if let (true, Some(first)) = (options.strict, scan.bad.first()) {
        let problem = format!(
            "{}, and {} lines like it in all; fix them, or import without --strict to leave them out",
            first.problem,
            scan.bad.len()
        );
        return Err(Error::data(first.place(), problem));
    }
    if scan.rows == 0 {
        let subject = options.files.first().map(|file| file.display().to_string());
        return Err(Error::data(
            subject.unwrap_or_default(),
            unusable(options.format, block_tokens, &scan),
        ));
    }
    write::capture(options, block_tokens, scan)
}

/// Why nothing of a trace can be used: its first line says most.
fn unusable(format: TraceFormat, block_tokens: u32, scan: &Scan) -> String {
    let why = scan.bad.first().map_or_else(
        || "there is none".to_owned(),
        |bad| format!("line {}: {}", bad.line, bad.problem),
    );
    format!(
        "no line can be used as {} in blocks of {block_tokens} tokens; {why}; check the format, and \
         --block-tokens",
        format.name()
    )
}

/// Carries out `truetape import`.
pub fn run(args: ImportArgs) -> Result<Answer, Error> {
    let format = match args.format {
        ImportFormat::Mooncake => TraceFormat::Mooncake,
        ImportFormat::Bailian => TraceFormat::Bailian,
        ImportFormat::Lmcache => TraceFormat::Lmcache,
        ImportFormat::Litellm => TraceFormat::Litellm,
        ImportFormat::Azure => TraceFormat::Azure,
        ImportFormat::Burstgpt => TraceFormat::Burstgpt,
        ImportFormat::Goreplay => TraceFormat::Goreplay,
        ImportFormat::Auto => format::detect(&args.files)?,
    };
    let start_us = parse_utc(&args.start_at).ok_or_else(|| {
        let problem = format!(
            "`{}`, wanted RFC 3339 as in 2026-01-02T03:04:05Z",
            args.start_at
        );
        Error::usage("--start-at", problem)
    })?;
    let options = ImportOptions {
        format,
        files: args.files,
        out: args.out,
        block_tokens: args.block_tokens,
        start_us,
        strict: args.strict,
    };
    talk::say(&format!(
        "{}: timestamps read as {}, blocks of {} tokens, timestamp 0 is {}",
        format.name(),
        format.unit(),
        options.block_tokens.unwrap_or(format.block_tokens()),
        format_utc(start_us),
    ));
    let imported = import(&options)?;
    tell(&imported, &options);
    Ok(Answer::Yes)
}

fn tell(imported: &Imported, options: &ImportOptions) {
    for bad in imported.bad.iter().take(BAD_LINES_SHOWN_MAX) {
        talk::say(&format!("left out: {}: {}", bad.place(), bad.problem));
    }
    if imported.bad.len() > BAD_LINES_SHOWN_MAX {
        talk::say(&format!(
            "left out: {} more",
            imported.bad.len() - BAD_LINES_SHOWN_MAX
        ));
    }
    if let Some(us) = imported.clock_resolution_us {
        let milliseconds = us / 1_000;
        talk::say(&format!(
            "the clock of this trace steps by about {milliseconds} ms: burstiness below {} ms is \
             unknown",
            milliseconds * 3
        ));
    }
    for loss in &imported.losses {
        talk::say(&format!("not in the trace: {loss}"));
    }
    talk::say(&format!(
        "imported {} of {} lines into {}",
        imported.ledger.recorded,
        imported.ledger.offered,
        options.out.display()
    ));
}
