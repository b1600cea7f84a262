//! `plan.json`: traffic through a recorder that is killed, restarted, and stopped.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use crate::compiled::truetape;
use crate::proxied::TRUETAPE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use truetape_schemas::capture::Exchange;
use truetape_schemas::file::Reader;
use truetape_testkit::capture;
use truetape_testkit::client::{Client, End, post_json};
use truetape_testkit::process::Process;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Script, Upstream};

/// Connections that the traffic is spread over.
const CONNECTIONS: u64 = 4;

/// How often another reader looks at the directory while it is written.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs the case.
pub(crate) fn run(case: &Case) -> Result<Vec<Seen>, Stop> {
    let plan = case.json("plan.json")?;
    let number = |key: &str, default: f64| plan.get(key).and_then(Value::as_f64).unwrap_or(default);
    let rate = number("rate_per_s", 100.0);
    let before = (rate * number("kill_at_s", 5.0)) as u64;
    let after = number("after_restart", 100.0) as u64;
    let rotate = format!("{}ms", (number("rotate_s", 2.0) * 1000.0) as u64);
    let dir = TempDir::new(&case.id);
    let out = dir.join("capture");
    let upstream = Upstream::start(|_| Script::json(200, &answer()));
    let mut seen = Seen::new("", "proxy");

    let first = start(&upstream, &out, &rotate);
    let looker = Looker::start(&out);
    let sent = traffic(first.listening().listen, 0, before, rate);
    first.kill();
    let sealed_at_kill = read(&out, &mut seen);
    seen.put("rows_before_kill", sealed_at_kill.len());

    let second = start(&upstream, &out, &rotate);
    let more = traffic(second.listening().listen, before, after, rate);
    let ended = second.stop();
    seen.faults.extend(looker.stop());
    if ended.code != Some(0) {
        seen.faults.push(format!(
            "the second proxy ended with {:?}: {}",
            ended.code, ended.stderr
        ));
    }
    let all = read(&out, &mut seen);
    let mut counted: BTreeMap<u64, u64> = BTreeMap::new();
    for row in &all {
        *counted.entry(mark(row).unwrap_or(u64::MAX)).or_default() += 1;
    }
    let kept = |from: u64, to: u64| counted.range(from..to).count() as u64;
    seen.put(
        "duplicates",
        counted.values().filter(|rows| **rows > 1).count(),
    );
    seen.put("rows_after_restart", kept(before, before + after));
    seen.put("rows_recovered", kept(0, before));
    let lost = sent.saturating_sub(kept(0, before));
    seen.put("rows_lost", lost);
    // The stated window is a second of traffic.
    if lost as f64 > rate {
        seen.faults
            .push(format!("{lost} rows lost, more than a second's worth"));
    }
    if sent != before || more != after {
        seen.faults.push(format!(
            "{sent} and {more} answers for {before} and {after} requests"
        ));
    }
    let args: [OsString; 2] = ["verify".into(), out.clone().into_os_string()];
    let verified = truetape(args);
    if verified.code != Some(0) {
        let said = format!("{}{}", verified.stdout, verified.stderr);
        seen.faults
            .push(format!("verify ended with {:?}: {said}", verified.code));
    }
    Ok(vec![seen])
}

fn answer() -> Value {
    let message = json!({"role": "assistant", "content": "ok"});
    json!({
        "id": "c",
        "object": "chat.completion",
        "model": "syn-model",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5},
    })
}

fn start(upstream: &Upstream, out: &Path, rotate: &str) -> Process {
    let url = upstream.url();
    let args: [OsString; 11] = [
        "record".into(),
        "--listen".into(),
        "127.0.0.1:0".into(),
        "--admin".into(),
        "127.0.0.1:0".into(),
        "--upstream".into(),
        url.into(),
        "--out".into(),
        out.as_os_str().to_owned(),
        "--rotate-every".into(),
        rotate.into(),
    ];
    Process::start(TRUETAPE.as_ref(), args, &[])
}

/// Sends marked requests at a rate, and counts the answers.
fn traffic(addr: SocketAddr, from: u64, count: u64, rate: f64) -> u64 {
    let zero = Instant::now();
    let answered = Mutex::new(0);
    std::thread::scope(|scope| {
        for lane in 0..CONNECTIONS {
            let answered = &answered;
            scope.spawn(move || {
                let mut client = Client::connect(addr);
                for at in (lane..count).step_by(CONNECTIONS as usize) {
                    let due = zero + Duration::from_secs_f64(at as f64 / rate);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let message = json!({"role": "user", "content": format!("mark {}", from + at)});
                    let body = json!({"model": "syn-model", "messages": [message]});
                    client.write(&post_json("/v1/chat/completions", &body));
                    let answer = client.read_answer("POST", None);
                    let whole = answer.status() == 200 && answer.end == End::Clean;
                    *answered.lock().unwrap() += u64::from(whole);
                }
            });
        }
    });
    answered.into_inner().unwrap()
}

fn mark(row: &Exchange) -> Option<u64> {
    let body: Value = serde_json::from_slice(row.request_body.as_deref()?).ok()?;
    let content = body.pointer("/messages/0/content")?.as_str()?;
    content.strip_prefix("mark ")?.parse().ok()
}

/// Every row of every file that a glob finds.
fn read(out: &Path, seen: &mut Seen) -> Vec<Exchange> {
    let mut rows = Vec::new();
    let mut readable = true;
    for path in capture::sealed(out) {
        match Reader::<Exchange>::open(&path).and_then(Reader::read_all) {
            Ok(more) => rows.extend(more),
            Err(cause) => {
                readable = false;
                seen.faults.push(cause.to_string());
            }
        }
    }
    let before = seen
        .values
        .get("all_parquet_readable")
        .is_none_or(|value| *value == true);
    seen.put("all_parquet_readable", readable && before);
    rows
}

/// A reader that globs the directory while it is written.
struct Looker {
    stopping: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<String>>,
}

impl Looker {
    fn start(out: &Path) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let (stop, out) = (Arc::clone(&stopping), out.to_owned());
        let thread = std::thread::spawn(move || {
            let mut faults = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                for path in capture::sealed(&out) {
                    if let Err(cause) = Reader::<Exchange>::open(&path) {
                        faults.push(format!("while it was written: {cause}"));
                    }
                }
                std::thread::sleep(LOOK_EVERY);
            }
            faults
        });
        Self { stopping, thread }
    }

    fn stop(self) -> Vec<String> {
        self.stopping.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_| vec!["the reader panicked".to_owned()])
    }
}
