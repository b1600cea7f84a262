//! Which dispatch may be sent when: a pure state machine.
//!
//! It is told what time it is and which dispatches have ended; it answers what to send now and
//! when to ask again. It knows no clock, so that an hour of arrivals is tested in microseconds.

use crate::cli::Pacing;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What the schedule must know of one dispatch. Times count from schedule zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// When the plan wants it sent.
    pub due_us: i64,
    /// Dispatches that must have ended before, by index.
    pub depends_on: Vec<u32>,
    /// Think time after the last of them; `None` where production's is unknown.
    pub think_us: Option<i64>,
    /// Whether what depends on it goes on when it fails, whatever was asked: production's failed too,
    /// and its client went on.
    pub outlives_failure: bool,
}

/// A dispatch that may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Which one.
    pub index: u32,
    /// The earliest instant at which it could have been sent.
    pub ready_us: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for a dependency, for its time, or for the cap.
    Planned,
    Sent,
    Ended,
    Withdrawn,
    Skipped,
}

/// What a schedule did not send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// What was given up when the run was stopped.
    pub withdrawn: Vec<u32>,
    /// What depended on a dispatch that failed.
    pub skipped: Vec<u32>,
}

/// The schedule of a run.
#[derive(Debug)]
pub struct Schedule {
    pacing: Pacing,
    in_flight_max: usize,
    nodes: Vec<Node>,
    dependents: Vec<Vec<u32>>,
    /// Dependencies that have not ended, per dispatch.
    open_dependencies: Vec<usize>,
    /// Latest end of its dependencies, per dispatch.
    dependency_end_us: Vec<i64>,
    state: Vec<State>,
    /// Dispatches whose ready time is known. The index breaks ties: a burst leaves in plan order.
    ready: BinaryHeap<Reverse<(i64, u32)>>,
    /// Of them, those that nobody was told of.
    known: Vec<(i64, u32)>,
    in_flight: usize,
    planned: usize,
    skips_after_failure: bool,
    skipped: Vec<u32>,
}

impl Schedule {
    /// Starts a schedule at time zero. Without a cap, `in_flight_max` is `usize::MAX`.
    pub fn new(nodes: Vec<Node>, pacing: Pacing, in_flight_max: usize) -> Self {
        let count = nodes.len();
        let mut schedule = Self {
            pacing,
            in_flight_max,
            dependents: vec![Vec::new(); count],
            open_dependencies: vec![0; count],
            dependency_end_us: vec![0; count],
            state: vec![State::Planned; count],
            ready: BinaryHeap::with_capacity(count),
            known: Vec::new(),
            in_flight: 0,
            planned: count,
            nodes,
            skips_after_failure: false,
            skipped: Vec::new(),
        };
        schedule.link();
        schedule
    }

    /// What depends on a dispatch that failed is not sent, nor what depends on that.
    #[must_use]
    pub fn skipping_after_failure(self, skips: bool) -> Self {
        Self {
            skips_after_failure: skips,
            ..self
        }
    }

    fn link(&mut self) {
        for index in 0..self.nodes.len() {
            let id = index_u32(index);
            let waits = self.pacing != Pacing::Open;
            let dependencies = if waits {
                self.nodes[index].depends_on.clone()
            } else {
                Vec::new()
            };
            for &dependency in &dependencies {
                self.dependents[dependency as usize].push(id);
            }
            self.open_dependencies[index] = dependencies.len();
            if dependencies.is_empty() {
                self.know(self.nodes[index].due_us, id);
            }
        }
    }

    /// Whether the end of a dispatch can change what may be sent: ends that cannot need not be told.
    pub fn awaits(&self, index: u32) -> bool {
        self.in_flight_max != usize::MAX || !self.dependents[index as usize].is_empty()
    }

    /// Takes note that a dispatch has ended: a recorded history needs no answer to go on.
    pub fn ended(&mut self, index: u32, end_us: i64) {
        for dependent in self.end(index) {
            self.dependency_ended(dependent, end_us);
        }
    }

    /// Takes note that a dispatch has ended and failed.
    pub fn failed(&mut self, index: u32, end_us: i64) {
        if !self.skips_after_failure || self.nodes[index as usize].outlives_failure {
            return self.ended(index, end_us);
        }
        let mut pending = self.end(index);
        while let Some(dependent) = pending.pop() {
            let position = dependent as usize;
            if self.state[position] == State::Planned {
                self.state[position] = State::Skipped;
                self.planned -= 1;
                self.skipped.push(dependent);
                pending.append(&mut self.dependents[position]);
            }
        }
    }

    /// Ends a dispatch, once, and names what depends on it.
    fn end(&mut self, index: u32) -> Vec<u32> {
        let position = index as usize;
        if self.state[position] != State::Sent {
            return Vec::new();
        }
        self.state[position] = State::Ended;
        self.in_flight -= 1;
        std::mem::take(&mut self.dependents[position])
    }

    fn dependency_ended(&mut self, index: u32, end_us: i64) {
        let position = index as usize;
        self.dependency_end_us[position] = self.dependency_end_us[position].max(end_us);
        self.open_dependencies[position] -= 1;
        if self.open_dependencies[position] == 0 && self.state[position] == State::Planned {
            let ready_us = self.ready_us(position);
            self.know(ready_us, index);
        }
    }

    fn know(&mut self, ready_us: i64, index: u32) {
        self.ready.push(Reverse((ready_us, index)));
        self.known.push((ready_us, index));
    }

    /// Moves the dispatches whose ready time has become known since the last call into `known`, those
    /// included that were sent meanwhile.
    pub fn take_known(&mut self, known: &mut Vec<(i64, u32)>) {
        known.append(&mut self.known);
    }

    /// R3, once every dependency has ended.
    fn ready_us(&self, position: usize) -> i64 {
        let node = &self.nodes[position];
        let end_us = self.dependency_end_us[position];
        match (self.pacing, node.think_us) {
            (Pacing::Open, _) => node.due_us,
            (Pacing::Closed, Some(think_us)) => end_us + think_us,
            // Without production's think time, the recorded arrival is the best that is known.
            (Pacing::Closed | Pacing::Hybrid, None) => node.due_us.max(end_us),
            (Pacing::Hybrid, Some(think_us)) => node.due_us.max(end_us + think_us),
        }
    }

    /// Moves every dispatch that may be sent at `now_us` into `releases`, in order.
    pub fn take_due(&mut self, now_us: i64, releases: &mut Vec<Release>) {
        while self.in_flight < self.in_flight_max {
            let Some(&Reverse((ready_us, index))) = self.ready.peek() else {
                return;
            };
            // R2: never early.
            if now_us < ready_us {
                return;
            }
            self.ready.pop();
            self.state[index as usize] = State::Sent;
            self.in_flight += 1;
            self.planned -= 1;
            releases.push(Release { index, ready_us });
        }
    }

    /// When to ask again if nothing ends before; `None` when only an end can change anything.
    pub fn next_deadline_us(&self) -> Option<i64> {
        if self.in_flight >= self.in_flight_max {
            return None;
        }
        self.ready.peek().map(|&Reverse((ready_us, _))| ready_us)
    }

    /// Gives up on everything that was not sent, and names it.
    pub fn withdraw(&mut self) -> Vec<u32> {
        self.ready.clear();
        self.planned = 0;
        let mut withdrawn = Vec::new();
        for (position, state) in self.state.iter_mut().enumerate() {
            if *state == State::Planned {
                *state = State::Withdrawn;
                withdrawn.push(index_u32(position));
            }
        }
        withdrawn
    }

    /// What was not sent: called when nothing will be any more.
    pub fn into_unsent(mut self) -> Unsent {
        Unsent {
            withdrawn: self.withdraw(),
            skipped: self.skipped,
        }
    }

    /// Whether nothing is left to send.
    pub fn is_done(&self) -> bool {
        self.planned == 0
    }

    /// Dispatches sent and not ended, as far as the schedule was told.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }
}

/// A plan has fewer than 2^32 dispatches: `plan` refuses more.
fn index_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

pub mod in_virtual_time;

#[cfg(test)]
mod half_an_hour;
#[cfg(test)]
mod tests;
