//! Public traces with known sessions, imported as a user would, and their labels apart.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use truetape_compiler::import::format::TraceFormat;
use truetape_compiler::import::{ImportOptions, import};
use truetape_fidelity::tokens;
use truetape_schemas::capture::Exchange;
use truetape_schemas::file::{Reader, Writer};

/// A trace.
pub(crate) struct Source {
    /// Its folder of files, one a session.
    pub(crate) path: &'static str,
    name: &'static str,
    format: TraceFormat,
}

/// The traces that are measured.
pub(crate) const SOURCES: [Source; 3] = [
    Source {
        path: "traces/lmcache/miniswe",
        name: "miniswe",
        format: TraceFormat::Lmcache,
    },
    Source {
        path: "traces/lmcache/taubench",
        name: "taubench",
        format: TraceFormat::Lmcache,
    },
    Source {
        path: "traces/exgentic",
        name: "exgentic",
        format: TraceFormat::Litellm,
    },
];

/// When sessions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    /// As they did.
    AsTraced,
    /// All at once, a few milliseconds apart.
    AtOnce,
}

impl Source {
    /// Its name in the table.
    pub(crate) fn name_at(&self, timing: Timing) -> String {
        match timing {
            Timing::AsTraced => self.name.to_owned(),
            Timing::AtOnce => format!("{}, all at once", self.name),
        }
    }
}

/// Time between two sessions that begin at once: none of them keeps its place in a queue.
const STAGGER_US: i64 = 7_000;

/// Requests in the order of their arrival, with the session of each.
pub(crate) struct Labelled {
    /// The requests, without anything that names their session.
    pub(crate) rows: Vec<Exchange>,
    /// The file of each.
    pub(crate) labels: Vec<usize>,
    /// The prompt of each, as a server reads it.
    pub(crate) prompts: Vec<Vec<u8>>,
}

/// Imports a trace; none where it is not at hand.
pub(crate) fn load(source: &Source, timing: Timing) -> Option<Labelled> {
    let dir = truetape_testkit::shared::path(source.path)?;
    let mut files = Vec::new();
    collect(&dir, &mut files);
    files.sort();
    let mut all: Vec<(Exchange, usize)> = Vec::new();
    for (label, file) in files.iter().enumerate() {
        let mut rows = imported(source.format, file);
        let first = rows.iter().map(|row| row.arrival).min().unwrap_or(0);
        for (number, row) in rows.iter_mut().enumerate() {
            row.exchange_id = format!("{label:04}-{number:06}");
            row.session_key = None;
            row.session_rule = None;
            row.conn_seq = 0;
            if timing == Timing::AtOnce {
                let begin = i64::try_from(label).unwrap_or(0) * STAGGER_US;
                row.arrival = row.arrival - first + begin;
            }
            row.arrival_mono_us = row.arrival;
        }
        all.extend(rows.into_iter().map(|row| (row, label)));
    }
    all.sort_by(|(a, _), (b, _)| (a.arrival, &a.exchange_id).cmp(&(b.arrival, &b.exchange_id)));
    let (rows, labels): (Vec<Exchange>, Vec<usize>) = all.into_iter().unzip();
    let prompts = rows.iter().map(prompt).collect();
    Some(Labelled {
        rows,
        labels,
        prompts,
    })
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("the folder is read") {
        let path = entry.expect("the folder is read").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            files.push(path);
        }
    }
}

fn imported(format: TraceFormat, file: &Path) -> Vec<Exchange> {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let options = ImportOptions {
        format,
        files: vec![file.to_owned()],
        out: scratch.path().join("capture"),
        block_tokens: None,
        start_us: 0,
        strict: true,
    };
    let imported = import(&options).expect("the trace is imported");
    let read = |path: &PathBuf| {
        let reader = Reader::<Exchange>::open(path).expect("the segment opens");
        reader.read_all().expect("the segment is read")
    };
    imported.segments.iter().flat_map(read).collect()
}

/// The prompt as the reference engine renders it.
fn prompt(row: &Exchange) -> Vec<u8> {
    let body = row.request_body.as_deref().unwrap_or_default();
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    match body.get("prompt").and_then(serde_json::Value::as_str) {
        Some(text) => text.as_bytes().to_vec(),
        None => tokens::render_chat(&body),
    }
}

/// Writes the requests as a capture.
pub(crate) fn write(labelled: &Labelled, dir: &Path) {
    std::fs::create_dir_all(dir).expect("the folder is made");
    let path = dir.join("0.parquet");
    let mut writer = Writer::<Exchange>::create(&path).expect("the segment is made");
    for rows in labelled.rows.chunks(256) {
        writer.write(rows).expect("the segment is written");
    }
    writer.finish(&[]).expect("the segment is sealed");
}

/// The row of each exchange.
pub(crate) fn index(labelled: &Labelled) -> HashMap<&str, usize> {
    let rows = labelled.rows.iter().enumerate();
    rows.map(|(at, row)| (row.exchange_id.as_str(), at))
        .collect()
}
