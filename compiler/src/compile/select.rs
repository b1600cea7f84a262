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
use truetape_schemas::set::manifest::Stage;

/// What separates permanent random numbers from other hashes.
const CONTEXT: &str = "truetape 2026 permanent random number v1";

/// One session, as a choice sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Its permanent random number.
    pub(crate) u: u64,
    /// Prompt and generated tokens of all its turns.
    pub(crate) tokens: u64,
    /// Its turns, retries and probes included.
    pub(crate) turns: usize,
    /// Its first arrival, since the first arrival of all.
    pub(crate) start_us: i64,
}

/// The sessions that were taken.
#[derive(Debug)]
pub(crate) struct Selected {
    /// By session: whether it is taken.
    pub(crate) taken: Vec<bool>,
    /// The account of this stage, in turns.
    pub(crate) stage: Stage,
    /// Share of the source's tokens that was asked for; none for all of them.
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
    let units = units(rows, sessions, seed);
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
    let real = tokens as f64 / (total as f64).max(1.0);
    let (share, rate_share) = match recipe.method {
        Method::All => (None, None),
        Method::Sessions => (Some(budget(recipe, total) / (total as f64).max(1.0)), None),
        // A stretch of time has few of the tokens, at the whole rate.
        Method::Window => (Some(real), Some(1.0)),
    };
    let findings = findings(recipe, budget(recipe, total), tokens);
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

fn budget(recipe: &Select, total: u64) -> f64 {
    match recipe.tokens {
        Some(tokens) => tokens as f64,
        None => recipe.token_share.unwrap_or(TOKEN_SHARE_DEFAULT) * total as f64,
    }
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

fn findings(recipe: &Select, budget: f64, tokens: u64) -> Vec<String> {
    let error = (tokens as f64 - budget) / budget.max(1.0);
    if recipe.method != Method::Sessions || error.abs() <= BUDGET_ERROR_MAX {
        return Vec::new();
    }
    vec![format!(
        "{tokens} tokens selected for a budget of {budget:.0} ({:+.1} %): sessions are taken \
         whole, and the next one would miss it by more",
        100.0 * error
    )]
}

#[cfg(test)]
mod tests {
    use super::{Unit, by_permanent_random_numbers};
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
    fn everything_fits_in_a_budget_of_everything() {
        let units = units(&[5, 0, 7, 0]);
        assert_eq!(by_permanent_random_numbers(&units, 12.0), [true; 4]);
    }
}
