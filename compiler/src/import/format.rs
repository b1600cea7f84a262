//! The formats that can be imported: their units, their block sizes, how to tell them apart.

use crate::error::Error;
use serde_json::{Map, Value};
use std::io::BufRead as _;
use std::path::{Path, PathBuf};

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Mooncake JSONL.
    Mooncake,
    /// Qwen-Bailian JSONL.
    Bailian,
}

/// Lines that are looked at to tell a format.
const DETECT_LINES: usize = 16;

impl TraceFormat {
    /// Its word on the command line and in `proxy_id`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mooncake => "mooncake",
            Self::Bailian => "bailian",
        }
    }

    /// The unit of its timestamps, for people.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Mooncake => "milliseconds",
            Self::Bailian => "seconds",
        }
    }

    /// The same in microseconds.
    pub fn unit_us(self) -> i64 {
        match self {
            Self::Mooncake => 1_000,
            Self::Bailian => 1_000_000,
        }
    }

    /// Tokens in a block of its `hash_ids`, which no file says.
    pub fn block_tokens(self) -> u32 {
        match self {
            Self::Mooncake => 512,
            Self::Bailian => 16,
        }
    }

    /// Keys that are carried over; the others are named as lost.
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Mooncake => &[
                "timestamp",
                "input_length",
                "output_length",
                "hash_ids",
                "session_id",
            ],
            Self::Bailian => &[
                "timestamp",
                "input_length",
                "output_length",
                "hash_ids",
                "chat_id",
                "parent_chat_id",
                "turn",
            ],
        }
    }

    /// What no trace of this format holds.
    pub fn losses(self) -> Vec<String> {
        let mut losses = vec![
            "when answers ended: think times and latencies are unknown".to_owned(),
            "outcomes: every line is taken for a complete answer".to_owned(),
            "text, models, sampling parameters".to_owned(),
        ];
        if self == Self::Mooncake {
            losses.push("sessions, unless a line has session_id: they are inferred".to_owned());
        }
        losses
    }
}

/// Tells a format by keys that only one format has.
///
/// A bare `timestamp` is milliseconds in one format and seconds in the other: a wrong guess
/// replays a thousand times too fast, so there is none.
pub fn detect(files: &[PathBuf]) -> Result<TraceFormat, Error> {
    let mut found = None;
    for file in files {
        let format = detect_file(file)?;
        if found.is_some_and(|before| before != format) {
            return Err(Error::usage(
                file.display(),
                "not of the format of the files before it",
            ));
        }
        found = Some(format);
    }
    found.ok_or_else(|| Error::usage("import", "no files"))
}

fn detect_file(path: &Path) -> Result<TraceFormat, Error> {
    let file = std::fs::File::open(path).map_err(|cause| Error::io(path, cause))?;
    let lines = std::io::BufReader::new(file).lines().take(DETECT_LINES);
    let rows: Vec<Map<String, Value>> = lines
        .map_while(Result::ok)
        .filter_map(|line| serde_json::from_str(&line).ok())
        .collect();
    let bailian = ["chat_id", "parent_chat_id", "turn"];
    if !rows.is_empty()
        && rows
            .iter()
            .all(|row| bailian.iter().all(|key| row.contains_key(*key)))
    {
        return Ok(TraceFormat::Bailian);
    }
    Err(Error::usage(
        path.display(),
        "cannot tell the unit of its timestamps from its keys; say mooncake (milliseconds, blocks \
         of 512) or bailian (seconds, blocks of 16) instead of auto",
    ))
}
