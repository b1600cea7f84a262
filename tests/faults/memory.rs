//! Memory that is bounded whatever the traffic (P5).

use crate::load::{EVENT, Stream, read_stream, request, server};
use crate::stage::{Recorder, WITHIN};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use truetape_schemas::capture::Outcome;
use truetape_testkit::capture;
use truetape_testkit::tempdir::TempDir;

const STREAMS: u64 = 1000;

/// 128 MiB is the bound of a release build; code that is not optimised takes more of it.
const RSS_MIB_MAX: u64 = if cfg!(debug_assertions) { 160 } else { 128 };

#[test]
fn a_thousand_streams_stay_within_bounds() {
    let dir = TempDir::new("thousand");
    let stream = Stream {
        events: 12,
        every: Duration::from_secs(1),
    };
    let upstream = server(stream, &Arc::default());
    let recorder = Recorder::start(upstream, &dir.join("capture"), &[]);
    let idle = recorder.rss_mib();
    let addr = recorder.addr();
    let clients: Vec<_> = (0..STREAMS)
        .map(|mark| {
            let builder = std::thread::Builder::new().stack_size(128 * 1024);
            builder.spawn(move || read_stream(addr, mark)).unwrap()
        })
        .collect();
    recorder.wait("all in flight", |r| {
        r.metric("truetape_exchanges_in_flight") >= STREAMS as f64
    });
    let during = recorder.rss_mib();
    for client in clients {
        assert_eq!(client.join().unwrap().unwrap(), 12 * EVENT.len());
    }
    let peak = recorder.peak_mib();
    eprintln!("thousand: {idle} MiB idle, {during} MiB with {STREAMS} streams, peak {peak} MiB");
    assert!(peak <= RSS_MIB_MAX, "{peak} MiB");
    let ledger = recorder.finish(STREAMS);
    assert_eq!(ledger.recorded, STREAMS, "{ledger:?}");
}

#[test]
fn a_slow_reader_holds_up_its_own_stream_and_no_memory() {
    let dir = TempDir::new("slow");
    let written = Arc::new(AtomicU64::new(0));
    let events = 200_000_000 / EVENT.len();
    let stream = Stream {
        events,
        every: Duration::ZERO,
    };
    let upstream = server(stream, &written);
    let out = dir.join("capture");
    let recorder = Recorder::start(upstream, &out, &["--memory-budget", "8MiB"]);
    let mut slow = TcpStream::connect(recorder.addr()).unwrap();
    slow.set_read_timeout(Some(WITHIN)).unwrap();
    slow.write_all(&request("/v1/chat/completions/stream", 1, 0))
        .unwrap();
    let mut kibibyte = [0; 1024];
    let mut before = 0;
    let until = Instant::now() + Duration::from_secs(12);
    while Instant::now() < until {
        slow.read_exact(&mut kibibyte).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        before = written.load(Relaxed);
    }
    // What the kernel buffers on both sides, and no more, although the server never waits.
    assert!(
        before < 40_000_000,
        "{before} bytes were taken off the server"
    );
    let held = recorder.metric("truetape_capture_memory_bytes");
    assert!(held < 9e6, "{held}");
    let peak = recorder.peak_mib();
    drop(slow);
    recorder.wait("the end", |r| {
        r.metric("truetape_exchanges_in_flight") == 0.0
    });
    let after = written.load(Relaxed);
    assert!(
        after < 60_000_000,
        "{after} bytes after the client had left"
    );
    eprintln!("slow: {before} bytes taken off the server, peak {peak} MiB");
    assert!(peak <= RSS_MIB_MAX, "{peak} MiB");
    recorder.finish(1);
    let rows = capture::rows(&out);
    assert_eq!(rows[0].outcome, Outcome::ClientAborted);
    assert!(
        rows[0].client_stall_us.unwrap() > 8_000_000,
        "{:?}",
        rows[0].client_stall_us
    );
}
