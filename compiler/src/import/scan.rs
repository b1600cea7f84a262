//! All lines of a trace, read once before anything is written: what cannot be used, the step of
//! the clock, and the digest that names the import.

use super::format::TraceFormat;
use super::line::{TraceRow, Unusable, read};
use super::{gor, table};
use crate::error::Error;
use crate::talk::Progress;
use std::collections::BTreeSet;
use std::io::{BufRead, Read as _};
use std::path::{Path, PathBuf};
use truetape_fidelity::dispersion::clock;
use truetape_schemas::ids::Digester;

/// Bytes of a line at most: a million block ids of 20 digits are 21 MB.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Timestamps kept to find the step of the clock: 8 MiB.
const CLOCK_TIMESTAMPS_MAX: usize = 1 << 20;

/// A trace in milliseconds steps by them, and bends no window that anybody looks at.
const FINE_STEP_US: i64 = 1_000;

/// Lines between two looks at the progress line.
const PROGRESS_LINES: u64 = 8_192;

/// A line that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its file.
    pub file: PathBuf,
    /// Its number, from 1.
    pub line: u64,
    /// The word in the ledger.
    pub reason: &'static str,
    /// What was found, and what was wanted.
    pub problem: String,
}

impl BadLine {
    /// Where it is, as errors name places.
    pub fn place(&self) -> String {
        format!("{}: line {}", self.file.display(), self.line)
    }
}

/// What the lines of a trace come to.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Lines that can be used.
    pub rows: u64,
    /// Lines that cannot.
    pub bad: Vec<BadLine>,
    /// Keys that are not carried over.
    pub other_keys: BTreeSet<String>,
    /// The step of the clock, where it is coarser than a millisecond.
    pub clock_resolution_us: Option<i64>,
    /// Digest of the format, the block size and the bytes of the files.
    pub digest: String,
}

impl Scan {
    /// Reads all lines.
    pub fn of(format: TraceFormat, files: &[PathBuf], block_tokens: u32) -> Result<Self, Error> {
        let mut scan = Self::default();
        let mut timestamps_us = Vec::new();
        let mut digester = Digester::new();
        digester.add(format.name().as_bytes());
        digester.add(&block_tokens.to_le_bytes());
        for file in files {
            each_row(format, file, |number, line| {
                digester.add(line);
                match read(format, line, block_tokens) {
                    Ok(row) => scan.take(row, &mut timestamps_us),
                    Err(bad) => scan.leave(file, number, bad),
                }
                Ok(())
            })?;
        }
        scan.digest = digester.finish();
        scan.clock_resolution_us = step_us(timestamps_us);
        Ok(scan)
    }

    fn take(&mut self, row: TraceRow, timestamps_us: &mut Vec<i64>) {
        self.rows += 1;
        self.other_keys.extend(row.other_keys);
        if timestamps_us.len() < CLOCK_TIMESTAMPS_MAX {
            timestamps_us.push(row.timestamp_us);
        }
    }

    fn leave(&mut self, file: &Path, line: u64, bad: Unusable) {
        let Unusable { reason, problem } = bad;
        self.bad.push(BadLine {
            file: file.to_owned(),
            line,
            reason,
            problem,
        });
    }
}

/// The step of the clock, to the millisecond: what a trace writes is no finer.
fn step_us(mut timestamps_us: Vec<i64>) -> Option<i64> {
    timestamps_us.sort_unstable();
    let step = clock::resolution_us(&timestamps_us)?;
    let step = (step + FINE_STEP_US / 2) / FINE_STEP_US * FINE_STEP_US;
    (step > FINE_STEP_US).then_some(step)
}

/// Calls `f` for every line that is a row: not blank, and not the header that a table must have.
pub(super) fn each_row(
    format: TraceFormat,
    path: &Path,
    mut f: impl FnMut(u64, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    if format == TraceFormat::Goreplay {
        return gor::each_request(path, f);
    }
    let mut header = table::layouts(format);
    each_line(path, |number, line| match header.take() {
        Some(layouts) => table::check_header(layouts, path, line),
        None => f(number, line),
    })
}

/// Calls `f` for every line that is not blank, with its number from 1.
fn each_line(path: &Path, mut f: impl FnMut(u64, &[u8]) -> Result<(), Error>) -> Result<(), Error> {
    let file = std::fs::File::open(path).map_err(|cause| Error::io(path, cause))?;
    let mut reader = std::io::BufReader::with_capacity(1 << 16, file);
    let mut progress = Progress::new();
    let mut line = Vec::new();
    let mut number = 0_u64;
    while next_line(&mut reader, &mut line).map_err(|cause| Error::io(path, cause))? {
        number += 1;
        if line.len() as u64 > LINE_BYTES_MAX {
            let problem = format!("longer than {LINE_BYTES_MAX} bytes; is this a JSONL file?");
            return Err(Error::data(
                format!("{}: line {number}", path.display()),
                problem,
            ));
        }
        let trimmed = line.trim_ascii();
        if !trimmed.is_empty() {
            f(number, trimmed)?;
        }
        if number.is_multiple_of(PROGRESS_LINES) {
            progress.show(&format!("{}: {number} lines", path.display()));
        }
    }
    progress.clear();
    Ok(())
}

fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    Ok(reader
        .by_ref()
        .take(LINE_BYTES_MAX + 1)
        .read_until(b'\n', line)?
        > 0)
}
