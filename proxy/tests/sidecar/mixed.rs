//! A client of one version of HTTP before an upstream of the other.

use crate::stream::{Scene, connect, head, post, send, soon, whole};
use crate::support::{CHAT, SOON, Sidecar, act, counter, write};
use h2::Reason;
use std::time::Duration;
use tokio::task::JoinSet;
use truetape_schemas::capture::Outcome;
use truetape_testkit::client::{Client, End};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Action, Framing, Script, Upstream};

const TO_HTTP1: [&str; 2] = ["--upstream-protocol", "http1"];
const TO_HTTP2: [&str; 2] = ["--upstream-protocol", "http2"];

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_becomes_a_request_and_its_answer_a_stream() {
    let answers: [&[u8]; 4] = [
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\
          Set-Cookie: b=2\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
          2\r\n{}\r\n0\r\nX-Sum: 9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    ];
    let next = counter();
    let upstream = Upstream::start(move |_| {
        let index = next();
        let then = if index == 3 {
            Action::Close
        } else {
            Action::End
        };
        Script::raw(answers[index], then)
    });
    let out = TempDir::new("down");
    let sidecar = Sidecar::start(&upstream.url(), &out.join("captures"), &TO_HTTP1);
    let mut tasks = JoinSet::new();
    let client = connect(sidecar.listen, &h2::client::Builder::new(), &mut tasks).await;
    let fields = [
        ("x-tag", "one"),
        ("cookie", "a=1"),
        ("te", "trailers"),
        ("cookie", "b=2"),
    ];
    let mut seen = Vec::new();
    for index in 0..answers.len() {
        let mut ready = soon("the client", client.clone().ready()).await.unwrap();
        let (answer, mut up) = ready.send_request(post(&fields), false).unwrap();
        send(&mut up, "{\"model\":", false).await;
        send(&mut up, "\"syn\"}", true).await;
        let answer = soon("the answer", answer).await.unwrap();
        let (parts, body) = answer.into_parts();
        assert!(!parts.headers.contains_key("transfer-encoding"), "{index}");
        assert!(!parts.headers.contains_key("connection"), "{index}");
        seen.push((parts, whole(body).await));
    }
    let record = upstream.await_finished(0, SOON);
    assert_eq!(record.head.start, format!("POST {CHAT} HTTP/1.1"));
    assert_eq!(
        record.head.headers[0],
        ("host".to_owned(), "api.test".to_owned())
    );
    assert_eq!(record.head.values("cookie"), ["a=1; b=2"]);
    assert_eq!(record.head.values("transfer-encoding"), ["chunked"]);
    assert_eq!(record.body, b"{\"model\":\"syn\"}");
    let (first, body) = &seen[0];
    let cookies: Vec<_> = first.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
    assert!(!first.headers.contains_key("x-hop"));
    assert_eq!(first.headers["content-length"], "2");
    assert_eq!(
        (body.bytes.as_slice(), body.error.is_none()),
        (&b"{}"[..], true)
    );
    assert_eq!(seen[1].0.status, 204);
    let trailers = seen[2].1.trailers.as_ref().unwrap();
    assert_eq!(trailers["x-sum"], "9");
    // What HTTP/1 ends with its connection, a stream ends with a reset, after what came.
    assert_eq!(seen[3].1.bytes, b"{}");
    let error = seen[3].1.error.as_ref().unwrap();
    assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
    // One after the other, they went over one link.
    assert_eq!(sidecar.metric("truetape_upstream_connects_total"), 1);
    tasks.shutdown().await;
    let (rows, _) = finish(sidecar, out).await;
    assert_eq!(
        rows.iter()
            .filter(|row| row.outcome == Outcome::Truncated)
            .count(),
        1
    );
    assert_eq!(
        rows[0].request_body.as_deref(),
        Some(&b"{\"model\":\"syn\"}"[..])
    );
}

async fn finish(
    sidecar: Sidecar,
    out: TempDir,
) -> (
    Vec<truetape_schemas::capture::Exchange>,
    truetape_schemas::ledger::Ledger,
) {
    let ended = tokio::task::spawn_blocking(move || {
        sidecar.stop();
        crate::support::captured(&out.join("captures"))
    });
    ended.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_at_once_have_a_link_each_and_a_reset_closes_one() {
    let upstream = Upstream::start(|_| Script {
        framing: Framing::Chunked,
        steps: vec![write(0, "1"), act(0, Action::Hold(SOON))],
        ..Script::raw(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            Action::End,
        )
    });
    let out = TempDir::new("links");
    let sidecar = Sidecar::start(&upstream.url(), &out.join("captures"), &TO_HTTP1);
    let mut tasks = JoinSet::new();
    let client = connect(sidecar.listen, &h2::client::Builder::new(), &mut tasks).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut ready = soon("the client", client.clone().ready()).await.unwrap();
        let (answer, up) = ready.send_request(post(&[]), true).unwrap();
        let answer = soon("the answer", answer).await.unwrap();
        streams.push((answer, up));
    }
    let records = upstream.records();
    assert_eq!(
        records.iter().map(|r| r.connection).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    streams[1].1.send_reset(Reason::CANCEL);
    upstream.await_records("the cancellation", SOON, |records| {
        let gone: Vec<bool> = records.iter().map(|r| r.peer_closed_at.is_some()).collect();
        (gone == [false, true, false]).then_some(())
    });
    tasks.shutdown().await;
    drop((streams, client));
    upstream.await_records("the end", SOON, |records| {
        records
            .iter()
            .all(|r| r.peer_closed_at.is_some())
            .then_some(())
    });
    finish(sidecar, out).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_becomes_a_stream_and_its_answer_a_response() {
    let mut scene = Scene::new("up", &TO_HTTP2).await;
    let listen = scene.sidecar.listen;
    let asking = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(listen);
        let mut answers = Vec::new();
        for _ in 0..3 {
            client.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: api.test:81\r\nConnection: X-Hop\r\n\
                  X-Hop: 1\r\nTE: trailers\r\nCookie: a=1; b=2\r\nTransfer-Encoding: chunked\r\n\r\n\
                  2\r\n{}\r\n0\r\n\r\n",
            );
            answers.push(client.read_answer("POST", Some(std::time::Instant::now() + SOON)));
        }
        answers
    });
    for index in 0..3 {
        let (request, mut respond) = scene.taken().await;
        assert_eq!(request.uri(), "http://api.test:81/v1/chat/completions");
        let names: Vec<&str> = request
            .headers()
            .keys()
            .map(http::HeaderName::as_str)
            .collect();
        assert_eq!(names, ["te", "cookie"]);
        assert_eq!(whole(request.into_body()).await.bytes, b"{}");
        let mut down = head(&mut respond, 200);
        send(&mut down, "data: 1\n\n", false).await;
        if index < 2 {
            send(&mut down, "data: 2\n\n", true).await;
        } else {
            // After the bytes are written: h2 drops them when it resets.
            tokio::time::sleep(Duration::from_millis(50)).await;
            down.send_reset(Reason::CANCEL);
        }
    }
    let answers = asking.await.unwrap();
    for answer in &answers[..2] {
        assert_eq!(
            (answer.status(), answer.text().as_str()),
            (200, "data: 1\n\ndata: 2\n\n")
        );
        assert_eq!(answer.end, End::Clean);
    }
    assert_eq!(answers[2].text(), "data: 1\n\n");
    assert!(
        matches!(answers[2].end, End::Cut(_)),
        "{:?}",
        answers[2].end
    );
    assert_eq!(scene.sidecar.metric("truetape_upstream_connects_total"), 1);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_resets_its_stream() {
    let mut scene = Scene::new("up-cancel", &TO_HTTP2).await;
    let mut client = Client::connect(scene.sidecar.listen);
    client.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}");
    let (_, mut respond) = scene.taken().await;
    let _down = head(&mut respond, 200);
    let mut upstream = scene.connections.recv().await.unwrap();
    drop(client);
    // Its connection to the upstream is its own, and ends with it.
    soon("the connection's end", upstream.join_next()).await;
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_cannot_be_reached_is_said_on_each_stream() {
    let out = TempDir::new("h2-nobody");
    let sidecar = Sidecar::start("http://127.0.0.1:9", &out.join("captures"), &[]);
    let mut tasks = JoinSet::new();
    let client = connect(sidecar.listen, &h2::client::Builder::new(), &mut tasks).await;
    for _ in 0..2 {
        let mut ready = soon("the client", client.clone().ready()).await.unwrap();
        let (answer, _) = ready.send_request(post(&[]), true).unwrap();
        let answer = soon("the answer", answer).await.unwrap();
        assert_eq!(answer.status(), 502);
        assert_eq!(answer.headers()["x-truetape-error"], "upstream connect");
    }
    tasks.shutdown().await;
    let (rows, _) = finish(sidecar, out).await;
    assert_eq!(rows.len(), 2);
}
