//! SIGTERM lets streams end, then seals; a deadline that passes is said by the exit code. A run
//! that is interrupted is a run: it says what it did not send.

use crate::server::{self, Target};
use crate::support::{Recorder, TRUETAPE, WITHIN, compile, engine, truetape};
use std::ffi::OsStr;
use std::time::Duration;
use truetape_schemas::capture::Outcome;
use truetape_schemas::run;
use truetape_testkit::capture;
use truetape_testkit::client::{End, exchange, post_json, request};
use truetape_testkit::process::Process;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Action, Script, Step, Upstream};

/// A stream that goes on for so long.
fn stream(length: Duration) -> Script {
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n";
    let last = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let write = |at, text: &str| Step {
        at,
        action: Action::Write(text.as_bytes().to_vec()),
    };
    Script::events(vec![
        write(Duration::ZERO, event),
        write(length, last),
        Step {
            at: length,
            action: Action::End,
        },
    ])
}

fn ask() -> Vec<u8> {
    post_json(
        "/v1/chat/completions",
        &serde_json::json!({"model": "m", "stream": true, "messages": []}),
    )
}

#[test]
fn a_stream_that_is_open_ends_as_it_would_have() {
    let dir = TempDir::new("drain");
    let captured = dir.join("capture");
    let upstream = Upstream::start(|_| stream(Duration::from_millis(800)));
    let recorder = Recorder::start(&upstream.url(), &captured, &[]);
    let (addr, admin) = (recorder.at.listen, recorder.admin());
    let client = std::thread::spawn(move || exchange(addr, &ask(), None));
    upstream.await_records("the stream", WITHIN, |records| {
        records
            .first()
            .filter(|record| !record.done_at.is_empty())
            .map(|_| ())
    });
    recorder.process.terminate();
    recorder.process.event("draining");
    let ready = exchange(admin, &request("GET", "/readyz", &[], b""), None);
    assert_eq!(ready.status(), 503, "a proxy that drains is not ready");
    let live = exchange(admin, &request("GET", "/livez", &[], b""), None);
    assert_eq!(live.status(), 200, "a proxy that drains is alive");
    let answer = client.join().unwrap();
    assert_eq!(answer.end, End::Clean);
    assert!(answer.text().ends_with("[DONE]\n\n"));
    recorder.process.wait(WITHIN).expect_code(0);
    let rows = capture::rows(&captured);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].outcome, Outcome::Complete);
}

#[test]
fn a_deadline_that_passes_is_said_and_what_it_cut_is_recorded() {
    let dir = TempDir::new("deadline");
    let captured = dir.join("capture");
    let upstream = Upstream::start(|_| stream(WITHIN));
    let more = ["--drain-timeout", "300ms"];
    let recorder = Recorder::start(&upstream.url(), &captured, &more);
    let addr = recorder.at.listen;
    let client = std::thread::spawn(move || exchange(addr, &ask(), None));
    upstream.await_records("the stream", WITHIN, |records| {
        records
            .first()
            .filter(|record| !record.done_at.is_empty())
            .map(|_| ())
    });
    recorder.process.terminate();
    recorder.process.wait(WITHIN).expect_code(75);
    let answer = client.join().unwrap();
    assert!(
        matches!(answer.end, End::Cut(_)),
        "a cut must look like one: {:?}",
        answer.end
    );
    let rows = capture::rows(&captured);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].outcome, Outcome::ProxyShutdown);
    let footers = capture::footers(&captured);
    assert!(
        footers
            .iter()
            .all(|footer| footer.ledger.as_ref().is_some_and(|l| l.balances()))
    );
}

/// Two requests now, and two when nobody waits any more.
const TRACE: &str = r#"{"timestamp":0,"input_length":40,"output_length":2,"hash_ids":[1]}
{"timestamp":0,"input_length":40,"output_length":2,"hash_ids":[2]}
{"timestamp":3600000,"input_length":40,"output_length":2,"hash_ids":[3]}
{"timestamp":3600000,"input_length":40,"output_length":2,"hash_ids":[4]}
"#;

#[test]
fn a_run_that_is_interrupted_says_so_and_is_whole() {
    let dir = TempDir::new("interrupted");
    let (trace, imported, out) = (
        dir.join("trace.jsonl"),
        dir.join("capture"),
        dir.join("run"),
    );
    std::fs::write(&trace, TRACE).unwrap();
    let import: [&OsStr; 5] = [
        "import".as_ref(),
        "mooncake".as_ref(),
        trace.as_os_str(),
        "--out".as_ref(),
        imported.as_os_str(),
    ];
    truetape(&import).expect_code(0);
    let set = compile(&dir, &imported, "long", "synthetic");
    let target = server::start(Target::default());
    let url = target.url();
    let replay: [&OsStr; 7] = [
        "replay".as_ref(),
        set.dir.as_os_str(),
        "--target".as_ref(),
        url.as_ref(),
        "--out".as_ref(),
        out.as_os_str(),
        "--no-probe".as_ref(),
    ];
    let process = Process::start(TRUETAPE.as_ref(), replay, &[]);
    target.await_records("both requests of now", WITHIN, |records| {
        let sent = records.iter().filter(|record| {
            record.head.start.contains("completions") && !record.done_at.is_empty()
        });
        (sent.count() >= 2).then_some(())
    });
    process.interrupt();
    process.wait(WITHIN).expect_code(75);

    let run = run::open(&out).unwrap();
    assert_eq!(run.validity, "stopped");
    assert!(!run.validity_reasons.is_empty(), "stopped by whom?");
    let account = &run.account;
    assert!(account.balances(), "{account:?}");
    assert_eq!((account.due, account.sent), (4, 2), "{account:?}");
    let dispatches = run::dispatches(&out).unwrap();
    let unsent = dispatches.iter().filter(|d| d.sent_us.is_none());
    let reasons: Vec<_> = unsent.map(|d| d.not_sent_reason.is_some()).collect();
    assert_eq!(reasons, [true, true]);
    let verify: [&OsStr; 2] = ["verify".as_ref(), out.as_os_str()];
    let said = truetape(&verify).expect_code(0).stdout;
    assert!(said.contains("is whole"), "{said}");
}

#[test]
fn an_engine_that_is_asked_to_end_ends_well_though_a_client_stays() {
    let (engine, addr) = engine(&[]);
    let stays = std::net::TcpStream::connect(addr).unwrap();
    let models = exchange(addr, &request("GET", "/v1/models", &[], b""), None);
    assert_eq!(models.status(), 200);
    engine.terminate();
    engine.wait(WITHIN).expect_code(0);
    drop(stays);
}
