//! What breaks on one side is seen on the other as it was, and recorded as what it was.

use crate::support::{
    Meter, SOON, Sidecar, Stage, act, args, captured, chat, event, stream, write,
};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use truetape_schemas::capture::{Outcome, ParseStatus};
use truetape_testkit::client::{Client, End};
use truetape_testkit::process::Process;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Action, Framing, Script, Upstream};

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn an_upstream_that_dies_is_seen_to_die_after_every_byte_it_sent() {
    let partial = event("cut");
    let head = format!("{:x}\r\n", partial.len());
    let cases: [(&str, Vec<u8>, Action, usize); 3] = [
        // Inside a chunk, between chunks, and short of its length.
        (
            "inside",
            [head.as_bytes(), &partial[..40]].concat(),
            Action::Close,
            40,
        ),
        (
            "between",
            [head.as_bytes(), &partial, b"\r\n"].concat(),
            Action::Close,
            partial.len(),
        ),
        (
            "reset",
            [head.as_bytes(), &partial, b"\r\n"].concat(),
            Action::Reset,
            partial.len(),
        ),
    ];
    for (label, body, end, came) in cases {
        let head = CHUNKED.as_bytes().to_vec();
        // A reset destroys what the receiver has not read yet.
        let wait = if matches!(end, Action::Reset) { 100 } else { 0 };
        let stage = Stage::new(label, move |_| Script {
            framing: Framing::Plain,
            steps: vec![write(0, body.clone()), act(wait, end.clone())],
            ..Script::raw(&head, Action::End)
        });
        let answer = stage.send(&chat());
        assert_eq!(answer.status(), 200, "{label}");
        assert!(
            matches!(answer.end, End::Cut(_)),
            "{label}: {:?}",
            answer.end
        );
        assert_eq!(answer.body.len(), came, "{label}");
        let (rows, _) = stage.finish();
        assert_eq!(rows[0].outcome, Outcome::Truncated, "{label}");
        assert_eq!(rows[0].response_bytes, Some(came as i64), "{label}");
    }
}

#[test]
fn a_body_short_of_its_length_is_seen_to_be_short() {
    let stage = Stage::new("short", |_| {
        Script::raw(
            b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"id\":",
            Action::Close,
        )
    });
    let answer = stage.send(&chat());
    assert!(matches!(answer.end, End::Cut(_)), "{:?}", answer.end);
    assert_eq!(answer.text(), "{\"id\":");
    let (rows, _) = stage.finish();
    assert_eq!(
        (rows[0].outcome, rows[0].response_bytes),
        (Outcome::Truncated, Some(6))
    );
}

#[test]
fn an_upstream_that_gives_no_answer_closes_the_connection_as_it_would_have() {
    let stage = Stage::new("silent", |_| Script::raw(b"", Action::Close));
    let answer = stage.send(&chat());
    assert_eq!(
        (answer.status(), &answer.end),
        (0, &End::Cut("closed".to_owned()))
    );
    let (rows, _) = stage.finish();
    assert_eq!(
        (rows[0].outcome, rows[0].status),
        (Outcome::Truncated, None)
    );
}

#[test]
fn an_upstream_that_cannot_be_reached_is_the_one_answer_of_our_own() {
    let out = TempDir::new("unreachable");
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let sidecar = Sidecar::start(&format!("http://{nobody}"), &out.join("captures"), &[]);
    let mut client = Client::connect(sidecar.listen);
    for _ in 0..2 {
        client.write(&chat());
        let answer = client.read_answer("POST", None);
        assert_eq!((answer.status(), &answer.end), (502, &End::Clean));
        assert_eq!(
            answer.head.unwrap().value("x-truetape-error"),
            Some("upstream connect")
        );
    }
    // One that asks for the end of its connection gets it from us too.
    for ask in [
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
    ] {
        let mut client = TcpStream::connect(sidecar.listen).unwrap();
        client.set_read_timeout(Some(SOON)).unwrap();
        client.write_all(ask.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    }
    assert_eq!(sidecar.page("/readyz").0, 200);
    sidecar.stop();
    let (rows, _) = captured(&out.join("captures"));
    assert_eq!(
        (rows.len(), rows[0].outcome, rows[0].status),
        (2, Outcome::Error, Some(502))
    );
    assert_eq!(
        rows[0].error_code.as_deref(),
        Some("truetape_upstream_connect")
    );
    // What could not be served is traffic too.
    for row in &rows {
        assert_eq!(
            (row.model.as_deref(), row.stream),
            (Some("syn"), Some(true))
        );
        assert!(row.request_bytes.unwrap() > 0 && row.request_body.is_some());
        assert_eq!(row.parse_status, ParseStatus::Ok);
        assert!(row.request_end_us.is_some());
    }
}

/// In each phase: how long the client waits before it goes, what it sent, and what has come.
#[test]
fn a_client_that_goes_away_frees_the_upstream_in_every_phase() {
    let stray = [chat(), b"\r\n".to_vec()].concat();
    let unfinished =
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n{";
    // (the request, when the answer begins, when the client goes, least token events seen)
    let cases: [(&str, Vec<u8>, u64, u64, usize); 5] = [
        ("wait", chat(), 5_000, 150, 0),
        ("wait-stray", stray.clone(), 5_000, 150, 0),
        ("decode", chat(), 100, 250, 1),
        ("decode-stray", stray, 100, 250, 1),
        ("upload", unfinished.to_vec(), 0, 150, 0),
    ];
    let meter = Meter::start();
    for (label, request, gap_ms, leave_ms, events) in cases {
        let stage = Stage::new(label, move |_| stream(50, gap_ms));
        let mut client = Client::connect(stage.sidecar.listen);
        client.write(&request);
        let left = Instant::now() + Duration::from_millis(leave_ms);
        let answer = client.read_answer("POST", Some(left));
        drop(client);
        let gone = Instant::now();
        assert_eq!(answer.end, End::Aborted, "{label}");
        if label != "upload" {
            let closed_at = stage
                .upstream
                .await_records("the close", SOON, |records| records.first()?.peer_closed_at);
            let took = closed_at.saturating_duration_since(gone);
            let bound = meter.widen(Duration::from_millis(100));
            assert!(took < bound, "{label}: {took:?}");
        }
        let (rows, _) = stage.finish();
        assert_eq!(rows.len(), 1, "{label}");
        assert_eq!(rows[0].outcome, Outcome::ClientAborted, "{label}");
        let seen = rows[0].token_event_offsets_us.as_ref().map_or(0, Vec::len);
        assert!(
            (events..=events + 2).contains(&seen),
            "{label}: {seen} token events"
        );
    }
}

#[test]
fn a_client_that_goes_away_while_it_uploads_frees_the_upstream() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let out = TempDir::new("upload");
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sidecar = Sidecar::start(&url, &out.join("captures"), &[]);
    let mut client = Client::connect(sidecar.listen);
    client.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n{");
    let (mut upstream, _) = listener.accept().unwrap();
    upstream.set_read_timeout(Some(SOON)).unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"{") {
        let mut byte = [0];
        upstream.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    let meter = Meter::start();
    let gone = Instant::now();
    drop(client);
    let closed = upstream.read(&mut [0]);
    let took = gone.elapsed();
    assert!(matches!(closed, Ok(0) | Err(_)));
    assert!(took < meter.widen(Duration::from_millis(100)), "{took:?}");
    sidecar.stop();
}

/// Long enough that no socket buffer holds it.
const LARGE_BYTES: usize = 200 << 20;

#[test]
fn a_slow_reader_holds_the_upstream_back_and_not_our_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let out = TempDir::new("slow");
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sidecar = Sidecar::start(&url, &out.join("captures"), &[]);
    let mut client = TcpStream::connect(sidecar.listen).unwrap();
    client.write_all(&chat()).unwrap();
    let upstream = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE_BYTES}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let piece = vec![b'x'; 1 << 20];
        let mut blocked = Duration::ZERO;
        for _ in 0..LARGE_BYTES / piece.len() {
            let started = Instant::now();
            stream.write_all(&piece).unwrap();
            blocked = blocked.max(started.elapsed());
        }
        blocked
    });
    let mut buffer = vec![0; 1 << 20];
    let mut read = 0;
    let mut most = 0;
    // Slow for its first half second, then as fast as it can.
    for round in 0.. {
        let n = client
            .read(&mut buffer[..if round < 50 { 1024 } else { 1 << 20 }])
            .unwrap();
        if n == 0 || read + n >= LARGE_BYTES {
            read += n;
            break;
        }
        read += n;
        if round < 50 {
            std::thread::sleep(Duration::from_millis(10));
        }
        if round % 64 == 0 {
            most = most.max(sidecar.resident_bytes());
        }
    }
    assert!(read >= LARGE_BYTES, "{read}");
    let blocked = upstream.join().unwrap();
    assert!(
        blocked > Duration::from_millis(200),
        "the upstream was not held back: {blocked:?}"
    );
    assert!(most < 128 << 20, "{most} bytes resident");
    drop(client);
    sidecar.stop();
    let (rows, ledger) = captured(&out.join("captures"));
    assert_eq!(rows[0].degraded.as_deref(), Some(&["body".to_owned()][..]));
    assert_eq!(rows[0].response_bytes, Some(LARGE_BYTES as i64));
    assert_eq!((rows[0].outcome, ledger.degraded), (Outcome::Complete, 1));
    assert!(
        rows[0].client_stall_us.unwrap() > 200_000,
        "{:?}",
        rows[0].client_stall_us
    );
}

/// Without privileges: no file of the process may grow beyond this, which fails a write like a full
/// disk does.
#[test]
fn a_full_disk_costs_records_and_never_a_request() {
    let upstream = Upstream::start(|_| stream(3, 1));
    let out = TempDir::new("full");
    let program = crate::support::PROXY;
    let arguments = args(&upstream.url(), &out.join("captures"), &[]);
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    let shell = ["-c", script, program].map(str::to_owned);
    let sidecar = Sidecar::of(Process::start(
        Path::new("/bin/bash"),
        shell.into_iter().chain(arguments),
        &[],
    ));
    let mut client = Client::connect(sidecar.listen);
    for _ in 0..40 {
        client.write(&chat());
        let answer = client.read_answer("POST", None);
        assert_eq!((answer.status(), answer.end), (200, End::Clean));
    }
    assert_eq!(sidecar.page("/readyz").0, 200);
    let dropped = "truetape_records_dropped_total{reason=\"disk\"}";
    let deadline = Instant::now() + SOON;
    while !sidecar.page("/metrics").1.contains(dropped) {
        assert!(Instant::now() < deadline, "no loss was counted");
        std::thread::sleep(Duration::from_millis(10));
    }
    sidecar
        .process
        .event("disk refuses the capture; traffic goes on");
    let status: serde_json::Value = serde_json::from_str(&sidecar.page("/capture").1).unwrap();
    assert_eq!(status["state"], "paused_disk");
    // A segment needs more room than there is: it stays a spool, and a later start seals it.
    sidecar.process.stop().expect_code(74);
    let again = Sidecar::start(&upstream.url(), &out.join("captures"), &[]);
    again.stop();
    let (rows, ledger) = captured(&out.join("captures"));
    assert!(!rows.is_empty() && rows.len() < 40, "{} rows", rows.len());
    assert!(ledger.balances());
}
