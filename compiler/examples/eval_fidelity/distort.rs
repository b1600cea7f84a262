//! Every distortion of the table that a set can suffer.

use std::collections::BTreeMap;
use truetape_fidelity::mix::mix;
use truetape_fidelity::population::{Population, PopulationTurn};
use truetape_fidelity::quantile::{quantile, sorted};

/// Where prompts are cut, in tokens.
const CUT_TOKENS: u64 = 32_768;
const BLOCK_TOKENS: u64 = 512;

/// The longest time from turn to turn where it is capped.
const CAP_US: i64 = 60_000_000;

/// Turns of a session that are many.
const LONG_SESSION: usize = 8;

type Distorted = (&'static str, Population);

/// All of them.
pub(crate) fn all(good: &Population) -> Vec<Distorted> {
    let mut all = reuse(good);
    all.extend(lengths(good));
    all.extend(time(good));
    all
}

fn changed(
    good: &Population,
    mut of: impl FnMut(usize, &PopulationTurn) -> Option<PopulationTurn>,
) -> Population {
    let turns = good.turns.iter().enumerate();
    let mut turns: Vec<PopulationTurn> = turns.filter_map(|(at, turn)| of(at, turn)).collect();
    turns.sort_by_key(|turn| turn.arrival_us);
    Population {
        turns,
        ..good.clone()
    }
}

fn reuse(good: &Population) -> Vec<Distorted> {
    let unique = changed(good, |at, turn| {
        let salt = mix(at as u64 + 7);
        let blocks = turn.blocks.iter().map(|hash| mix(hash ^ salt)).collect();
        Some(PopulationTurn {
            blocks,
            ..turn.clone()
        })
    });
    let count = good.turns.len();
    let shuffled = changed(good, |at, turn| {
        let other = good.turns.get((at * 7_919 + 13) % count)?;
        Some(PopulationTurn {
            arrival_us: other.arrival_us,
            ..turn.clone()
        })
    });
    let mut seen = std::collections::BTreeSet::new();
    let first = changed(good, |_, turn| {
        seen.insert(turn.session).then(|| turn.clone())
    });
    let mut turns: BTreeMap<u32, usize> = BTreeMap::new();
    for turn in &good.turns {
        *turns.entry(turn.session).or_default() += 1;
    }
    let short = changed(good, |_, turn| {
        let many = turns
            .get(&turn.session)
            .is_some_and(|turns| *turns > LONG_SESSION);
        (!many).then(|| turn.clone())
    });
    vec![
        ("unique prompts", unique),
        ("requests in another order", shuffled),
        ("first turns only", first),
        ("long sessions left out", short),
    ]
}

fn lengths(good: &Population) -> Vec<Distorted> {
    let outputs: Vec<u64> = good
        .turns
        .iter()
        .filter_map(|turn| turn.output_tokens)
        .collect();
    let inputs: Vec<u64> = good
        .turns
        .iter()
        .filter_map(|turn| turn.input_tokens)
        .collect();
    let mean = |values: &[u64]| values.iter().sum::<u64>() / values.len().max(1) as u64;
    let (mean_output, mean_input) = (mean(&outputs), mean(&inputs));
    let with_output = |of: &dyn Fn(usize, u64) -> u64| {
        changed(good, |at, turn| {
            let output_tokens = turn.output_tokens.map(|tokens| of(at, tokens).max(1));
            Some(PopulationTurn {
                output_tokens,
                ..turn.clone()
            })
        })
    };
    let of_length = |turn: &PopulationTurn, tokens: u64| {
        let mut blocks = turn.blocks.clone();
        let wanted = tokens.div_ceil(BLOCK_TOKENS) as usize;
        blocks.truncate(wanted);
        let salt = turn.blocks.last().copied().unwrap_or(0);
        blocks.extend((blocks.len()..wanted).map(|at| mix(salt ^ mix(at as u64))));
        PopulationTurn {
            input_tokens: Some(tokens),
            blocks,
            ..turn.clone()
        }
    };
    let p99 = quantile(&sorted(inputs.iter().map(|tokens| *tokens as f64)), 0.99).unwrap_or(0.0);
    let up_to = |limit: f64| {
        changed(good, |_, turn| {
            let tokens = turn.input_tokens.unwrap_or(0) as f64;
            (tokens <= limit).then(|| turn.clone())
        })
    };
    let cut = changed(good, |_, turn| {
        Some(of_length(turn, turn.input_tokens?.min(CUT_TOKENS)))
    });
    let constant = changed(good, |_, turn| Some(of_length(turn, mean_input)));
    let places = outputs.len();
    vec![
        ("answers half as long", with_output(&|_, tokens| tokens / 2)),
        (
            "answers twice as long",
            with_output(&|_, tokens| tokens * 2),
        ),
        (
            "all answers of the mean length",
            with_output(&|_, _| mean_output),
        ),
        (
            "prompts and answers paired otherwise",
            with_output(&|at, _| {
                outputs
                    .get((at * 7_919 + 13) % places)
                    .copied()
                    .unwrap_or(1)
            }),
        ),
        ("the longest 1 % of the prompts left out", up_to(p99)),
        ("prompts beyond a length left out", up_to(CUT_TOKENS as f64)),
        ("prompts cut at a length", cut),
        ("all prompts of the mean length", constant),
    ]
}

fn time(good: &Population) -> Vec<Distorted> {
    let first_us = good.turns.first().map_or(0, |turn| turn.arrival_us);
    let last_us = good.turns.last().map_or(0, |turn| turn.arrival_us);
    let count = good.turns.len().max(1) as i64;
    let at_rate = |times: f64| {
        changed(good, |_, turn| {
            let offset = (turn.arrival_us - first_us) as f64 / times;
            Some(PopulationTurn {
                arrival_us: first_us + offset as i64,
                ..turn.clone()
            })
        })
    };
    let steady = changed(good, |at, turn| {
        let arrival_us = first_us + (last_us - first_us) / count * at as i64;
        Some(PopulationTurn {
            arrival_us,
            ..turn.clone()
        })
    });
    // Each minute's turns arrive in its first ten seconds.
    let lumps = changed(good, |_, turn| {
        let offset = turn.arrival_us - first_us;
        let minute = offset / 60_000_000 * 60_000_000;
        Some(PopulationTurn {
            arrival_us: first_us + minute + (offset - minute) / 6,
            ..turn.clone()
        })
    });
    let half_in_half = {
        let half = changed(good, |_, turn| {
            mix(u64::from(turn.session) + 99)
                .is_multiple_of(2)
                .then(|| turn.clone())
        });
        changed(&half, |_, turn| {
            let arrival_us = first_us + (turn.arrival_us - first_us) / 2;
            Some(PopulationTurn {
                arrival_us,
                ..turn.clone()
            })
        })
    };
    // By session: when its last turn was, and when it is now.
    let mut clock: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
    let capped = changed(good, |_, turn| {
        let now = clock
            .get(&turn.session)
            .map_or(turn.arrival_us, |(then, now)| {
                now + (turn.arrival_us - then).min(CAP_US)
            });
        clock.insert(turn.session, (turn.arrival_us, now));
        Some(PopulationTurn {
            arrival_us: now,
            ..turn.clone()
        })
    });
    vec![
        ("a tenth more sessions per second", at_rate(1.1)),
        ("a tenth fewer sessions per second", at_rate(0.9)),
        ("steady arrivals", steady),
        ("arrivals in lumps", lumps),
        ("half of the sessions in half of the time", half_in_half),
        ("pauses capped", capped),
    ]
}
