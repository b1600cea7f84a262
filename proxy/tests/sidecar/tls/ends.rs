//! How TLS connections end, and what a slow one costs.

use super::{Trust, ask, closing_chat, read_request, refs, rows};
use crate::support::{Meter, SOON, Sidecar, Stage, chat, ok, stream};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use truetape_schemas::capture::Outcome;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::tls::{self, Server};
use truetape_testkit::upstream::{Action, Script};

#[test]
fn a_body_that_ends_without_a_close_notify_is_cut_for_everybody() {
    for in_order in [true, false] {
        let trust = Trust::new("cut");
        let (_, mut flags) = trust.shown("front", &["front.test"]);
        flags.extend(["--upstream-ca".to_owned(), trust.file("ca.pem")]);
        let config = tls::server(&trust.authority.issue(&["localhost"]), None, &[]);
        let engine = Server::start(config, move |mut stream| {
            read_request(&mut stream)?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")?;
            stream.write_all(b"{\"one\":1}")?;
            if in_order {
                tls::end(stream)
            } else {
                tls::tear(stream)
            }
        });
        let out = TempDir::new("cut");
        let url = engine.url("localhost");
        let sidecar = Sidecar::start(&url, &out.join("captures"), &refs(&flags));
        let client = tls::connect(sidecar.listen, &trust.client(&[]), "front.test").unwrap();
        let (answer, end) = ask(client, &chat());
        assert!(
            answer.contains("one"),
            "what came before the end passes: {answer}"
        );
        assert!(answer.ends_with("{\"one\":1}"), "{answer}");
        assert_eq!(
            end.is_ok(),
            in_order,
            "the client's own TLS says so too: {end:?}"
        );
        let rows = rows(sidecar, &out);
        let expected = if in_order {
            Outcome::Complete
        } else {
            Outcome::Truncated
        };
        assert_eq!(rows[0].outcome, expected);
    }
}

#[test]
fn a_client_that_aborts_its_session_cancels_the_request_upstream() {
    let trust = Trust::new("abort");
    let (_, flags) = trust.shown("front", &["front.test"]);
    let stage = Stage::with("abort", &refs(&flags), |_| stream(200, 50));
    let config = trust.client(&[]);
    let meter = Meter::start();
    // With a close_notify, by the end of the socket alone, and by a reset.
    for (index, way) in ["notify", "close", "reset"].into_iter().enumerate() {
        let mut client = tls::connect(stage.sidecar.listen, &config, "front.test").unwrap();
        client.write_all(&chat()).unwrap();
        tls::read_head(&mut client).unwrap();
        match way {
            "notify" => {
                client.conn.send_close_notify();
                client.flush().unwrap();
            }
            "close" => {}
            _ => {
                let socket = socket2::SockRef::from(&client.sock);
                socket.set_linger(Some(Duration::ZERO)).unwrap();
            }
        }
        let gone_at = Instant::now();
        drop(client);
        let record = stage.upstream.await_finished(index, SOON);
        let took = record.peer_closed_at.unwrap().duration_since(gone_at);
        let bound = meter.widen(Duration::from_millis(100));
        assert!(took < bound, "{way}: {took:?} of {bound:?}");
    }
    let (rows, _) = stage.finish();
    assert!(rows.iter().all(|row| row.outcome == Outcome::ClientAborted));
}

#[test]
fn a_slow_client_gets_every_byte_and_its_stall_is_recorded() {
    const BYTES: usize = 12 << 20;
    let trust = Trust::new("slow");
    let (_, flags) = trust.shown("front", &["front.test"]);
    let stage = Stage::with("slow", &refs(&flags), |_| {
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n").into_bytes();
        answer.extend(vec![b's'; BYTES]);
        Script::raw(&answer, Action::End)
    });
    let config = trust.client(&[]);
    let mut client = tls::connect(stage.sidecar.listen, &config, "front.test").unwrap();
    client.write_all(&chat()).unwrap();
    tls::read_head(&mut client).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut body = vec![0; BYTES];
    client.read_exact(&mut body).unwrap();
    assert!(body.iter().all(|byte| *byte == b's'));
    drop(client);
    let (rows, _) = stage.finish();
    assert_eq!(rows[0].outcome, Outcome::Complete);
    assert!(
        rows[0].client_stall_us >= Some(100_000),
        "{:?}",
        rows[0].client_stall_us
    );
}

#[test]
fn a_client_that_has_said_nothing_yet_does_not_hold_a_drain() {
    let trust = Trust::new("silent");
    let (_, flags) = trust.shown("front", &["front.test"]);
    let stage = Stage::with("silent", &refs(&flags), ok);
    let silent = TcpStream::connect(stage.sidecar.listen).unwrap();
    let config = trust.client(&[]);
    let client = tls::connect(stage.sidecar.listen, &config, "front.test").unwrap();
    // It came after the silent one, so that one was accepted too.
    assert!(ask(client, &closing_chat()).0.contains(" 200 "));
    stage.sidecar.process.terminate();
    stage.sidecar.process.wait(SOON).expect_code(0);
    drop(silent);
}

#[test]
fn the_arrival_of_a_request_is_not_that_of_the_handshake() {
    let trust = Trust::new("arrival");
    let (_, flags) = trust.shown("front", &["front.test"]);
    let stage = Stage::with("arrival", &refs(&flags), ok);
    let config = trust.client(&[]);
    let mut client = tls::connect(stage.sidecar.listen, &config, "front.test").unwrap();
    let idle = Duration::from_millis(400);
    std::thread::sleep(idle);
    client.write_all(&closing_chat()).unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    let (rows, _) = stage.finish();
    let request_us = rows[0].request_end_us.unwrap();
    assert!(
        u128::try_from(request_us).unwrap() < idle.as_micros(),
        "{request_us}"
    );
}
