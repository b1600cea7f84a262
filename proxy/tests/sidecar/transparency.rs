//! What both sides see is what they would see without the proxy (P1).

use crate::support::{CHAT, Meter, SOON, Sidecar, Stage, act, chat, counter, event, ok, write};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use truetape_testkit::client::{Client, End, request};
use truetape_testkit::http1::chunk;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Action, Framing, Script};

fn names(head: &truetape_testkit::http1::Head) -> Vec<String> {
    head.headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect()
}

#[test]
fn header_case_duplicates_and_order_pass_both_ways() {
    let stage = Stage::new("headers", |_| {
        Script::raw(
            b"HTTP/1.1 200 Fine By Me\r\nX-Request-ID: 7\r\nSet-Cookie: a=1\r\nVary: Origin\r\n\
              Set-Cookie: b=2; Expires=Wed, 09 Jun 2027 10:18:14 GMT\r\nvary: Accept\r\n\
              Content-Length: 2\r\n\r\n{}",
            Action::End,
        )
    });
    let sent = b"POST /v1/chat/completions?x=%7e HTTP/1.1\r\nHost: up.test\r\nX-Tag: one\r\n\
        AUTHORIZATION: Bearer SYNTHETIC-SECRET-123\r\nX-TAG: two\r\nConnection: X-Hop\r\n\
        X-Hop: 1\r\nKeep-Alive: 5\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    let answer = stage.send(sent);
    let seen = stage.upstream.await_finished(0, SOON);
    assert_eq!(seen.head.start, "POST /v1/chat/completions?x=%7e HTTP/1.1");
    // As they were sent, but for what is nominated for this hop.
    assert_eq!(
        names(&seen.head),
        [
            "Host: up.test",
            "X-Tag: one",
            "AUTHORIZATION: Bearer SYNTHETIC-SECRET-123",
            "X-TAG: two",
            "Keep-Alive: 5",
            "Content-Type: application/json",
            "Content-Length: 2",
        ]
    );
    let head = answer.head.clone().unwrap();
    assert_eq!(head.start, "HTTP/1.1 200 Fine By Me");
    assert_eq!(
        names(&head),
        [
            "X-Request-ID: 7",
            "Set-Cookie: a=1",
            "Vary: Origin",
            "Set-Cookie: b=2; Expires=Wed, 09 Jun 2027 10:18:14 GMT",
            "vary: Accept",
            "Content-Length: 2",
        ]
    );
    assert_eq!((answer.text().as_str(), answer.end), ("{}", End::Clean));
}

#[test]
fn a_body_expected_to_be_continued_arrives_and_its_arrival_is_the_first_byte() {
    let stage = Stage::new("expect", |_| Script {
        interim: Some(b"HTTP/1.1 100 \r\n\r\n".to_vec()),
        ..Script::raw(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            Action::End,
        )
    });
    let meter = Meter::start();
    let mut client = Client::connect(stage.sidecar.listen);
    let pause = Duration::from_millis(80);
    // The head in two writes, then a wait before the body.
    client.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: up.test\r\n");
    std::thread::sleep(pause);
    client.write(b"Expect: 100-continue\r\nContent-Length: 16\r\n\r\n");
    assert!(client.await_interim(SOON).is_some());
    std::thread::sleep(pause);
    client.write(b"{\"model\":\"syn\"} ");
    let answer = client.read_answer("POST", None);
    assert_eq!((answer.status(), answer.end), (200, End::Clean));
    assert_eq!(
        stage.upstream.await_finished(0, SOON).body,
        b"{\"model\":\"syn\"} "
    );
    let (rows, _) = stage.finish();
    assert_eq!((rows.len(), rows[0].status), (1, Some(200)));
    // Both pauses lie between the first byte and the last, less what the read of the first was late.
    let took = Duration::from_micros(rows[0].request_end_us.unwrap().unsigned_abs());
    assert!(
        meter.widen(took) >= 2 * pause,
        "{took:?} from the first byte to the last"
    );
}

#[test]
fn a_chunked_upload_arrives_whole() {
    let stage = Stage::new("chunked", ok);
    let mut client = Client::connect(stage.sidecar.listen);
    for part in [
        &b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"[..],
        b"a\r\n{\"model\":\"\r\n",
        b"5;note=1\r\nsyn\"}\r\n",
        b"0\r\n\r\n",
    ] {
        client.write(part);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.read_answer("POST", None).status(), 200);
    let seen = stage.upstream.await_finished(0, SOON);
    assert_eq!(seen.body, b"{\"model\":\"syn\"}");
    assert_eq!(seen.head.values("transfer-encoding"), ["chunked"]);
    let (rows, _) = stage.finish();
    assert_eq!(
        rows[0].request_body.as_deref(),
        Some(&b"{\"model\":\"syn\"}"[..])
    );
    assert_eq!(rows[0].model.as_deref(), Some("syn"));
}

#[test]
fn bodyless_answers_pass_on_one_connection_and_are_no_rows() {
    let answers = [
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n",
            200,
            "1234",
        ),
        ("DELETE", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        (
            "GET",
            "HTTP/1.1 304 Not Modified\r\nETag: \"e1\"\r\nContent-Length: 900\r\n\r\n",
            304,
            "900",
        ),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            200,
            "0",
        ),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            200,
            "2",
        ),
    ];
    let next = counter();
    let stage = Stage::new("bodyless", move |_| {
        Script::raw(answers[next()].1.as_bytes(), Action::End)
    });
    let mut client = Client::connect(stage.sidecar.listen);
    for (method, _, status, length) in answers {
        client.write(format!("{method} /v1/models HTTP/1.1\r\nHost: up.test\r\n\r\n").as_bytes());
        let asked = Instant::now();
        let answer = client.read_answer(method, None);
        let head = answer.head.unwrap();
        assert_eq!(
            (head.status(), answer.end),
            (status, End::Clean),
            "{method}"
        );
        assert_eq!(
            head.value("content-length").unwrap_or_default(),
            length,
            "{method} {status}"
        );
        assert_eq!(head.value("date"), None);
        assert!(asked.elapsed() < SOON);
    }
    assert_eq!(stage.sidecar.metric("truetape_upstream_connects_total"), 1);
    let (rows, ledger) = stage.finish();
    assert_eq!((rows.len(), ledger.excluded["not_inference"]), (0, 5));
}

#[test]
fn trailers_pass() {
    let stage = Stage::new("trailers", |_| {
        Script::raw(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
              2\r\n{}\r\n0\r\nX-Sum: 9\r\n\r\n",
            Action::End,
        )
    });
    let answer = stage.send(
        b"POST /v1/x HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\
          Trailer: X-Up\r\n\r\n1\r\nx\r\n0\r\nX-Up: 1\r\n\r\n",
    );
    assert_eq!(answer.trailers.len(), 1, "{:?}", answer.trailers);
    assert!(answer.trailers[0].eq_ignore_ascii_case("x-sum: 9"));
    let seen = stage.upstream.await_finished(0, SOON);
    assert_eq!(
        (seen.body.as_slice(), seen.head.values("te")),
        (&b"x"[..], vec!["trailers"])
    );
}

#[test]
fn a_tunnel_passes_bytes_both_ways_and_a_refused_one_its_answer() {
    let accept =
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let next = counter();
    let stage = Stage::new("upgrade", move |_| {
        if next() > 0 {
            return Script::raw(
                b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\ndenied",
                Action::End,
            );
        }
        Script {
            tunnel: true,
            steps: vec![write(0, "from upstream"), act(0, Action::Hold(SOON))],
            ..Script::raw(accept, Action::End)
        }
    });
    let ask = b"GET /v1/realtime HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhl\r\n\r\n";
    let mut client = Client::connect(stage.sidecar.listen);
    client.write(ask);
    let head = client.read_answer("GET", None).head.unwrap();
    assert_eq!(head.status(), 101);
    assert_eq!(head.value("upgrade"), Some("websocket"));
    assert_eq!(head.value("connection"), Some("Upgrade"));
    assert_eq!(
        head.value("sec-websocket-accept"),
        Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    );
    client.write(b"from client");
    assert_eq!(client.read_raw(13, SOON), b"from upstream");
    stage
        .upstream
        .await_records("the client's bytes", SOON, |records| {
            (records.first()?.tunnelled == b"from client").then_some(())
        });
    drop(client);
    let refused = stage.send(ask);
    assert_eq!((refused.status(), refused.text().as_str()), (403, "denied"));
    let (rows, ledger) = stage.finish();
    assert_eq!(rows.len(), 0);
    assert_eq!(
        (ledger.excluded["upgrade"], ledger.excluded["not_inference"]),
        (1, 1)
    );
}

#[test]
fn a_stream_passes_as_it_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let out = TempDir::new("stream");
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sidecar = Sidecar::start(&url, &out.join("captures"), &[]);
    let mut client = TcpStream::connect(sidecar.listen).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    client.write_all(&chat()).unwrap();
    let (mut upstream, _) = listener.accept().unwrap();
    assert!(upstream.read(&mut [0; 4096]).unwrap() > 0);
    upstream
        .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    // An event is sent only once the one before has come through: one that is held would hang here.
    let mut came = Vec::new();
    for token in 0..20 {
        let event = event(&format!("token {token}"));
        upstream.write_all(&chunk(&event)).unwrap();
        while !came.windows(event.len()).any(|window| window == event) {
            let mut buffer = [0; 4096];
            let read = client.read(&mut buffer).unwrap();
            assert!(read > 0, "closed after {token} events");
            came.extend_from_slice(&buffer[..read]);
        }
    }
    sidecar.process.kill();
}

#[test]
fn an_answer_that_ends_with_its_connection_ends_the_clients_too() {
    let stage = Stage::new("close", |_| Script {
        framing: Framing::Close,
        ..Script::raw(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it",
            Action::Close,
        )
    });
    let answer = stage.send(&chat());
    assert_eq!(
        (answer.text().as_str(), answer.end),
        ("all of it", End::Clean)
    );
    assert_eq!(answer.head.unwrap().value("connection"), Some("close"));
    let (rows, _) = stage.finish();
    assert_eq!(rows[0].response_body.as_deref(), Some(&b"all of it"[..]));
}

#[test]
fn a_client_of_http_1_0_is_answered_as_the_upstream_answers_it() {
    let stage = Stage::new("http10", |_| {
        Script::raw(
            b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}",
            Action::Close,
        )
    });
    let answer = stage.send(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}");
    assert_eq!((answer.text().as_str(), answer.end), ("{}", End::Clean));
    assert_eq!(answer.head.unwrap().start, "HTTP/1.0 200 OK");
    let seen = stage.upstream.await_finished(0, SOON);
    assert!(seen.head.start.ends_with("HTTP/1.0"), "{}", seen.head.start);
    assert!(seen.head.values("host").is_empty());
}

#[test]
fn what_a_response_says_of_its_connection_is_what_the_upstream_said() {
    let answers = [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\
         Content-Length: 2\r\n\r\n{}",
    ];
    let next = counter();
    let stage = Stage::new("hop", move |_| {
        Script::raw(answers[next()].as_bytes(), Action::End)
    });
    let old = stage.send(b"GET /x HTTP/1.0\r\n\r\n").head.unwrap();
    assert_eq!(
        (old.status(), old.value("connection")),
        (200, Some("close"))
    );
    let refused = stage.send(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    let refused = refused.head.unwrap();
    assert_eq!(refused.status(), 426);
    assert_eq!(refused.value("upgrade"), Some("h2c"));
    assert_eq!(refused.value("connection"), Some("Upgrade"));
}

#[test]
fn large_heads_pass() {
    let stage = Stage::new("heads", ok);
    let mut headers: Vec<(String, String)> = (0..150)
        .map(|i| (format!("x-h{i}"), i.to_string()))
        .collect();
    headers.push(("x-big".to_owned(), "b".repeat(64 * 1024)));
    let answer = stage.send(&request("POST", CHAT, &headers, b"{}"));
    assert_eq!(answer.status(), 200);
    let seen = stage.upstream.await_finished(0, SOON);
    assert_eq!(seen.head.value("x-big").map(str::len), Some(64 * 1024));
    assert_eq!(seen.head.value("x-h149"), Some("149"));
}

#[test]
fn an_early_answer_passes_while_the_upload_goes_on() {
    let stage = Stage::new("early", |_| Script {
        // Answers the head, before the body is read.
        interim: Some(
            b"HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig"
                .to_vec(),
        ),
        ..Script::raw(b"", Action::Close)
    });
    let mut client = Client::connect(stage.sidecar.listen);
    client.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\
          Content-Length: 10000000\r\n\r\n",
    );
    let answer = client.read_answer("POST", None);
    assert_eq!((answer.status(), answer.text().as_str()), (413, "big"));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let next = counter();
    let stage = Stage::new("pipeline", move |_| {
        let body = next().to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Script::raw(head.as_bytes(), Action::End)
    });
    let mut client = Client::connect(stage.sidecar.listen);
    client.write(&[chat(), chat(), chat()].concat());
    for wanted in ["0", "1", "2"] {
        assert_eq!(client.read_answer("POST", None).text(), wanted);
    }
    let (rows, _) = stage.finish();
    let order: Vec<i32> = rows.iter().map(|row| row.conn_seq).collect();
    assert_eq!(order, [0, 1, 2]);
    assert!(rows.iter().all(|row| row.request_end_us.unwrap() >= 0));
}
