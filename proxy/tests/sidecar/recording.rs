//! What is recorded of the traffic.

use crate::support::{CHAT, SOON, Stage, chat, counter, event, get, holders, ok, stream, write};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};
use truetape_schemas::capture::{LengthSource, Outcome};
use truetape_testkit::client::{Client, End, request};
use truetape_testkit::upstream::{Action, Script};

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn a_streamed_exchange_is_a_row_with_its_times() {
    let stage = Stage::new("row", |_| stream(4, 50));
    let asked = Instant::now();
    let answer = stage.send(&chat());
    let (came, _) = answer
        .arrivals
        .iter()
        .find(|(_, length)| *length > 0)
        .unwrap();
    let seen_us = i64::try_from((*came - asked).as_micros()).unwrap();
    let (rows, ledger) = stage.finish();
    assert_eq!((rows.len(), ledger.recorded, ledger.offered), (1, 1, 1));
    let row = &rows[0];
    assert_eq!((row.method.as_str(), row.path.as_str()), ("POST", CHAT));
    assert_eq!(
        (row.dialect.as_str(), row.stream),
        ("openai_chat", Some(true))
    );
    assert_eq!((row.outcome, row.status), (Outcome::Complete, Some(200)));
    assert_eq!(row.response_body.as_deref(), Some(answer.body.as_slice()));
    let events = row.token_event_offsets_us.as_ref().unwrap();
    assert_eq!(events.len(), 4);
    assert!(events.windows(2).all(|pair| pair[0] < pair[1]));
    let first_token_us = row.first_token_us.unwrap();
    let ttft_us = first_token_us - row.request_end_us.unwrap();
    // The upstream waited so long after it had read the request; the client saw it no earlier.
    assert!(
        (50_000..=seen_us).contains(&ttft_us),
        "{ttft_us}, seen after {seen_us}"
    );
    assert_eq!(
        (row.output_tokens, row.output_tokens_source),
        (None, LengthSource::Absent)
    );
    assert_eq!(
        row.frame_offsets_us.as_ref().map(Vec::len),
        row.frame_bytes.as_ref().map(Vec::len)
    );
    assert_eq!((row.conn_id, row.conn_seq, row.inflight), (0, 0, Some(0)));
    assert!(row.end_us >= row.last_token_us);
}

#[test]
fn bodies_are_kept_byte_for_byte_whatever_they_are() {
    let sent = b"{ \"model\" : \"syn\\u002dmodel\",\"temperature\":0.10,\n\"stream_options\":{\"include_usage\":false}}";
    let stage = Stage::new("bytes", |_| {
        Script::raw(
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\xff\x00{}",
            Action::End,
        )
    });
    let answer = stage.send(&request("POST", "/v1/other", &[], sent));
    assert_eq!(answer.body, b"\xff\x00{}");
    assert_eq!(stage.upstream.await_finished(0, SOON).body, sent);
    let (rows, _) = stage.finish();
    assert_eq!(rows[0].request_body.as_deref(), Some(&sent[..]));
    assert_eq!(rows[0].response_body.as_deref(), Some(&b"\xff\x00{}"[..]));
    assert_eq!(
        (rows[0].dialect.as_str(), rows[0].output_tokens),
        ("unknown", None)
    );
}

#[test]
fn no_secret_is_in_any_file_or_log() {
    let stage = Stage::new("secrets", |record| {
        let sent = record
            .head
            .value("authorization")
            .unwrap_or_default()
            .to_owned();
        let error =
            serde_json::json!({"error": {"message": format!("bad key: {sent}"), "code": sent}});
        Script::json(401, &error)
    });
    let secrets = [
        "CANARY-bearer-1",
        "CANARY-apikey-2",
        "CANARY-cookie-3",
        "CANARY-query-4",
    ];
    let headers = [
        header("Authorization", "Bearer CANARY-bearer-1"),
        header("X-Api-Key", "CANARY-apikey-2"),
        header("Cookie", "a=CANARY-cookie-3"),
        header("X-Session-Id", "kept-5"),
    ];
    let path = format!("{CHAT}?api_key=CANARY-query-4&v=kept-6");
    let answer = stage.send(&request("POST", &path, &headers, b"{\"model\":\"m\"}"));
    assert!(
        answer.text().contains("CANARY-bearer-1"),
        "the client sees what was sent"
    );
    stage.sidecar.page("/metrics");
    let log = stage.sidecar.process.log();
    let out = stage.out.path().to_owned();
    let Stage {
        sidecar,
        upstream: _upstream,
        out: _out,
    } = stage;
    let ended = sidecar.stop();
    for secret in secrets {
        assert_eq!(
            holders(&out, secret),
            [] as [std::path::PathBuf; 0],
            "{secret}"
        );
        assert!(
            !log.contains(secret) && !ended.stderr.contains(secret),
            "{secret}"
        );
    }
    let (rows, _) = crate::support::captured(&out.join("captures"));
    assert_eq!(rows[0].path, format!("{CHAT}?api_key=scrubbed&v=kept-6"));
    assert_eq!(rows[0].session_key.as_deref(), Some("kept-5"));
    for file in truetape_testkit::capture::files(&out) {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} can be read by others", file.display());
    }
}

#[test]
fn prompts_leave_in_a_capture_only() {
    let stage = Stage::with("prompts", &["--content", "none"], ok);
    let answer = stage.send(&request(
        "POST",
        CHAT,
        &[],
        b"{\"messages\":[{\"role\":\"user\",\"content\":\"CANARY-prompt\"}],\"model\":",
    ));
    assert_eq!(answer.status(), 200);
    let pages = ["/metrics", "/capture", "/version"].map(|path| stage.sidecar.page(path).1);
    assert!(pages.iter().all(|page| !page.contains("CANARY")));
    let out = stage.out.path().to_owned();
    let Stage {
        sidecar,
        upstream: _upstream,
        out: _out,
    } = stage;
    let ended = sidecar.stop();
    assert!(!ended.stderr.contains("CANARY") && !ended.stdout.contains("CANARY"));
    assert_eq!(
        holders(&out, "CANARY-prompt"),
        [] as [std::path::PathBuf; 0]
    );
    let (rows, _) = crate::support::captured(&out.join("captures"));
    assert_eq!(
        (rows[0].request_body.as_ref(), rows[0].degraded.as_ref()),
        (None, None)
    );
    assert!(rows[0].request_bytes.unwrap() > 0);
}

#[test]
fn probes_are_counted_and_replayed_traffic_is_marked() {
    let stage = Stage::with("kinds", &["--session-header", "X-My-Session"], ok);
    assert_eq!(stage.send(&get("/health")).status(), 200);
    assert_eq!(stage.send(&get("/v1/models")).status(), 200);
    let headers = [
        header("x-truetape-run", "run-7"),
        header("x-my-session", "s-8"),
    ];
    assert_eq!(
        stage.send(&request("POST", CHAT, &headers, b"{}")).status(),
        200
    );
    let (rows, ledger) = stage.finish();
    assert_eq!(
        (
            ledger.offered,
            ledger.recorded,
            ledger.excluded["not_inference"]
        ),
        (3, 1, 2)
    );
    assert_eq!(rows[0].replay_run.as_deref(), Some("run-7"));
    assert_eq!(rows[0].session_key.as_deref(), Some("s-8"));
}

#[test]
fn exchanges_in_flight_are_counted_at_arrival() {
    let stage = Stage::new("inflight", |_| stream(1, 1_000));
    let mut clients: Vec<Client> = (0..3)
        .map(|_| Client::connect(stage.sidecar.listen))
        .collect();
    for (index, client) in clients.iter_mut().enumerate() {
        client.write(&chat());
        stage
            .upstream
            .await_records("the request", SOON, |r| (r.len() > index).then_some(()));
    }
    for client in &mut clients {
        assert_eq!(client.read_answer("POST", None).end, End::Clean);
    }
    let (rows, _) = stage.finish();
    let inflight: Vec<_> = rows.iter().map(|row| row.inflight).collect();
    assert_eq!(inflight, [Some(0), Some(1), Some(2)]);
    assert!(
        rows.windows(2)
            .all(|pair| pair[0].arrival_mono_us <= pair[1].arrival_mono_us)
    );
}

#[test]
fn without_memory_traffic_goes_on_and_degrades_in_the_record() {
    let large = event(&"x".repeat(400_000));
    let next = counter();
    let stage = Stage::with("budget", &["--memory-budget", "1MiB"], move |_| {
        let mut steps: Vec<_> = (0..8).map(|i| write(i, large.clone())).collect();
        steps.push(crate::support::act(8, Action::End));
        let script = Script::events(steps);
        next();
        script
    });
    let answer = stage.send(&chat());
    assert_eq!(answer.end, End::Clean);
    assert!(answer.body.len() > 3_200_000);
    let (rows, ledger) = stage.finish();
    assert_eq!((ledger.degraded, ledger.offered), (1, 1));
    assert_eq!(rows[0].degraded.as_deref(), Some(&["body".to_owned()][..]));
    assert_eq!(rows[0].response_bytes, Some(answer.body.len() as i64));
    assert!(rows[0].first_byte_us.is_some() && rows[0].frame_offsets_us.is_some());
}

#[test]
fn segments_rotate_and_open_while_traffic_goes_on() {
    let more = ["--rotate-every", "200ms", "--fsync-every", "10ms"];
    let stage = Stage::with("rotate", &more, ok);
    for _ in 0..3 {
        assert_eq!(stage.send(&chat()).status(), 200);
        let directory = stage.out.join("captures");
        let before = truetape_testkit::capture::sealed(&directory).len();
        let sealed = || truetape_testkit::capture::sealed(&directory).len() > before;
        let deadline = Instant::now() + SOON;
        while !sealed() {
            assert!(Instant::now() < deadline, "no segment was sealed");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let (rows, ledger) = stage.finish();
    assert_eq!((rows.len(), ledger.offered), (3, 3));
}
