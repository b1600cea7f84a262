//! A schedule walked without waiting: from deadline to deadline and from end to end.
//!
//! The same state machine as in a run, against a target that a function stands for: an hour of
//! arrivals takes milliseconds, and nothing is late but by the cap.

use super::{Release, Schedule, Unsent};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a target makes of one dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Time from its being sent to its end.
    pub service_us: i64,
    /// Whether it failed.
    pub is_failure: bool,
}

impl Answer {
    /// A complete answer.
    pub fn after(service_us: i64) -> Self {
        Self {
            service_us,
            is_failure: false,
        }
    }
}

/// A dispatch that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// Which one.
    pub index: u32,
    /// When it could have been sent.
    pub ready_us: i64,
    /// When it was.
    pub sent_us: i64,
    /// When it ended.
    pub end_us: i64,
}

/// What a walk came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// What was sent, in that order.
    pub sends: Vec<Send>,
    /// What was not.
    pub unsent: Unsent,
}

/// Walks a schedule to its end.
pub fn walk(mut schedule: Schedule, mut target: impl FnMut(u32) -> Answer) -> Walked {
    let mut now_us = i64::MIN;
    let mut ends: BinaryHeap<Reverse<(i64, u32, bool)>> = BinaryHeap::new();
    let mut walked = Walked::default();
    let mut releases = Vec::new();
    loop {
        schedule.take_due(now_us, &mut releases);
        for Release { index, ready_us } in releases.drain(..) {
            let answer = target(index);
            let end_us = now_us.saturating_add(answer.service_us);
            ends.push(Reverse((end_us, index, answer.is_failure)));
            walked.sends.push(Send {
                index,
                ready_us,
                sent_us: now_us,
                end_us,
            });
        }
        let end = ends.peek().map(|&Reverse((end_us, ..))| end_us);
        let next = [schedule.next_deadline_us(), end]
            .into_iter()
            .flatten()
            .min();
        let Some(next_us) = next else {
            walked.unsent = schedule.into_unsent();
            return walked;
        };
        now_us = now_us.max(next_us);
        while let Some(&Reverse((end_us, index, is_failure))) = ends.peek() {
            if now_us < end_us {
                break;
            }
            ends.pop();
            if is_failure {
                schedule.failed(index, end_us);
            } else {
                schedule.ended(index, end_us);
            }
        }
    }
}
