//! SIGTERM lets streams end, then seals; a deadline that passes is said by the exit code.

use crate::support::{Recorder, WITHIN};
use std::time::Duration;
use truetape_schemas::capture::Outcome;
use truetape_testkit::capture;
use truetape_testkit::client::{End, exchange, post_json, request};
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
