//! One direction of an exchange, as it passed by: its bytes, when they came, how they ended.

use crate::budget::{Budget, Held, Purpose};
use crate::limits;
use bytes::Bytes;
use std::sync::Arc;

/// How one direction ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrackEnd {
    /// Nobody wanted the rest: the receiving side went away.
    #[default]
    Dropped,
    /// As its framing says.
    Clean,
    /// The sending side went away, or broke its framing.
    Failed,
}

/// When a frame passed and how long it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// On the proxy's monotonic clock.
    pub at_us: i64,
    /// Its length.
    pub bytes: u64,
}

/// Bytes in the order they came: small frames copied, large ones shared.
#[derive(Debug, Default)]
struct Rope {
    shared: Vec<Bytes>,
    tail: Vec<u8>,
}

/// What is remembered of one direction. It degrades in order: the body goes first, then the
/// timeline; counters and ends always stay.
#[derive(Debug)]
pub struct Track {
    body: Option<Rope>,
    marks: Option<Vec<Mark>>,
    held: Held,
    body_held: usize,
    body_max: usize,
    timed: bool,
    /// Bytes that passed, also where the body was given up.
    pub bytes: u64,
    /// When the first byte passed.
    pub first_us: Option<i64>,
    /// When the last byte passed, or the end.
    pub end_us: Option<i64>,
    /// How it ended.
    pub end: TrackEnd,
}

impl Track {
    /// Starts a direction. `timed` keeps a mark for each frame.
    pub fn new(budget: &Arc<Budget>, body_max: usize, timed: bool) -> Self {
        Self {
            body: Some(Rope::default()),
            marks: timed.then(Vec::new),
            held: Held::nothing(budget),
            body_held: 0,
            body_max,
            timed,
            bytes: 0,
            first_us: None,
            end_us: None,
            end: TrackEnd::Dropped,
        }
    }

    /// Takes note of a frame. It never waits; without memory it remembers less.
    pub fn push(&mut self, at_us: i64, frame: &Bytes) {
        self.bytes += frame.len() as u64;
        self.first_us.get_or_insert(at_us);
        self.end_us = Some(at_us);
        if self.body.is_some() && !self.keep(frame) {
            self.give_up_body();
        }
        if self.marks.is_some()
            && !self.mark(Mark {
                at_us,
                bytes: frame.len() as u64,
            })
        {
            self.give_up_marks();
        }
    }

    /// Takes note of the end.
    pub fn finish(&mut self, at_us: i64, end: TrackEnd) {
        self.end_us = Some(at_us);
        self.end = end;
    }

    /// Whether the body was given up.
    pub fn lost_body(&self) -> bool {
        self.body.is_none()
    }

    /// Whether the timeline was given up.
    pub fn lost_marks(&self) -> bool {
        self.timed && self.marks.is_none()
    }

    /// The marks, where they were kept.
    pub fn marks(&self) -> Option<&[Mark]> {
        self.marks.as_deref()
    }

    /// The body, where it was kept, in one piece; and what it holds of the budget.
    pub fn into_body(self) -> (Option<Vec<u8>>, Held) {
        (self.body.map(Rope::into_vec), self.held)
    }

    fn keep(&mut self, frame: &Bytes) -> bool {
        if self.bytes > self.body_max as u64 {
            return false;
        }
        let Some(rope) = &mut self.body else {
            return false;
        };
        if frame.len() >= limits::SHARED_FRAME_BYTES {
            let taken = self.held.grow(frame.len(), Purpose::Frames);
            if taken {
                self.body_held += frame.len();
                rope.share(frame.clone());
            }
            return taken;
        }
        let free = rope.tail.capacity() - rope.tail.len();
        if free < frame.len() {
            let (least, most) = limits::BODY_GROWTH_BYTES;
            let step = rope.tail.capacity().clamp(least, most).max(frame.len());
            if !self.held.grow(step, Purpose::Frames) {
                return false;
            }
            self.body_held += step;
            rope.tail.reserve_exact(step);
        }
        rope.tail.extend_from_slice(frame);
        true
    }

    fn mark(&mut self, mark: Mark) -> bool {
        let Some(marks) = &mut self.marks else {
            return false;
        };
        if marks.len() == marks.capacity() {
            let step = marks.capacity().clamp(16, 4096);
            if !self.held.grow(step * size_of::<Mark>(), Purpose::Frames) {
                return false;
            }
            marks.reserve_exact(step);
        }
        marks.push(mark);
        true
    }

    fn give_up_body(&mut self) {
        self.body = None;
        self.held.shrink(std::mem::take(&mut self.body_held));
    }

    fn give_up_marks(&mut self) {
        if let Some(marks) = self.marks.take() {
            self.held.shrink(marks.capacity() * size_of::<Mark>());
        }
    }
}

impl Rope {
    fn share(&mut self, frame: Bytes) {
        if !self.tail.is_empty() {
            self.shared
                .push(Bytes::from(std::mem::take(&mut self.tail)));
        }
        self.shared.push(frame);
    }

    fn into_vec(self) -> Vec<u8> {
        if self.shared.is_empty() {
            return self.tail;
        }
        let length = self.shared.iter().map(Bytes::len).sum::<usize>() + self.tail.len();
        let mut whole = Vec::with_capacity(length);
        for part in &self.shared {
            whole.extend_from_slice(part);
        }
        whole.extend_from_slice(&self.tail);
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::{Track, TrackEnd};
    use crate::budget::Budget;
    use crate::limits::SHARED_FRAME_BYTES;
    use bytes::Bytes;
    use proptest::prelude::*;

    const ROOMY: usize = 64 << 20;

    #[test]
    fn a_body_that_is_too_long_is_given_up_and_its_timeline_stays() {
        let budget = Budget::new(ROOMY);
        let mut track = Track::new(&budget, 10, true);
        track.push(1, &Bytes::from_static(b"12345678"));
        track.push(2, &Bytes::from_static(b"9012"));
        track.finish(3, TrackEnd::Clean);
        assert!(track.lost_body() && !track.lost_marks());
        assert_eq!(
            (track.bytes, track.first_us, track.end_us),
            (12, Some(1), Some(3))
        );
        assert_eq!(track.marks().unwrap().len(), 2);
    }

    #[test]
    fn without_memory_the_body_goes_first_then_the_timeline_and_never_the_counts() {
        let budget = Budget::new(4096);
        let mut track = Track::new(&budget, ROOMY, true);
        let frame = Bytes::from(vec![b'x'; 100]);
        let mut lost_body_at = None;
        let mut lost_marks_at = None;
        for i in 0..1000 {
            track.push(i, &frame);
            lost_body_at = lost_body_at.or(track.lost_body().then_some(i));
            lost_marks_at = lost_marks_at.or(track.lost_marks().then_some(i));
        }
        assert!(lost_body_at.unwrap() < lost_marks_at.unwrap());
        assert_eq!(
            (track.bytes, track.first_us, track.end_us),
            (100_000, Some(0), Some(999))
        );
        assert_eq!(budget.used(), 0);
    }

    proptest! {
        /// However a body is cut into frames, it comes back whole, and memory is given back.
        #[test]
        fn a_body_comes_back_whole(
            sizes in proptest::collection::vec(0usize..2 * SHARED_FRAME_BYTES, 0..12),
        ) {
            let budget = Budget::new(ROOMY);
            let mut track = Track::new(&budget, ROOMY, true);
            let mut whole = Vec::new();
            for (i, size) in sizes.iter().enumerate() {
                let frame: Vec<u8> = (0..*size).map(|j| (i * 31 + j) as u8).collect();
                whole.extend_from_slice(&frame);
                track.push(i as i64, &Bytes::from(frame));
            }
            prop_assert!(budget.used() >= whole.len());
            let (body, held) = track.into_body();
            prop_assert_eq!(body.unwrap(), whole);
            drop(held);
            prop_assert_eq!(budget.used(), 0);
        }
    }
}
