//! Stage 6: which sessions are taken. A session is taken whole or not at all (C2).
//!
//! The unit is a session, and the choice is a function of units alone, so that a better method is
//! another arm of [`choose`]. Every session has a permanent random number, `u = hash(key, seed)`.
//! Sessions are taken in the order of `u`, as many as bring the sum of their tokens nearest to
//! the budget: a larger budget only adds sessions, and two sets of one seed overlap as much as
//! they can.

use super::account::Account;
use super::row::Row;
use super::sessionize::Sessions;
use crate::error::Error;
use crate::recipe::{Method, Select, TOKEN_SHARE_DEFAULT};
use truetape_fidelity::grade::UNKNOWN_SHARE_MAX;
use truetape_schemas::set::manifest::Stage;

/// What separates permanent random numbers from other hashes.
const CONTEXT: &str = "truetape 2026 permanent random number v1";

/// One session, as a choice sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Its permanent random number.
    pub(crate) u: u64,
    /// What it costs: prompt and generated tokens of all its turns; its turns where the source
    /// knows no length at all.
    pub(crate) tokens: u64,
    /// Its turns, retries and probes included.
    pub(crate) turns: usize,
    /// Its first arrival, since the first arrival of all.
    pub(crate) start_us: i64,
}

/// The sessions that were taken.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    /// By session: whether it is taken.
    pub(crate) taken: Vec<bool>,
    /// The account of this stage, in turns.
    pub(crate) stage: Stage,
    /// Share of the source's tokens (of its time, for a window) that was asked for; none for all.
    pub(crate) share: Option<f64>,
    /// Share of the source's rate that the set should have, where it is not `share`.
    pub(crate) rate_share: Option<f64>,
    /// Things a user should know.
    pub(crate) findings: Vec<String>,
}

/// Chooses sessions.
pub(crate) fn select(
    rows: &[Row],
    sessions: &Sessions,
    recipe: &Select,
    seed: u64,
) -> Result<Selected, Error> {
    let mut units = units(rows, sessions, seed);
    let known = tokens_of(units.iter()) > 0;
    if !known {
        count_turns(&mut units, recipe)?;
    }
    let taken = choose(&units, recipe)?;
    let total = tokens_of(units.iter());
    let chosen = || {
        units
            .iter()
            .zip(&taken)
            .filter(|(_, taken)| **taken)
            .map(|(unit, _)| unit)
    };
    let turns: usize = chosen().map(|unit| unit.turns).sum();
    let tokens = tokens_of(chosen());
    if turns == 0 {
        return Err(Error::config("recipe", nothing(recipe, units.len())));
    }
    let mut account = Account::new("select", rows.len());
    let reason = match recipe.method {
        Method::Window => "outside_window",
        Method::Sessions | Method::All => "not_selected",
    };
    account.leave(reason, rows.len() - turns);
    let (share, rate_share) = match recipe.method {
        Method::All => (None, None),
        Method::Sessions => (Some(budget(recipe, total) / (total as f64).max(1.0)), None),
        // A stretch of time has few of the tokens, at the whole rate. What was asked for is its
        // part of the time: with the tokens that it happens to hold, no window could be wrong.
        Method::Window => (Some(window_share(recipe, span_us(rows))?), Some(1.0)),
    };
    let mut findings = findings(recipe, total, tokens, known);
    if known {
        findings.extend(unweighed(recipe, rows));
    }
    Ok(Selected {
        stage: account.close(turns),
        taken,
        share,
        rate_share,
        findings,
    })
}

fn nothing(recipe: &Select, sessions: usize) -> String {
    let hint = match recipe.method {
        Method::Window => "move or lengthen select.window",
        Method::Sessions | Method::All => "the captures hold no inference traffic",
    };
    format!("selects none of {sessions} sessions; {hint}")
}

/// The units, by session.
fn units(rows: &[Row], sessions: &Sessions, seed: u64) -> Vec<Unit> {
    let key = blake3::derive_key(CONTEXT, &seed.to_le_bytes());
    let zero = rows.first().map_or(0, |row| row.arrival);
    let mut units = vec![Unit::default(); sessions.names.len()];
    for (row, link) in rows.iter().zip(&sessions.links) {
        let Some(unit) = units.get_mut(link.session as usize) else {
            continue;
        };
        if unit.turns == 0 {
            // The client's own key, not what the session is called: that may be keyed.
            let name = row.session_key.as_deref().unwrap_or(&row.exchange_id);
            let digest = blake3::keyed_hash(&key, name.as_bytes());
            let (first, _) = digest.as_bytes().split_at(8);
            unit.u = first.try_into().map_or(0, u64::from_le_bytes);
            unit.start_us = row.arrival.saturating_sub(zero);
        }
        unit.tokens = unit.tokens.saturating_add(row.tokens());
        unit.turns += 1;
    }
    units
}

/// Chooses among units; the seam for better methods.
pub(crate) fn choose(units: &[Unit], recipe: &Select) -> Result<Vec<bool>, Error> {
    match recipe.method {
        Method::All => Ok(vec![true; units.len()]),
        Method::Window => {
            let (start, end) = recipe
                .window()
                .map_err(|problem| Error::config("recipe", problem))?;
            Ok(units
                .iter()
                .map(|unit| (start..end).contains(&unit.start_us))
                .collect())
        }
        Method::Sessions => {
            let total = tokens_of(units.iter());
            Ok(by_permanent_random_numbers(units, budget(recipe, total)))
        }
    }
}

fn tokens_of<'a>(units: impl Iterator<Item = &'a Unit>) -> u64 {
    units.map(|unit| unit.tokens).fold(0, u64::saturating_add)
}

/// What is asked for: no more than there is.
fn budget(recipe: &Select, total: u64) -> f64 {
    match recipe.tokens {
        Some(tokens) => tokens.min(total) as f64,
        None => recipe.token_share.unwrap_or(TOKEN_SHARE_DEFAULT).min(1.0) * total as f64,
    }
}

/// Where no length is known, a share of the tokens can only be a share of the turns.
fn count_turns(units: &mut [Unit], recipe: &Select) -> Result<(), Error> {
    if recipe.method != Method::Sessions {
        return Ok(());
    }
    if let Some(tokens) = recipe.tokens {
        let problem = format!(
            "select.tokens: {tokens}, but no length is known in these captures; allowed here is \
             select.token_share, or tokens.tokenizer where the model has that one"
        );
        return Err(Error::config("recipe", problem));
    }
    for unit in units {
        unit.tokens = unit.turns as u64;
    }
    Ok(())
}

/// Turns of unknown length come for nothing: a budget is not what it says where there are many.
fn unweighed(recipe: &Select, rows: &[Row]) -> Option<String> {
    let unknown = rows.iter().filter(|row| row.input_tokens.is_none()).count();
    let many = unknown as f64 > UNKNOWN_SHARE_MAX * rows.len() as f64;
    (many && recipe.method == Method::Sessions).then(|| {
        format!(
            "{unknown} of {} turns have prompts of unknown length: they weigh nothing in the \
             budget",
            rows.len()
        )
    })
}

/// From the first arrival to the last.
fn span_us(rows: &[Row]) -> i64 {
    let arrival = |row: Option<&Row>| row.map_or(0, |row| row.arrival);
    arrival(rows.last()).saturating_sub(arrival(rows.first()))
}

/// The part of the source's time that a window covers.
fn window_share(recipe: &Select, span_us: i64) -> Result<f64, Error> {
    let (start, end) = recipe
        .window()
        .map_err(|problem| Error::config("recipe", problem))?;
    let covered = end.min(span_us).saturating_sub(start);
    Ok(if covered > 0 {
        covered as f64 / span_us as f64
    } else {
        // The source is one instant, or the window begins with its last one.
        1.0 / (span_us.max(1) as f64)
    })
}

/// The sessions of smallest `u`, as many as come nearest to the budget.
fn by_permanent_random_numbers(units: &[Unit], budget: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by_key(|at| units.get(*at).map(|unit| (unit.u, unit.start_us)));
    let mut taken = vec![false; units.len()];
    let mut sum = 0.0;
    for at in order {
        let tokens = units.get(at).map_or(0.0, |unit| unit.tokens as f64);
        // The sums only grow, so the nearest one is the last before the error grows. One session
        // is the least that there is.
        if sum > 0.0 && (sum + tokens - budget).abs() > (sum - budget).abs() {
            break;
        }
        sum += tokens;
        if let Some(taken) = taken.get_mut(at) {
            *taken = true;
        }
    }
    taken
}

/// Error of the budget that a user is told about.
const BUDGET_ERROR_MAX: f64 = 0.01;

fn findings(recipe: &Select, total: u64, taken: u64, known: bool) -> Vec<String> {
    let mut findings = Vec::new();
    if recipe.method != Method::Sessions {
        return findings;
    }
    let unit = if known { "tokens" } else { "turns" };
    if !known {
        findings.push(
            "no length is known: sessions were selected by their turns, not by their tokens"
                .to_owned(),
        );
    }
    if let Some(tokens) = recipe.tokens.filter(|tokens| *tokens > total) {
        findings.push(format!(
            "a budget of {tokens} tokens is more than the {total} of the source: all of it is taken"
        ));
    }
    let budget = budget(recipe, total);
    let error = (taken as f64 - budget) / budget.max(1.0);
    if error.abs() > BUDGET_ERROR_MAX {
        findings.push(format!(
            "{taken} {unit} selected for a budget of {budget:.0} ({:+.1} %): sessions are taken \
             whole, and the next one would miss it by more",
            100.0 * error
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{Unit, by_permanent_random_numbers, window_share};
    use crate::recipe::{Method, Select, Window};
    use proptest::prelude::*;

    fn units(tokens: &[u64]) -> Vec<Unit> {
        let unit = |(at, tokens): (usize, &u64)| Unit {
            u: truetape_fidelity::mix::mix(at as u64),
            tokens: *tokens,
            turns: 1,
            start_us: at as i64,
        };
        tokens.iter().enumerate().map(unit).collect()
    }

    fn sum(units: &[Unit], taken: &[bool]) -> u64 {
        units
            .iter()
            .zip(taken)
            .filter(|(_, taken)| **taken)
            .map(|(unit, _)| unit.tokens)
            .sum()
    }

    proptest! {
        #[test]
        fn a_larger_budget_only_adds_sessions(
            tokens in proptest::collection::vec(0u64..10_000, 0..60),
            budget in 0.0f64..300_000.0,
            more in 0.0f64..300_000.0,
        ) {
            let units = units(&tokens);
            let small = by_permanent_random_numbers(&units, budget);
            let large = by_permanent_random_numbers(&units, budget + more);
            prop_assert!(small.iter().zip(&large).all(|(small, large)| !small || *large));
        }

        #[test]
        fn the_budget_is_met_within_half_the_largest_session(
            tokens in proptest::collection::vec(1u64..10_000, 1..60),
            share in 0.0f64..1.0,
        ) {
            // Below one session, there is one session.
            let units = units(&tokens);
            let budget = share * tokens.iter().sum::<u64>() as f64;
            let found = sum(&units, &by_permanent_random_numbers(&units, budget)) as f64;
            let largest = *tokens.iter().max().unwrap() as f64;
            prop_assert!((found - budget).abs() <= largest / 2.0 + 1e-6 || budget < largest);
        }
    }

    #[test]
    fn a_window_asks_for_its_part_of_the_time_whatever_it_holds() {
        let window = |start: &str, length: &str| Select {
            method: Method::Window,
            window: Some(Window {
                start: start.to_owned(),
                length: length.to_owned(),
            }),
            ..Select::default()
        };
        for (start, length, wanted) in [("0s", "10s", 0.1), ("95s", "1m", 0.05), ("0s", "1h", 1.0)]
        {
            let share = window_share(&window(start, length), 100_000_000).unwrap();
            assert!((share - wanted).abs() < 1e-9, "{start} {length}: {share}");
        }
        assert_eq!(window_share(&window("0s", "1s"), 0).unwrap(), 1.0);
    }

    #[test]
    fn everything_fits_in_a_budget_of_everything() {
        let units = units(&[5, 0, 7, 0]);
        assert_eq!(by_permanent_random_numbers(&units, 12.0), [true; 4]);
    }
}
