//! A real S3-compatible server, where there is one: `TRUETAPE_MOTO`, or `moto_server` on the path.

use super::{LARGE_BYTES, left, no_env, once, reading, seal, summary, url};
use crate::support::WITHIN;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;
use truetape_testkit::client::{Answer, exchange};
use truetape_testkit::process::Process;
use truetape_testkit::s3::{BUCKET, env, moto};
use truetape_testkit::tempdir::TempDir;

/// A request by path: with another host, the server would take that for the name of a bucket.
fn ask(addr: SocketAddr, method: &str, path: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {addr}\r\nContent-Length: 0\r\n\r\n");
    exchange(addr, request.as_bytes(), None)
}

/// Starts it on a port of its choice, and makes the bucket.
fn serve(program: &Path) -> (Process, SocketAddr) {
    let server = Process::start(program, ["-H", "127.0.0.1", "-p", "0"], &[]);
    let deadline = Instant::now() + 3 * WITHIN;
    let addr = loop {
        let log = server.log();
        let rest = log.split("Running on http://").nth(1);
        let addr = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        if let Some(addr) = addr {
            break addr;
        }
        assert!(Instant::now() < deadline, "moto never listened:\n{log}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let made = ask(addr, "PUT", &format!("/{BUCKET}"));
    assert_eq!(made.status(), 200, "{}", made.text());
    (server, addr)
}

#[test]
fn a_real_server_takes_parts_conditions_and_read_back() {
    let Some(program) = moto() else { return };
    let scratch = TempDir::new("ship-moto");
    let dir = scratch.join("capture");
    let (server, addr) = serve(&program);
    let env = env(&format!("http://{addr}"));
    for (number, bytes) in [(1, 3_000), (2, LARGE_BYTES), (3, 3_000)] {
        seal(&dir, number, bytes);
    }
    let local = reading::digest(&scratch, &dir.display().to_string(), &no_env());
    let ended = once(&dir, &url(), &env).expect_code(0);
    assert_eq!(summary(&ended)["shipped"], 3, "{ended:?}");
    assert_eq!(left(&dir).len(), 0);
    assert_eq!(reading::digest(&scratch, &url(), &env), local);

    // The same again is there already; another content of the same name is refused.
    for (number, bytes) in [(1, 3_000), (2, LARGE_BYTES)] {
        seal(&dir, number, bytes);
    }
    let ended = once(&dir, &url(), &env).expect_code(0);
    assert_eq!(summary(&ended)["already_there"], 2, "{ended:?}");
    for bytes in [4_000, LARGE_BYTES + 8] {
        let number = if bytes == 4_000 { 1 } else { 2 };
        let (name, sealed) = seal(&dir, number, bytes);
        let ended = once(&dir, &url(), &env).expect_code(65);
        assert_eq!(summary(&ended)["conflicts"], 1, "{ended:?}");
        assert!(std::fs::read(dir.join(&name)).unwrap() == sealed);
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    let listed = ask(addr, "GET", &format!("/{BUCKET}?list-type=2"));
    assert_eq!(
        listed.text().matches("<Key>").count(),
        3,
        "{}",
        listed.text()
    );
    let uploads = ask(addr, "GET", &format!("/{BUCKET}?uploads"));
    assert_eq!(
        uploads.text().matches("<UploadId>").count(),
        0,
        "{}",
        uploads.text()
    );

    seal(&dir, 4, 3_000);
    let ended = once(&dir, "s3://no-such-bucket/live", &env).expect_code(69);
    assert!(ended.stderr.contains("no such bucket"), "{}", ended.stderr);
    drop(server);
}
