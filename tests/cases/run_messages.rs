//! Runs `*.gor`: HTTP messages in the order of a file, as a capture in the order of time.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use crate::compiled::import;
use serde_json::Value;
use truetape_schemas::capture::Exchange;
use truetape_testkit::capture;
use truetape_testkit::tempdir::TempDir;

/// Imports a file of messages.
pub(crate) fn run(case: &Case, stem: &str, file: &str) -> Result<Seen, Stop> {
    let dir = TempDir::new(&format!("{}-{stem}", case.id));
    let out = dir.join("capture");
    let ended = import("auto", &[case.dir.join(file)], &out, &[]);
    if ended.code != Some(0) {
        let (code, stderr) = (ended.code, ended.stderr);
        return Err(Stop(format!("import ended with {code:?}: {stderr}")));
    }
    let mut rows = capture::rows(&out);
    rows.sort_by_key(|row| row.arrival_mono_us);
    let first = rows.first().map_or(0, |row| row.arrival_mono_us);
    let offset_ms = |row: &Exchange| (row.arrival_mono_us - first) as f64 / 1e3;
    let mut seen = Seen::new(stem, "import");
    seen.put("requests", rows.len());
    seen.put("rows", rows.len());
    seen.put("order", rows.iter().map(said).collect::<Vec<Value>>());
    seen.put(
        "offsets_ms",
        rows.iter().map(offset_ms).collect::<Vec<f64>>(),
    );
    seen.put("duration_ms", rows.last().map_or(0.0, offset_ms));
    let answered: Vec<&Exchange> = rows.iter().filter(|row| row.status.is_some()).collect();
    if answered
        .iter()
        .any(|row| row.response_body.as_deref() != Some(b"{}"))
    {
        seen.faults
            .push("an answer is not the one that was recorded".to_owned());
    }
    Ok(seen)
}

/// What the user says in a request.
fn said(row: &Exchange) -> Value {
    let body = row.request_body.as_deref().unwrap_or_default();
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["messages"][0]["content"].clone()
}
