//! What a store, and the way to it, do wrong.

use super::{LARGE_BYTES, key, left, no_env, once, seal, start, summary, url};
use crate::support::WITHIN;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use truetape_testkit::client::{exchange, request};
use truetape_testkit::s3::{Asked, FakeS3, Fault};
use truetape_testkit::tempdir::TempDir;

/// The first so many requests of a kind go wrong.
fn first(n: u64, is: fn(&Asked) -> bool, fault: Fault) -> impl FnMut(&Asked) -> Fault + Send {
    let mut met = 0;
    move |asked| {
        let hit = is(asked);
        met += u64::from(hit);
        if hit && met <= n { fault } else { Fault::None }
    }
}

fn is_put(asked: &Asked) -> bool {
    asked.method == "PUT"
}

fn is_part(asked: &Asked) -> bool {
    is_put(asked) && asked.target.contains("partNumber")
}

fn is_get(asked: &Asked) -> bool {
    asked.method == "GET"
}

#[test]
fn a_fault_that_passes_costs_time_and_nothing_else() {
    let faults: [(&str, usize, FakeS3); 6] = [
        (
            "reset",
            3_000,
            FakeS3::start(first(1, is_put, Fault::Reset)),
        ),
        (
            "reset of a part",
            LARGE_BYTES,
            FakeS3::start(first(2, is_part, Fault::Reset)),
        ),
        (
            "slow down",
            3_000,
            FakeS3::start(first(2, is_put, Fault::Status(503, "SlowDown"))),
        ),
        (
            "no answer",
            3_000,
            FakeS3::start(first(1, is_put, Fault::Unanswered)),
        ),
        (
            "read back short",
            3_000,
            FakeS3::start(first(1, is_get, Fault::Truncated)),
        ),
        (
            "all at once",
            LARGE_BYTES,
            FakeS3::start(first(3, |_| true, Fault::Status(500, "Oops"))),
        ),
    ];
    for (what, bytes, store) in faults {
        let dir = TempDir::new("ship-fault");
        let (name, sealed) = seal(dir.path(), 1, bytes);
        let ended = once(dir.path(), &url(), &store.env());
        assert_eq!(ended.code, Some(0), "{what}: {ended:?}");
        let objects = store.objects();
        assert_eq!(objects.keys().collect::<Vec<_>>(), [&key(&name)], "{what}");
        assert!(
            objects[&key(&name)] == sealed,
            "{what}: not what was sealed"
        );
        assert_eq!(store.parts_left(), 0, "{what}");
        assert_eq!(left(dir.path()).len(), 0, "{what}: {:?}", left(dir.path()));
        let summary = summary(&ended);
        let there =
            summary["shipped"].as_u64().unwrap() + summary["already_there"].as_u64().unwrap();
        assert_eq!(there, 1, "{what}: {summary}");
    }
}

#[test]
fn a_store_that_gives_back_something_else_is_not_trusted() {
    for bytes in [3_000, LARGE_BYTES] {
        let dir = TempDir::new("ship-corrupt");
        let (name, sealed) = seal(dir.path(), 1, bytes);
        let store = FakeS3::start(|asked| {
            if is_get(asked) {
                Fault::Corrupt
            } else {
                Fault::None
            }
        });
        let ended = once(dir.path(), &url(), &store.env()).expect_code(65);
        assert!(
            ended.stderr.contains("came back as something else"),
            "{}",
            ended.stderr
        );
        assert_eq!(summary(&ended)["conflicts"], 1);
        assert!(
            std::fs::read(dir.path().join(name)).unwrap() == sealed,
            "the segment stays"
        );
    }
}

#[test]
fn another_object_of_the_same_name_is_never_written_over() {
    for bytes in [3_000, LARGE_BYTES] {
        let dir = TempDir::new("ship-conflict");
        let (name, _) = seal(dir.path(), 1, bytes);
        let (other, _) = seal(dir.path(), 2, 3_000);
        let store = FakeS3::start(|_| Fault::None);
        store.put(&key(&name), b"somebody else's");
        let ended = once(dir.path(), &url(), &store.env()).expect_code(65);
        assert!(
            ended.stderr.contains("another object is at"),
            "{}",
            ended.stderr
        );
        assert_eq!(store.objects()[&key(&name)], b"somebody else's");
        assert_eq!(summary(&ended)["conflicts"], 1);
        assert_eq!(
            summary(&ended)["shipped"],
            1,
            "the others are shipped all the same"
        );
        assert_eq!(left(dir.path()), [dir.path().join(&name)]);
        assert!(store.objects().contains_key(&key(&other)));
    }
}

#[test]
fn what_is_no_segment_stays_and_is_named() {
    let dir = TempDir::new("ship-refused");
    let (name, _) = seal(dir.path(), 1, 3_000);
    std::fs::write(dir.path().join("notes.parquet"), b"no Parquet file at all").unwrap();
    std::fs::write(dir.path().join("pod-7-1-000009.spool"), b"in progress").unwrap();
    let store = FakeS3::start(|_| Fault::None);
    let ended = once(dir.path(), &url(), &store.env()).expect_code(65);
    assert!(ended.stderr.contains("notes.parquet"), "{}", ended.stderr);
    assert_eq!(
        store.objects().into_keys().collect::<Vec<_>>(),
        [key(&name)]
    );
    assert_eq!(
        left(dir.path()).len(),
        2,
        "the spool and the file are not ours to touch"
    );
}

#[test]
fn refusals_end_at_once_with_what_to_do() {
    let denied = FakeS3::start(|_| Fault::Status(403, "AccessDenied"));
    let absent = FakeS3::start(|_| Fault::Status(404, "NoSuchBucket"));
    for (store, said) in [(&denied, "denies access"), (&absent, "no such bucket")] {
        let dir = TempDir::new("ship-denied");
        seal(dir.path(), 1, 3_000);
        let ended = once(dir.path(), &url(), &store.env()).expect_code(69);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        assert_eq!(left(dir.path()).len(), 1);
        assert!(store.asked().len() <= 3, "{} requests", store.asked().len());
    }
}

#[test]
fn a_store_that_is_not_there_is_told_by_name() {
    let dir = TempDir::new("ship-nobody");
    seal(dir.path(), 1, 3_000);
    let ended = once(dir.path(), &url(), &no_env()).expect_code(69);
    assert!(
        ended
            .stderr
            .contains("s3://tapes/live: the store could not be reached"),
        "{}",
        ended.stderr
    );
    assert_eq!(left(dir.path()).len(), 1);
}

#[test]
fn an_outage_is_waited_out_without_a_busy_loop() {
    let dir = TempDir::new("ship-outage");
    let (name, _) = seal(dir.path(), 1, 3_000);
    let down = Arc::new(AtomicBool::new(true));
    let asked = Arc::new(AtomicU64::new(0));
    let (is_down, count) = (Arc::clone(&down), Arc::clone(&asked));
    let store = FakeS3::start(move |_| {
        count.fetch_add(1, Relaxed);
        if is_down.load(Relaxed) {
            Fault::Status(503, "SlowDown")
        } else {
            Fault::None
        }
    });
    let more = [
        "--every",
        "100ms",
        "--admin",
        "127.0.0.1:0",
        "--format",
        "json",
    ];
    let shipper = start(dir.path(), &url(), &more, &store.env());
    let admin = shipper.listening().listen;
    let failures = |page: &str| {
        let value = |line: &str| {
            line.strip_prefix("truetape_ship_store_failures_total ")?
                .parse()
                .ok()
        };
        page.lines().find_map(value).unwrap_or(0.0)
    };
    let deadline = Instant::now() + WITHIN;
    loop {
        let page = exchange(admin, &request("GET", "/metrics", &[], b""), None).text();
        assert_eq!(
            exchange(admin, &request("GET", "/livez", &[], b""), None).status(),
            200
        );
        if failures(&page) >= 2.0 {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "the failures are not counted:\n{page}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(
        asked.load(Relaxed) <= 20,
        "{} requests in two tries",
        asked.load(Relaxed)
    );
    down.store(false, Relaxed);
    let back = shipper.event("the store is back");
    assert!(back["tries"].as_u64().unwrap() >= 2, "{back}");
    let ended = shipper.stop().expect_code(0);
    assert_eq!(summary(&ended)["shipped"], 1);
    assert_eq!(
        store.objects().into_keys().collect::<Vec<_>>(),
        [key(&name)]
    );
    assert_eq!(left(dir.path()).len(), 0);
}

#[test]
fn a_stop_waits_for_the_current_part_and_no_longer_than_its_grace() {
    for (grace, code) in [("30s", 0), ("100ms", 75)] {
        let dir = TempDir::new("ship-stop");
        seal(dir.path(), 1, LARGE_BYTES);
        let store = FakeS3::start(|asked| {
            if is_part(asked) {
                Fault::Slow(Duration::from_secs(3))
            } else {
                Fault::None
            }
        });
        let shipper = start(
            dir.path(),
            &url(),
            &["--drain", "0s", "--grace", grace],
            &store.env(),
        );
        let deadline = Instant::now() + WITHIN;
        while !store.asked().iter().any(is_part) {
            assert!(
                Instant::now() < deadline,
                "no part was sent: {}",
                shipper.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        let ended = shipper.stop().expect_code(code);
        assert_eq!(
            ended.stderr.contains("cut by --grace"),
            code == 75,
            "{}",
            ended.stderr
        );
        assert!(
            left(dir.path())
                .iter()
                .any(|path| path.extension().is_some_and(|e| e == "parquet"))
        );
        if code == 0 {
            assert_eq!(
                store.parts_left(),
                0,
                "the parts of a stopped upload are given up"
            );
        }
        // Whatever was cut ships next time, and leaves nothing behind.
        store.set_rule(|_| Fault::None);
        once(dir.path(), &url(), &store.env()).expect_code(0);
        assert_eq!((store.objects().len(), store.parts_left()), (1, 0));
        assert_eq!(left(dir.path()).len(), 0);
    }
}

#[test]
fn a_shipper_that_is_asked_to_leave_waits_for_the_last_segment() {
    let dir = TempDir::new("ship-leave");
    // A recorder is about to seal its last.
    let spool = dir.path().join("pod-7-1732960000000000-000001.spool");
    std::fs::write(&spool, b"in progress").unwrap();
    let store = FakeS3::start(|_| Fault::None);
    let shipper = start(
        dir.path(),
        &url(),
        &["--drain", "60s", "--every", "60s"],
        &store.env(),
    );
    shipper.event("shipping");
    shipper.terminate();
    let (name, _) = seal(dir.path(), 1, 3_000);
    std::fs::remove_file(&spool).unwrap();
    shipper.wait(WITHIN).expect_code(0);
    assert_eq!(
        store.objects().into_keys().collect::<Vec<_>>(),
        [key(&name)]
    );
    assert_eq!(left(dir.path()).len(), 0);

    // One that never does is waited for no longer than --drain.
    std::fs::write(&spool, b"in progress").unwrap();
    let shipper = start(
        dir.path(),
        &url(),
        &["--drain", "300ms", "--every", "60s"],
        &store.env(),
    );
    shipper.event("shipping");
    shipper.stop().expect_code(0);
    assert!(spool.is_file());
}

#[test]
fn kept_segments_are_shipped_once_a_process() {
    let dir = TempDir::new("ship-keep");
    let (name, sealed) = seal(dir.path(), 1, 3_000);
    let store = FakeS3::start(|_| Fault::None);
    let more = ["--keep-local", "--every", "100ms"];
    let shipper = start(dir.path(), &url(), &more, &store.env());
    shipper.event("shipped");
    seal(dir.path(), 2, 3_000);
    let deadline = Instant::now() + WITHIN;
    while store.objects().len() < 2 {
        assert!(Instant::now() < deadline, "{}", shipper.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    shipper.stop().expect_code(0);
    let puts = store
        .asked()
        .into_iter()
        .filter(|asked| asked.target.contains(&name));
    assert_eq!(puts.filter(is_put).count(), 1);
    assert!(std::fs::read(dir.path().join(name)).unwrap() == sealed);
}

#[test]
fn one_directory_has_one_shipper() {
    let dir = TempDir::new("ship-two");
    let store = FakeS3::start(|_| Fault::None);
    let first = start(dir.path(), &url(), &[], &store.env());
    first.event("shipping");
    let ended = once(dir.path(), &url(), &store.env()).expect_code(78);
    assert!(
        ended.stderr.contains("another truetape ship has it"),
        "{}",
        ended.stderr
    );
    first.stop().expect_code(0);
}
