//! The flight recorder: the last minutes, packed in memory, written when somebody asks for them.

use crate::limits;
use crate::spool::Frame;
use crate::writer::Entry;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Fast, and enough for what repeats.
const LEVEL: i32 = 1;

/// Rows that wait, the oldest first.
#[derive(Debug)]
pub struct Flight {
    keep: Duration,
    bytes_max: usize,
    bytes: usize,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    frame: Stored,
    /// Its frame is not here but in `frame`.
    entry: Entry,
}

#[derive(Debug)]
struct Stored {
    bytes: Vec<u8>,
    /// Its length before it was packed; `None` for one that would not shrink.
    packed_from: Option<usize>,
}

impl Flight {
    /// Keeps rows for so long, in a share of the memory for capture.
    pub fn new(keep: Duration, memory_budget: usize) -> Self {
        Self {
            keep,
            bytes_max: memory_budget / limits::FLIGHT_SHARE,
            bytes: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Takes a row; says how many older ones had to leave to make room.
    pub fn push(&mut self, mut entry: Entry, now: Instant) -> u64 {
        let frame = Stored::of(&std::mem::replace(
            &mut entry.frame,
            Frame::whole(Vec::new()),
        ));
        let waiting = Waiting {
            since: now,
            frame,
            entry,
        };
        let bytes = waiting.bytes();
        let mut displaced = 0;
        while self.bytes + bytes > self.bytes_max && self.pop().is_some() {
            displaced += 1;
        }
        if bytes > self.bytes_max {
            // Longer than all of it.
            return displaced + 1;
        }
        self.bytes += bytes;
        let mut waiting = waiting;
        waiting.entry.held.shrink_to(bytes);
        self.waiting.push_back(waiting);
        displaced
    }

    /// Lets go of what is too old; says how many rows that were.
    pub fn expire(&mut self, now: Instant) -> u64 {
        let mut expired = 0;
        while self
            .waiting
            .front()
            .is_some_and(|oldest| now.saturating_duration_since(oldest.since) > self.keep)
        {
            expired += u64::from(self.pop().is_some());
        }
        expired
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets go of everything; says how many rows that were.
    pub fn clear(&mut self) -> u64 {
        self.bytes = 0;
        let rows = self.waiting.len() as u64;
        self.waiting.clear();
        rows
    }

    /// The oldest rows, as many as are written at once; and how many of them could not be unpacked.
    pub fn batch(&mut self) -> (Vec<Entry>, u64) {
        let (mut batch, mut bytes, mut broken) = (Vec::new(), 0, 0);
        while batch.len() < limits::BATCH_ROWS_MAX
            && bytes < limits::BATCH_BYTES_MAX
            && let Some(Waiting { frame, entry, .. }) = self.pop()
        {
            match frame.unpack() {
                Some(frame) => {
                    bytes += frame.bytes();
                    batch.push(Entry { frame, ..entry });
                }
                None => broken += 1,
            }
        }
        (batch, broken)
    }

    fn pop(&mut self) -> Option<Waiting> {
        let oldest = self.waiting.pop_front()?;
        self.bytes -= oldest.bytes();
        Some(oldest)
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.frame.bytes.capacity() + size_of::<Self>()
    }
}

impl Stored {
    fn of(frame: &Frame) -> Self {
        let bytes = frame.to_bytes();
        match zstd::bulk::compress(&bytes, LEVEL) {
            Ok(mut packed) if packed.len() < bytes.len() => {
                packed.shrink_to_fit();
                Self {
                    bytes: packed,
                    packed_from: Some(bytes.len()),
                }
            }
            _ => Self {
                bytes,
                packed_from: None,
            },
        }
    }

    fn unpack(self) -> Option<Frame> {
        let bytes = match self.packed_from {
            None => self.bytes,
            Some(length) => zstd::bulk::decompress(&self.bytes, length).ok()?,
        };
        Some(Frame::whole(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::Flight;
    use crate::budget::{Budget, Held, Purpose};
    use crate::spool::{self, Frame};
    use crate::writer::Entry;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use truetape_schemas::capture::Exchange;

    fn entry(budget: &Arc<Budget>, body: Vec<u8>) -> Entry {
        let mut held = Held::nothing(budget);
        assert!(held.grow(body.len(), Purpose::Frames));
        let exchange = Exchange {
            request_body: Some(body),
            ..Exchange::default()
        };
        Entry {
            frame: spool::row(exchange).unwrap(),
            degraded: true,
            held,
            terms: Arc::default(),
        }
    }

    fn bytes(frames: Vec<Entry>) -> Vec<Vec<u8>> {
        frames.iter().map(|entry| entry.frame.to_bytes()).collect()
    }

    #[test]
    fn rows_come_back_as_they_were_and_hold_less_meanwhile() {
        let budget = Budget::new(10 << 20);
        let mut flight = Flight::new(Duration::from_secs(60), budget.max());
        let now = Instant::now();
        let bodies = [vec![b'x'; 1 << 20], vec![], vec![b'y'; 1 << 20]];
        let wanted = bytes(bodies.iter().cloned().map(|b| entry(&budget, b)).collect());
        for body in bodies {
            assert_eq!(flight.push(entry(&budget, body), now), 0);
        }
        assert!(budget.used() < 1 << 20, "{} bytes", budget.used());
        assert_eq!(flight.expire(now + Duration::from_secs(60)), 0);
        let (batch, broken) = flight.batch();
        assert_eq!((bytes(batch), broken), (wanted, 0));
        assert_eq!(
            (flight.batch().0.len(), flight.bytes, budget.used()),
            (0, 0, 0)
        );
    }

    #[test]
    fn the_oldest_rows_leave_by_age_and_for_want_of_memory() {
        let budget = Budget::new(64 << 10);
        let mut flight = Flight::new(Duration::from_secs(60), budget.max());
        let start = Instant::now();
        let noise = |n: u32| -> Vec<u8> {
            let block = |i: u32| *blake3::hash(&[n, i].map(u32::to_le_bytes).concat()).as_bytes();
            (0..250).flat_map(block).collect()
        };
        // 8 kB that do not shrink, in half of 64 KiB: three fit.
        let mut displaced = 0;
        for n in 0..10 {
            displaced += flight.push(
                entry(&budget, noise(n)),
                start + Duration::from_secs(u64::from(n)),
            );
        }
        assert!((6..8).contains(&displaced), "{displaced}");
        let left = 10 - displaced;
        assert_eq!(flight.expire(start + Duration::from_secs(69)), left - 1);
        assert_eq!(flight.clear(), 1);
        assert_eq!((flight.bytes, budget.used()), (0, 0));
        let longest = Entry {
            frame: Frame::whole((0..20).flat_map(noise).collect()),
            degraded: false,
            held: Held::nothing(&budget),
            terms: Arc::default(),
        };
        assert_eq!(flight.push(longest, start), 1, "longer than all of it");
        assert_eq!(flight.batch().0.len(), 0);
    }
}
