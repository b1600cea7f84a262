//! What is kept where: under a key, within a quota, or in memory until asked for.

use crate::load::{Asking, Load, Stream, request, server};
use crate::stage::{Recorder, truetape, verified};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use truetape_testkit::capture;
use truetape_testkit::client::exchange;
use truetape_testkit::tempdir::TempDir;

const QUIET: Stream = Stream {
    events: 0,
    every: Duration::ZERO,
};

const PATH: &str = "/v1/chat/completions";

fn holds(dir: &Path, text: &str) -> Vec<String> {
    let found = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    let files = capture::files(dir).into_iter().filter(found);
    files.map(|path| path.display().to_string()).collect()
}

#[test]
fn an_encrypted_capture_is_written_killed_recovered_and_read_with_its_key_only() {
    let dir = TempDir::new("encrypted");
    let (out, keys) = (dir.join("capture"), dir.join("keys"));
    std::fs::write(&keys, "# of this test\n000102030405060708090a0b0c0d0e0f\n").unwrap();
    let flags = [
        "--encrypt-key-file",
        keys.to_str().unwrap(),
        "--rotate-rows",
        "4",
    ];
    let upstream = server(QUIET, &Arc::default());
    let recorder = Recorder::start(upstream, &out, &flags);
    for mark in 0..7 {
        let answer = exchange(recorder.addr(), &request(PATH, mark, 40), None);
        assert_eq!(answer.status(), 200);
    }
    recorder.wait("seven rows", |r| {
        r.metric("truetape_records_recorded_total") == 7.0
    });
    recorder.wait("a segment", |_| capture::sealed(&out).len() == 1);
    recorder.process.kill();
    assert_eq!(holds(&out, "mark"), [""; 0], "in a segment and in a spool");
    assert_eq!(holds(&out, "chat"), [""; 0], "in a segment and in a spool");
    // Without the key the spool waits; with it, it is sealed.
    let without = Recorder::start(upstream, &out, &[]);
    without.wait("a failure", |r| {
        r.metric("truetape_seal_failures_total") > 0.0
    });
    without.process.stop().expect_code(74);
    Recorder::start(upstream, &out, &flags)
        .process
        .stop()
        .expect_code(0);
    assert_eq!(holds(&out, "mark"), [""; 0]);
    let ledger = verified(&out, Some(&keys));
    assert_eq!((ledger.offered, ledger.recorded), (7, 7), "{ledger:?}");

    for verb in ["verify", "inspect", "profile"] {
        let args: [&OsStr; 2] = [verb.as_ref(), out.as_os_str()];
        let refused = truetape(&args).expect_code(78);
        assert!(refused.stderr.contains("--key-file"), "{}", refused.stderr);
        let other = dir.join("other");
        std::fs::write(&other, "ff".repeat(32)).unwrap();
        let args: [&OsStr; 4] = [
            verb.as_ref(),
            out.as_os_str(),
            "--key-file".as_ref(),
            other.as_os_str(),
        ];
        truetape(&args).expect_code(78);
    }
    // The control: in the clear all of it is found.
    let clear = dir.join("clear");
    let recorder = Recorder::start(upstream, &clear, &[]);
    exchange(recorder.addr(), &request(PATH, 1, 40), None);
    recorder.process.stop().expect_code(0);
    assert_eq!(holds(&clear, "chat").len(), 1);
}

#[test]
fn a_quota_pauses_capture_until_segments_leave() {
    let dir = TempDir::new("quota");
    let out = dir.join("capture");
    let flags = [
        "--disk-quota",
        "1MiB",
        "--fsync-every",
        "50ms",
        "--rotate-bytes",
        "256KiB",
    ];
    let recorder = Recorder::start(server(QUIET, &Arc::default()), &out, &flags);
    let asking = Asking {
        clients: 2,
        every: Duration::from_millis(2),
        filler: 2000,
        from: 0,
    };
    let load = Load::start(recorder.addr(), asking);
    // Small segments make no room when they are sealed: something must ship them.
    std::fs::write(out.join("unrelated.bin"), vec![1; 900 << 10]).unwrap();
    recorder.wait("a pause", |r| {
        r.dropped("disk_quota") > 0.0 && r.state() == "paused_disk"
    });
    load.await_more(50);
    std::fs::remove_file(out.join("unrelated.bin")).unwrap();
    let recorded = recorder.metric("truetape_records_recorded_total");
    recorder.wait("recording again", |r| {
        r.metric("truetape_records_recorded_total") > recorded
    });
    load.expect_no_failure();
    let seen = load.end();
    let ledger = recorder.finish(seen.sent.load(Relaxed));
    assert!(ledger.dropped["disk_quota"] > 0, "{ledger:?}");
    let used: u64 = capture::files(&out)
        .iter()
        .map(|path| std::fs::metadata(path).unwrap().len())
        .sum();
    eprintln!("quota: {used} bytes used, {ledger:?}");
}

#[test]
fn a_flight_recorder_writes_its_last_rows_when_asked() {
    let dir = TempDir::new("flight");
    let out = dir.join("capture");
    let flags = ["--flight-recorder", "10m"];
    let upstream = server(QUIET, &Arc::default());
    let recorder = Recorder::start(upstream, &out, &flags);
    let ask = |recorder: &Recorder, mark| {
        let answer = exchange(recorder.addr(), &request(PATH, mark, 40), None);
        assert_eq!(answer.status(), 200);
    };
    (0..5).for_each(|mark| ask(&recorder, mark));
    assert!(capture::sealed(&out).is_empty());
    // An exchange that ended this very moment is written when it is asked for again.
    recorder.wait("five rows", |recorder| {
        recorder.process.flush();
        capture::rows(&out).len() == 5
    });
    assert_eq!(recorder.finish(5).recorded, 5);
    // Nobody asks for these.
    let quiet = dir.join("quiet");
    let recorder = Recorder::start(upstream, &quiet, &flags);
    (5..8).for_each(|mark| ask(&recorder, mark));
    let ledger = recorder.finish(3);
    assert_eq!(ledger.excluded["flight_expired"], 3, "{ledger:?}");
    assert!(capture::rows(&quiet).is_empty());
}
