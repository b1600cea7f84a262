//! Who is shown which certificate, and who is trusted by it.

use super::{Trust, answering, ask, closing_chat, refs, rows};
use crate::support::{PROXY, SOON, Sidecar, Stage, args, chat, ok, stream};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use truetape_schemas::capture::Outcome;
use truetape_testkit::authority::{Authority, Identity};
use truetape_testkit::process::Process;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::Upstream;
use truetape_testkit::{client, tls};

#[test]
fn both_sides_speak_tls_and_the_row_is_whole() {
    let trust = Trust::new("both");
    let (identity, mut flags) = trust.shown("front", &["front.test"]);
    let engine = answering(&trust.authority.issue(&["localhost"]), None);
    flags.extend(["--upstream-ca".to_owned(), trust.file("ca.pem")]);
    let out = TempDir::new("both");
    let url = engine.url("localhost");
    let sidecar = Sidecar::start(&url, &out.join("captures"), &refs(&flags));
    let config = trust.client(&["http/1.1"]);
    let client = tls::connect(sidecar.listen, &config, "front.test").unwrap();
    assert_eq!(tls::shown(&client), Some(identity.der()));
    assert_eq!(client.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (answer, end) = ask(client, &closing_chat());
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.ends_with("{}"), "{answer}");
    end.unwrap();
    let rows = rows(sidecar, &out);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        rows[0].upstream,
        format!("localhost:{}", engine.addr.port())
    );
    assert_eq!(rows[0].outcome, Outcome::Complete);
    assert_eq!(rows[0].response_body.as_ref().unwrap().as_slice(), b"{}");
}

#[test]
fn the_certificate_is_the_one_of_the_name_that_was_asked_for() {
    let trust = Trust::new("sni");
    let (first, mut flags) = trust.shown("first", &["first.test"]);
    let (second, more) = trust.shown("second", &["second.test", "*.wild.test"]);
    flags.extend(more);
    let stage = Stage::with("sni", &refs(&flags), ok);
    let config = trust.client(&[]);
    for (name, identity) in [
        ("first.test", &first),
        ("second.test", &second),
        ("a.wild.test", &second),
    ] {
        let client = tls::connect(stage.sidecar.listen, &config, name).unwrap();
        assert_eq!(tls::shown(&client), Some(identity.der()), "{name}");
        assert!(ask(client, &closing_chat()).0.contains(" 200 "), "{name}");
    }
    let unknown = tls::connect(stage.sidecar.listen, &config, "third.test");
    assert!(unknown.is_err(), "the default does not have the name");
}

#[test]
fn a_client_without_the_right_certificate_is_refused_and_disturbs_nobody() {
    let trust = Trust::new("mutual");
    let others = Authority::new("others");
    let (_, mut flags) = trust.shown("front", &["front.test"]);
    flags.extend(["--tls-client-ca".to_owned(), trust.file("ca.pem")]);
    let stage = Stage::with("mutual", &refs(&flags), |_| stream(10, 50));
    let known = trust.authority.issue(&[]);
    let known = tls::client(&trust.authority, Some(&known), &[]);
    let mut good = tls::connect(stage.sidecar.listen, &known, "front.test").unwrap();
    good.write_all(&closing_chat()).unwrap();
    for identity in [None, Some(others.issue(&[]))] {
        let config = tls::client(&trust.authority, identity.as_ref(), &[]);
        // A client of TLS 1.3 is told with its first read.
        let refused = tls::connect(stage.sidecar.listen, &config, "front.test")
            .and_then(|client| ask(client, &closing_chat()).1);
        assert!(refused.is_err(), "{identity:?}");
    }
    let mut answer = String::new();
    good.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("[DONE]"), "{answer}");
    let failures = "truetape_tls_handshake_failures_total";
    assert_eq!(stage.sidecar.metric(failures), 2);
    assert_eq!(stage.finish().0.len(), 1);
}

#[test]
fn what_is_no_handshake_is_counted_and_a_probe_of_the_port_is_not() {
    let trust = Trust::new("noise");
    let (_, flags) = trust.shown("front", &["front.test"]);
    let stage = Stage::with("noise", &refs(&flags), ok);
    drop(TcpStream::connect(stage.sidecar.listen).unwrap());
    for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64]] {
        let mut client = TcpStream::connect(stage.sidecar.listen).unwrap();
        client.set_read_timeout(Some(SOON)).unwrap();
        client.write_all(noise).unwrap();
        let mut answer = Vec::new();
        // An alert, or a reset where it did not read all of it.
        client.read_to_end(&mut answer).ok();
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }
    let failures = "truetape_tls_handshake_failures_total";
    assert_eq!(stage.sidecar.metric(failures), 2);
    let said = stage
        .sidecar
        .process
        .event("a client's TLS handshake failed");
    assert!(said.get("cause").is_some(), "{said}");
    assert_eq!(stage.finish().1.offered, 0);
}

/// What a client gets of an upstream behind a name, and what the proxy counted.
fn refused(identity: &Identity, trust: &Trust, host: &str, more: &[&str]) -> (u16, String, u64) {
    let engine = answering(identity, None);
    let out = TempDir::new("refused");
    let ca = trust.file("ca.pem");
    let flags = [&["--upstream-ca", ca.as_str()], more].concat();
    let sidecar = Sidecar::start(&engine.url(host), &out.join("captures"), &flags);
    let answer = client::exchange(sidecar.listen, &chat(), None);
    let head = answer.head.as_ref().unwrap();
    let marked = head
        .value("x-truetape-error")
        .unwrap_or_default()
        .to_owned();
    let failures = sidecar.metric("truetape_upstream_tls_failures_total");
    if failures > 0 {
        sidecar.process.event("upstream cannot be reached");
    }
    let rows = rows(sidecar, &out);
    assert_eq!(rows[0].status, Some(i32::from(answer.status())));
    (answer.status(), marked, failures)
}

#[test]
fn an_upstream_that_is_not_whom_it_should_be_gets_no_request() {
    let trust = Trust::new("whom");
    let authority = &trust.authority;
    let good = authority.issue(&["localhost", "engine.test"]);
    let wrong = Authority::new("others").issue(&["localhost"]);
    let tls_failed = (502, "upstream tls".to_owned(), 1);
    for (identity, more, expected) in [
        (good.clone(), &[][..], (200, String::new(), 0)),
        (
            authority.issue_expired(&["localhost"]),
            &[],
            tls_failed.clone(),
        ),
        (authority.issue(&["other.test"]), &[], tls_failed.clone()),
        (wrong, &[], tls_failed.clone()),
        // The name that was set counts, whatever the host of the URL.
        (
            good.clone(),
            &["--upstream-server-name", "engine.test"],
            (200, String::new(), 0),
        ),
        (good, &["--upstream-server-name", "x.test"], tls_failed),
    ] {
        let found = refused(&identity, &trust, "localhost", more);
        assert_eq!(found, expected, "{more:?}");
    }
}

#[test]
fn an_upstream_that_shows_an_authoritys_own_certificate_is_told_what_it_needs() {
    let trust = Trust::new("localhost");
    let engine = answering(&trust.authority.itself(), None);
    let (out, ca) = (TempDir::new("itself"), trust.file("ca.pem"));
    let url = engine.url("localhost");
    let flags = ["--upstream-ca", ca.as_str()];
    let sidecar = Sidecar::start(&url, &out.join("captures"), &flags);
    let answer = client::exchange(sidecar.listen, &chat(), None);
    assert_eq!(answer.status(), 502);
    let said = sidecar.process.event("upstream cannot be reached");
    let cause = said["cause"].as_str().unwrap();
    assert!(cause.contains("CA:FALSE"), "{cause}");
}

#[test]
fn an_upstream_knows_the_proxy_by_its_certificate() {
    let trust = Trust::new("shown");
    let clients = Authority::new("clients");
    let (certificate, key) = clients.issue(&[]).write(trust.folder.path(), "me");
    let engine = answering(&trust.authority.issue(&["localhost"]), Some(&clients));
    let ca = trust.file("ca.pem");
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    let mine = ["--upstream-cert", &certificate, "--upstream-key", &key];
    for (more, answered) in [(&mine[..], true), (&[], false)] {
        let out = TempDir::new("shown");
        let flags = [&["--upstream-ca", ca.as_str()], more].concat();
        let url = engine.url("localhost");
        let sidecar = Sidecar::start(&url, &out.join("captures"), &flags);
        let answer = client::exchange(sidecar.listen, &chat(), None);
        // In TLS 1.3 the refusal comes after the request was sent: it ends as it would without us.
        assert_eq!(
            answer.head.is_some_and(|head| head.status() == 200),
            answered
        );
    }
}

#[test]
fn a_private_key_is_not_in_the_log_however_much_is_logged() {
    let trust = Trust::new("quiet");
    let (identity, flags) = trust.shown("front", &["front.test"]);
    let (upstream, out) = (Upstream::start(ok), TempDir::new("quiet"));
    let arguments = args(&upstream.url(), &out.join("captures"), &refs(&flags));
    let everything = [("TRUETAPE_LOG", "trace")];
    let sidecar = Sidecar::of(Process::start(Path::new(PROXY), arguments, &everything));
    let client = tls::connect(sidecar.listen, &trust.client(&[]), "front.test").unwrap();
    assert!(ask(client, &closing_chat()).0.contains(" 200 "));
    drop(
        TcpStream::connect(sidecar.listen)
            .unwrap()
            .write_all(b"noise"),
    );
    sidecar.process.event("a client's TLS handshake failed");
    let said = sidecar.process.stop().expect_code(0).stderr;
    assert!(said.contains("DEBUG"), "{said}");
    for line in identity.key.lines().filter(|line| !line.starts_with('-')) {
        assert!(!said.contains(line), "the key is in the log");
    }
}
