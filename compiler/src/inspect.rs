//! The verb `inspect`: what a file or directory of ours is.

use crate::cli::InspectArgs;
use crate::error::Error;
use crate::source::{self, Footers, Subject, subject};
use crate::talk::{self, OutputFormat};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use truetape_schemas::blame::Answer;
use truetape_schemas::column::{Column, render};
use truetape_schemas::time::format_utc;
use truetape_schemas::{capture, run, set};

/// Says what a path is, as JSON.
pub fn of(reference: &str, in_store: Option<&Path>) -> Result<Value, Error> {
    match subject(reference, in_store)? {
        Subject::Capture(segments) => of_capture(&segments),
        Subject::Set(dir) => of_set(&dir),
        Subject::Run(dir) => of_run(&dir),
    }
}

fn of_capture(segments: &[PathBuf]) -> Result<Value, Error> {
    let mut footers = Footers::default();
    let mut files = Vec::new();
    let mut rows = 0;
    let (mut first, mut last) = (None, None);
    for segment in segments {
        let (reader, footer) = source::open(segment)?;
        footers.add(&footer);
        rows += reader.row_count();
        // Arrow's own copy of the schema says nothing that the columns do not.
        let own = |key: &String| key.as_str() != "ARROW:schema";
        let keys: Map<String, Value> = reader
            .footer()
            .iter()
            .filter(|(key, _)| own(key))
            .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
            .collect();
        files.push(json!({
            "file": segment.file_name().unwrap_or_default().to_string_lossy(),
            "rows": reader.row_count(),
            "footer": keys,
        }));
        for batch in reader {
            for exchange in batch? {
                first = Some(first.map_or(exchange.arrival, |at: i64| at.min(exchange.arrival)));
                last = last.max(Some(exchange.arrival));
            }
        }
    }
    Ok(json!({
        "kind": "capture",
        "format": capture::FORMAT.to_string(),
        "rows": rows,
        "first_arrival": first.map(format_utc),
        "last_arrival": last.map(format_utc),
        "ledger": footers.ledger,
        "notes": footers.findings(),
        "segments": files,
        "columns": columns(capture::v1::COLUMNS),
    }))
}

fn of_set(dir: &Path) -> Result<Value, Error> {
    let manifest = set::store::manifest(dir)?;
    Ok(json!({
        "kind": "set",
        "format": manifest.format,
        "name": manifest.name,
        "digest": manifest.digest,
        "counts": manifest.counts,
        "recipe": manifest.recipe,
        "sources": manifest.sources,
        "stages": manifest.stages,
        "tokenizer": manifest.tokenizer,
        "block_tokens": manifest.block_tokens,
        "semantics": manifest.semantics,
        "notes": manifest.findings,
        "columns": columns(set::v1::TURN_COLUMNS),
    }))
}

fn of_run(dir: &Path) -> Result<Value, Error> {
    let run = run::open(dir)?;
    Ok(json!({
        "kind": "run",
        "format": run.format,
        "run_id": run.run_id,
        "set": format!("{}@sha256:{}", run.set_name, run.set_digest),
        "target": run.target,
        "zero": run.zero,
        "duration_us": run.duration_us,
        "validity": run.validity,
        "validity_reasons": run.validity_reasons,
        "account": run.account,
        "notes": run.findings,
        "columns": columns(run::v1::COLUMNS),
    }))
}

fn columns(columns: &[Column]) -> Vec<Value> {
    let column = |column: &Column| {
        json!({
            "name": column.name,
            "type": column.kind.name(),
            "null": column.nullable,
            "meaning": column.doc,
        })
    };
    columns.iter().map(column).collect()
}

/// Carries out `truetape inspect`.
pub fn run(args: InspectArgs) -> Result<Answer, Error> {
    let value = of(&args.path, args.store.as_deref())?;
    match args.format {
        OutputFormat::Json => talk::json(&value)?,
        OutputFormat::Text => talk::data(&text(&value))?,
    }
    Ok(Answer::Yes)
}

/// The same for people: one fact a line, the columns as a table at the end.
fn text(value: &Value) -> String {
    let mut text = String::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("columns", _) | (_, Value::Null) => {}
            (_, Value::Array(items)) => {
                for item in items {
                    text.push_str(&format!("{key}: {}\n", plain(item)));
                }
            }
            _ => text.push_str(&format!("{key}: {}\n", plain(value))),
        }
    }
    let columns = match value.get("kind").and_then(Value::as_str) {
        Some("capture") => capture::v1::COLUMNS,
        Some("set") => set::v1::TURN_COLUMNS,
        _ => run::v1::COLUMNS,
    };
    format!("{text}\n{}", render(columns))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => flat(fields),
        other => other.to_string(),
    }
}

fn flat(fields: &Map<String, Value>) -> String {
    let said = |value: &Value| match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let known = fields.iter().filter(|(_, value)| said(value));
    let items: Vec<String> = known
        .map(|(key, value)| format!("{key} {}", plain(value)))
        .collect();
    items.join(", ")
}
