//! A client connection and its link to the upstream: they live, upload and end together.

use crate::support::{CHAT, SOON, Sidecar, Stage, act, captured, chat, ok};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use truetape_testkit::client::Client;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Action, Script};

#[test]
fn an_upstream_that_closes_its_idle_connection_closes_the_clients() {
    for idle_ms in [0, 20] {
        let stage = Stage::new("closes", move |_| closing(idle_ms));
        let mut client = TcpStream::connect(stage.sidecar.listen).unwrap();
        client.set_read_timeout(Some(SOON)).unwrap();
        client.write_all(&chat()).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 OK") && answer.ends_with(b"{}"));
    }
}

/// Answers, and closes without a word about it after the connection was idle for so long.
fn closing(idle_ms: u64) -> Script {
    Script {
        steps: vec![act(0, Action::End), act(idle_ms, Action::Close)],
        ..Script::raw(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            Action::End,
        )
    }
}

#[test]
fn a_fresh_connection_never_meets_a_link_that_another_left_stale() {
    for idle_ms in [0, 20] {
        let stage = Stage::new("stale", move |_| closing(idle_ms));
        for round in 0..300u64 {
            assert_eq!(stage.send(&chat()).status(), 200, "request {round}");
            if round % 10 == 0 {
                std::thread::sleep(Duration::from_millis(20 + round % 3));
            }
        }
        let (rows, _) = stage.finish();
        assert_eq!(rows.len(), 300);
        assert!(rows.iter().all(|row| row.status == Some(200)));
    }
}

#[test]
fn a_link_is_kept_with_its_client_connection_and_closed_with_it() {
    let stage = Stage::new("pair", ok);
    let mut clients = [
        Client::connect(stage.sidecar.listen),
        Client::connect(stage.sidecar.listen),
    ];
    for _ in 0..3 {
        for client in &mut clients {
            client.write(&chat());
            assert_eq!(client.read_answer("POST", None).status(), 200);
        }
    }
    let connections: Vec<usize> = stage
        .upstream
        .records()
        .iter()
        .map(|r| r.connection)
        .collect();
    assert_eq!(connections, [0, 1, 0, 1, 0, 1]);
    assert_eq!(stage.sidecar.metric("truetape_upstream_connects_total"), 2);
}

const UPLOAD_BYTES: usize = 8 << 20;

/// A server that has read the head of one upload, and its client, which has sent a part of it.
fn upload(label: &str) -> (TcpStream, TcpStream, Sidecar, TempDir) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let out = TempDir::new(label);
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sidecar = Sidecar::start(&url, &out.join("captures"), &[]);
    let mut client = TcpStream::connect(sidecar.listen).unwrap();
    let head = format!("POST {CHAT} HTTP/1.1\r\nHost: h\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    let (mut upstream, _) = listener.accept().unwrap();
    let mut came = Vec::new();
    while !came.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        upstream.read_exact(&mut byte).unwrap();
        came.push(byte[0]);
    }
    for stream in [&client, &upstream] {
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_write_timeout(Some(SOON)).unwrap();
    }
    (client, upstream, sidecar, out)
}

#[test]
fn an_upload_goes_on_while_the_client_does_not_read_the_response() {
    let (mut client, mut upstream, sidecar, out) = upload("both");
    let mut writer = upstream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n");
        writer.write_all(head.as_bytes()).unwrap();
        writer.write_all(&vec![b'r'; UPLOAD_BYTES]).unwrap();
    });
    let reading = std::thread::spawn(move || {
        let mut body = vec![0; UPLOAD_BYTES];
        upstream.read_exact(&mut body).unwrap();
        body.iter().all(|byte| *byte == b'u')
    });
    client.write_all(&vec![b'u'; UPLOAD_BYTES]).unwrap();
    let mut answer = vec![0; UPLOAD_BYTES];
    client.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK") && answer.ends_with(b"rrr"));
    writing.join().unwrap();
    assert!(reading.join().unwrap());
    drop(client);
    sidecar.stop();
    let (rows, _) = captured(&out.join("captures"));
    assert_eq!(rows[0].request_bytes, Some(UPLOAD_BYTES as i64));
}

#[test]
fn a_whole_early_answer_does_not_cut_the_upload() {
    let (mut client, mut upstream, sidecar, out) = upload("whole-early");
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    upstream.write_all(answer).unwrap();
    let mut came = vec![0; answer.len()];
    client.read_exact(&mut came).unwrap();
    let reading = std::thread::spawn(move || {
        let mut body = vec![0; UPLOAD_BYTES];
        upstream.read_exact(&mut body).unwrap();
        body.iter().all(|byte| *byte == b'u')
    });
    client.write_all(&vec![b'u'; UPLOAD_BYTES]).unwrap();
    assert!(reading.join().unwrap());
    drop(client);
    sidecar.stop();
    let (rows, _) = captured(&out.join("captures"));
    assert_eq!(rows[0].request_bytes, Some(UPLOAD_BYTES as i64));
    assert_eq!(rows[0].status, Some(200));
}
