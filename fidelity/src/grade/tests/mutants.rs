//! Distortions of what turns are.

use super::known_good::{SESSIONS, changed, grade, population, sorted};
use super::*;
use crate::mix::mix;
use crate::population::PopulationTurn;
use Direction::{Mixed, Neutral, Optimistic, Pessimistic};

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
