//! Distortions of when turns arrive.

use crate::grade::tests::known_good::{
    SESSIONS, changed, context, grade, half, population, sorted,
};
use crate::grade::{SetContext, set_against_source};
use crate::mix::mix;
use crate::population::{Population, PopulationTurn};
use std::collections::BTreeMap;
use truetape_schemas::report::Report;

/// A session starts so long after another, on average.
const GAP_US: i64 = 5_000_000;

/// The longest pause where pauses are capped.
const CAP_US: i64 = 30_000_000;

fn starts(source: &Population) -> BTreeMap<u32, i64> {
    let mut first = BTreeMap::new();
    for turn in &source.turns {
        first.entry(turn.session).or_insert(turn.arrival_us);
    }
    first
}

/// Sessions start elsewhere; what is inside them stays.
fn restarted(source: &Population, start: impl Fn(u32) -> i64) -> Population {
    let first = starts(source);
    changed(source, |_, turn| {
        let shift = start(turn.session) - first[&turn.session];
        Some(PopulationTurn {
            arrival_us: turn.arrival_us + shift,
            end_us: turn.end_us.map(|end| end + shift),
            ..turn.clone()
        })
    })
}

/// All starts are independent and uniform.
fn poisson_starts(source: &Population, seed: u64) -> Population {
    let span_us = (i64::from(SESSIONS) * GAP_US) as f64;
    restarted(source, |session| {
        let uniform = (mix(u64::from(session) ^ seed) >> 11) as f64 / (1_u64 << 53) as f64;
        (uniform * span_us) as i64
    })
}

pub(super) fn poisson() -> Report {
    let source = population(SESSIONS);
    grade(&source, &poisson_starts(&source, 0))
}

pub(super) fn poisson_for_poisson() -> Report {
    let source = poisson_starts(&population(SESSIONS), 1 << 40);
    grade(&source, &poisson_starts(&source, 1 << 41))
}

pub(super) fn steady() -> Report {
    let source = population(SESSIONS);
    let set = restarted(&source, |session| i64::from(session) * GAP_US);
    grade(&source, &set)
}

pub(super) fn copies() -> Report {
    let source = population(SESSIONS);
    let copies = source.turns.iter().map(|turn| PopulationTurn {
        session: turn.session + SESSIONS,
        blocks: turn.blocks.iter().map(|hash| mix(*hash)).collect(),
        ..turn.clone()
    });
    let both = source.turns.iter().cloned().chain(copies).collect();
    let stress = SetContext {
        rate: "stress".to_owned(),
        share: Some(2.0),
        ..context()
    };
    set_against_source(&source, &sorted(both, SESSIONS * 2), &stress)
}

/// Everything happens at half of its time.
fn at_half_time(source: &Population) -> Population {
    changed(source, |_, turn| {
        let end_us = turn.end_us.map(|end| end / 2);
        Some(PopulationTurn {
            arrival_us: turn.arrival_us / 2,
            end_us,
            ..turn.clone()
        })
    })
}

pub(super) fn halved() -> Report {
    let source = population(SESSIONS);
    grade(&source, &at_half_time(&source))
}

pub(super) fn half_in_half() -> Report {
    let source = population(SESSIONS);
    let half_share = SetContext {
        share: Some(0.5),
        rate_share: Some(1.0),
        ..context()
    };
    set_against_source(&source, &at_half_time(&half(&source)), &half_share)
}

pub(super) fn capped() -> Report {
    let source = population(SESSIONS);
    // By session: when its last answer ended, and when it ends now.
    let mut clock: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
    let set = changed(&source, |_, turn| {
        let arrival_us = clock
            .get(&turn.session)
            .map_or(turn.arrival_us, |(old, new)| {
                new + (turn.arrival_us - old).min(CAP_US)
            });
        let end_us = arrival_us + turn.end_us? - turn.arrival_us;
        clock.insert(turn.session, (turn.end_us?, end_us));
        Some(PopulationTurn {
            arrival_us,
            end_us: Some(end_us),
            ..turn.clone()
        })
    });
    grade(&source, &set)
}

fn at_rate(times: f64) -> Report {
    let source = population(SESSIONS);
    let first = starts(&source);
    let set = restarted(&source, |session| (first[&session] as f64 / times) as i64);
    grade(&source, &set)
}

pub(super) fn tenth_more() -> Report {
    at_rate(1.1)
}

pub(super) fn tenth_fewer() -> Report {
    at_rate(0.9)
}

/// Half of the sessions: as what they are, and as if they were all.
pub(super) fn thinned() -> (Report, Report) {
    let source = population(SESSIONS);
    let half_share = SetContext {
        share: Some(0.5),
        ..context()
    };
    let set = half(&source);
    (
        set_against_source(&source, &set, &half_share),
        set_against_source(&source, &set, &context()),
    )
}
