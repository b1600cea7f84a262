//! Several listeners in one process, each with its upstream: one directory, one ledger, one admin
//! port.

use crate::support::{SOON, Sidecar, captured, chat, ok, stream};
use std::net::SocketAddr;
use std::path::Path;
use truetape_testkit::client;
use truetape_testkit::process::Process;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Script, Upstream};

/// Where each route listens, as the event `listening` says.
fn listeners(sidecar: &Sidecar) -> Vec<(SocketAddr, String)> {
    let event = sidecar.process.event("listening");
    let routes = event["routes"].as_str().unwrap();
    let split = |route: &str| {
        let (listen, upstream) = route.split_once('=').unwrap();
        (listen.parse().unwrap(), upstream.to_owned())
    };
    routes.split(", ").map(split).collect()
}

fn named(name: &'static str) -> Upstream {
    Upstream::start(move |_| Script::json(200, &serde_json::json!({"name": name})))
}

#[test]
fn every_listener_leads_to_its_own_upstream_and_all_rows_are_in_one_capture() {
    let out = TempDir::new("routes");
    let upstreams = [named("one"), named("two"), named("three")];
    let mut arguments = crate::support::args(&upstreams[0].url(), &out.join("captures"), &[]);
    for upstream in &upstreams[1..] {
        arguments.push("--route".to_owned());
        arguments.push(format!("127.0.0.1:0={}", upstream.url()));
    }
    let sidecar = Sidecar::of(Process::start(
        Path::new(crate::support::PROXY),
        arguments,
        &[],
    ));
    let listeners = listeners(&sidecar);
    assert_eq!(listeners[0].0, sidecar.listen);
    for ((listen, leads_to), upstream) in listeners.iter().zip(&upstreams) {
        assert_eq!(*leads_to, upstream.addr.to_string());
        assert_eq!(client::exchange(*listen, &chat(), None).status(), 200);
        assert_eq!(upstream.records().len(), 1);
    }
    assert_eq!(sidecar.metric("truetape_requests_total"), 3);
    sidecar.stop();
    let (rows, ledger) = captured(&out.join("captures"));
    assert_eq!((ledger.offered, ledger.recorded), (3, 3));
    let mut found: Vec<String> = rows.iter().map(|row| row.upstream.clone()).collect();
    let mut expected: Vec<String> = upstreams.iter().map(|u| u.addr.to_string()).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let mut connections: Vec<_> = rows.iter().map(|row| row.conn_id).collect();
    connections.sort_unstable();
    connections.dedup();
    assert_eq!(connections.len(), 3, "numbers are not used twice");
}

#[test]
fn connections_to_the_upstream_are_marked_or_the_start_is_refused() {
    let any = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let may_mark = any.set_mark(1).is_ok();
    let (out, upstream) = (TempDir::new("mark"), Upstream::start(ok));
    let url = format!("http://localhost:{}", upstream.addr.port());
    let arguments = crate::support::args(&url, &out.join("captures"), &["--so-mark", "0x12ac"]);
    let process = Process::start(Path::new(crate::support::PROXY), arguments, &[]);
    if may_mark {
        let sidecar = Sidecar::of(process);
        let answer = client::exchange(sidecar.listen, &chat(), None);
        assert_eq!(answer.status(), 200);
        sidecar.stop();
    } else {
        let ended = process.wait(SOON).expect_code(78);
        assert!(ended.stderr.contains("so_mark: "), "{}", ended.stderr);
    }
}

#[test]
fn a_drain_ends_every_listener_and_every_stream() {
    let out = TempDir::new("drained");
    let upstreams = [Upstream::start(|_| stream(10, 50)), Upstream::start(ok)];
    let routes = upstreams.iter().flat_map(|upstream| {
        [
            "--route".to_owned(),
            format!("127.0.0.1:0={}", upstream.url()),
        ]
    });
    let fixed = [
        "--admin".to_owned(),
        "127.0.0.1:0".to_owned(),
        "--out".to_owned(),
        out.join("captures").display().to_string(),
    ];
    let arguments = fixed.into_iter().chain(routes);
    let sidecar = Sidecar::of(Process::start(
        Path::new(crate::support::PROXY),
        arguments,
        &[],
    ));
    let listeners = listeners(&sidecar);
    let mut streaming = client::Client::connect(listeners[0].0);
    streaming.write(&chat());
    upstreams[0].await_records("the request", SOON, |records| records.first().cloned());
    sidecar.process.terminate();
    let answer = streaming.read_answer("POST", None);
    assert!(answer.text().contains("[DONE]"), "{}", answer.text());
    sidecar.process.wait(SOON).expect_code(0);
    for (listen, _) in listeners {
        assert!(std::net::TcpStream::connect(listen).is_err());
    }
}
