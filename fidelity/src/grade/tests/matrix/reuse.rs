//! Distortions of what prompts have in common.

use crate::grade::tests::known_good::{SESSIONS, changed, context, grade, population, sorted};
use crate::grade::{SetContext, set_against_source};
use crate::mix::mix;
use crate::population::PopulationTurn;
use truetape_schemas::report::Report;

pub(super) fn one_by_one() -> Report {
    let source = population(SESSIONS);
    let set = changed(&source, |index, turn| {
        mix(index as u64).is_multiple_of(5).then(|| turn.clone())
    });
    let fifth = SetContext {
        share: Some(0.2),
        ..context()
    };
    set_against_source(&source, &set, &fifth)
}

pub(super) fn unique() -> Report {
    let source = population(SESSIONS);
    let set = changed(&source, |index, turn| {
        let salt = mix(index as u64 + 7);
        Some(PopulationTurn {
            blocks: turn.blocks.iter().map(|hash| mix(hash ^ salt)).collect(),
            ..turn.clone()
        })
    });
    grade(&source, &set)
}

pub(super) fn second_pass() -> Report {
    let source = population(SESSIONS);
    let span_us = source.turns.last().unwrap().arrival_us + 1_000_000;
    let again = source.turns.iter().map(|turn| PopulationTurn {
        session: turn.session + SESSIONS,
        arrival_us: turn.arrival_us + span_us,
        end_us: turn.end_us.map(|end| end + span_us),
        ..turn.clone()
    });
    let both = source.turns.iter().cloned().chain(again).collect();
    grade(&source, &sorted(both, SESSIONS * 2))
}

/// Every request comes when another one came.
pub(super) fn shuffled() -> Report {
    let source = population(SESSIONS);
    let turns = source.turns.len();
    let set = changed(&source, |index, turn| {
        let other = &source.turns[(index * 7_919 + 13) % turns];
        Some(PopulationTurn {
            arrival_us: other.arrival_us,
            end_us: None,
            ..turn.clone()
        })
    });
    grade(&source, &set)
}

/// A window of three minutes: many of its turns go on with sessions that began before it.
pub(super) fn cold_start() -> Report {
    let source = population(SESSIONS);
    let first_us = source.turns[source.turns.len() / 2].arrival_us;
    let inside = first_us..first_us + 180_000_000;
    let set = changed(&source, |_, turn| {
        inside.contains(&turn.arrival_us).then(|| turn.clone())
    });
    let window = SetContext {
        share: Some(set.turns.len() as f64 / source.turns.len() as f64),
        rate_share: Some(1.0),
        ..context()
    };
    set_against_source(&source, &set, &window)
}
