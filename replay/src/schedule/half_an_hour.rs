//! Half an hour of arrivals in virtual time, from the rows of a set to the last send.
//!
//! Sessions of up to a dozen turns: chains with think times, tool delays, forks, parallel children
//! and the turns that join them; arrivals in bursts; a target whose time depends on lengths, slower
//! than production's was, and that fails now and then.

use super::in_virtual_time::{self, Answer, Walked};
use super::{Schedule, State, Unsent};
use crate::arrivals::{Arrivals, Placing, RateMode};
use crate::body::Library;
use crate::cli::{Output, Pacing};
use crate::plan::{Plan, Settings, TargetFacts, plan};
use std::collections::{BTreeSet, HashMap};
use truetape_fidelity::mix::mix;
use truetape_schemas::capture::Outcome;
use truetape_schemas::set::Turn;

const HALF_AN_HOUR_US: i64 = 1_800_000_000;
const SESSIONS: u64 = 900;
const FAILS_EVERY: u64 = 41;

/// From `least` to below `least + width`, the same for the same salt.
fn draw(salt: u64, least: i64, width: i64) -> i64 {
    least + (mix(salt) % width.unsigned_abs()) as i64
}

/// A session under construction: when each of its turns ended in production.
struct Session {
    name: String,
    salt: u64,
    turns: Vec<(Turn, i64)>,
}

impl Session {
    fn new(number: u64) -> Self {
        Self {
            name: format!("s{number}"),
            salt: number << 16,
            turns: Vec::new(),
        }
    }

    fn next(&mut self) -> u64 {
        self.salt += 1;
        self.salt
    }

    /// Adds a turn after those it depends on (by their place in the session); returns its own.
    fn add(&mut self, start_us: i64, depends_on: &[usize], gap_us: i64) -> usize {
        let ends = depends_on.iter().map(|at| self.turns[*at].1);
        let start_us = ends.max().map_or(start_us, |end_us| end_us + gap_us);
        let output_tokens = draw(self.next(), 1, 400);
        let turn = Turn {
            session: self.name.clone(),
            turn: self.turns.len() as i32 + 1,
            // Places for now; `set` makes them ids.
            depends_on: depends_on.iter().map(|at| *at as i64).collect(),
            start_us,
            gap_us: (!depends_on.is_empty()).then_some(gap_us),
            dialect: "openai_chat".to_owned(),
            input_tokens: Some(draw(self.next(), 20, 4_000)),
            output_tokens: Some(output_tokens),
            ..Turn::default()
        };
        // Production took 5 ms a token.
        self.turns.push((turn, start_us + output_tokens * 5_000));
        self.turns.len() - 1
    }
}

/// Starts come in bursts of about nine in the same two seconds.
fn session(number: u64) -> Session {
    let mut session = Session::new(number);
    let burst = draw(mix(number / 9), 0, HALF_AN_HOUR_US);
    let start_us = burst + draw(mix(number ^ 0xABCD), 0, 2_000_000);
    let mut last = session.add(start_us, &[], 0);
    for _ in 0..draw(number, 0, 4) {
        let seconds = draw(session.next(), 0, 30);
        match draw(session.next(), 0, 4) {
            // A person reads and answers.
            0 => last = session.add(0, &[last], seconds * 1_000_000),
            // A tool answers in milliseconds.
            1 => last = session.add(0, &[last], seconds * 10_000),
            // Three children at once, and a turn that waits for all of them.
            2 => {
                let children: Vec<usize> =
                    (0..3).map(|_| session.add(0, &[last], 50_000)).collect();
                last = session.add(0, &children, 20_000);
            }
            // A fork: one branch ends here, the other goes on.
            _ => {
                session.add(0, &[last], seconds * 500_000);
                last = session.add(0, &[last], seconds * 1_000_000);
            }
        }
    }
    session
}

/// The rows of a set: ordered by start, dependencies by id.
fn set() -> Vec<Turn> {
    let sessions: Vec<Session> = (0..SESSIONS).map(session).collect();
    let mut places: Vec<(i64, usize, usize)> = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        let starts = session.turns.iter().enumerate();
        places.extend(starts.map(|(at, (turn, _))| (turn.start_us, number, at)));
    }
    places.sort_unstable();
    let ids: HashMap<(usize, usize), i64> = places
        .iter()
        .zip(0..)
        .map(|((_, number, at), id)| ((*number, *at), id))
        .collect();
    let turn = |(_, number, at): &(i64, usize, usize)| {
        let turn = sessions[*number].turns[*at].0.clone();
        Turn {
            turn_id: ids[&(*number, *at)],
            depends_on: turn
                .depends_on
                .iter()
                .map(|place| ids[&(*number, *place as usize)])
                .collect(),
            recorded_outcome: Outcome::Complete,
            ..turn
        }
    };
    places.iter().map(turn).collect()
}

fn planned(turns: &[Turn], placing: Placing) -> Plan {
    let settings = Settings {
        duration_us: None,
        placing,
        shard: None,
        pacing: Pacing::Hybrid,
        think_scale: 1.0,
        output: Output::Enforce,
        cache_salt: None,
        model: None,
        token_budget: None,
        needs_content: false,
    };
    plan(
        turns,
        Library::default(),
        &settings,
        &TargetFacts::default(),
    )
    .unwrap()
}

/// 8 ms a token, a third of a second for a prompt of 4,000: slower than production was.
fn walked(plan: &Plan, skips: bool) -> Walked {
    let nodes = plan.dispatches.iter().map(|planned| planned.node.clone());
    let schedule = Schedule::new(nodes.collect(), Pacing::Hybrid, usize::MAX);
    in_virtual_time::walk(schedule.skipping_after_failure(skips), |index| {
        let planned = &plan.dispatches[index as usize];
        let prefill_us = planned.input_tokens.unwrap() * 80;
        Answer {
            service_us: prefill_us + planned.output_tokens.unwrap() * 8_000,
            is_failure: mix(planned.turn_id as u64).is_multiple_of(FAILS_EVERY),
        }
    })
}

/// R2 and R3, from the rows of the set and nothing that the plan made of them.
fn check(turns: &[Turn], plan: &Plan, walked: &Walked) {
    let by_id: HashMap<i64, &Turn> = turns.iter().map(|turn| (turn.turn_id, turn)).collect();
    let ends: HashMap<i64, i64> = walked
        .sends
        .iter()
        .map(|send| (plan.dispatches[send.index as usize].turn_id, send.end_us))
        .collect();
    for send in &walked.sends {
        let planned = &plan.dispatches[send.index as usize];
        let turn = by_id[&planned.turn_id];
        let after = turn.depends_on.iter().map(|id| ends[id]).max();
        let allowed_us = after.map_or(i64::MIN, |end_us| end_us + turn.gap_us.unwrap());
        assert_eq!(
            send.sent_us,
            planned.node.due_us.max(allowed_us),
            "{turn:?}"
        );
        assert_eq!(send.sent_us, send.ready_us);
    }
}

#[test]
fn half_an_hour_keeps_every_promise() {
    let turns = set();
    assert!(3_000 < turns.len(), "{}", turns.len());
    let joins = turns.iter().filter(|turn| 1 < turn.depends_on.len());
    assert!(100 < joins.count());
    let plan = planned(&turns, Placing::default());
    let due_us: Vec<i64> = plan.dispatches.iter().map(|d| d.node.due_us).collect();
    let starts_us: Vec<i64> = turns.iter().map(|turn| turn.start_us).collect();
    assert_eq!(due_us, starts_us);
    let walked = walked(&plan, false);
    // R4: each once.
    let sent: BTreeSet<u32> = walked.sends.iter().map(|send| send.index).collect();
    assert_eq!((sent.len(), walked.sends.len()), (turns.len(), turns.len()));
    assert_eq!(walked.unsent, Unsent::default());
    check(&turns, &plan, &walked);
    // The target is slower than production's, so that sessions wait for answers.
    let delayed = walked
        .sends
        .iter()
        .filter(|send| plan.dispatches[send.index as usize].node.due_us < send.sent_us);
    assert!(turns.len() / 10 < delayed.count());
    let last_us = walked.sends.iter().map(|send| send.end_us).max();
    assert!(HALF_AN_HOUR_US * 9 / 10 < last_us.unwrap());
}

#[test]
fn half_an_hour_with_failures_balances() {
    let turns = set();
    let plan = planned(&turns, Placing::default());
    let walked = walked(&plan, true);
    let skipped: BTreeSet<u32> = walked.unsent.skipped.iter().copied().collect();
    assert!(!skipped.is_empty());
    assert_eq!(walked.sends.len() + skipped.len(), turns.len());
    assert!(
        walked
            .sends
            .iter()
            .all(|send| !skipped.contains(&send.index))
    );
    check(&turns, &plan, &walked);
}

#[test]
fn half_an_hour_at_other_rates_keeps_think_times() {
    let turns = set();
    let placings = [
        Placing::stressed(3.0),
        Placing {
            rate_scale: 0.3,
            rate_mode: RateMode::Shape,
            ..Placing::default()
        },
        Placing {
            arrivals: Arrivals::Gamma(2.0),
            ..Placing::default()
        },
    ];
    for placing in placings {
        let plan = planned(&turns, placing.clone());
        assert_eq!(plan.dispatches.len() + plan.unsent.len(), turns.len());
        let walked = walked(&plan, false);
        assert_eq!(walked.sends.len(), plan.dispatches.len(), "{placing:?}");
        check(&turns, &plan, &walked);
    }
}

#[test]
fn a_stop_in_the_middle_of_half_an_hour_loses_nothing() {
    let turns = set();
    let plan = planned(&turns, Placing::default());
    let nodes = plan.dispatches.iter().map(|planned| planned.node.clone());
    let mut schedule = Schedule::new(nodes.collect(), Pacing::Hybrid, usize::MAX);
    let mut releases = Vec::new();
    schedule.take_due(HALF_AN_HOUR_US / 2, &mut releases);
    assert!(100 < releases.len());
    assert!(schedule.state.contains(&State::Planned));
    let unsent = schedule.into_unsent();
    assert_eq!(unsent.withdrawn.len() + releases.len(), turns.len());
}
