//! Distortions of when turns arrive, and of which sessions are taken.

use super::known_good::{SESSIONS, changed, context, grade, half, population, sorted};
use super::*;
use crate::mix::mix;
use crate::population::{Population, PopulationTurn};
use Direction::{Mixed, Optimistic, Pessimistic};

/// Starts of sessions move to where they would be without bursts; pauses stay.
fn restarted(source: &Population, start: impl Fn(u32) -> i64) -> Population {
    let mut first = std::collections::BTreeMap::new();
    for turn in &source.turns {
        first.entry(turn.session).or_insert(turn.arrival_us);
    }
    changed(source, |_, turn| {
        let shift = start(turn.session) - first[&turn.session];
        Some(PopulationTurn {
            arrival_us: turn.arrival_us + shift,
            end_us: turn.end_us.map(|end| end + shift),
            ..turn.clone()
        })
    })
}

#[test]
fn poisson_and_constant_arrivals_are_optimistic_where_the_source_is_bursty() {
    let source = population(SESSIONS);
    let span = f64::from(SESSIONS) * 5e6;
    let poisson = restarted(&source, |session| {
        ((mix(u64::from(session)) >> 11) as f64 / (1u64 << 53) as f64 * span) as i64
    });
    let constant = restarted(&source, |session| i64::from(session) * 5_000_000);
    for set in [poisson, constant] {
        let report = grade(&source, &set);
        fails(
            &report,
            &[
                ("arrivals.idc_10s", Optimistic),
                ("arrivals.peak_10s", Optimistic),
            ],
        );
        assert_eq!(report.direction, Optimistic, "{:?}", report.pushes);
        assert!(
            report.sentence.contains("above all in arrivals.idc"),
            "{}",
            report.sentence
        );
    }
}

#[test]
fn copies_in_place_are_pessimistic() {
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
    let report = set_against_source(&source, &sorted(both, SESSIONS * 2), &stress);
    fails(&report, &[("arrivals.idc_10s", Pessimistic)]);
    assert_eq!(find(&report, "arrivals.rate").verdict, Verdict::Pass);
    assert_eq!(find(&report, "arrivals.peak_10s").verdict, Verdict::Unknown);
}

#[test]
fn compressed_time_raises_the_rate_and_cuts_pauses() {
    let source = population(SESSIONS);
    let set = changed(&source, |_, turn| {
        let service = turn.end_us.unwrap() - turn.arrival_us;
        let arrival_us = turn.arrival_us / 2;
        // The answer takes as long as ever, where the pause is long enough to be cut at all.
        Some(PopulationTurn {
            arrival_us,
            end_us: Some(arrival_us + service / 2),
            ..turn.clone()
        })
    });
    let report = grade(&source, &set);
    fails(
        &report,
        &[
            ("arrivals.rate", Pessimistic),
            ("think_time.p50", Optimistic),
        ],
    );
}

#[test]
fn capped_pauses_are_optimistic() {
    let source = population(SESSIONS);
    let cap_us = 30_000_000;
    let mut clock: std::collections::BTreeMap<u32, (i64, i64)> = std::collections::BTreeMap::new();
    let set = changed(&source, |_, turn| {
        // (the session's old end, its new end)
        let (old, new) = clock.get(&turn.session).copied().unwrap_or((0, 0));
        let arrival_us = match old {
            0 => turn.arrival_us,
            _ => new + (turn.arrival_us - old).min(cap_us),
        };
        let end_us = arrival_us + turn.end_us.unwrap() - turn.arrival_us;
        clock.insert(turn.session, (turn.end_us.unwrap(), end_us));
        Some(PopulationTurn {
            arrival_us,
            end_us: Some(end_us),
            ..turn.clone()
        })
    });
    fails(&grade(&source, &set), &[("think_time.p90", Optimistic)]);
}

#[test]
fn thinning_whole_sessions_is_expected_to_change_the_dispersion() {
    let source = population(SESSIONS);
    let half_share = SetContext {
        share: Some(0.5),
        ..context()
    };
    let report = set_against_source(&source, &half(&source), &half_share);
    for id in [
        "arrivals.idc_1s",
        "arrivals.idc_10s",
        "arrivals.idc_60s",
        "arrivals.peak_10s",
    ] {
        assert_ne!(
            find(&report, id).verdict,
            Verdict::Fail,
            "{:?}",
            find(&report, id)
        );
    }
    // Without saying that it is a sample, the same set is half the load.
    let report = set_against_source(&source, &half(&source), &context());
    fails(
        &report,
        &[("arrivals.rate", Optimistic), ("tokens.input", Optimistic)],
    );
}

#[test]
fn turns_drawn_one_by_one_lose_sessions_and_reuse() {
    let source = population(SESSIONS);
    let set = changed(&source, |index, turn| {
        mix(index as u64).is_multiple_of(5).then(|| turn.clone())
    });
    let fifth = SetContext {
        share: Some(0.2),
        ..context()
    };
    let report = set_against_source(&source, &set, &fifth);
    fails(
        &report,
        &[
            ("turns_per_session.mean", Mixed),
            ("prefix.intra_session", Pessimistic),
        ],
    );
}
