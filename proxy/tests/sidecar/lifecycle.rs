//! The process: how it refuses to start, how it ends, and what a kill leaves.

use crate::support::{PROXY, SOON, Sidecar, Stage, args, captured, chat, get, ok, stream};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use truetape_schemas::capture::Outcome;
use truetape_testkit::capture;
use truetape_testkit::client::{self, Client, End};
use truetape_testkit::process;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::Upstream;

const NOBODY: &str = "http://127.0.0.1:9";

#[test]
fn bad_settings_are_one_clear_error_and_their_own_exit_code() {
    let out = TempDir::new("config");
    let blocked = out.join("file");
    std::fs::write(&blocked, b"x").unwrap();
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--upstream", "ftp://x"], 78, "expected a URL"),
        (&["--upstream-ca", "ca.pem"], 78, "no upstream is https"),
        (
            &["--memory-budget", "lots"],
            78,
            "memory_budget: found \"lots\"",
        ),
        (&["--content", "words"], 78, "full, digest or none"),
        (&["--config", "/nowhere.toml"], 78, "/nowhere.toml"),
        (
            &[
                "--check-config",
                "--tls-cert",
                "/nowhere.pem",
                "--tls-key",
                "/nowhere.key",
            ],
            78,
            "tls_cert /nowhere.pem: No such file",
        ),
        (&["--listen", "127.0.0.1:1x"], 78, "listen: found"),
        (
            &["--listen", "203.0.113.7:1"],
            74,
            "203.0.113.7:1: cannot listen",
        ),
        (&["--no-such-flag"], 2, "--no-such-flag"),
    ];
    for (more, code, said) in cases {
        let base = ["--upstream", "--listen"]
            .iter()
            .any(|flag| more.contains(flag));
        let mut arguments = args(NOBODY, &out.join("captures"), &[]);
        if base {
            let at = arguments.iter().position(|arg| arg == more[0]).unwrap();
            arguments.drain(at..at + 2);
        }
        arguments.extend(more.iter().map(|arg| (*arg).to_owned()));
        let ended = process::run(Path::new(PROXY), arguments).expect_code(code);
        assert!(
            ended.stderr.contains(said),
            "{said:?} is not in {}",
            ended.stderr
        );
        assert_eq!(ended.stdout, "");
    }
    let ended = process::run(Path::new(PROXY), args(NOBODY, &blocked, &[])).expect_code(74);
    assert!(ended.stderr.contains("file"), "{}", ended.stderr);
}

#[test]
fn settings_can_be_checked_and_printed() {
    let out = TempDir::new("print");
    let arguments = args(NOBODY, &out.join("captures"), &["--check-config"]);
    process::run(Path::new(PROXY), arguments).expect_code(0);
    assert!(!out.join("captures").try_exists().unwrap());
    let arguments = args(NOBODY, &out.join("captures"), &["--print-config"]);
    let env = [("TRUETAPE_ROTATE_EVERY", "9s")];
    let printed = process::run_with(Path::new(PROXY), arguments, &env)
        .expect_code(0)
        .stdout;
    assert!(
        printed.contains("rotate_every = \"9s\" # flag or environment"),
        "{printed}"
    );
    assert!(
        printed.contains("memory_budget = \"64MiB\" # default"),
        "{printed}"
    );
}

#[test]
fn two_proxies_do_not_share_a_directory() {
    let stage = Stage::new("lock", ok);
    let arguments = args(NOBODY, &stage.out.join("captures"), &[]);
    let ended = process::run(Path::new(PROXY), arguments).expect_code(78);
    assert!(
        ended
            .stderr
            .contains("another proxy records into this directory"),
        "{}",
        ended.stderr
    );
    assert_eq!(stage.send(&chat()).status(), 200);
    assert_eq!(stage.finish().0.len(), 1);
}

#[test]
fn the_admin_pages_tell_what_they_should() {
    let stage = Stage::new("admin", ok);
    assert_eq!(stage.send(&chat()).status(), 200);
    let sidecar = &stage.sidecar;
    assert_eq!(sidecar.page("/livez"), (200, "ok\n".to_owned()));
    assert_eq!(sidecar.page("/readyz").0, 200);
    assert_eq!(sidecar.page("/nothing").0, 404);
    assert!(sidecar.page("/version").1.contains("capture/1"));
    assert_eq!(sidecar.metric("truetape_requests_total"), 1);
    let status: serde_json::Value = serde_json::from_str(&sidecar.page("/capture").1).unwrap();
    assert_eq!(
        (&status["state"], &status["ledger"]["offered"]),
        (&"recording".into(), &1.into())
    );
    let (_, ledger) = stage.finish();
    assert_eq!(ledger.offered, 1);
}

#[test]
fn an_operator_switches_capture_and_the_ledger_says_what_that_cost() {
    let stage = Stage::with("switch", &["--admin-writes"], ok);
    let sidecar = &stage.sidecar;
    assert_eq!(stage.send(&chat()).status(), 200);
    assert_eq!(sidecar.command("/capture/off").0, 200);
    assert_eq!(sidecar.metric("truetape_capture_state{state=\"off\"}"), 1);
    assert_eq!(stage.send(&chat()).status(), 200);
    assert_eq!(sidecar.command("/capture/on").0, 200);
    assert_eq!(stage.send(&chat()).status(), 200);
    assert_eq!(sidecar.command("/capture").0, 404);
    let (rows, ledger) = stage.finish();
    assert_eq!((rows.len(), ledger.offered), (2, 3));
    assert_eq!(ledger.excluded["capture_off"], 1);
}

#[test]
fn commands_are_refused_unless_they_were_allowed_and_from_web_pages_always() {
    let stage = Stage::new("refuse", ok);
    let (status, text) = stage.sidecar.command("/capture/off");
    assert_eq!(status, 403);
    assert!(text.contains("--admin-writes"), "{text}");
    drop(stage.finish());
    let stage = Stage::with("page", &["--admin-writes"], ok);
    let request = b"POST /capture/off HTTP/1.1\r\nhost: x\r\norigin: http://evil.example\r\ncontent-length: 0\r\n\r\n";
    let refused = client::exchange(stage.sidecar.admin, request, None);
    assert_eq!(refused.status(), 403);
    assert_eq!(stage.send(&chat()).status(), 200);
    assert_eq!(stage.finish().0.len(), 1);
}

#[test]
fn a_drain_lets_streams_end_and_takes_no_more() {
    let stage = Stage::new("drain", |_| stream(20, 100));
    let mut idle = Client::connect(stage.sidecar.listen);
    idle.write(&get("/v1/models"));
    assert_eq!(idle.read_answer("GET", None).status(), 200);
    let mut client = Client::connect(stage.sidecar.listen);
    client.write(&chat());
    stage
        .upstream
        .await_records("the request", SOON, |r| (r.len() == 2).then_some(()));
    stage.sidecar.process.terminate();
    stage.sidecar.process.event("draining");
    assert_eq!(stage.sidecar.page("/readyz").0, 503);
    assert_eq!(stage.sidecar.page("/livez").0, 200);
    assert!(std::net::TcpStream::connect(stage.sidecar.listen).is_err());
    let answer = client.read_answer("POST", None);
    assert_eq!(answer.end, End::Clean);
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    let Stage {
        sidecar,
        upstream: _upstream,
        out,
    } = stage;
    sidecar.process.wait(SOON).expect_code(0);
    let (rows, ledger) = captured(&out.join("captures"));
    assert_eq!((rows[0].outcome, ledger.offered), (Outcome::Complete, 2));
}

#[test]
fn a_deadline_that_cuts_says_so() {
    let stage = Stage::with("cut", &["--drain-timeout", "200ms"], |_| stream(50, 100));
    let mut client = Client::connect(stage.sidecar.listen);
    client.write(&chat());
    stage
        .upstream
        .await_records("the request", SOON, |r| (!r.is_empty()).then_some(()));
    stage.sidecar.process.terminate();
    let answer = client.read_answer("POST", None);
    assert!(matches!(answer.end, End::Cut(_)), "{:?}", answer.end);
    let Stage {
        sidecar,
        upstream: _upstream,
        out,
    } = stage;
    let ended = sidecar.process.wait(SOON).expect_code(75);
    assert!(
        ended.stderr.contains("1 exchanges were cut"),
        "{}",
        ended.stderr
    );
    let (rows, _) = captured(&out.join("captures"));
    assert_eq!(rows[0].outcome, Outcome::ProxyShutdown);
}

#[test]
fn a_second_signal_ends_at_once_and_still_seals() {
    let stage = Stage::new("twice", |_| stream(50, 100));
    let mut client = Client::connect(stage.sidecar.listen);
    client.write(&chat());
    stage
        .upstream
        .await_records("the request", SOON, |r| (!r.is_empty()).then_some(()));
    let started = Instant::now();
    stage.sidecar.process.interrupt();
    stage.sidecar.process.event("draining");
    stage.sidecar.process.interrupt();
    let Stage {
        sidecar,
        upstream: _upstream,
        out,
    } = stage;
    sidecar.process.wait(SOON).expect_code(75);
    assert!(started.elapsed() < Duration::from_secs(3));
    let (rows, _) = captured(&out.join("captures"));
    assert_eq!(rows[0].outcome, Outcome::ProxyShutdown);
}

/// What a kill may cost at most: the time between two notes, as stated.
const WINDOW: Duration = Duration::from_secs(1);

/// Killed at several ages, each time in the middle of traffic, in one directory.
#[test]
fn a_kill_costs_at_most_the_last_moment_and_the_next_start_repairs() {
    let upstream = Upstream::start(ok);
    let out = TempDir::new("kill");
    let directory = out.join("captures");
    // (when each answer had come, when the kill came)
    let mut rounds = Vec::new();
    for (round, age_ms) in [40, 170, 390, 1600].into_iter().enumerate() {
        let id = format!("round-{round}");
        let more = [
            "--rotate-every",
            "150ms",
            "--fsync-every",
            "20ms",
            "--proxy-id",
            &id,
        ];
        let sidecar = Sidecar::start(&upstream.url(), &directory, &more);
        let mut client = Client::connect(sidecar.listen);
        let kill_at = Instant::now() + Duration::from_millis(age_ms);
        let mut answered = Vec::new();
        while Instant::now() < kill_at {
            client.write(&chat());
            assert_eq!(client.read_answer("POST", None).status(), 200);
            answered.push(Instant::now());
        }
        rounds.push((answered, Instant::now()));
        sidecar.process.kill();
        // Whatever has the name of a segment opens, at any moment.
        capture::rows(&directory);
    }
    let last = Sidecar::start(&upstream.url(), &directory, &[]);
    assert_eq!(
        truetape_testkit::client::exchange(last.listen, &chat(), None).status(),
        200
    );
    last.stop();
    let (rows, _) = captured(&directory);
    let ids: BTreeSet<&str> = rows.iter().map(|row| row.exchange_id.as_str()).collect();
    assert_eq!(ids.len(), rows.len(), "a row came twice");
    assert_eq!(rows.iter().filter(|row| row.proxy_id == "test").count(), 1);
    for (round, (answered, killed)) in rounds.iter().enumerate() {
        let id = format!("round-{round}");
        let kept: Vec<i32> = rows
            .iter()
            .filter(|row| row.proxy_id == id)
            .map(|row| row.conn_seq)
            .collect();
        let prefix: Vec<i32> = (0..).take(kept.len()).collect();
        assert_eq!(kept, prefix, "there is a hole in {id}");
        let due = answered.iter().filter(|at| **at + WINDOW < *killed).count();
        assert!(
            kept.len() >= due,
            "{id}: {} rows, {due} before the window",
            kept.len()
        );
    }
    let names: Vec<String> = capture::files(&directory)
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let left = |name: &String| name.ends_with(".spool") || name.ends_with(".tmp");
    assert!(!names.iter().any(left), "{names:?}");
}

#[test]
fn a_kill_in_the_middle_of_streams_counts_them_as_killed() {
    let stage = Stage::new("killed", |_| stream(50, 100));
    let mut clients: Vec<Client> = (0..3)
        .map(|_| Client::connect(stage.sidecar.listen))
        .collect();
    for client in &mut clients {
        client.write(&chat());
    }
    stage
        .upstream
        .await_records("the requests", SOON, |r| (r.len() == 3).then_some(()));
    // Until the ledger with them is in the spool.
    let directory = stage.out.join("captures");
    let noted = || {
        crate::support::holders(&directory, "\"offered\":3")
            .iter()
            .any(|path| path.extension().is_some_and(|e| e == "spool"))
    };
    let deadline = Instant::now() + SOON;
    while !noted() {
        assert!(Instant::now() < deadline, "the ledger was never noted");
        std::thread::sleep(Duration::from_millis(10));
    }
    let Stage {
        sidecar,
        upstream,
        out,
    } = stage;
    sidecar.process.kill();
    let again = Sidecar::start(&upstream.url(), &directory, &[]);
    let recovered = again
        .process
        .event("recovered the spool of a process that was killed");
    assert_eq!(
        (&recovered["rows"], &recovered["killed"]),
        (&0.into(), &3.into())
    );
    again.stop();
    let (rows, ledger) = captured(&out.join("captures"));
    assert_eq!(
        (rows.len(), ledger.offered, ledger.dropped["killed"]),
        (0, 3, 3)
    );
}

#[test]
fn a_proxy_runs_inside_another_program() {
    use truetape_proxy::{cli::RecordArgs, config::Config};
    let upstream = Upstream::start(ok);
    let out = TempDir::new("inside");
    let args = RecordArgs {
        listen: Some("127.0.0.1:0".to_owned()),
        admin: Some("127.0.0.1:0".to_owned()),
        upstream: Some(upstream.url()),
        out: Some(out.join("captures").display().to_string()),
        ..RecordArgs::default()
    };
    let config = Config::resolve(&args).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let proxy = runtime.block_on(truetape_proxy::start(config)).unwrap();
    let answer = truetape_testkit::client::exchange(proxy.listen_addr, &chat(), None);
    assert_eq!(answer.status(), 200);
    let ledger = runtime.block_on(proxy.shutdown());
    assert_eq!(
        (ledger.offered, ledger.recorded, ledger.balances()),
        (1, 1, true)
    );
    assert_eq!(captured(&out.join("captures")).0.len(), 1);
}

#[test]
fn standard_output_stays_empty() {
    let stage = Stage::new("stdout", ok);
    assert_eq!(stage.send(&chat()).status(), 200);
    let Stage {
        sidecar,
        upstream: _upstream,
        out: _out,
    } = stage;
    let ended = sidecar.process.stop().expect_code(0);
    assert_eq!(ended.stdout, "");
    let lines: Vec<serde_json::Value> = ended
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        lines
            .iter()
            .any(|line| line["message"] == "stopped" && line["balances"] == true)
    );
}
