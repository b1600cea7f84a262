//! What no choice can reach, said before anything is chosen.

use crate::select::source::Source;
use truetape_fidelity::quantile::{quantile, sorted};

/// Turns of a set below which its 99th percentiles are a matter of luck (at 99 % confidence).
const TURNS_P99_MIN: f64 = 662.0;

/// Sessions of a set that must reach its 99th percentile.
const TAIL_SESSIONS_MIN: f64 = 20.0;

/// Says which tails a set of that share cannot speak for.
pub(super) fn floor(source: &Source<'_>, share: f64) -> Vec<String> {
    let turns = source.population.turns.len() as f64 * share;
    if turns < TURNS_P99_MIN {
        return vec![format!(
            "about {turns:.0} turns are too few for a 99th percentile ({TURNS_P99_MIN} are needed): \
             the tails of this set are UNKNOWN"
        )];
    }
    let tails = [
        ("prompts", tail_sessions(source, true)),
        ("answers", tail_sessions(source, false)),
    ];
    let thin = tails.into_iter().filter_map(|(what, sessions)| {
        let expected = share * sessions? as f64;
        (expected < TAIL_SESSIONS_MIN).then(|| {
            format!(
                "about {expected:.0} sessions of this set reach the 99th percentile of {what} \
                 ({TAIL_SESSIONS_MIN} are needed): that tail is UNKNOWN"
            )
        })
    });
    thin.collect()
}

/// Sessions that reach the 99th percentile of a length.
fn tail_sessions(source: &Source<'_>, input: bool) -> Option<usize> {
    let turns = &source.population.turns;
    let length = |at: usize| {
        let turn = turns.get(at)?;
        if input {
            turn.input_tokens
        } else {
            turn.output_tokens
        }
    };
    let lengths = sorted(
        (0..turns.len())
            .filter_map(length)
            .map(|tokens| tokens as f64),
    );
    let p99 = quantile(&lengths, 0.99)?;
    let reaches = |at: &usize| length(*at).is_some_and(|tokens| tokens as f64 >= p99);
    let mut sessions: Vec<usize> = (0..turns.len())
        .filter(reaches)
        .map(|at| source.session(at))
        .collect();
    sessions.sort_unstable();
    sessions.dedup();
    Some(sessions.len())
}
