//! Distortions of how long turns are, and of which are there.

use crate::grade::tests::known_good::{SESSIONS, changed, grade, population};
use crate::population::{Population, PopulationTurn};
use crate::quantile::{quantile, sorted};
use truetape_schemas::report::Report;

/// Where prompts are cut, in tokens: about the p85 of the known-good population.
const CUT_TOKENS: u64 = 2_000;

/// The same in blocks.
const CUT_BLOCKS: usize = 125;

fn with_outputs(of: impl Fn(usize, u64) -> u64) -> Report {
    let source = population(SESSIONS);
    let set = changed(&source, |index, turn| {
        Some(PopulationTurn {
            output_tokens: turn.output_tokens.map(|tokens| of(index, tokens)),
            ..turn.clone()
        })
    });
    grade(&source, &set)
}

fn without(source: &Population, keep: impl Fn(&PopulationTurn) -> bool) -> Report {
    let set = changed(source, |_, turn| keep(turn).then(|| turn.clone()));
    grade(source, &set)
}

fn mean(source: &Population, of: fn(&PopulationTurn) -> Option<u64>) -> u64 {
    source.turns.iter().filter_map(of).sum::<u64>() / source.turns.len() as u64
}

pub(super) fn answers_halved() -> Report {
    with_outputs(|_, tokens| tokens / 2)
}

pub(super) fn answers_doubled() -> Report {
    with_outputs(|_, tokens| tokens * 2)
}

pub(super) fn answers_constant() -> Report {
    let mean = mean(&population(SESSIONS), |turn| turn.output_tokens);
    with_outputs(|_, _| mean)
}

/// The longest prompts get the longest answers.
pub(super) fn paired() -> Report {
    let source = population(SESSIONS);
    let mut outputs: Vec<u64> = source
        .turns
        .iter()
        .filter_map(|turn| turn.output_tokens)
        .collect();
    outputs.sort_unstable();
    let mut order: Vec<usize> = (0..source.turns.len()).collect();
    order.sort_by_key(|index| source.turns[*index].input_tokens);
    let mut paired = vec![0; order.len()];
    for (index, output) in order.iter().zip(&outputs) {
        paired[*index] = *output;
    }
    with_outputs(|index, _| paired[index])
}

pub(super) fn longest_dropped() -> Report {
    let source = population(SESSIONS);
    let inputs = source.turns.iter().filter_map(|turn| turn.input_tokens);
    let inputs = sorted(inputs.map(|tokens| tokens as f64));
    let p99 = quantile(&inputs, 0.99).unwrap() as u64;
    without(&source, |turn| turn.input_tokens < Some(p99))
}

pub(super) fn long_dropped() -> Report {
    without(&population(SESSIONS), |turn| {
        turn.input_tokens <= Some(CUT_TOKENS)
    })
}

pub(super) fn prompts_truncated() -> Report {
    let source = population(SESSIONS);
    let set = changed(&source, |_, turn| {
        Some(PopulationTurn {
            input_tokens: turn.input_tokens.map(|tokens| tokens.min(CUT_TOKENS)),
            blocks: turn.blocks.iter().copied().take(CUT_BLOCKS).collect(),
            ..turn.clone()
        })
    });
    grade(&source, &set)
}

pub(super) fn prompts_constant() -> Report {
    let source = population(SESSIONS);
    let mean = mean(&source, |turn| turn.input_tokens);
    let set = changed(&source, |_, turn| {
        Some(PopulationTurn {
            input_tokens: Some(mean),
            ..turn.clone()
        })
    });
    grade(&source, &set)
}

pub(super) fn long_sessions_dropped() -> Report {
    let source = population(SESSIONS);
    let mut turns = vec![0; SESSIONS as usize];
    for turn in &source.turns {
        turns[turn.session as usize] += 1;
    }
    without(&source, |turn| turns[turn.session as usize] <= 4)
}

pub(super) fn first_turns() -> Report {
    let source = population(SESSIONS);
    let mut seen = std::collections::BTreeSet::new();
    let set = changed(&source, |_, turn| {
        seen.insert(turn.session).then(|| turn.clone())
    });
    grade(&source, &set)
}
