//! Runs `chunks*.jsonl` and plain JSON answers through the proxy.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use crate::proxied::{COMPILED_KEYS, Recorder, Sides, WITHIN, compiled_values, seen};
use crate::stream::{Request, Variant, own, request, variants};
use crate::times::Anchor;
use serde_json::Value;
use truetape_schemas::capture::Exchange;
use truetape_schemas::capture::blob::Blob;
use truetape_testkit::client::{Answer, exchange};
use truetape_testkit::timed2::{Upstream2, exchange2};
use truetape_testkit::upstream::{Record, Script, Upstream};

/// Runs every variant, through each part the case is about.
pub(crate) fn run(case: &Case) -> Result<Vec<Seen>, Stop> {
    if let Some(what) = not_understood(case)? {
        return Err(Stop(format!("the driver does not know {what}")));
    }
    let variants = variants(case)?;
    let mut all = Vec::new();
    for variant in &variants {
        if case.is_about("proxy") {
            all.extend(through_proxy(case, variant));
        }
        if case.is_about("replay") {
            all.push(crate::replayed::by_client(case, variant)?);
        }
    }
    if case.is_about("replay") {
        all.push(crate::replayed::pooled(&all));
    }
    Ok(all)
}

/// Words of the files that a stream is described by.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "chunks",
        &[
            "t_ms", "utf8", "hex", "gen", "char", "len", "action", "ms", "note",
        ],
    ),
    (
        "upstream",
        &["status", "reason", "framing", "headers", "note"],
    ),
    ("client", &["abort_after_ms", "how", "note"]),
    ("request", &["method", "path", "headers", "body", "note"]),
];

/// A word that would be passed over in silence.
fn not_understood(case: &Case) -> Result<Option<String>, String> {
    for (stem, known) in KNOWN {
        let jsonl = case.named(stem, ".jsonl");
        for (_, file) in jsonl.iter().chain(&case.named(stem, ".json")) {
            let lines = if file.ends_with("l") {
                case.lines(file)?
            } else {
                vec![case.json(file)?]
            };
            let words = lines
                .iter()
                .filter_map(Value::as_object)
                .flat_map(|map| map.keys());
            if let Some(word) = words
                .into_iter()
                .find(|word| !known.contains(&word.as_str()))
            {
                return Ok(Some(format!("`{word}` in {file}")));
            }
        }
    }
    Ok(None)
}

/// Runs requests with ready answers: `request*.json` and `response*.json`.
pub(crate) fn run_json(case: &Case) -> Result<Vec<Seen>, String> {
    let mut all = Vec::new();
    for (name, file) in case.named("request", ".json") {
        if file.ends_with(".gen.json") {
            continue;
        }
        let Some(answer) = own(case, "response", &name, ".json").or_else(|| sibling(case)) else {
            return Err(format!("{file}: no answer to give"));
        };
        all.extend(through_proxy(
            case,
            &ready(&name, request(case, &name)?, &case.json(&answer)?),
        ));
    }
    for (name, file) in case.named("request", ".gen.json") {
        let request = generated(&case.json(&file)?)?;
        let answer = own(case, "response", &name, ".json").ok_or("no response file")?;
        all.extend(through_proxy(
            case,
            &ready(&name, request, &case.json(&answer)?),
        ));
    }
    Ok(all)
}

/// Any answer of the folder: a variant without one is about its request.
fn sibling(case: &Case) -> Option<String> {
    case.named("response", ".json")
        .into_iter()
        .map(|(_, file)| file)
        .next()
}

fn ready(name: &str, request: Request, answer: &Value) -> Variant {
    Variant {
        name: name.to_owned(),
        request,
        script: Script::json(200, answer),
        nominal_ms: vec![0.0],
        body: answer.to_string().into_bytes(),
        abort_after: None,
    }
}

fn generated(plan: &Value) -> Result<Request, String> {
    let bytes = plan.pointer("/BASE64/random_bytes").and_then(Value::as_u64);
    let seed = plan
        .pointer("/BASE64/seed")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    let template = plan
        .get("body_template")
        .ok_or("a generator without body_template")?;
    let text = base64(seed, usize::try_from(bytes.unwrap_or(0)).unwrap_or(0));
    let body = template.to_string().replace("<BASE64>", &text);
    let text = |key: &str, default: &str| {
        plan.get(key)
            .and_then(Value::as_str)
            .unwrap_or(default)
            .to_owned()
    };
    Ok(Request {
        method: text("method", "POST"),
        path: text("path", "/v1/chat/completions"),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.into_bytes(),
    })
}

/// As many base64 characters as so many random bytes have.
fn base64(seed: u64, bytes: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut numbers = truetape_testkit::trace::Numbers::new(seed);
    let mut text = String::with_capacity(bytes.div_ceil(3) * 4);
    while text.len() < bytes.div_ceil(3) * 4 {
        let digit = DIGITS
            .get((numbers.next_u64() % 64) as usize)
            .copied()
            .unwrap_or(b'A');
        text.push(char::from(digit));
    }
    text
}

/// Over one protocol after the other: two at once would make the machine late.
fn through_proxy(case: &Case, variant: &Variant) -> [Seen; 2] {
    [over_http1(case, variant), over_http2(case, variant)]
}

fn over_http1(case: &Case, variant: &Variant) -> Seen {
    let anchor = Anchor::now();
    let script = variant.script.clone();
    let upstream = Upstream::start(move |_| script.clone());
    let recorder = Recorder::start(&case.id, &upstream);
    let answer = exchange(recorder.addr, &variant.request.wire(), variant.abort_after);
    let record = upstream.await_finished(0, WITHIN);
    told(
        case,
        variant,
        ("proxy", anchor),
        (&answer, &record),
        recorder,
    )
}

fn over_http2(case: &Case, variant: &Variant) -> Seen {
    let anchor = Anchor::now();
    let upstream = Upstream2::start(variant.script.clone());
    let recorder = Recorder::before(&case.id, &upstream.url());
    let Request {
        method,
        path,
        headers,
        body,
    } = &variant.request;
    let answer = exchange2(
        recorder.addr,
        method,
        path,
        headers,
        body,
        variant.abort_after,
    );
    let record = upstream.await_finished(WITHIN);
    let by = "proxy, http2";
    told(case, variant, (by, anchor), (&answer, &record), recorder)
}

/// What an exchange showed, once its proxy has ended.
fn told(
    case: &Case,
    variant: &Variant,
    (by, anchor): (&'static str, Anchor),
    (answer, record): (&Answer, &Record),
    recorder: Recorder,
) -> Seen {
    let recorded = recorder.stop();
    let sides = Sides {
        name: &variant.name,
        by,
        request_body: &variant.request.body,
        body: Some(&variant.body),
        answer,
        record,
        nominal_ms: &variant.nominal_ms,
        anchor,
        tolerance_ms: case.tolerance_ms,
    };
    let mut seen = seen(&sides, &recorded);
    let text = |key: &str| case.expect.to_string_contains(key);
    if COMPILED_KEYS.iter().any(|key| text(key)) {
        compiled_values(&mut seen, &recorded);
    }
    if text("capture") {
        seen.put("capture", recorded.text());
        let grown = recorded.bytes().saturating_sub(variant.body.len() as u64);
        seen.put("capture_growth_bytes", grown);
    }
    let row = recorded.rows.first();
    if let Some(row) = row {
        put_images(&mut seen, row);
    }
    seen
}

/// What the captured request holds besides text; nothing where the capture kept no body.
fn put_images(seen: &mut Seen, row: &Exchange) {
    let Some(captured) = row.request_body.as_deref() else {
        return;
    };
    let body = String::from_utf8_lossy(captured);
    let blobs = row.request_blobs.iter().flatten();
    let chars = blobs.map(Blob::base64_bytes);
    seen.put("image_parts", body.matches("\"image_url\":{").count());
    seen.put("image_base64_chars", chars.sum::<u64>());
}

/// Whether a key appears anywhere below `expect`.
pub(crate) trait Mentions {
    fn to_string_contains(&self, key: &str) -> bool;
}

impl Mentions for serde_json::Map<String, Value> {
    fn to_string_contains(&self, key: &str) -> bool {
        self.iter().any(|(name, value)| {
            name.contains(key)
                || value
                    .as_object()
                    .is_some_and(|map| map.to_string_contains(key))
        })
    }
}
