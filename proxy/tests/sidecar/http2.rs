//! HTTP/2 on both sides: what both see is what they would see without the proxy (P1).

use crate::stream::{Ends, Scene, head, post, send, soon, whole};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Version};
use std::time::Duration;
use tokio::net::TcpStream;
use truetape_schemas::capture::Outcome;

fn names(headers: &HeaderMap) -> Vec<String> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", text(value)))
        .collect()
}

fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_passes_as_it_was_with_its_frames_and_trailers() {
    let mut scene = Scene::new("h2", &[]).await;
    let fields = [
        ("x-tag", "one"),
        ("cookie", "a=1"),
        ("x-tag", "two"),
        ("cookie", "b=2"),
        ("te", "trailers"),
    ];
    let (answer, mut upload) = scene.open(post(&fields), false).await;
    let (request, mut respond) = scene.taken().await;
    assert_eq!(request.version(), Version::HTTP_2);
    assert_eq!(request.uri(), "http://api.test/v1/chat/completions");
    assert_eq!(
        names(request.headers()),
        [
            "x-tag: one",
            "x-tag: two",
            "cookie: a=1",
            "cookie: b=2",
            "te: trailers"
        ]
    );
    send(&mut upload, "{\"model\":", false).await;
    send(&mut upload, "\"syn\"}", false).await;
    upload.send_trailers(map(&[("x-sum", "9")])).unwrap();
    let sent = whole(request.into_body()).await;
    assert_eq!(sent.bytes, b"{\"model\":\"syn\"}");
    assert_eq!(names(&sent.trailers.unwrap()), ["x-sum: 9"]);
    let response = Response::builder()
        .status(202)
        .header("x-request-id", "7")
        .header("set-cookie", "a=1")
        .header("set-cookie", "b=2")
        .body(())
        .unwrap();
    let mut down = respond.send_response(response, false).unwrap();
    send(&mut down, "{\"ok\": ", false).await;
    let mut answer = soon("the answer", answer).await.unwrap();
    assert_eq!(answer.status(), 202);
    assert_eq!(
        names(answer.headers()),
        ["x-request-id: 7", "set-cookie: a=1", "set-cookie: b=2"]
    );
    // The first event is here before the second is sent.
    let first = soon("an event", answer.body_mut().data())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(first, "{\"ok\": ");
    send(&mut down, "true }", false).await;
    down.send_trailers(map(&[("grpc-status", "0")])).unwrap();
    let rest = whole(answer.into_body()).await;
    assert_eq!(
        (rest.bytes.as_slice(), rest.frames.as_slice()),
        (&b"true }"[..], &[6][..])
    );
    assert_eq!(names(&rest.trailers.unwrap()), ["grpc-status: 0"]);
    assert!(rest.error.is_none());
    let (rows, ledger) = scene.finish().await;
    assert_eq!((rows.len(), ledger.offered), (1, 1));
    assert_eq!(
        (rows[0].status, rows[0].outcome),
        (Some(202), Outcome::Complete)
    );
    assert_eq!(
        rows[0].request_body.as_deref(),
        Some(&b"{\"model\":\"syn\"}"[..])
    );
    assert_eq!(
        rows[0].response_body.as_deref(),
        Some(&b"{\"ok\": true }"[..])
    );
    assert_eq!(rows[0].path, "/v1/chat/completions");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_client_share_one_connection_to_the_upstream() {
    let mut scene = Scene::new("h2-shared", &[]).await;
    let mut open = Vec::new();
    for _ in 0..50 {
        open.push(scene.open(post(&[]), true).await);
    }
    let mut taken = Vec::new();
    for _ in 0..50 {
        taken.push(scene.taken().await);
    }
    for (_, respond) in &mut taken {
        let mut down = head(respond, 200);
        send(&mut down, "{}", true).await;
    }
    for (answer, _) in open {
        let answer = soon("an answer", answer).await.unwrap();
        assert_eq!(whole(answer.into_body()).await.bytes, b"{}");
    }
    assert_eq!(scene.sidecar.metric("truetape_upstream_connects_total"), 1);
    let (rows, _) = scene.finish().await;
    let mut sequence: Vec<i32> = rows.iter().map(|row| row.conn_seq).collect();
    sequence.sort_unstable();
    assert_eq!(sequence, (0..50).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ping_between_two_streams_is_not_the_arrival_of_the_second() {
    const IDLE: Duration = Duration::from_millis(300);
    let mut scene = Scene::new("h2-idle", &[]).await;
    let stream = TcpStream::connect(scene.sidecar.listen).await.unwrap();
    let (client, mut connection) = h2::client::handshake(stream).await.unwrap();
    let mut pings = connection.ping_pong().unwrap();
    scene
        .connection
        .spawn(async move { drop(connection.await) });
    scene.client = client;
    for ping in [true, false] {
        let (answer, _) = scene.open(post(&[]), true).await;
        let (_, mut respond) = scene.taken().await;
        let mut down = head(&mut respond, 200);
        send(&mut down, "{}", true).await;
        let answer = soon("an answer", answer).await.unwrap();
        assert_eq!(whole(answer.into_body()).await.bytes, b"{}");
        if ping {
            for _ in 0..2 {
                let pong = pings.ping(h2::Ping::opaque());
                soon("a pong", pong).await.unwrap();
            }
            // The idle time that the second arrival must come after, not a wait for something.
            tokio::time::sleep(IDLE).await;
        }
    }
    let (mut rows, _) = scene.finish().await;
    rows.sort_unstable_by_key(|row| row.conn_seq);
    let [first, second] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    let apart_us = second.arrival_mono_us - first.arrival_mono_us;
    assert!(apart_us >= IDLE.as_micros() as i64, "{apart_us}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_stream_holds_up_its_own_upstream_and_no_other() {
    let mut client = h2::client::Builder::new();
    client.initial_connection_window_size(16 << 20);
    let ends = Ends {
        client: Some(client),
        ..Ends::default()
    };
    let mut scene = Scene::with("h2-slow", &[], ends).await;
    // Each wants to send 4 MiB, and nobody reads.
    let (slow, size) = (40, 4 << 20);
    let mut held = Vec::new();
    let before = scene.sidecar.resident_bytes();
    for _ in 0..slow {
        let (answer, _) = scene.open(post(&[]), true).await;
        let (_, mut respond) = scene.taken().await;
        let mut down = head(&mut respond, 200);
        let answer = soon("the head", answer).await.unwrap();
        scene.tasks.spawn(async move {
            down.reserve_capacity(size);
            while let Some(Ok(room)) = std::future::poll_fn(|cx| down.poll_capacity(cx)).await {
                if down
                    .send_data(Bytes::from(vec![b'x'; room]), false)
                    .is_err()
                {
                    return;
                }
                down.reserve_capacity(size);
            }
        });
        held.push(answer.into_body());
    }
    // Another stream is not held up, however much it has.
    let (answer, _) = scene.open(post(&[]), true).await;
    let (_, mut respond) = scene.taken().await;
    let mut down = head(&mut respond, 200);
    let answer = soon("the head", answer).await.unwrap();
    let sending = send(&mut down, vec![b'y'; size], true);
    let ((), seen) = tokio::join!(sending, whole(answer.into_body()));
    assert_eq!((seen.bytes.len(), seen.error.is_none()), (size, true));
    // Beside windows, what is recorded is held: 16 KiB pieces that wait to be packed, and the body.
    let grown = scene.sidecar.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for {slow} slow streams");
    drop(held);
    let (rows, _) = scene.finish().await;
    let stalled = rows
        .iter()
        .filter(|row| row.client_stall_us.unwrap_or(0) > 0);
    assert!(stalled.count() >= slow);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_heads_pass_both_ways() {
    let mut ends = Ends::default();
    let mut client = h2::client::Builder::new();
    client.max_header_list_size(1 << 20);
    let mut server = h2::server::Builder::new();
    server.max_header_list_size(1 << 20);
    (ends.client, ends.server) = (Some(client), Some(server));
    let mut scene = Scene::with("h2-heads", &[], ends).await;
    let large = "v".repeat(64 * 1024);
    let mut request = post(&[("x-large", large.as_str())]);
    for number in 0..150 {
        let name: http::HeaderName = format!("x-{number}").parse().unwrap();
        request.headers_mut().insert(name, number.into());
    }
    let sent = request.headers().clone();
    let (answer, _) = scene.open(request, true).await;
    let (request, mut respond) = scene.taken().await;
    assert_eq!(request.headers(), &sent);
    let mut response = Response::new(());
    *response.headers_mut() = sent.clone();
    respond.send_response(response, true).unwrap();
    let answer = soon("the answer", answer).await.unwrap();
    assert_eq!(answer.headers(), &sent);
    assert!(answer.body().is_end_stream());
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interim_responses_pass() {
    let mut scene = Scene::new("h2-interim", &[]).await;
    let (mut answer, mut upload) = scene.open(post(&[("expect", "100-continue")]), false).await;
    let (request, mut respond) = scene.taken().await;
    for (status, link) in [
        (100, None),
        (103, Some("</a>; rel=preload")),
        (103, Some("</b>")),
    ] {
        let mut interim = Response::builder().status(status);
        if let Some(link) = link {
            interim = interim.header("link", link);
        }
        respond
            .send_informational(interim.body(()).unwrap())
            .unwrap();
        let seen = soon(
            "an interim response",
            std::future::poll_fn(|cx| answer.poll_informational(cx)),
        );
        let seen = seen.await.unwrap().unwrap();
        assert_eq!(seen.status(), status);
        let seen = seen
            .headers()
            .get("link")
            .map(|value| value.to_str().unwrap());
        assert_eq!(seen, link);
    }
    send(&mut upload, "{}", true).await;
    assert_eq!(whole(request.into_body()).await.bytes, b"{}");
    let mut down = head(&mut respond, 200);
    send(&mut down, "{}", true).await;
    assert_eq!(soon("the answer", answer).await.unwrap().status(), 200);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_may_be_a_tunnel() {
    let mut scene = Scene::new("h2-connect", &[]).await;
    let mut request = Request::new(());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = "far.test:443".parse().unwrap();
    let (answer, mut up) = scene.open(request, false).await;
    let (request, mut respond) = scene.taken().await;
    assert_eq!(
        (request.method(), request.uri().to_string()),
        (&Method::CONNECT, "far.test:443".to_owned())
    );
    let mut down = head(&mut respond, 200);
    let mut answer = soon("the answer", answer).await.unwrap();
    send(&mut up, "ping", false).await;
    assert_eq!(
        soon("a word", request.into_body().data())
            .await
            .unwrap()
            .unwrap(),
        "ping"
    );
    send(&mut down, "pong", false).await;
    assert_eq!(
        soon("a word", answer.body_mut().data())
            .await
            .unwrap()
            .unwrap(),
        "pong"
    );
    let (rows, ledger) = scene.finish().await;
    assert_eq!((rows.len(), ledger.offered, ledger.rows()), (0, 1, 0));
}
