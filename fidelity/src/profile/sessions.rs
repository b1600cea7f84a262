//! Sessions: how many turns, how long a pause, how much at once.

use crate::dispersion::SECOND_US;
use crate::population::{Population, PopulationTurn};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Share of turns whose end may be unknown before concurrency is.
pub const UNKNOWN_ENDS_MAX: f64 = 0.01;

/// Pauses inside sessions, in seconds: from the latest end among the session's earlier turns that
/// had ended, to the arrival. A turn whose forerunners are all still running (a fork) has none, and
/// neither has one whose forerunner's end is unknown. Start to start is never taken for a pause: it
/// would count the service time twice.
pub fn think_times_s(population: &Population) -> Vec<f64> {
    let mut sessions: Vec<Session> = Vec::new();
    sessions.resize_with(population.sessions as usize, Session::default);
    let mut pauses = Vec::new();
    for turn in &population.turns {
        let Some(session) = sessions.get_mut(turn.session as usize) else {
            continue;
        };
        if let Some(end) = session
            .ended_by(turn.arrival_us)
            .filter(|_| !session.unknown)
        {
            pauses.push(turn.arrival_us.saturating_sub(end) as f64 / SECOND_US as f64);
        }
        match turn.end_us {
            Some(end) => session.running.push(Reverse(end)),
            None => session.unknown = true,
        }
    }
    pauses
}

/// What is known of a session while its turns are walked in order.
#[derive(Debug, Default)]
struct Session {
    running: BinaryHeap<Reverse<i64>>,
    ended: Option<i64>,
    unknown: bool,
}

impl Session {
    fn ended_by(&mut self, now: i64) -> Option<i64> {
        while let Some(Reverse(end)) = self.running.peek().copied() {
            if end > now {
                break;
            }
            self.running.pop();
            self.ended = Some(end);
        }
        self.ended
    }
}

/// Turns in flight at each arrival, the arriving one included; empty when too many ends are unknown.
pub fn concurrency(turns: &[PopulationTurn]) -> Vec<f64> {
    let unknown = turns.iter().filter(|turn| turn.end_us.is_none()).count();
    if unknown as f64 > UNKNOWN_ENDS_MAX * turns.len() as f64 {
        return Vec::new();
    }
    let mut running: BinaryHeap<Reverse<i64>> = BinaryHeap::new();
    let mut counts = Vec::with_capacity(turns.len());
    for turn in turns {
        while running
            .peek()
            .is_some_and(|Reverse(end)| *end <= turn.arrival_us)
        {
            running.pop();
        }
        if let Some(end) = turn.end_us {
            running.push(Reverse(end));
        }
        counts.push(running.len() as f64);
    }
    counts
}
