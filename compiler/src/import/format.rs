//! The formats that can be imported: their units, their block sizes, how to tell them apart.

use super::table;
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
    /// JSONL of LMCache's agent traces: prompts and answers as text.
    Lmcache,
    /// JSONL of LiteLLM's logs: bodies of chats, with usage.
    Litellm,
    /// CSV of Azure's inference traces: instants and lengths.
    Azure,
    /// CSV of BurstGPT: seconds, lengths, models, sessions of conversations.
    Burstgpt,
    /// GoReplay's files: HTTP messages with their times.
    Goreplay,
}

/// Lines that are looked at to tell a format.
const DETECT_LINES: usize = 16;

impl TraceFormat {
    /// Its word on the command line and in `proxy_id`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mooncake => "mooncake",
            Self::Bailian => "bailian",
            Self::Lmcache => "lmcache",
            Self::Litellm => "litellm",
            Self::Azure => "azure",
            Self::Burstgpt => "burstgpt",
            Self::Goreplay => "goreplay",
        }
    }

    /// The unit of its timestamps, for people.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Mooncake => "milliseconds",
            Self::Bailian => "seconds",
            Self::Lmcache => "microseconds",
            Self::Litellm => "instants or seconds",
            Self::Azure => "instants in UTC, in steps of 100 ns",
            Self::Burstgpt => "seconds",
            Self::Goreplay => "nanoseconds since 1970",
        }
    }

    /// The same in microseconds.
    pub fn unit_us(self) -> i64 {
        match self {
            Self::Mooncake => 1_000,
            Self::Bailian | Self::Litellm | Self::Burstgpt => 1_000_000,
            Self::Lmcache | Self::Azure | Self::Goreplay => 1,
        }
    }

    /// Tokens in a block of its `hash_ids`, which no file says.
    pub fn block_tokens(self) -> u32 {
        match self {
            Self::Mooncake => 512,
            // Text has no blocks yet, and lengths alone have none.
            Self::Bailian
            | Self::Lmcache
            | Self::Litellm
            | Self::Azure
            | Self::Burstgpt
            | Self::Goreplay => 16,
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
            Self::Lmcache => &["timestamp", "input", "output", "session_id"],
            Self::Litellm => &[
                "timestamp",
                "startTime",
                "endTime",
                "status",
                "model",
                "messages",
                "model_parameters",
                "prompt_tokens",
                "completion_tokens",
                "session_id",
                "request",
                "response",
            ],
            // Columns are named in `table`, and messages have no keys.
            Self::Azure | Self::Burstgpt | Self::Goreplay => &[],
        }
    }

    /// What no trace of this format holds.
    pub fn losses(self) -> Vec<String> {
        let ends = "when answers ended: think times and latencies are unknown";
        let outcomes = "outcomes: every line is taken for a complete answer";
        let inferred = "sessions, unless a line has session_id: they are inferred";
        let losses = match self {
            Self::Mooncake => &[
                ends,
                outcomes,
                "text, models, sampling parameters",
                inferred,
            ][..],
            Self::Bailian => &[ends, outcomes, "text, models, sampling parameters"],
            Self::Lmcache => &[
                ends,
                outcomes,
                "lengths in tokens, models, sampling parameters",
                "the roles of messages: a prompt is one text",
            ],
            Self::Litellm => &[
                "when tokens came, and when answers ended unless a line has endTime",
                "answers that were printed and not written as JSON",
                inferred,
            ],
            Self::Azure => &[
                ends,
                outcomes,
                "text, models, sampling parameters, sessions, prefix sharing",
            ],
            Self::Goreplay => &[
                "when tokens came; answers that were not recorded: their requests are taken for complete",
                "headers, but for the session that they name",
            ],
            Self::Burstgpt => &[
                ends,
                "text, sampling parameters, prefix sharing",
                "sessions of lines without a session id: each is one turn",
            ],
        };
        losses.iter().map(|loss| (*loss).to_owned()).collect()
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
    let lines: Vec<String> = lines.map_while(Result::ok).collect();
    if path.extension().is_some_and(|extension| extension == "gor") {
        return Ok(TraceFormat::Goreplay);
    }
    if let Some(format) = lines.first().and_then(|line| table::told_by(line)) {
        return Ok(format);
    }
    let rows: Vec<Map<String, Value>> = lines
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let has = |keys: &[&str]| {
        let all = |row: &Map<String, Value>| keys.iter().all(|key| row.contains_key(*key));
        !rows.is_empty() && rows.iter().all(all)
    };
    if has(&["chat_id", "parent_chat_id", "turn"]) {
        return Ok(TraceFormat::Bailian);
    }
    if has(&["timestamp", "input", "output", "session_id"]) {
        return Ok(TraceFormat::Lmcache);
    }
    if has(&["model", "prompt_tokens", "completion_tokens", "response"]) {
        return Ok(TraceFormat::Litellm);
    }
    Err(Error::usage(
        path.display(),
        "cannot tell the unit of its timestamps from its keys; say mooncake (milliseconds, blocks \
         of 512) or bailian (seconds, blocks of 16) instead of auto",
    ))
}
