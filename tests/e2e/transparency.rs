//! P1: with the proxy and without, both sides see the same.

use crate::support::{Recorder, WITHIN};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use truetape_testkit::client::{Answer, End, exchange};
use truetape_testkit::http1::Head;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Action, Framing, Record, Script, Step, Upstream};

/// One exchange: what the client writes, and what the server does.
struct Exchange {
    name: &'static str,
    request: Vec<u8>,
    script: Script,
}

fn raw(name: &'static str, request: &str, answer: &str, then: Action) -> Exchange {
    Exchange {
        name,
        request: request.as_bytes().to_vec(),
        script: Script::raw(answer.as_bytes(), then),
    }
}

/// Exchanges that proxies get wrong.
fn exchanges() -> Vec<Exchange> {
    let post = "POST /v1/chat/completions HTTP/1.1\r\nHost: model.test\r\n\
        Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    vec![
        raw("plain", post, ok, Action::End),
        raw(
            "odd reason and header case",
            post,
            "HTTP/1.1 200 Fine By Me\r\nX-ODD-Case: Yes\r\nx-lower: a\r\nContent-Length: 0\r\n\r\n",
            Action::End,
        ),
        raw(
            "no reason",
            post,
            "HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n",
            Action::End,
        ),
        raw(
            "repeated fields",
            post,
            "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nVary: x\r\nVary: y\r\nContent-Length: 0\r\n\r\n",
            Action::End,
        ),
        raw(
            "request fields",
            "GET /v1/models?a=%20b&c HTTP/1.1\r\nHost: model.test\r\nX-Tag: one\r\nx-tag: two\r\nAccept-Encoding: gzip, br\r\nAUTHORIZATION: Bearer k\r\n\r\n",
            ok,
            Action::End,
        ),
        raw(
            "head",
            "HEAD /v1/models HTTP/1.1\r\nHost: model.test\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n",
            Action::End,
        ),
        raw(
            "no content",
            "DELETE /v1/files/f HTTP/1.1\r\nHost: model.test\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            Action::End,
        ),
        raw(
            "server error",
            post,
            "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy",
            Action::End,
        ),
        raw(
            "chunked request",
            "POST /v1/chat/completions HTTP/1.1\r\nHost: model.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{ \r\n1\r\n}\r\n0\r\n\r\n",
            ok,
            Action::End,
        ),
        raw(
            "close-delimited",
            post,
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
            Action::Close,
        ),
        raw(
            "trailers",
            // RFC 9110, 6.5.1: trailers are for clients that say they take them.
            "POST /v1/chat/completions HTTP/1.1\r\nHost: model.test\r\nTE: trailers\r\n\
             Content-Length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\n{}\r\n0\r\nX-Sum: 9\r\n\r\n",
            Action::End,
        ),
        raw(
            "cut by length",
            post,
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
            Action::Close,
        ),
        raw(
            "cut chunks",
            post,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
            Action::Reset,
        ),
        raw("cut before the head", post, "", Action::Close),
        raw(
            "not JSON at all",
            "POST /v1/chat/completions HTTP/1.1\r\nHost: model.test\r\nContent-Length: 4\r\n\r\n\u{0}\u{1}\u{2}\u{3}",
            ok,
            Action::End,
        ),
        raw("a body of a megabyte", &large(), ok, Action::End),
        events(),
    ]
}

fn large() -> String {
    let body = "x".repeat(1 << 20);
    let length = body.len();
    format!(
        "POST /v1/embeddings HTTP/1.1\r\nHost: model.test\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// A stream in small pieces, with comments and mixed line ends.
fn events() -> Exchange {
    let pieces = [
        "data: {\"a\":",
        "1}\r\n\r\n: comment\n\n",
        "data:\u{e9}\n",
        "\ndata: [DONE]\n\n",
    ];
    let mut steps: Vec<Step> = pieces
        .into_iter()
        .zip(1..)
        .map(|(piece, at)| Step {
            at: Duration::from_millis(10 * at),
            action: Action::Write(piece.as_bytes().to_vec()),
        })
        .collect();
    steps.push(Step {
        at: Duration::from_millis(60),
        action: Action::End,
    });
    Exchange {
        name: "a stream",
        request:
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: model.test\r\nContent-Length: 2\r\n\r\n{}"
                .to_vec(),
        script: Script {
            framing: Framing::Chunked,
            ..Script::events(steps)
        },
    }
}

/// What a message is, but for what belongs to one connection only.
fn fields(head: &Head) -> BTreeMap<String, Vec<String>> {
    const OF_A_CONNECTION: &[&str] = &["connection", "keep-alive", "transfer-encoding"];
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in &head.headers {
        let lower = name.to_ascii_lowercase();
        if !OF_A_CONNECTION.contains(&lower.as_str()) {
            fields
                .entry(lower)
                .or_default()
                .push(format!("{name}: {value}"));
        }
    }
    fields
}

fn seen_by_client(answer: &Answer) -> impl PartialEq + std::fmt::Debug + use<> {
    let head = answer
        .head
        .as_ref()
        .map(|head| (head.start.clone(), fields(head)));
    let ended = matches!(answer.end, End::Clean);
    // hyper keeps the case of header names, and lowers that of trailer names.
    let lower = |line: &String| match line.split_once(':') {
        Some((name, value)) => format!("{}:{value}", name.to_ascii_lowercase()),
        None => line.clone(),
    };
    let trailers: Vec<String> = answer.trailers.iter().map(lower).collect();
    (head, answer.text(), trailers, ended)
}

fn seen_by_server(record: &Record) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut fields = fields(&record.head);
    // A body of known length may be sent in chunks and the other way round.
    fields.remove("content-length");
    let body = String::from_utf8_lossy(&record.body).into_owned();
    (record.head.start.clone(), fields, body)
}

fn through(addr: SocketAddr, upstream: &Upstream, at: usize, request: &[u8]) -> (Answer, Record) {
    let answer = exchange(addr, request, None);
    (answer, upstream.await_finished(at, WITHIN))
}

#[test]
fn both_sides_see_what_they_would_see_without_the_proxy() {
    let dir = TempDir::new("transparency");
    for Exchange {
        name,
        request,
        script,
    } in exchanges()
    {
        let upstream = Upstream::start(move |_| script.clone());
        let recorder = Recorder::start(&upstream.url(), &dir.join(name), &[]);
        let (direct, direct_record) = through(upstream.addr, &upstream, 0, &request);
        let (proxied, record) = through(recorder.at.listen, &upstream, 1, &request);
        assert_eq!(
            seen_by_client(&proxied),
            seen_by_client(&direct),
            "{name}: client"
        );
        assert_eq!(
            seen_by_server(&record),
            seen_by_server(&direct_record),
            "{name}: server"
        );
        recorder.process.stop().expect_code(0);
    }
}

#[test]
fn each_event_is_passed_on_when_it_comes_and_not_when_the_stream_ends() {
    let dir = TempDir::new("streaming");
    let step = |at, bytes: &str| Step {
        at: Duration::from_millis(at),
        action: Action::Write(bytes.as_bytes().to_vec()),
    };
    let end = Step {
        at: Duration::from_millis(700),
        action: Action::End,
    };
    let script = Script::events(vec![
        step(50, "data: {}\n\n"),
        step(600, "data: {}\n\n"),
        end,
    ]);
    let upstream = Upstream::start(move |_| script.clone());
    let recorder = Recorder::start(&upstream.url(), &dir.join("capture"), &[]);
    let request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: m\r\nContent-Length: 2\r\n\r\n{}";
    let answer = exchange(recorder.at.listen, request, None);
    let record = upstream.await_finished(0, WITHIN);
    let first = answer
        .arrivals
        .iter()
        .find(|(_, length)| *length > 0)
        .map(|(at, _)| *at)
        .unwrap();
    // The second event was not even written when the first was read.
    assert!(first < record.done_at[1], "the first event was held back");
    assert_eq!(answer.body.len(), 20);
}
