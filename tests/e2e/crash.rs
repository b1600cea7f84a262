//! P3: a recorder that is killed loses a stated window, and its account says so.

use crate::support::{Recorder, WITHIN, truetape};
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use truetape_schemas::ledger::Ledger;
use truetape_testkit::capture;
use truetape_testkit::client::{exchange, post_json};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Action, Script, Step, Upstream};

fn request(mark: usize) -> Vec<u8> {
    let message = json!({"role": "user", "content": format!("mark {mark}")});
    post_json(
        "/v1/chat/completions",
        &json!({"model": "m", "messages": [message]}),
    )
}

/// Waits until the recorder itself says that it has recorded so many.
fn await_recorded(admin: SocketAddr, count: u64) {
    let deadline = Instant::now() + WITHIN;
    loop {
        let page = exchange(admin, &get("/metrics"), None).text();
        let recorded = page
            .lines()
            .filter_map(|line| line.strip_prefix("truetape_records_recorded_total "))
            .find_map(|value| value.parse::<f64>().ok());
        if recorded.is_some_and(|recorded| recorded >= count as f64) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{recorded:?} of {count} recorded:\n{page}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn get(path: &str) -> Vec<u8> {
    truetape_testkit::client::request("GET", path, &[], b"")
}

#[test]
fn what_was_sealed_opens_and_what_was_spooled_is_recovered() {
    let dir = TempDir::new("crash");
    let captured = dir.join("capture");
    let answer = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"},
        "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}});
    let upstream = Upstream::start(move |record| {
        if String::from_utf8_lossy(&record.body).contains("mark 999") {
            let open = Step {
                at: Duration::ZERO,
                action: Action::Write(b"data: {}\n\n".to_vec()),
            };
            let hold = Step {
                at: Duration::ZERO,
                action: Action::Hold(WITHIN),
            };
            return Script::events(vec![open, hold]);
        }
        Script::json(200, &answer)
    });
    let more = ["--rotate-rows", "40", "--fsync-every", "50ms"];
    let first = Recorder::start(&upstream.url(), &captured, &more);
    for mark in 0..100 {
        assert_eq!(
            exchange(first.at.listen, &request(mark), None).status(),
            200
        );
    }
    // One stream is in the middle when the process dies.
    let addr = first.at.listen;
    let cut = std::thread::spawn(move || exchange(addr, &request(999), None));
    upstream.await_records("the open stream", WITHIN, |records| {
        records
            .get(100)
            .filter(|record| !record.done_at.is_empty())
            .map(|_| ())
    });
    capture::await_rows(&captured, 80, WITHIN);
    await_recorded(first.admin(), 100);
    first.process.kill();
    drop(cut.join().unwrap());
    let sealed = capture::rows(&captured);
    assert!(
        sealed.len() >= 80,
        "two segments of 40 rows were sealed, {} rows read",
        sealed.len()
    );

    let second = Recorder::start(&upstream.url(), &captured, &more);
    for mark in 100..110 {
        assert_eq!(
            exchange(second.at.listen, &request(mark), None).status(),
            200
        );
    }
    second.process.stop().expect_code(0);

    let rows = capture::rows(&captured);
    let mut marks: Vec<String> = rows
        .iter()
        .filter_map(|row| String::from_utf8(row.request_body.clone()?).ok())
        .collect();
    let all = marks.len();
    marks.sort();
    marks.dedup();
    assert_eq!(marks.len(), all, "a row was written twice");
    let kept = |mark: usize| {
        marks
            .iter()
            .any(|body| body.contains(&format!("mark {mark}\"")))
    };
    let lost: Vec<usize> = (0..110).filter(|mark| !kept(*mark)).collect();
    assert_eq!(
        lost, [0; 0],
        "rows that the recorder counted as recorded are gone"
    );
    let mut total = Ledger::default();
    for footer in capture::footers(&captured) {
        let ledger = footer.ledger.expect("every segment has a ledger");
        assert!(ledger.balances(), "{ledger:?}");
        total.merge(&ledger);
    }
    assert_eq!(total.rows(), rows.len() as u64);
    assert_eq!(total.offered, 111, "{total:?}");
    assert_eq!(
        total.dropped.get("killed"),
        Some(&1),
        "the stream that was cut: {total:?}"
    );
    let args: [&std::ffi::OsStr; 2] = ["verify".as_ref(), captured.as_os_str()];
    truetape(&args).expect_code(0);
}
