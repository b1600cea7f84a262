//! Disks that hang, fill up and break (P2, P3).

use crate::load::{Asking, Load, Stream, request, server};
use crate::stage::{Recorder, truetape, verified};
use crate::volume::Volume;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use truetape_testkit::capture;
use truetape_testkit::client::exchange;
use truetape_testkit::tempdir::TempDir;

const QUIET: Stream = Stream {
    events: 0,
    every: Duration::ZERO,
};

/// How long the disk hangs: longer than any write cache, timeout or queue of ours holds out.
const STALL: Duration = Duration::from_secs(60);

/// What the process may hold beside its budget of 8 MiB, in a build that is not optimised: code,
/// runtime, read buffers, one row group.
const BESIDE_MIB: u64 = 56;

fn asking(clients: u64, every_ms: u64, filler: usize) -> Asking {
    Asking {
        clients,
        every: Duration::from_millis(every_ms),
        filler,
        from: 0,
    }
}

const SMALL: [&str; 6] = [
    "--disk-free-min",
    "0B",
    "--fsync-every",
    "50ms",
    "--rotate-every",
    "1s",
];

#[test]
fn a_disk_that_hangs_for_a_minute_costs_rows_and_no_request() {
    let dir = TempDir::new("stall");
    let Some(mut volume) = Volume::ext4(&dir, "disk") else {
        eprintln!("stall: left out: mounts need root");
        return;
    };
    let out = volume.path().join("capture");
    let flags = [&SMALL[..], &["--memory-budget", "8MiB"]].concat();
    let recorder = Recorder::start(server(QUIET, &Arc::default()), &out, &flags);
    // 400 requests of 8 kB a second: the budget is full within seconds.
    let load = Load::start(recorder.addr(), asking(8, 20, 8000));
    load.await_more(50);
    if !volume.freeze() {
        eprintln!("stall: left out: this file system cannot be frozen");
        return;
    }
    let until = Instant::now() + STALL;
    while Instant::now() < until {
        load.await_more(20);
        let rss = recorder.rss_mib();
        assert!(rss <= 8 + BESIDE_MIB, "{rss} MiB while the disk hangs");
    }
    let lost = |r: &Recorder| r.dropped("memory") + r.dropped("queue_full");
    recorder.wait("a loss", |r| lost(r) > 0.0);
    volume.thaw();
    let recorded = recorder.metric("truetape_records_recorded_total");
    recorder.wait("recording again", |r| {
        r.metric("truetape_records_recorded_total") > recorded + 100.0
    });
    load.expect_no_failure();
    let (peak, seen) = (recorder.peak_mib(), load.end());
    let ledger = recorder.finish(seen.sent.load(Relaxed));
    eprintln!("stall: {STALL:?}, peak {peak} MiB, {ledger:?}");
    assert!(seen.failures.lock().unwrap().is_empty());
}

#[test]
fn a_full_disk_costs_rows_until_there_is_room_again() {
    let dir = TempDir::new("enospc");
    let upstream = server(QUIET, &Arc::default());
    let volume = Volume::tmpfs(&dir, "disk", "4m");
    let Some(volume) = &volume else {
        // A limit of the size of a file stands in; nothing makes room again.
        let out = dir.join("capture");
        let script = "trap '' XFSZ; ulimit -f 2048; exec \"$0\" \"$@\"";
        let recorder = Recorder::run(
            "sh",
            &["-c", script, env!("CARGO_BIN_EXE_truetape")],
            upstream,
            &out,
            &["--disk-free-min", "0B", "--fsync-every", "50ms"],
        );
        let load = Load::start(recorder.addr(), asking(4, 1, 8000));
        recorder.wait("a loss", |r| r.dropped("disk") > 0.0);
        load.await_more(100);
        let sent = load.end().sent.load(Relaxed);
        eprintln!("enospc: mounts need root; a limit of file size stood in, and never ended");
        recorder.process.stop();
        let seen = verified(&out, None).offered;
        assert!(seen <= sent);
        return;
    };
    let filler = volume.path().join("filler");
    std::fs::write(&filler, vec![7; 2 << 20]).unwrap();
    let out = volume.path().join("capture");
    // What waits in memory meanwhile must fit into the room that is made.
    let flags = [&SMALL[..], &["--memory-budget", "1MiB"]].concat();
    let recorder = Recorder::start(upstream, &out, &flags);
    let noise = Load::start(recorder.addr(), asking(4, 1, 8000));
    recorder.wait("a loss", |r| r.dropped("disk") > 0.0);
    assert_eq!(recorder.state(), "paused_disk");
    noise.await_more(100);
    noise.expect_no_failure();
    // All of it ends first: it would fill the disk again, and sealing needs room too.
    let mut sent = noise.end().sent.load(Relaxed);
    std::fs::remove_file(filler).unwrap();
    let recorded = recorder.metric("truetape_records_recorded_total");
    recorder.wait("recording again", |r| {
        let answer = exchange(r.addr(), &request("/v1/chat/completions", sent, 10), None);
        assert_eq!(answer.status(), 200);
        sent += 1;
        r.metric("truetape_records_recorded_total") > recorded
    });
    let ledger = recorder.finish(sent);
    eprintln!("enospc: {ledger:?}");
    assert!(ledger.dropped.contains_key("disk"), "{ledger:?}");
}

#[test]
fn a_disk_that_breaks_costs_the_rest_of_the_capture_and_no_request() {
    let dir = TempDir::new("erofs");
    let Some(volume) = Volume::ext4(&dir, "disk") else {
        eprintln!(
            "erofs: left out: mounts need root; the writer's own tests break its disk instead"
        );
        return;
    };
    let out = volume.path().join("capture");
    let recorder = Recorder::start(server(QUIET, &Arc::default()), &out, &SMALL);
    let load = Load::start(recorder.addr(), asking(4, 1, 2000));
    recorder.wait("a segment", |_| !capture::sealed(&out).is_empty());
    assert!(volume.abort(), "an ext4 that is mounted can be aborted");
    recorder.wait("a loss", |r| r.dropped("disk") > 0.0);
    assert!(recorder.metric("truetape_disk_errors_total") > 0.0);
    load.await_more(200);
    load.expect_no_failure();
    let (seen, metrics) = (load.end(), recorder.metrics());
    let offered = metrics["truetape_records_offered_total"];
    assert_eq!(offered, seen.sent.load(Relaxed) as f64);
    let log = recorder.process.log();
    // Whichever came first, a write or a sync.
    let causes = ["Read-only file system", "Input/output error"];
    let found = causes.iter().find(|cause| log.contains(**cause));
    assert!(found.is_some(), "{log}");
    // What was sealed before is whole.
    let args: [&std::ffi::OsStr; 2] = ["verify".as_ref(), out.as_os_str()];
    truetape(&args).expect_code(0);
    // The last spool cannot be sealed on such a disk, and the exit code says so.
    let ended = recorder.process.stop().expect_code(74);
    let stopped: serde_json::Value = ended
        .stderr
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .find(|event: &serde_json::Value| event["message"] == "stopped")
        .unwrap();
    assert_eq!(stopped["balances"], true, "{stopped}");
    eprintln!(
        "erofs: {} of {offered} recorded before",
        stopped["recorded"]
    );
}
