//! Runs `*.raw`: exact bytes on one side or on both.
//!
//! - `<v>_client_part1.raw`, `<v>_client_part2_after_100.raw`: what the client writes, waiting for
//!   the interim answer in between; `<v>_client_write<k>.raw`: its writes, a pause apart.
//! - `<v>_upstream_interim.raw`, `upstream_final.raw`: what the upstream answers.
//! - `request.raw` and `response.raw`: one exchange.
//! - any other `<v>_<what>.raw` with a `request.json`: an answer that ends in the middle.

use crate::case::{Case, names_variant};
use crate::check::Seen;
use crate::proxied::{Recorder, Sides, WITHIN, seen};
use crate::run_stream::Mentions as _;
use crate::stream::{Request, request};
use crate::times::Anchor;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use truetape_testkit::client::Client;
use truetape_testkit::http1::{BodyReader, Head};
use truetape_testkit::upstream::{Action, Record, Script, Upstream};

/// Between the writes of a client that sends its request in pieces.
const PAUSE: Duration = Duration::from_millis(50);

/// One exchange in raw bytes.
#[derive(Clone, Debug)]
struct Exchange {
    name: String,
    writes: Vec<Vec<u8>>,
    /// The write that waits for the interim answer.
    after_interim: Option<usize>,
    interim: Option<Vec<u8>>,
    answer: Vec<u8>,
    then: Action,
}

/// Runs every exchange of the folder.
pub(crate) fn run(case: &Case) -> Result<Vec<Seen>, String> {
    Ok(exchanges(case)?
        .iter()
        .map(|exchange| one(case, exchange))
        .collect())
}

fn exchanges(case: &Case) -> Result<Vec<Exchange>, String> {
    let raw: Vec<&str> = case.files().filter(|file| file.ends_with(".raw")).collect();
    let common = |stem: &str| {
        raw.iter()
            .find(|file| **file == format!("{stem}.raw"))
            .copied()
    };
    if raw.iter().any(|file| file.contains("client_")) {
        let variants: BTreeSet<&str> = raw
            .iter()
            .filter_map(|file| {
                file.split_once("client_")
                    .map(|(v, _)| v.trim_end_matches('_'))
            })
            .collect();
        return variants
            .into_iter()
            .map(|variant| in_pieces(case, &raw, variant))
            .collect();
    }
    if let (Some(request), Some(response)) = (common("request"), common("response")) {
        return Ok(vec![Exchange {
            name: String::new(),
            writes: vec![case.bytes(request)?],
            after_interim: None,
            interim: None,
            answer: case.bytes(response)?,
            then: Action::End,
        }]);
    }
    let answers = raw.iter().filter(|file| !file.starts_with("request"));
    answers.map(|file| cut_answer(case, file)).collect()
}

fn in_pieces(case: &Case, raw: &[&str], variant: &str) -> Result<Exchange, String> {
    let prefix = if variant.is_empty() {
        String::new()
    } else {
        format!("{variant}_")
    };
    let mut writes: Vec<&str> = raw
        .iter()
        .copied()
        .filter(|file| file.starts_with(&format!("{prefix}client_")))
        .collect();
    writes.sort_unstable();
    let own = |what: &str| {
        let names = [
            format!("{prefix}upstream_{what}.raw"),
            format!("upstream_{what}.raw"),
        ];
        names.into_iter().find(|name| case.has(name))
    };
    let answer = own("final").ok_or("no upstream_final.raw")?;
    Ok(Exchange {
        name: variant.to_owned(),
        after_interim: writes.iter().position(|file| file.contains("after_100")),
        writes: writes
            .iter()
            .map(|file| case.bytes(file))
            .collect::<Result<_, _>>()?,
        interim: own("interim").map(|file| case.bytes(&file)).transpose()?,
        answer: case.bytes(&answer)?,
        then: Action::End,
    })
}

/// An answer that stops in the middle. A length that is not reached ends in a reset, chunks end in
/// a close, unless the case says otherwise in its name.
fn cut_answer(case: &Case, file: &str) -> Result<Exchange, String> {
    let stem = file.trim_end_matches(".raw");
    let labels: Vec<&str> = case.expect.keys().map(String::as_str).collect();
    let name = labels
        .into_iter()
        .find(|label| names_variant(label, stem, &[stem]));
    let answer = case.bytes(file)?;
    let (head, used) = Head::split(&answer).ok_or_else(|| format!("{file}: no head"))?;
    let mut body = BodyReader::new(head.response_framing("POST"));
    body.push(answer.get(used..).unwrap_or_default());
    let chunked = head.value("transfer-encoding").is_some();
    let reset = stem.contains("rst") || stem.contains("reset") || !chunked && !body.is_done();
    let then = match (body.is_whole_at_close(), reset) {
        (true, _) => Action::End,
        (false, true) => Action::Reset,
        (false, false) => Action::Close,
    };
    Ok(Exchange {
        name: name.unwrap_or(stem).to_owned(),
        writes: vec![request(case, "")?.wire()],
        after_interim: None,
        interim: None,
        answer,
        then,
    })
}

fn one(case: &Case, exchange: &Exchange) -> Seen {
    let anchor = Anchor::now();
    let (answer_bytes, then) = (exchange.answer.clone(), exchange.then.clone());
    let interim = exchange.interim.clone();
    let upstream = Upstream::start(move |_: &Record| Script {
        interim: interim.clone(),
        ..Script::raw(&answer_bytes, then.clone())
    });
    let recorder = Recorder::start(&case.id, &upstream);
    let mut client = Client::connect(recorder.addr);
    let mut faults = Vec::new();
    let started = Instant::now();
    for (index, bytes) in exchange.writes.iter().enumerate() {
        if exchange.after_interim == Some(index) {
            if client.await_interim(WITHIN).is_none() {
                faults.push("the client never got its interim answer".to_owned());
            }
        } else if index > 0 {
            std::thread::sleep(PAUSE);
        }
        client.write(bytes);
    }
    let sending = started.elapsed();
    let sent = parse_request(&exchange.writes.concat());
    let answer = client.read_answer(&sent.method, None);
    let record = upstream.await_finished(0, WITHIN);
    let recorded = recorder.stop();
    let sides = Sides {
        name: &exchange.name,
        by: "proxy",
        request_body: &sent.body,
        body: None,
        answer: &answer,
        record: &record,
        nominal_ms: &[0.0],
        anchor,
        tolerance_ms: case.tolerance_ms,
    };
    let mut seen = seen(&sides, &recorded);
    seen.faults.extend(faults);
    seen.put(
        "client_body_identical",
        answer.body == body_of(&exchange.answer, &sent.method),
    );
    if let Some(row) = recorded.rows.first() {
        let apart = row.arrival as f64 / 1000.0 - anchor.wall_ms(started);
        seen.put("arrival_after_first_write_ms", apart);
        // The arrival is that of the first byte: nearer to the first write than to the last,
        // where there are pauses in between.
        let sending_ms = sending.as_secs_f64() * 1e3;
        if exchange.writes.len() > 2 && apart.abs() > sending_ms / 2.0 {
            seen.faults.push(format!(
                "the row arrived {apart:.1} ms after the first byte"
            ));
        }
    }
    if case.expect.to_string_contains("capture") {
        seen.put("capture", recorded.text());
    }
    seen
}

fn body_of(answer: &[u8], method: &str) -> Vec<u8> {
    let Some((head, used)) = Head::split(answer) else {
        return Vec::new();
    };
    let mut body = BodyReader::new(head.response_framing(method));
    body.push(answer.get(used..).unwrap_or_default());
    body.body
}

fn parse_request(bytes: &[u8]) -> Request {
    let (head, used) = Head::split(bytes).unwrap_or_default();
    let mut body = BodyReader::new(head.request_framing());
    body.push(bytes.get(used..).unwrap_or_default());
    Request {
        method: head.method().to_owned(),
        path: head.start.split(' ').nth(1).unwrap_or_default().to_owned(),
        headers: head.headers,
        body: body.body,
    }
}
