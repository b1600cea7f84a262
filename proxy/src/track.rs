//! One direction of an exchange, as it passed by: its bytes, when they came, how they ended.

use crate::budget::{Held, Purpose};
use crate::limits;
use crate::pack::{Job, Packed};
use crate::recorder::Recorder;
use bytes::Bytes;
use std::collections::VecDeque;
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

/// Bytes in the order they came: the packed part, then the part that grows.
#[derive(Debug, Default)]
struct Rope {
    packed: Option<Arc<Packed>>,
    tail: Vec<u8>,
    tail_held: usize,
}

/// What is remembered of one direction. It degrades in order: the body goes first, then the
/// timeline; counters and ends always stay.
#[derive(Debug)]
pub struct Track {
    body: Option<Rope>,
    /// The last bytes, once the body was given up; of an answer only.
    tail: VecDeque<u8>,
    marks: Option<Vec<Mark>>,
    held: Held,
    recorder: Arc<Recorder>,
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
    pub fn new(recorder: &Arc<Recorder>, body_max: usize, timed: bool) -> Self {
        Self {
            body: Some(Rope::default()),
            tail: VecDeque::new(),
            marks: timed.then(Vec::new),
            held: Held::nothing(recorder.budget()),
            recorder: Arc::clone(recorder),
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
        if self.body.is_none() {
            self.keep_tail(frame);
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
        let is_request = !self.timed;
        let long = |rope: &Rope| rope.tail.len() >= limits::WHOLE_REQUEST_BYTES;
        let waits = is_request && self.body.as_ref().is_some_and(long);
        if waits && self.recorder.budget().is_tight() && !self.hand_over_tail() {
            self.give_up_body();
        }
    }

    /// The last bytes of a body that was given up, as far as there was memory for them.
    pub fn take_tail(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.tail).into()
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
        let mut held = self.held;
        let body = self.body.and_then(|rope| match rope.packed {
            None => Some(rope.tail),
            Some(packed) => packed.unpack(&rope.tail, &mut held),
        });
        (body, held)
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
            return taken && self.hand_over_tail() && self.hand_over(frame.clone(), frame.len());
        }
        let long = rope.tail.len() >= limits::PIECE_BYTES;
        if long && self.recorder.budget().is_tight() && !self.hand_over_tail() {
            return false;
        }
        self.copy(frame)
    }

    fn copy(&mut self, frame: &Bytes) -> bool {
        let Some(rope) = &mut self.body else {
            return false;
        };
        let free = rope.tail.capacity() - rope.tail.len();
        if free < frame.len() {
            let (least, most) = limits::BODY_GROWTH_BYTES;
            let step = rope.tail.capacity().clamp(least, most).max(frame.len());
            if !self.held.grow(step, Purpose::Frames) {
                return false;
            }
            rope.tail_held += step;
            rope.tail.reserve_exact(step);
        }
        rope.tail.extend_from_slice(frame);
        true
    }

    fn hand_over_tail(&mut self) -> bool {
        let Some(rope) = &mut self.body else {
            return false;
        };
        if rope.tail.is_empty() {
            return true;
        }
        let tail = Bytes::from(std::mem::take(&mut rope.tail));
        let held = std::mem::take(&mut rope.tail_held);
        self.hand_over(tail, held)
    }

    /// Hands a piece over; a queue that is full costs the body.
    fn hand_over(&mut self, bytes: Bytes, held: usize) -> bool {
        let Some(rope) = &mut self.body else {
            return false;
        };
        let packed = rope.packed.get_or_insert_default();
        let held = self.held.split(held);
        self.recorder.pack(Job::new(packed, bytes, held))
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

    /// What is left of memory after the body was let go may do for its end.
    fn give_up_body(&mut self) {
        let Some(rope) = self.body.take() else { return };
        self.held.shrink(rope.tail_held);
        if self.timed && self.held.grow(limits::TAIL_BYTES, Purpose::Frames) {
            self.tail.reserve_exact(limits::TAIL_BYTES);
            self.keep_tail(&rope.tail);
        }
    }

    fn keep_tail(&mut self, bytes: &[u8]) {
        let room = self.tail.capacity().min(limits::TAIL_BYTES);
        let bytes = bytes
            .get(bytes.len().saturating_sub(room)..)
            .unwrap_or_default();
        let over = (self.tail.len() + bytes.len()).saturating_sub(room);
        self.tail.drain(..over);
        self.tail.extend(bytes);
    }

    fn give_up_marks(&mut self) {
        if let Some(marks) = self.marks.take() {
            self.held.shrink(marks.capacity() * size_of::<Mark>());
        }
    }
}

#[cfg(test)]
mod tests;
