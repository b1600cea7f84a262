use super::{Track, TrackEnd};
use crate::limits::{PIECE_BYTES, SHARED_FRAME_BYTES};
use crate::recorder::{Offer, Recorder};
use bytes::Bytes;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

const ROOMY: usize = 64 << 20;

fn recorder(budget: usize) -> (Arc<Recorder>, Receiver<Offer>) {
    Recorder::new(budget, 64)
}

/// What the thread that makes rows does with pieces.
fn pack(recorder: &Recorder, offers: &Receiver<Offer>) -> usize {
    let pack = |offer| match offer {
        Offer::Piece(job) => job.run(recorder.budget()),
        Offer::Record(record) => panic!("no record was offered: {record:?}"),
    };
    offers.try_iter().map(pack).count()
}

#[test]
fn a_body_that_is_too_long_is_given_up_and_its_timeline_stays() {
    let (recorder, _offers) = recorder(ROOMY);
    let mut track = Track::new(&recorder, 10, true);
    track.push(1, &Bytes::from_static(b"12345678"));
    track.push(2, &Bytes::from_static(b"9012"));
    track.finish(3, TrackEnd::Clean);
    assert!(!track.lost_marks());
    assert_eq!(
        (track.bytes, track.first_us, track.end_us),
        (12, Some(1), Some(3))
    );
    assert_eq!(track.marks().unwrap().len(), 2);
    assert_eq!(track.into_body().0, None);
}

#[test]
fn without_memory_the_body_goes_first_then_the_timeline_and_never_the_counts() {
    let (recorder, _offers) = recorder(4096);
    let mut track = Track::new(&recorder, ROOMY, true);
    let frame = Bytes::from(vec![b'x'; 100]);
    let mut lost_body_at = None;
    let mut lost_marks_at = None;
    for i in 0..1000 {
        track.push(i, &frame);
        lost_body_at = lost_body_at.or(track.body.is_none().then_some(i));
        lost_marks_at = lost_marks_at.or(track.lost_marks().then_some(i));
    }
    assert!(lost_body_at.unwrap() < lost_marks_at.unwrap());
    assert_eq!(
        (track.bytes, track.first_us, track.end_us),
        (100_000, Some(0), Some(999))
    );
    assert_eq!(recorder.budget().used(), 0);
}

#[test]
fn a_stream_far_longer_than_its_memory_is_kept_packed() {
    let (recorder, offers) = recorder(1 << 20);
    let mut track = Track::new(&recorder, ROOMY, false);
    let frame = Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\" the\"}}]}\n\n");
    let mut pieces = 0;
    for i in 0..100_000 {
        track.push(i, &frame);
        pieces += pack(&recorder, &offers);
    }
    assert!(track.bytes > 4 << 20 && pieces > 10);
    let (body, held) = track.into_body();
    assert_eq!(body.unwrap(), frame.repeat(100_000));
    drop(held);
    assert_eq!(recorder.budget().used(), 0);
}

#[test]
fn a_queue_that_is_full_costs_the_body_and_keeps_no_memory() {
    let (recorder, offers) = Recorder::new(1 << 20, 1);
    let mut track = Track::new(&recorder, ROOMY, false);
    let frame = Bytes::from(vec![b'x'; SHARED_FRAME_BYTES]);
    track.push(1, &frame);
    assert!(track.body.is_some());
    track.push(2, &frame);
    assert!(track.body.is_none());
    drop(offers);
    assert_eq!(recorder.budget().used(), 0);
}

proptest! {
    /// However a body is cut into frames, and however tight memory is, it comes back whole or not at
    /// all, and memory is given back.
    #[test]
    fn a_body_comes_back_whole_or_not_at_all(
        sizes in proptest::collection::vec(0usize..2 * SHARED_FRAME_BYTES, 0..12),
        budget in prop_oneof![Just(ROOMY), (1usize..20).prop_map(|n| n * PIECE_BYTES)],
    ) {
        let (recorder, offers) = recorder(budget);
        let mut track = Track::new(&recorder, ROOMY, true);
        let mut whole = Vec::new();
        for (i, size) in sizes.iter().enumerate() {
            let frame: Vec<u8> = (0..*size).map(|j| (i * 31 + j / 7) as u8).collect();
            whole.extend_from_slice(&frame);
            track.push(i as i64, &Bytes::from(frame));
            prop_assert!(recorder.budget().used() <= budget);
        }
        pack(&recorder, &offers);
        let bytes = track.bytes;
        let (body, held) = track.into_body();
        prop_assert!(budget < ROOMY || body.is_some());
        if let Some(body) = body {
            prop_assert_eq!(&body, &whole);
        }
        prop_assert_eq!(bytes, whole.len() as u64);
        drop(held);
        prop_assert_eq!(recorder.budget().used(), 0);
    }
}
