//! Identity, missing evidence, and small sets.

use super::known_good::{SESSIONS, changed, context, grade, half, population, sorted};
use super::*;
use crate::population::{Population, PopulationTurn};
use Direction::Neutral;

#[test]
fn a_set_that_is_its_source_deviates_nowhere() {
    let source = population(SESSIONS);
    let report = grade(&source, &source);
    for dimension in &report.dimensions {
        assert_eq!(dimension.deviation, Some(0.0), "{dimension:?}");
        assert_eq!(dimension.direction, Neutral, "{dimension:?}");
    }
    assert_eq!(ids(&report, Verdict::Pass).len(), report.dimensions.len());
    assert_eq!((report.verdict, report.direction), (Verdict::Pass, Neutral));
    assert!(report.pushes.is_empty() && report.unknown.is_empty());
}

/// The known-good population must have what the mutants break.
#[test]
fn the_known_good_population_is_bursty_and_shares_prefixes() {
    let source = population(SESSIONS);
    let profile = crate::profile::profile(&source, &crate::profile::Options::default());
    let idc = |i: usize| profile.arrivals.dispersion[i].idc.unwrap();
    assert!(idc(0) > 1.2 && idc(1) > 4.0, "{:?}", profile.arrivals);
    let hits = profile.prefix.infinite_hit_ratio.unwrap();
    assert!((0.4..0.9).contains(&hits), "{hits}");
    assert!(profile.turns > 3_000 && profile.turns_per_session.p99.unwrap() >= 8.0);
}

#[test]
fn a_small_set_is_judged_where_it_can_be() {
    let source = population(100);
    let report = grade(&source, &source);
    assert_eq!(ids(&report, Verdict::Fail), Vec::<&str>::new());
    assert_eq!(report.verdict, Verdict::Unknown);
    for id in [
        "input_tokens.p50",
        "output_tokens.p90",
        "turns_per_session.cdf",
    ] {
        assert_eq!(find(&report, id).verdict, Verdict::Pass, "{id}");
    }
    let p99 = find(&report, "input_tokens.p99");
    assert_eq!(p99.verdict, Verdict::Unknown);
    assert!(
        p99.note
            .as_ref()
            .unwrap()
            .contains("this quantile needs 662"),
        "{p99:?}"
    );
    // A draw of fifty sessions is judged too, but not by what chance or one session explains.
    let thinned = SetContext {
        share: Some(0.5),
        ..context()
    };
    let report = set_against_source(&source, &half(&source), &thinned);
    for dimension in &report.dimensions {
        let by_chance = ["arrivals", "work", "kv"]
            .iter()
            .any(|kind| dimension.id.starts_with(kind));
        if by_chance || dimension.id.contains("p99") {
            assert_ne!(dimension.verdict, Verdict::Fail, "{dimension:?}");
        }
    }
    assert!(!ids(&report, Verdict::Pass).is_empty());
    let p90 = find(&report, "input_tokens.p90");
    assert!(
        p90.note
            .as_ref()
            .unwrap()
            .contains("one session is as large"),
        "{p90:?}"
    );
}

#[test]
fn nothing_known_is_unknown_and_not_a_pass() {
    let source = population(SESSIONS);
    let bare = changed(&source, |_, turn| {
        Some(PopulationTurn {
            session: turn.session,
            arrival_us: turn.arrival_us,
            ..PopulationTurn::default()
        })
    });
    for (source, set) in [(&source, &bare), (&bare, &bare), (&bare, &source)] {
        let report = grade(source, set);
        let known = ["turns_per_session", "arrivals"];
        for dimension in &report.dimensions {
            let is_known = known.iter().any(|kind| dimension.id.starts_with(kind));
            let want = if is_known {
                Verdict::Pass
            } else {
                Verdict::Unknown
            };
            assert_eq!(dimension.verdict, want, "{dimension:?}");
            assert!(is_known || dimension.note.is_some(), "{dimension:?}");
        }
        assert_eq!(
            (report.verdict, report.direction),
            (Verdict::Unknown, Direction::Unknown)
        );
    }
    let nothing = Population::default();
    let report = grade(&nothing, &nothing);
    assert_eq!(
        ids(&report, Verdict::Unknown).len(),
        report.dimensions.len()
    );
    assert!(
        !serde_json::to_string(&report)
            .unwrap()
            .contains("null,\"threshold\":null")
    );
}

/// A source whose clock steps by three seconds, without sessions.
#[test]
fn a_coarse_clock_makes_short_windows_unknown() {
    let Some(rows) = crate::testdata::mooncake("mooncake/conversation_trace.jsonl") else {
        return;
    };
    let turns = rows
        .into_iter()
        .zip(0..)
        .map(|(row, session)| PopulationTurn {
            session,
            arrival_us: row.arrival_us,
            input_tokens: Some(row.input_tokens),
            output_tokens: Some(row.output_tokens),
            blocks: row.blocks,
            ..PopulationTurn::default()
        });
    let turns: Vec<PopulationTurn> = turns.collect();
    let sessions = u32::try_from(turns.len()).unwrap();
    let source = Population {
        block_tokens: Some(512),
        ..sorted(turns, sessions)
    };
    let report = grade(&source, &source);
    // A trace of lengths does not say what its turns were.
    let said = |id: &&str| !id.starts_with("mix.") && !id.starts_with("outcomes.");
    let unknown: Vec<&str> = ids(&report, Verdict::Unknown)
        .into_iter()
        .filter(said)
        .collect();
    assert_eq!(unknown, ["arrivals.idc_1s"]);
    assert_eq!(ids(&report, Verdict::Fail), Vec::<&str>::new());
    let note = find(&report, "arrivals.idc_1s").note.as_ref().unwrap();
    assert!(note.starts_with("the clock steps by 3.000 s"), "{note}");
}

#[test]
fn unlinked_requests_make_sessions_unknown() {
    let source = population(SESSIONS);
    let unlinked = SetContext {
        unlinked_share: Some(0.2),
        ..context()
    };
    let report = set_against_source(&source, &source, &unlinked);
    assert_eq!(
        find(&report, "turns_per_session.cdf").verdict,
        Verdict::Unknown
    );
}

#[test]
fn a_replica_view_does_not_know_the_router() {
    let source = population(SESSIONS);
    let mut replica = SetContext {
        view: "replica".to_owned(),
        share: Some(0.5),
        ..context()
    };
    replica.unlinked_share = Some(0.0);
    let note = |report: &Report| {
        find(report, "prefix.infinite_hit_ratio")
            .note
            .clone()
            .unwrap()
    };
    // Only hot blocks are shared here, and they are in every replica ...
    let report = set_against_source(&source, &half(&source), &replica);
    assert!(!note(&report).contains("router"));
    // ... and where pairs of sessions share a document, it is why nobody can say.
    let paired = changed(&source, |_, turn| {
        let document = 1_000_000 + u64::from(turn.session / 2) * 1_000;
        let blocks = (document..document + 20)
            .chain(turn.blocks.iter().copied())
            .collect();
        Some(PopulationTurn {
            blocks,
            ..turn.clone()
        })
    });
    let report = set_against_source(&paired, &half(&paired), &replica);
    let shared = find(&report, "prefix.infinite_hit_ratio");
    assert_eq!(shared.verdict, Verdict::Unknown, "{shared:?}");
    assert!(note(&report).contains("router"));
}

#[test]
fn the_checklist_answers_seven_points_from_named_dimensions() {
    let source = population(SESSIONS);
    let report = grade(&source, &source);
    let numbers: Vec<u8> = report.checklist.iter().map(|point| point.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    for point in &report.checklist {
        let want = if point.number == 5 {
            Verdict::Unknown
        } else {
            Verdict::Pass
        };
        assert_eq!(point.verdict, want, "{point:?}");
    }
    let measured: usize = report.checklist[..4]
        .iter()
        .map(|point| point.dimensions.len())
        .sum();
    assert_eq!(
        measured,
        report.dimensions.len(),
        "every dimension answers one of the points"
    );
}

#[test]
fn a_handful_of_sessions_has_no_rate_and_a_thinned_set_keeps_the_source_window() {
    let source = population(400);
    let thinned = |sessions: u32, share: f64| {
        let turns = source.turns.iter().filter(|turn| turn.session < sessions);
        let set = sorted(turns.cloned().collect(), sessions);
        let context = SetContext {
            share: Some(share),
            rate_share: Some(share),
            ..context()
        };
        set_against_source(&source, &set, &context)
    };
    let few = thinned(4, 0.01);
    let rate = find(&few, "arrivals.rate");
    assert_eq!(rate.verdict, Verdict::Unknown, "{rate:?}");
    assert!(
        rate.note.as_ref().unwrap().contains("4 sessions"),
        "{rate:?}"
    );
    // Four sessions span a part of the source's time: their rate is over all of it.
    let span_s = crate::dispersion::span_us(&source.arrivals()) as f64 / 1e6;
    let turns = source.turns.iter().filter(|turn| turn.session < 4).count();
    let wanted = (turns - 1) as f64 / span_s;
    assert!((rate.value.unwrap() - wanted).abs() < 1e-9, "{rate:?}");
}
