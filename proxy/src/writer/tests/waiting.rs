//! Room on the disk, and rows that wait for somebody to ask for them.

use super::*;

#[test]
fn without_room_rows_are_counted_as_lost_and_capture_resumes_by_itself() {
    for (room, reason) in [
        (
            Room {
                used_bytes: QUOTA,
                ..ROOMY
            },
            "disk_quota",
        ),
        (
            Room {
                free_bytes: FREE_MIN - 1,
                ..ROOMY
            },
            "disk_low",
        ),
    ] {
        let mut stage = Stage::new(1000);
        stage.act(&Action::Arrive(9));
        stage.act(&Action::Write(3));
        stage.act(&Action::Room(room));
        stage.act(&Action::House);
        assert_eq!(stage.writer.status.state(), "paused_disk");
        // What was written is sealed meanwhile.
        assert_eq!(stage.writer.setup.names.next, 3);
        stage.act(&Action::Write(3));
        stage.act(&Action::Room(ROOMY));
        stage.act(&Action::House);
        assert_eq!(stage.writer.status.state(), "recording");
        stage.act(&Action::Write(3));
        stage.writer.end();
        let (sum, ids) = stage.seal();
        assert_eq!(ids, ["1", "2", "3", "7", "8", "9"]);
        assert_eq!(sum.dropped, BTreeMap::from([(reason.to_owned(), 3)]));
        assert!(sum.balances() && sum.offered == 9);
    }
}

#[test]
fn the_oldest_segments_make_room_where_that_is_asked_for() {
    let mut stage = Stage::with(1, OnQuota::DropOldest, None);
    for n in 0..4 {
        let sealed = stage.directory.path().join(format!("p-0-{n:06}.parquet"));
        std::fs::write(sealed, "").unwrap();
    }
    stage.act(&Action::Room(Room {
        used_bytes: QUOTA,
        ..ROOMY
    }));
    stage.act(&Action::House);
    // 1,000 of 1,000 bytes, 50 a segment, until less than 900 are used.
    assert_eq!(stage.writer.metrics.get(Metric::SegmentsRemoved), 3);
    assert_eq!(stage.writer.status.state(), "recording");
    // Nothing is left to remove: it pauses after all.
    stage.act(&Action::Room(Room {
        used_bytes: 2 * QUOTA,
        ..ROOMY
    }));
    stage.act(&Action::House);
    assert_eq!(stage.writer.metrics.get(Metric::SegmentsRemoved), 4);
    assert_eq!(stage.writer.status.state(), "paused_disk");
}

#[test]
fn a_flight_recorder_writes_when_it_is_asked_and_only_then() {
    let mut stage = Stage::with(1000, OnQuota::Pause, Some(Duration::from_secs(60)));
    stage.act(&Action::Arrive(9));
    stage.act(&Action::Write(2));
    stage.act(&Action::Expire);
    stage.act(&Action::Write(3));
    stage.act(&Action::House);
    assert_eq!(stage.recorder.account().snapshot().rows(), 0);
    stage.act(&Action::Flush);
    stage.act(&Action::House);
    assert_eq!(stage.recorder.account().snapshot().rows(), 3);
    assert_eq!(stage.writer.setup.names.next, 3, "the segment is closed");
    stage.act(&Action::Write(4));
    stage.writer.end();
    let (sum, ids) = stage.seal();
    assert_eq!(ids, ["3", "4", "5"]);
    assert_eq!(
        sum.excluded,
        BTreeMap::from([("flight_expired".to_owned(), 6)])
    );
    assert!(sum.balances() && sum.offered == 9);
}

#[test]
fn what_a_flight_recorder_kept_waits_for_room_when_it_is_asked_for() {
    let low = Room {
        free_bytes: FREE_MIN - 1,
        ..ROOMY
    };
    let mut stage = Stage::with(1000, OnQuota::Pause, Some(Duration::from_secs(60)));
    stage.act(&Action::Arrive(5));
    stage.act(&Action::Write(3));
    stage.act(&Action::Room(low));
    stage.act(&Action::House);
    stage.act(&Action::Flush);
    stage.act(&Action::House);
    assert_eq!(stage.recorder.account().snapshot().rows(), 0);
    stage.act(&Action::Room(ROOMY));
    stage.act(&Action::House);
    assert_eq!(stage.recorder.account().snapshot().rows(), 3);
    // Asked for again, and there is no room to the end: then they are lost, and said to be.
    stage.act(&Action::Write(2));
    stage.act(&Action::Room(low));
    stage.act(&Action::House);
    stage.act(&Action::Flush);
    stage.writer.end();
    let (sum, ids) = stage.seal();
    assert_eq!(ids, ["1", "2", "3"]);
    assert_eq!(sum.dropped, BTreeMap::from([("disk_low".to_owned(), 2)]));
    assert!(sum.balances() && sum.offered == 5);
}

#[test]
fn a_segment_without_rows_wakes_nobody_however_old_it_is() {
    let mut stage = Stage::new(1000);
    stage.writer.setup.rotation.every = Duration::ZERO;
    stage.writer.setup.rotation.fsync_every = Duration::from_secs(1);
    let open = stage.writer.open.as_mut().unwrap();
    (open.unsynced, open.rows) = (false, 0);
    assert_eq!(stage.writer.until_due(), limits::FLUSH_TICK);
    stage.writer.open.as_mut().unwrap().rows = 1;
    assert_eq!(stage.writer.until_due(), Duration::from_millis(1));
}
