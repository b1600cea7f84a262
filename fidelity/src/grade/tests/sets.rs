use super::known_good::{SESSIONS, changed, population, sorted};
use super::*;
use crate::mix::mix;
use crate::population::{Population, PopulationTurn};
use Direction::{Mixed, Neutral, Optimistic, Pessimistic};

fn grade(source: &Population, set: &Population) -> Report {
    set_against_source(
        source,
        set,
        &SetContext {
            unlinked_share: Some(0.0),
            ..context()
        },
    )
}

fn context() -> SetContext {
    SetContext {
        set_name: "good".to_owned(),
        view: "fleet".to_owned(),
        rate: "recorded".to_owned(),
        ..SetContext::default()
    }
}

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
fn halved_outputs_are_optimistic_and_doubled_ones_pessimistic() {
    let source = population(SESSIONS);
    let scaled = |factor: f64| {
        changed(&source, |_, turn| {
            let output_tokens = turn
                .output_tokens
                .map(|tokens| (tokens as f64 * factor) as u64);
            Some(PopulationTurn {
                output_tokens,
                ..turn.clone()
            })
        })
    };
    for (factor, direction) in [(0.5, Optimistic), (2.0, Pessimistic)] {
        let report = grade(&source, &scaled(factor));
        fails(
            &report,
            &[
                ("tokens.output", direction),
                ("output_tokens.p50", direction),
                ("output_tokens.p90", direction),
                ("output_tokens.p99", direction),
                ("output_tokens.p99_rank", direction),
            ],
        );
        assert_eq!(report.direction, direction, "x{factor}");
        assert_eq!(find(&report, "input_tokens.p50").deviation, Some(0.0));
    }
}

#[test]
fn constant_outputs_hide_the_tail() {
    let source = population(SESSIONS);
    let sum: u64 = source
        .turns
        .iter()
        .filter_map(|turn| turn.output_tokens)
        .sum();
    let mean = sum / source.turns.len() as u64;
    let set = changed(&source, |_, turn| {
        Some(PopulationTurn {
            output_tokens: Some(mean),
            ..turn.clone()
        })
    });
    let report = grade(&source, &set);
    fails(
        &report,
        &[
            ("output_tokens.p90", Optimistic),
            ("output_tokens.p99_rank", Optimistic),
        ],
    );
    assert_eq!(
        report.direction, Mixed,
        "the median answer is longer than it was"
    );
}

#[test]
fn unique_prompts_are_pessimistic() {
    let source = population(SESSIONS);
    let set = changed(&source, |index, turn| {
        let blocks = turn
            .blocks
            .iter()
            .map(|hash| mix(hash ^ mix(index as u64 + 7)))
            .collect();
        Some(PopulationTurn {
            blocks,
            ..turn.clone()
        })
    });
    let report = grade(&source, &set);
    fails(
        &report,
        &[
            ("prefix.infinite_hit_ratio", Pessimistic),
            ("prefix.intra_session", Pessimistic),
            ("prefix.shared", Pessimistic),
            ("prefix.curve_mae", Pessimistic),
            ("prefix.curve_max", Pessimistic),
        ],
    );
    assert_eq!(report.pushes[0].dimension, "prefix.infinite_hit_ratio");
}

#[test]
fn a_second_pass_without_a_salt_is_optimistic() {
    let source = population(SESSIONS);
    let span = source.turns.last().unwrap().arrival_us + 1_000_000;
    let again = source.turns.iter().map(|turn| PopulationTurn {
        session: turn.session + SESSIONS,
        arrival_us: turn.arrival_us + span,
        end_us: turn.end_us.map(|end| end + span),
        ..turn.clone()
    });
    let both = source.turns.iter().cloned().chain(again).collect();
    let report = grade(&source, &sorted(both, SESSIONS * 2));
    fails(
        &report,
        &[
            ("prefix.infinite_hit_ratio", Optimistic),
            ("prefix.shared", Optimistic),
        ],
    );
}

#[test]
fn shuffled_requests_lose_locality() {
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
    let report = grade(&source, &set);
    fails(&report, &[("prefix.curve_mae", Pessimistic)]);
    assert_eq!(
        find(&report, "prefix.infinite_hit_ratio").verdict,
        Verdict::Pass
    );
}

#[test]
fn first_turns_only_push_both_ways() {
    let source = population(SESSIONS);
    let mut seen = std::collections::BTreeSet::new();
    let set = changed(&source, |_, turn| {
        seen.insert(turn.session).then(|| turn.clone())
    });
    let report = grade(&source, &set);
    fails(
        &report,
        &[
            ("turns_per_session.cdf", Mixed),
            ("turns_per_session.mean", Mixed),
            ("input_tokens.p90", Optimistic),
            ("prefix.intra_session", Pessimistic),
        ],
    );
    assert_eq!(report.direction, Mixed);
    assert_eq!(
        find(&report, "think_time.p50").verdict,
        Verdict::Unknown,
        "no pause is left"
    );
}

#[test]
fn long_sessions_left_out_are_noticed() {
    let source = population(SESSIONS);
    let mut turns = vec![0u32; SESSIONS as usize];
    source
        .turns
        .iter()
        .for_each(|turn| turns[turn.session as usize] += 1);
    let set = changed(&source, |_, turn| {
        (turns[turn.session as usize] <= 4).then(|| turn.clone())
    });
    let report = grade(&source, &set);
    fails(
        &report,
        &[
            ("turns_per_session.mean", Mixed),
            ("input_tokens.p99_rank", Optimistic),
        ],
    );
}

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
fn a_missing_tail_of_prompts_is_optimistic() {
    let source = population(SESSIONS);
    let inputs = source
        .turns
        .iter()
        .map(|turn| turn.input_tokens.unwrap() as f64);
    let inputs = crate::quantile::sorted(inputs);
    let p99 = crate::quantile::quantile(&inputs, 0.99).unwrap() as u64;
    let set = changed(&source, |_, turn| {
        (turn.input_tokens.unwrap() < p99).then(|| turn.clone())
    });
    let report = grade(&source, &set);
    fails(&report, &[("input_tokens.p99_rank", Optimistic)]);
    assert_eq!(find(&report, "tokens.input").direction, Optimistic);
}

#[test]
fn truncated_prompts_are_optimistic_and_constant_ones_mixed() {
    let source = population(SESSIONS);
    let with_input = |of: &dyn Fn(u64) -> u64| {
        changed(&source, |_, turn| {
            Some(PopulationTurn {
                input_tokens: turn.input_tokens.map(of),
                ..turn.clone()
            })
        })
    };
    let truncated = changed(&source, |_, turn| {
        let blocks = turn.blocks.iter().copied().take(125).collect();
        let input_tokens = turn.input_tokens.map(|tokens| tokens.min(2_000));
        Some(PopulationTurn {
            input_tokens,
            blocks,
            ..turn.clone()
        })
    });
    let truncated = grade(&source, &truncated);
    fails(
        &truncated,
        &[
            ("input_tokens.p90", Optimistic),
            ("input_tokens.p99", Optimistic),
            ("prefix.infinite_hit_ratio", Optimistic),
        ],
    );
    assert_eq!(truncated.direction, Optimistic, "{:?}", truncated.pushes);
    let sum: u64 = source
        .turns
        .iter()
        .filter_map(|turn| turn.input_tokens)
        .sum();
    let constant = grade(&source, &with_input(&|_| sum / source.turns.len() as u64));
    fails(
        &constant,
        &[
            ("input_tokens.p50", Pessimistic),
            ("input_tokens.p99", Optimistic),
        ],
    );
    assert_eq!(constant.direction, Mixed);
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
fn the_pairing_of_lengths_is_neutral() {
    let source = population(SESSIONS);
    let turns = source.turns.len();
    let inputs: Vec<u64> = source
        .turns
        .iter()
        .map(|turn| turn.input_tokens.unwrap())
        .collect();
    let mut outputs: Vec<u64> = source
        .turns
        .iter()
        .map(|turn| turn.output_tokens.unwrap())
        .collect();
    outputs.sort_unstable();
    let mut order: Vec<usize> = (0..turns).collect();
    order.sort_by_key(|index| inputs[*index]);
    let mut paired = vec![0; turns];
    order
        .iter()
        .zip(&outputs)
        .for_each(|(index, output)| paired[*index] = *output);
    let set = changed(&source, |index, turn| {
        Some(PopulationTurn {
            output_tokens: Some(paired[index]),
            ..turn.clone()
        })
    });
    let report = grade(&source, &set);
    assert_eq!(find(&report, "joint.spearman").verdict, Verdict::Fail);
    assert_eq!(find(&report, "joint.spearman").direction, Neutral);
}

/// Half of the sessions, drawn at random.
fn half(source: &Population) -> Population {
    changed(source, |_, turn| {
        mix(u64::from(turn.session) + 99)
            .is_multiple_of(2)
            .then(|| turn.clone())
    })
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
        let by_chance = ["arrivals", "work"]
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
    assert_eq!(ids(&report, Verdict::Unknown), ["arrivals.idc_1s"]);
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
