//! Turns by what they are, from each kind of thing that can be profiled.

use crate::compile::Prepared;
use std::collections::BTreeMap;
use truetape_fidelity::profile::portrait::Mix;
use truetape_schemas::run::Dispatch;
use truetape_schemas::set::Turn;

/// Words of one list that are kept apart; what comes after them is `others`. Models and upstreams
/// are clients' words: a list must not grow with the traffic.
const WORDS_MAX: usize = 1_000;

/// What is said of one turn.
struct Said<'a> {
    model: Option<&'a str>,
    dialect: Option<&'a str>,
    outcome: Option<&'a str>,
    status: Option<i32>,
    finish_reasons: Option<&'a [String]>,
    upstream: Option<&'a str>,
}

fn add(mix: &mut Mix, said: &Said<'_>) {
    let status = said.status.map(|status| status.to_string());
    let reason = said.finish_reasons.and_then(|reasons| reasons.first());
    let reason = reason
        .map(String::as_str)
        .filter(|reason| !reason.is_empty());
    for (list, word) in [
        (&mut mix.models, said.model),
        (&mut mix.dialects, said.dialect),
        (&mut mix.outcomes, said.outcome),
        (&mut mix.statuses, status.as_deref()),
        (&mut mix.finish_reasons, reason),
        (&mut mix.upstreams, said.upstream),
    ] {
        Mix::add(list, bounded(list, word));
    }
}

fn bounded<'a>(list: &BTreeMap<String, u64>, word: Option<&'a str>) -> Option<&'a str> {
    match word {
        Some(word) if list.len() >= WORDS_MAX && !list.contains_key(word) => Some("others"),
        other => other,
    }
}

/// Of captures.
pub(super) fn of_rows(prepared: &Prepared) -> Mix {
    let mut mix = Mix::default();
    for row in &prepared.ingested.rows {
        add(
            &mut mix,
            &Said {
                model: row.model.as_deref(),
                dialect: Some(row.dialect.name()),
                outcome: Some(row.outcome.name()),
                status: row.status,
                finish_reasons: row.finish_reasons.as_deref(),
                upstream: named(&row.upstream),
            },
        );
    }
    mix
}

/// Of a set.
pub(super) fn of_turns(turns: &[Turn]) -> Mix {
    let mut mix = Mix::default();
    for turn in turns {
        add(
            &mut mix,
            &Said {
                model: turn.model.as_deref(),
                dialect: Some(&turn.dialect),
                outcome: Some(turn.recorded_outcome.name()),
                status: turn.recorded_status,
                finish_reasons: turn.recorded_finish_reasons.as_deref(),
                upstream: named(&turn.upstream),
            },
        );
    }
    mix
}

/// Of a run, which knows no model of its turns.
pub(super) fn of_dispatches(dispatches: &[Dispatch]) -> Mix {
    let mut mix = Mix::default();
    for dispatch in dispatches
        .iter()
        .filter(|dispatch| dispatch.sent_us.is_some())
    {
        let outcome = dispatch
            .outcome
            .map(truetape_schemas::capture::Outcome::name);
        add(
            &mut mix,
            &Said {
                model: None,
                dialect: None,
                outcome,
                status: dispatch.status,
                finish_reasons: dispatch.finish_reasons.as_deref(),
                upstream: None,
            },
        );
    }
    mix.models.clear();
    mix.dialects.clear();
    mix.upstreams.clear();
    mix
}

fn named(word: &str) -> Option<&str> {
    (!word.is_empty()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::{WORDS_MAX, of_dispatches, of_turns};
    use truetape_schemas::capture::Outcome;
    use truetape_schemas::run::Dispatch;
    use truetape_schemas::set::Turn;

    #[test]
    fn every_turn_is_in_every_list_once_and_lists_are_bounded() {
        let turn = |at: usize| Turn {
            model: (at > 0).then(|| format!("m{at}")),
            dialect: "trace".to_owned(),
            recorded_finish_reasons: Some(vec!["stop".to_owned(), "length".to_owned()]),
            ..Turn::default()
        };
        let turns: Vec<Turn> = (0..WORDS_MAX + 50).map(turn).collect();
        let mix = of_turns(&turns);
        assert!(mix.models.len() <= WORDS_MAX + 1);
        assert_eq!(mix.models.values().sum::<u64>(), turns.len() as u64);
        assert_eq!((mix.models["unknown"], mix.models["others"] > 0), (1, true));
        assert_eq!(mix.finish_reasons["stop"], turns.len() as u64);
        assert_eq!(mix.statuses["unknown"], turns.len() as u64);
    }

    #[test]
    fn a_run_counts_what_was_sent() {
        let sent = Dispatch {
            sent_us: Some(1),
            status: Some(429),
            outcome: Some(Outcome::Error),
            ..Dispatch::default()
        };
        let mix = of_dispatches(&[sent, Dispatch::default()]);
        assert_eq!(mix.statuses, [("429".to_owned(), 1)].into());
        assert_eq!(mix.outcomes, [("error".to_owned(), 1)].into());
        assert!(mix.models.is_empty());
    }
}
