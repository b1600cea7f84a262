//! Stage 5: which sessions are taken. A session is taken whole or not at all (C2).
//!
//! How is [`crate::select`]'s affair; here it is decided what to ask for, from the recipe and from
//! what the captures show, and told what became of it.

use super::Prepared;
use super::account::Account;
use crate::error::Error;
use crate::recipe::{Method, Recipe, Select, TOKEN_SHARE_DEFAULT};
use crate::select::source::{Source, Units};
use crate::select::{told, window};
use truetape_fidelity::grade::UNKNOWN_SHARE_MAX;
use truetape_schemas::set::manifest::{Selection, Stage};

mod fleet;
mod floor;
mod replica;
mod source;

pub(crate) use source::replicas;

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
    /// Where the set begins, after the source's first arrival.
    pub(crate) start_us: i64,
    /// How much of its beginning fills the cache.
    pub(crate) lead_in_us: i64,
    /// How they were chosen, for the manifest.
    pub(crate) told: Selection,
    /// Things a user should know.
    pub(crate) findings: Vec<String>,
}

/// What a method came to.
struct Choice {
    /// By session: whether it is taken.
    taken: Vec<bool>,
    share: Option<f64>,
    rate_share: Option<f64>,
    start_us: i64,
    /// Where what is measured begins, where that is not the recipe's lead-in.
    measured_from_us: Option<i64>,
    told: Selection,
    findings: Vec<String>,
}

impl Choice {
    /// Sessions of the whole time of the source, for a share of its tokens.
    fn of(taken: Vec<bool>, share: Option<f64>, told: Selection) -> Self {
        Self {
            taken,
            share,
            rate_share: None,
            start_us: 0,
            measured_from_us: None,
            told,
            findings: Vec::new(),
        }
    }
}

/// Chooses sessions.
pub(crate) fn select(prepared: &Prepared, recipe: &Recipe) -> Result<Selected, Error> {
    let ask = &recipe.select;
    let source = source::of(prepared, recipe.seed);
    if source.by_turns && ask.method.has_budget() {
        refuse_tokens(ask)?;
    }
    let choice = choose(&source, recipe)?;
    let lead_in_us = recipe
        .arrange
        .lead_in_us()
        .map_err(|problem| Error::config("recipe", problem))?;
    let links = &prepared.sessions.links;
    let is_taken = |session: u32| choice.taken.get(session as usize) == Some(&true);
    let turns = links.iter().filter(|link| is_taken(link.session)).count();
    if turns == 0 {
        return Err(Error::config("recipe", nothing(ask, choice.taken.len())));
    }
    let mut account = Account::new("select", links.len());
    let reason = match ask.method {
        Method::Window => "outside_window",
        Method::Replica => "on_other_replicas",
        Method::Balanced | Method::Random | Method::All => "not_selected",
    };
    account.leave(reason, links.len() - turns);
    let mut findings = budget_findings(ask, &source, &choice);
    findings.extend(choice.findings);
    Ok(Selected {
        stage: account.close(turns),
        taken: choice.taken,
        share: choice.share,
        rate_share: choice.rate_share,
        start_us: choice.start_us,
        lead_in_us: choice
            .measured_from_us
            .map_or(lead_in_us, |from| from.saturating_sub(choice.start_us)),
        told: choice.told,
        findings,
    })
}

fn choose(source: &Source<'_>, recipe: &Recipe) -> Result<Choice, Error> {
    let ask = &recipe.select;
    match ask.method {
        Method::All => Ok(all(source)),
        Method::Window => by_window(source, recipe),
        Method::Random => Ok(random(source, share(recipe, source, None)?)),
        Method::Replica => replica::typical(source, recipe),
        Method::Balanced => match recipe.view {
            crate::recipe::View::Fleet => fleet::balanced(source, recipe),
            crate::recipe::View::Replica => replica::balanced(source, recipe),
        },
    }
}

fn nothing(ask: &Select, sessions: usize) -> String {
    let hint = match ask.method {
        Method::Window => "move or lengthen select.window",
        _ => "ask for more",
    };
    format!("selects none of {sessions} sessions; {hint}")
}

fn all(source: &Source<'_>) -> Choice {
    let units = Units::sessions(source);
    let taken = vec![true; units.len()];
    let mut told = told::begin(source, "all", 1.0, &units.chosen_turns(&taken));
    count(&mut told, "session", &taken);
    Choice::of(vec![true; source.population.sessions as usize], None, told)
}

/// The sessions of smallest number, as many as come nearest to the budget.
fn random(source: &Source<'_>, share: f64) -> Choice {
    let units = Units::sessions(source);
    let taken = units.smallest(share, 0.0);
    let mut told = told::begin(source, "random", share, &units.chosen_turns(&taken));
    count(&mut told, "session", &taken);
    Choice::of(units.chosen_sessions(&taken), Some(share), told)
}

fn by_window(source: &Source<'_>, recipe: &Recipe) -> Result<Choice, Error> {
    let ask = &recipe.select;
    let config = |problem: String| Error::config("recipe", problem);
    let length_us = ask.window_length_us().map_err(config)?;
    let stated = ask.window_start_us().map_err(config)?;
    let start_us = stated.unwrap_or_else(|| window::typical_start_us(source, length_us));
    // What fills the cache before the window begins comes along, and is not measured.
    let lead_in_us = recipe.arrange.lead_in_us().map_err(config)?;
    let from_us = start_us.saturating_sub(lead_in_us).max(0);
    let inside = from_us..start_us.saturating_add(length_us);
    let units = Units::sessions(source);
    let turns = &source.population.turns;
    let zero_us = turns.first().map_or(0, |turn| turn.arrival_us);
    let starts_inside = |unit: usize| {
        let first = units
            .turns(unit)
            .first()
            .and_then(|turn| turns.get(*turn as usize));
        first.is_some_and(|turn| inside.contains(&turn.arrival_us.saturating_sub(zero_us)))
    };
    let taken: Vec<bool> = (0..units.len()).map(starts_inside).collect();
    let span_us = turns
        .last()
        .map_or(0, |turn| turn.arrival_us.saturating_sub(zero_us));
    let share = window_share(inside.start, inside.end, span_us);
    let mut told = told::begin(source, "window", share, &units.chosen_turns(&taken));
    count(&mut told, "session", &taken);
    let found = stated.is_none().then(|| {
        let start_s = start_us as f64 / 1e6;
        format!(
            "the window begins {start_s:.1} s after the first arrival: the stretch of its length \
            whose sums are nearest to the source's"
        )
    });
    // A stretch of time has few of the tokens, at the whole rate. What was asked for is its part of
    // the time: with the tokens that it happens to hold, no window could be wrong.
    Ok(Choice {
        taken: units.chosen_sessions(&taken),
        share: Some(share),
        rate_share: Some(1.0),
        start_us: inside.start,
        measured_from_us: Some(start_us),
        told,
        findings: found.into_iter().collect(),
    })
}

/// The part of the source's time that a window covers.
fn window_share(start_us: i64, end_us: i64, span_us: i64) -> f64 {
    let covered = end_us.min(span_us).saturating_sub(start_us);
    if covered > 0 {
        covered as f64 / span_us as f64
    } else {
        // The source is one instant, or the window begins with its last one.
        1.0 / (span_us.max(1) as f64)
    }
}

/// Notes what was taken.
fn count(told: &mut Selection, unit: &str, taken: &[bool]) {
    unit.clone_into(&mut told.unit);
    told.units = taken.len() as u64;
    told.units_taken = taken.iter().filter(|taken| **taken).count() as u64;
}

/// The share of the source that is asked for: no more than there is. A replica view of a source
/// whose replicas are known is one replica, where nothing else is said; `stress` is several times as
/// much.
fn share(recipe: &Recipe, source: &Source<'_>, replicas: Option<u16>) -> Result<f64, Error> {
    let one = one_share(&recipe.select, source, replicas);
    let copies = recipe.arrange.copies.max(1);
    let share = one * f64::from(copies);
    if copies > 1 && share > 1.0 {
        let problem = format!(
            "arrange.copies: {copies} samples of {:.1} % each are more than was captured; allowed are \
             {:.0}, or a smaller select.token_share",
            100.0 * one,
            (1.0 / one).floor()
        );
        return Err(Error::config("recipe", problem));
    }
    Ok(share)
}

/// The share of one sample.
fn one_share(ask: &Select, source: &Source<'_>, replicas: Option<u16>) -> f64 {
    let total = source.tokens_all();
    let one_replica = replicas
        .filter(|replicas| *replicas > 1)
        .map(|n| 1.0 / f64::from(n));
    match (ask.tokens, ask.token_share) {
        (Some(tokens), _) => tokens.min(total) as f64 / (total as f64).max(1.0),
        (None, Some(share)) => share.min(1.0),
        (None, None) => one_replica.unwrap_or(TOKEN_SHARE_DEFAULT),
    }
}

/// Where no length is known, a share of the tokens can only be a share of the turns.
fn refuse_tokens(ask: &Select) -> Result<(), Error> {
    let Some(tokens) = ask.tokens else {
        return Ok(());
    };
    let problem = format!(
        "select.tokens: {tokens}, but no length is known in these captures; allowed here is \
         select.token_share, or tokens.tokenizer where the model has that one"
    );
    Err(Error::config("recipe", problem))
}

/// Error of the budget that a user is told about.
const BUDGET_ERROR_MAX: f64 = 0.01;

fn budget_findings(ask: &Select, source: &Source<'_>, choice: &Choice) -> Vec<String> {
    let mut findings = Vec::new();
    let (Some(share), true) = (choice.share, ask.method.has_budget()) else {
        return findings;
    };
    let total = source.tokens_all();
    let unit = if source.by_turns { "turns" } else { "tokens" };
    if source.by_turns {
        let said = "no length is known: sessions were selected by their turns, not by their tokens";
        findings.push(said.to_owned());
    }
    if let Some(tokens) = ask.tokens.filter(|tokens| *tokens > total) {
        findings.push(format!(
            "a budget of {tokens} tokens is more than the {total} of the source: all of it is taken"
        ));
    }
    let budget = share * total as f64;
    let taken = source.tokens_of(&choice.taken) as f64;
    let error = (taken - budget) / budget.max(1.0);
    if error.abs() > BUDGET_ERROR_MAX {
        findings.push(format!(
            "{taken:.0} {unit} selected for a budget of {budget:.0} ({:+.1} %): sessions are taken \
             whole, and the next one would miss it by more",
            100.0 * error
        ));
    }
    findings.extend(unweighed(source));
    findings
}

/// Turns of unknown length come for nothing: a budget is not what it says where there are many.
fn unweighed(source: &Source<'_>) -> Option<String> {
    let turns = &source.population.turns;
    let unknown = turns
        .iter()
        .filter(|turn| turn.input_tokens.is_none())
        .count();
    let many = unknown as f64 > UNKNOWN_SHARE_MAX * turns.len() as f64;
    (many && !source.by_turns).then(|| {
        format!(
            "{unknown} of {} turns have prompts of unknown length: they weigh nothing in the budget",
            turns.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::window_share;

    #[test]
    fn a_window_asks_for_its_part_of_the_time_whatever_it_holds() {
        let second = 1_000_000;
        let cases = [(0, 10, 0.1), (95, 155, 0.05), (0, 3_600, 1.0)];
        for (start, end, wanted) in cases {
            let share = window_share(start * second, end * second, 100 * second);
            assert!((share - wanted).abs() < 1e-9, "{start} {end}: {share}");
        }
        assert_eq!(window_share(0, second, 0), 1.0);
    }
}
