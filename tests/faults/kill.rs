//! `kill -9` at any moment: what was written is there once, and the loss is a window (P3).

use crate::load::{Asking, Load, Stream, server};
use crate::stage::{Recorder, truetape, verified};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use truetape_testkit::tempdir::TempDir;

const KILLS: u64 = 50;

/// What was answered so long before the kill is in the capture. The recorder's own part of it is
/// some 10 ms (`OBSERVE_TICK` and one write); the rest is a machine that runs other tests.
const WINDOW: Duration = Duration::from_millis(1500);

/// Seed of the moments; another one must hold as well: `TRUETAPE_SEED`.
fn seed() -> u64 {
    let given = std::env::var("TRUETAPE_SEED").ok();
    given.and_then(|seed| seed.parse().ok()).unwrap_or(20261130)
}

#[test]
fn fifty_kills_lose_a_window_each_and_nothing_that_was_written() {
    let dir = TempDir::new("kills");
    let out = dir.join("capture");
    let stream = Stream {
        events: 3,
        every: Duration::from_millis(5),
    };
    let upstream = server(stream, &Arc::default());
    let mut random = ChaCha8Rng::seed_from_u64(seed());
    eprintln!("kills: TRUETAPE_SEED={}", seed());
    let more = ["--rotate-rows", "20", "--fsync-every", "20ms"];
    let (mut sent, mut due, mut answered) = (0, BTreeSet::new(), BTreeSet::new());
    let mut killed: Vec<(Instant, Vec<(u64, Instant)>)> = Vec::new();
    for n in 0..KILLS {
        let recorder = Recorder::start(upstream, &out, &more);
        let asking = Asking {
            clients: 2,
            every: Duration::from_millis(2),
            filler: 100,
            from: n * 10_000_000,
        };
        let load = Load::start(recorder.addr(), asking);
        std::thread::sleep(Duration::from_micros(u64::from(
            random.next_u32() % 300_000,
        )));
        let at = Instant::now();
        recorder.process.kill();
        // Clients whose connection was cut end with an error, which here is no failure.
        let seen = load.end();
        sent += seen.sent.load(Relaxed);
        let marks = std::mem::take(&mut *seen.answered.lock().unwrap());
        for (mark, when) in &marks {
            answered.insert(*mark);
            if *when + WINDOW < at {
                due.insert(*mark);
            }
        }
        killed.push((at, marks));
    }
    Recorder::start(upstream, &out, &more)
        .process
        .stop()
        .expect_code(0);
    let ledger = verified(&out, None);
    let marks: Vec<u64> = truetape_testkit::capture::rows(&out)
        .iter()
        .filter_map(|row| {
            let body = String::from_utf8(row.request_body.clone()?).ok()?;
            body.split("mark ").nth(1)?.split(' ').next()?.parse().ok()
        })
        .collect();
    let kept: BTreeSet<u64> = marks.iter().copied().collect();
    assert_eq!(kept.len(), marks.len(), "a row was written twice");
    assert_eq!(marks.len() as u64, ledger.rows());
    assert!(ledger.offered <= sent, "{ledger:?}, {sent} sent");
    let lost: Vec<&u64> = due.difference(&kept).collect();
    assert!(
        lost.is_empty(),
        "answered long before a kill, and lost: {lost:?}"
    );
    // What each kill cost, in time: the age of the oldest answer that is not there.
    let mut windows: Vec<Duration> = killed
        .iter()
        .map(|(at, marks)| {
            let gone = marks.iter().filter(|(mark, _)| !kept.contains(mark));
            gone.map(|(_, when)| at.saturating_duration_since(*when))
                .max()
                .unwrap_or_default()
        })
        .collect();
    windows.sort();
    eprintln!(
        "kills: {} answered, {} lost, windows p50 {:?}, max {:?}; {ledger:?}",
        answered.len(),
        answered.difference(&kept).count(),
        windows[windows.len() / 2],
        windows[windows.len() - 1],
    );
    let args: [&OsStr; 2] = ["profile".as_ref(), out.as_os_str()];
    truetape(&args).expect_code(0);
}
