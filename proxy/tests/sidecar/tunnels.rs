//! What is not looked at, and what comes before an answer.

use crate::support::{SOON, Sidecar, Stage, act, captured, counter, write};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use truetape_testkit::client::{Client, End};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Action, Script};

fn pair(label: &str) -> (TcpListener, Sidecar, TempDir) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let out = TempDir::new(label);
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sidecar = Sidecar::start(&url, &out.join("captures"), &[]);
    (listener, sidecar, out)
}

fn dial(sidecar: &Sidecar) -> TcpStream {
    let stream = TcpStream::connect(sidecar.listen).unwrap();
    stream.set_read_timeout(Some(2 * SOON)).unwrap();
    stream
}

fn take(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn read(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_is_not_http_is_joined_with_the_upstream_and_counted() {
    let (listener, sidecar, _out) = pair("opaque");
    let mut client = dial(&sidecar);
    client.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    let mut upstream = take(&listener);
    assert_eq!(read(&mut upstream, 14), b"*1\r\n$4\r\nPING\r\n");
    upstream.write_all(b"+PONG\r\n").unwrap();
    assert_eq!(read(&mut client, 7), b"+PONG\r\n");
    // Each side ends by itself.
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(upstream.read(&mut [0; 8]).unwrap(), 0);
    upstream.write_all(b"bye").unwrap();
    drop(upstream);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"bye");
    assert_eq!(sidecar.metric("truetape_opaque_connections_total"), 1);
    sidecar.stop();
}

#[test]
fn a_server_that_speaks_first_is_heard_after_a_silence() {
    let (listener, sidecar, _out) = pair("greeting");
    let mut client = dial(&sidecar);
    let mut upstream = take(&listener);
    upstream.write_all(b"220 ready\r\n").unwrap();
    assert_eq!(read(&mut client, 11), b"220 ready\r\n");
    client.write_all(b"EHLO me\r\n").unwrap();
    assert_eq!(read(&mut upstream, 9), b"EHLO me\r\n");
    assert_eq!(sidecar.metric("truetape_opaque_connections_total"), 1);
    drop((client, upstream));
    sidecar.stop();
}

/// Whether this machine waits for an answer to a connection to such a port.
fn is_dialled(port: u16) -> bool {
    const SYN_SENT: &str = "02";
    let there = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(2);
        let (remote, state) = (fields.next(), fields.next());
        remote.is_some_and(|remote| remote.ends_with(&there)) && state == Some(SYN_SENT)
    })
}

#[test]
fn a_drain_does_not_wait_for_an_upstream_that_takes_no_connection() {
    // A queue that is full: what comes then is not answered.
    let listener =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let _queued = TcpStream::connect(address).unwrap();
    let out = TempDir::new("blackhole");
    let url = format!("http://{address}");
    let sidecar = Sidecar::start(&url, &out.join("captures"), &[]);
    let _client = dial(&sidecar);
    let deadline = Instant::now() + 3 * SOON;
    while !is_dialled(address.port()) {
        assert!(Instant::now() < deadline, "the upstream was not dialled");
        std::thread::sleep(Duration::from_millis(20));
    }
    sidecar.process.terminate();
    sidecar.process.wait(SOON).expect_code(0);
}

#[test]
fn a_request_after_a_silence_is_a_request() {
    let (listener, sidecar, out) = pair("silence");
    let mut client = dial(&sidecar);
    // The upstream is asked whether it speaks first, and does not.
    let asked = take(&listener);
    client.write_all(&crate::support::chat()).unwrap();
    let mut upstream = take(&listener);
    assert!(upstream.read(&mut [0; 4096]).unwrap() > 0);
    upstream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        .unwrap();
    assert_eq!(
        read(&mut client, 40),
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    );
    assert_eq!(sidecar.metric("truetape_opaque_connections_total"), 0);
    drop((client, upstream, asked));
    sidecar.stop();
    assert_eq!(captured(&out.join("captures")).0.len(), 1);
}

#[test]
fn a_tunnel_that_the_upstream_grants_passes_and_a_refused_one_its_answer() {
    let next = counter();
    let stage = Stage::new("connect", move |_| match next() {
        0 => Script {
            tunnel: true,
            steps: vec![write(0, "from far"), act(0, Action::Hold(SOON))],
            ..Script::raw(b"HTTP/1.1 200 Connected\r\nVia: far\r\n\r\n", Action::End)
        },
        _ => Script::raw(
            b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 2\r\n\r\nno",
            Action::End,
        ),
    });
    let ask = b"CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\n\r\n";
    let mut client = dial(&stage.sidecar);
    client.write_all(ask).unwrap();
    let head = b"HTTP/1.1 200 Connected\r\nVia: far\r\n\r\n";
    assert_eq!(read(&mut client, head.len()), head);
    client.write_all(b"from near").unwrap();
    assert_eq!(read(&mut client, 8), b"from far");
    stage
        .upstream
        .await_records("the client's bytes", SOON, |records| {
            let first = records.first()?;
            (first.tunnelled == b"from near").then_some(())
        });
    assert_eq!(
        stage.upstream.records()[0].head.start,
        "CONNECT far.test:443 HTTP/1.1"
    );
    drop(client);
    let refused = stage.send(ask);
    assert_eq!((refused.status(), refused.text().as_str()), (405, "no"));
    assert_eq!(stage.sidecar.metric("truetape_tunnels_total"), 1);
    let (rows, ledger) = stage.finish();
    assert_eq!((rows.len(), ledger.excluded["upgrade"]), (0, 1));
}

#[test]
fn interim_responses_pass_in_order_before_their_answer() {
    let stage = Stage::new("interim", |_| {
        Script::raw(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
              HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            Action::End,
        )
    });
    let mut client = Client::connect(stage.sidecar.listen);
    for _ in 0..2 {
        client.write(&crate::support::chat());
        let answer = client.read_answer("POST", None);
        let interim: Vec<&str> = answer
            .interim
            .iter()
            .map(|head| head.start.as_str())
            .collect();
        assert_eq!(
            interim,
            ["HTTP/1.1 103 Early Hints", "HTTP/1.1 102 Processing"]
        );
        assert_eq!(answer.interim[0].value("link"), Some("</a>"));
        assert_eq!((answer.status(), answer.end), (200, End::Clean));
    }
    assert_eq!(stage.sidecar.metric("truetape_interim_lost_total"), 0);
    stage.finish();
}

#[test]
fn a_body_that_the_upstream_refuses_is_never_asked_for() {
    let (listener, sidecar, _out) = pair("refused");
    let mut client = dial(&sidecar);
    client
        .write_all(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\
              Content-Length: 5\r\n\r\n",
        )
        .unwrap();
    let mut upstream = take(&listener);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(read(&mut upstream, 1));
    }
    assert!(String::from_utf8_lossy(&head).contains("100-continue"));
    upstream
        .write_all(
            b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
        )
        .unwrap();
    drop(upstream);
    let mut seen = Vec::new();
    client.read_to_end(&mut seen).unwrap();
    let seen = String::from_utf8_lossy(&seen);
    assert!(
        seen.starts_with("HTTP/1.1 417 Expectation Failed\r\n"),
        "{seen}"
    );
    assert!(seen.ends_with("\r\n\r\nno"), "{seen}");
    sidecar.stop();
}

#[test]
fn a_client_that_sends_unasked_is_not_held_back() {
    let (listener, sidecar, _out) = pair("unasked");
    let mut client = dial(&sidecar);
    client
        .write_all(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\
              Content-Length: 5\r\n\r\n",
        )
        .unwrap();
    let mut upstream = take(&listener);
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        seen.extend(read(&mut upstream, 1));
    }
    client.write_all(b"12345").unwrap();
    assert_eq!(read(&mut upstream, 5), b"12345");
    drop((client, upstream));
    sidecar.stop();
}
