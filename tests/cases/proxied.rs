//! An exchange through the real proxy, and what its capture says of it.

use crate::check::Seen;
use crate::compiled;
use crate::times::{Anchor, Lateness, Moments, tpot_tolerance};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use truetape_schemas::capture::{Exchange, LengthSource, Outcome, blob};
use truetape_schemas::wire::{BodyEnd, Dialect, ResponseFacts, ResponseReader, read_request};
use truetape_testkit::capture;
use truetape_testkit::client::{Answer, End};
use truetape_testkit::http1::Head;
use truetape_testkit::process::{Process, waited_for_cpu};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Record, Upstream};

/// The command under test.
pub(crate) const TRUETAPE: &str = env!("CARGO_BIN_EXE_truetape");

/// Longest wait for anything on loopback.
pub(crate) const WITHIN: Duration = Duration::from_secs(20);

/// What a proxy may hold, whatever a case sends through it.
const PEAK_BYTES_MAX: u64 = 128 << 20;

/// A running proxy with a capture of its own.
#[derive(Debug)]
pub(crate) struct Recorder {
    dir: TempDir,
    process: Process,
    /// What its threads had waited for a processor when it was up.
    waited: BTreeMap<OsString, Duration>,
    pub(crate) addr: SocketAddr,
}

/// A capture whose proxy has ended.
#[derive(Debug)]
pub(crate) struct Recorded {
    dir: TempDir,
    pub(crate) rows: Vec<Exchange>,
    pub(crate) log: String,
    /// How long one of its threads waited for a processor while it served, at most.
    pub(crate) waited_ms: f64,
    pub(crate) faults: Vec<String>,
}

impl Recorder {
    pub(crate) fn start(case: &str, upstream: &Upstream) -> Self {
        Self::before(case, &upstream.url())
    }

    /// Starts one in front of any upstream.
    pub(crate) fn before(case: &str, url: &str) -> Self {
        let dir = TempDir::new(case);
        let out = dir.join("capture");
        let process = Process::start(
            TRUETAPE.as_ref(),
            [
                "record".as_ref(),
                "--listen".as_ref(),
                "127.0.0.1:0".as_ref(),
                "--admin".as_ref(),
                "127.0.0.1:0".as_ref(),
                "--upstream".as_ref(),
                url.as_ref(),
                "--out".as_ref(),
                out.as_os_str(),
            ],
            &[],
        );
        let addr = process.listening().listen;
        let waited = waited_for_cpu(process.id());
        Self {
            dir,
            process,
            waited,
            addr,
        }
    }

    /// Ends the proxy, and reads what it sealed.
    pub(crate) fn stop(self) -> Recorded {
        let mut faults = Vec::new();
        let before = |thread| self.waited.get(thread).copied().unwrap_or_default();
        let waited = waited_for_cpu(self.process.id());
        let waited = waited
            .iter()
            .map(|(thread, waited)| waited.saturating_sub(before(thread)));
        let waited_ms = waited.max().unwrap_or_default().as_secs_f64() * 1e3;
        let peak = peak_bytes(self.process.id());
        if peak.is_some_and(|bytes| bytes > PEAK_BYTES_MAX) {
            faults.push(format!("the proxy took {peak:?} bytes of memory"));
        }
        let ended = self.process.stop();
        if ended.code != Some(0) {
            faults.push(format!(
                "the proxy ended with {:?}: {}",
                ended.code, ended.stderr
            ));
        }
        let rows = capture::rows(&self.dir.join("capture"));
        Recorded {
            rows,
            dir: self.dir,
            log: ended.stderr,
            waited_ms,
            faults,
        }
    }
}

impl Recorded {
    /// The capture's directory.
    pub(crate) fn capture(&self) -> PathBuf {
        self.dir.join("capture")
    }

    /// A scratch folder beside it.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Everything in the capture as text: rows as JSON with bodies, and files as they are.
    pub(crate) fn text(&self) -> String {
        let mut text: String = self
            .rows
            .iter()
            .map(|row| format!("{}\n", row_text(row)))
            .collect();
        for file in capture::files(&self.capture()) {
            text += &String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default());
        }
        text + &self.log
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        let size = |file: PathBuf| std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        capture::files(&self.capture()).into_iter().map(size).sum()
    }
}

/// What a process held at most so far, where the system says.
fn peak_bytes(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

fn row_text(row: &Exchange) -> String {
    let body = |body: &Option<Vec<u8>>| {
        String::from_utf8_lossy(body.as_deref().unwrap_or_default()).into_owned()
    };
    let row_json = serde_json::to_string(row).unwrap_or_default();
    format!(
        "{row_json}\n{}\n{}",
        body(&row.request_body),
        body(&row.response_body)
    )
}

/// What the recorded answer says when it is read again.
pub(crate) fn facts(row: &Exchange) -> ResponseFacts {
    let header = |name: &str| {
        let same = |h: &&truetape_schemas::capture::Header| h.name.eq_ignore_ascii_case(name);
        row.response_headers
            .iter()
            .find(same)
            .map(|h| h.value.clone())
    };
    let dialect = Dialect::from_name(&row.dialect);
    let status = row.status.and_then(|s| u16::try_from(s).ok()).unwrap_or(0);
    let content_type = header("content-type");
    let mut reader = ResponseReader::new(
        dialect,
        status,
        content_type.as_deref(),
        row.response_encoding.as_deref(),
    );
    let mut rest = row.response_body.as_deref().unwrap_or_default();
    let offsets = row.frame_offsets_us.iter().flatten();
    for (at_us, length) in offsets.zip(row.frame_bytes.iter().flatten()) {
        let length = usize::try_from(*length).unwrap_or(0).min(rest.len());
        let (frame, later) = rest.split_at(length);
        reader.push(*at_us, frame);
        rest = later;
    }
    reader.push(row.end_us.unwrap_or(0), rest);
    reader.finish(match row.outcome {
        Outcome::Complete | Outcome::Error => BodyEnd::Clean,
        Outcome::Truncated => BodyEnd::Cut,
        Outcome::ClientAborted => BodyEnd::ClientAborted,
        Outcome::Timeout => BodyEnd::Timeout,
        Outcome::ProxyShutdown => BodyEnd::ProxyShutdown,
    })
}

/// One exchange from all three sides.
#[derive(Debug)]
pub(crate) struct Sides<'a> {
    pub(crate) name: &'a str,
    /// How it was run.
    pub(crate) by: &'static str,
    /// The request's body, as the client had it.
    pub(crate) request_body: &'a [u8],
    /// The body that the upstream wrote; `None` when it wrote raw bytes.
    pub(crate) body: Option<&'a [u8]>,
    pub(crate) answer: &'a Answer,
    pub(crate) record: &'a Record,
    pub(crate) nominal_ms: &'a [f64],
    pub(crate) anchor: Anchor,
    pub(crate) tolerance_ms: f64,
}

/// What an exchange showed.
pub(crate) fn seen(sides: &Sides<'_>, recorded: &Recorded) -> Seen {
    let mut seen = Seen::new(sides.name, sides.by);
    seen.faults.extend(recorded.faults.iter().cloned());
    seen.waited_ms = recorded.waited_ms + sides.record.waited.as_secs_f64() * 1e3;
    wire_values(&mut seen, sides);
    seen.put("rows", recorded.rows.len());
    let Some(row) = recorded.rows.first() else {
        seen.faults.push(format!(
            "no row in the capture; the proxy said: {}",
            recorded.log
        ));
        return seen;
    };
    if recorded.rows.len() > 1 {
        seen.faults
            .push(format!("{} rows for one request", recorded.rows.len()));
    }
    row_values(&mut seen, row);
    let moments = moments(row);
    seen.faults.extend(moments.faults());
    let late = Lateness::of(sides.record, sides.nominal_ms, sides.anchor);
    for (key, value) in moments.values(&late) {
        seen.put(key, value);
    }
    let tpot = tpot_tolerance(sides.tolerance_ms, row.output_tokens);
    seen.tolerances.insert("tpot_ms".to_owned(), tpot);
    let sent = row
        .request_body
        .as_deref()
        .is_none_or(|body| is_body(row, body, sides.request_body));
    let identical = sent && sides.record.body == sides.request_body;
    seen.put("request_body_identical", identical);
    if row.outcome == Outcome::Complete && row.response_body.is_some() && row.degraded.is_none() {
        let kept = row.response_body.as_deref() == Some(sides.answer.body.as_slice());
        if !kept {
            seen.faults
                .push("the capture's body is not what the client got".to_owned());
        }
    }
    seen
}

/// Whether the capture has the body that was sent: as it was, or with images taken out of it.
fn is_body(row: &Exchange, kept: &[u8], sent: &[u8]) -> bool {
    match (&row.request_blobs, blob::take_out(sent)) {
        (None, _) => kept == sent,
        (Some(blobs), Some((skeleton, found))) => {
            let names = |blobs: &[blob::Blob]| -> Vec<_> {
                blobs.iter().map(|blob| blob.hash.clone()).collect()
            };
            kept == skeleton && names(blobs) == names(&found)
        }
        (Some(_), None) => false,
    }
}

fn wire_values(seen: &mut Seen, sides: &Sides<'_>) {
    let answer = sides.answer;
    if let Some(body) = sides.body {
        let whole = answer.body == body && answer.end == End::Clean;
        seen.put("client_body_identical", whole);
    }
    seen.put("client_status", answer.status());
    seen.put("client_sees_error", matches!(answer.end, End::Cut(_)));
    if answer.end == End::TimedOut {
        seen.faults.push("the client hung".to_owned());
    }
    if let Some(head) = &answer.head {
        put_headers(seen, "response_header_", head);
        seen.put("client_sees", header_map(head));
    }
    put_headers(seen, "request_header_", &sides.record.head);
    seen.put("upstream_sees", header_map(&sides.record.head));
    if answer.end == End::Aborted {
        let closed = sides.record.peer_closed_at;
        let after = closed.map(|at| at.saturating_duration_since(answer.ended_at));
        seen.put(
            "upstream_closed_ms",
            json!(after.map(|after| after.as_secs_f64() * 1000.0)),
        );
    }
}

fn put_headers(seen: &mut Seen, prefix: &str, head: &Head) {
    for (name, value) in &head.headers {
        let key = format!("{prefix}{}", name.to_ascii_lowercase().replace('-', "_"));
        seen.put(&key, value.clone());
    }
}

/// Values of each field, in order, by name without case.
pub(crate) fn header_map(head: &Head) -> Value {
    let mut map = Map::new();
    for (name, value) in &head.headers {
        let values = map
            .entry(name.to_ascii_lowercase())
            .or_insert_with(|| json!([]));
        if let Some(values) = values.as_array_mut() {
            values.push(json!(value));
        }
    }
    Value::Object(map)
}

/// Every column under its own name, and the words that cases use for some of them.
pub(crate) fn row_values(seen: &mut Seen, row: &Exchange) {
    let columns = serde_json::to_value(row).unwrap_or_default();
    for (column, value) in columns.as_object().into_iter().flatten() {
        if !column.ends_with("_body") {
            seen.put(column, value.clone());
        }
    }
    let facts = facts(row);
    let text = facts.texts.first().cloned().unwrap_or_default();
    seen.put("http_status", json!(row.status));
    seen.put("prompt_tokens", json!(row.input_tokens));
    seen.put("prompt_tokens_source", json!(row.input_tokens_source));
    seen.put("output_tokens_partial", json!(row.output_tokens));
    seen.put("request_body_bytes", json!(row.request_bytes));
    seen.put("response_body_bytes", json!(row.response_bytes));
    seen.put("data_events", json!(facts.data_events));
    seen.put(
        "replacement_chars",
        row_text(row).matches('\u{fffd}').count(),
    );
    seen.put("content_chars", text.chars().count());
    seen.put("content", text);
    seen.put("choices", json!(facts.texts));
    seen.put("reasoning_content", json!(facts.reasoning_texts.first()));
    let said = |reason: &String| {
        if reason.is_empty() {
            Value::Null
        } else {
            json!(reason)
        }
    };
    let reasons: Vec<Value> = row.finish_reasons.iter().flatten().map(said).collect();
    seen.put(
        "finish_reason",
        reasons.first().cloned().unwrap_or_default(),
    );
    seen.put("finish_reasons", reasons);
    seen.put("in_success_stats", row.outcome == Outcome::Complete);
    if row.dialect.starts_with("ollama_") && row.output_tokens_source == LengthSource::Exact {
        // The case names the server's counter, the column its kind.
        seen.put("output_tokens_source", "eval_count");
    }
    let body = row.request_body.as_deref().unwrap_or_default();
    let asked = read_request(Dialect::from_name(&row.dialect), body);
    seen.put("items", json!(asked.prompts));
    if let Some(code) = row
        .error_code
        .as_ref()
        .and_then(|code| code.parse::<i64>().ok())
    {
        seen.put("error_code", code);
    }
    if facts.outcome != row.outcome && row.degraded.is_none() {
        let (again, first) = (facts.outcome.name(), row.outcome.name());
        seen.faults.push(format!(
            "the recorded body reads {again} again, the row says {first}"
        ));
    }
}

/// The moments of a row.
pub(crate) fn moments(row: &Exchange) -> Moments {
    Moments {
        zero_wall_ms: row.arrival as f64 / 1000.0,
        sent_us: row.request_end_us.unwrap_or(0),
        first_byte_us: row.first_byte_us,
        first_token_us: row.first_token_us,
        first_output_us: row.first_output_us,
        last_token_us: row.last_token_us,
        end_us: row.end_us,
        events_us: row.token_event_offsets_us.clone().unwrap_or_default(),
        choices: row.token_event_choices.clone().unwrap_or_default(),
        output_tokens: row.output_tokens,
    }
}

/// What the compiler makes of the capture, for the keys that ask.
pub(crate) fn compiled_values(seen: &mut Seen, recorded: &Recorded) {
    let store = recorded.beside("store");
    match compiled::compile(&[recorded.capture()], &store, compiled::RECIPE_ALL) {
        Ok(set) => {
            let observed = set.turns.iter().any(|turn| turn.output_tokens.is_some());
            seen.put("counts_as_observed_length", observed);
            seen.put("counts_as_arrival", !set.turns.is_empty());
            seen.put("in_replay_set", !set.turns.is_empty());
            seen.put("inference_rows", set.turns.len());
        }
        Err(nothing) if nothing.stderr.contains("no inference traffic") => {
            seen.put("counts_as_observed_length", false);
            seen.put("counts_as_arrival", false);
            seen.put("in_replay_set", false);
            seen.put("inference_rows", 0);
        }
        Err(failed) => seen.faults.push(format!("compile: {}", failed.stderr)),
    }
}

/// Keys that only the compiler can answer.
pub(crate) const COMPILED_KEYS: &[&str] = &[
    "counts_as_observed_length",
    "counts_as_arrival",
    "in_replay_set",
    "inference_rows",
];
