//! Stages 6 and 7 of a control set: turns that are generated and not selected.
//!
//! A control set is what a load generator would send that is told the mean rate and a few moments
//! of the lengths: single requests that share nothing. It is marked as one, and its report says how
//! far such load is from the traffic it stands for.

use super::Prepared;
use super::account::Account;
use super::arrange::Arranged;
use super::select::Selected;
use crate::error::Error;
use crate::recipe::{
    Control, ControlArrivals, ControlLengths, Method, Recipe, TOKEN_SHARE_DEFAULT,
};
use draws::Draws;
use moments::Moments;
use std::collections::BTreeMap;
use truetape_fidelity::population::Population;
use truetape_fidelity::profile::lengths::interarrival_cv;
use truetape_schemas::set::Turn;

mod draws;
mod moments;

/// Generates the turns that the recipe asks for instead of selecting some.
pub(super) fn generate(
    prepared: &Prepared,
    recipe: &Recipe,
    control: &Control,
) -> Result<(Selected, Arranged), Error> {
    let population = &prepared.population;
    let share = share(recipe, population)?;
    let plan = Plan::new(prepared, control, share)?;
    let mut draws = Draws::new(recipe.seed);
    let turns: Vec<Turn> = plan.turns(&mut draws);
    let mut account = Account::new("control", population.turns.len());
    account.leave("stood_for_by_generated_turns", population.turns.len());
    account.mark("generated", turns.len());
    let selected = Selected {
        stage: account.close(0),
        share: Some(share),
        findings: vec![plan.finding()],
        ..Selected::default()
    };
    let arranged = Arranged {
        turns,
        ..Arranged::default()
    };
    Ok((selected, arranged))
}

/// The share of the source that is stood for.
fn share(recipe: &Recipe, population: &Population) -> Result<f64, Error> {
    let select = &recipe.select;
    match select.method {
        Method::All => Ok(1.0),
        Method::Window => Err(Error::config(
            "recipe",
            "control: goes with a share of the whole source, not with select.method = \"window\"",
        )),
        _ => Ok(match select.tokens {
            Some(tokens) => (tokens as f64 / tokens_of(population).max(1) as f64).min(1.0),
            None => select.token_share.unwrap_or(TOKEN_SHARE_DEFAULT),
        }),
    }
}

fn tokens_of(population: &Population) -> u64 {
    let turns = population.turns.iter();
    turns
        .map(|turn| turn.input_tokens.unwrap_or(0) + turn.output_tokens.unwrap_or(0))
        .fold(0, u64::saturating_add)
}

/// What is generated, before a die is cast.
#[derive(Debug)]
struct Plan<'a> {
    control: &'a Control,
    turns: u64,
    span_us: f64,
    inputs: Moments,
    /// None where no answer's length is known.
    outputs: Option<Moments>,
    arrival_cv: f64,
    model: Option<String>,
    block_tokens: Option<u32>,
}

impl<'a> Plan<'a> {
    fn new(prepared: &Prepared, control: &'a Control, share: f64) -> Result<Self, Error> {
        let population = &prepared.population;
        let inputs = population.turns.iter().filter_map(|turn| turn.input_tokens);
        let outputs = population
            .turns
            .iter()
            .filter_map(|turn| turn.output_tokens);
        let inputs = Moments::of(inputs).ok_or_else(|| {
            let problem = "control: no prompt length is known in these captures";
            Error::config("recipe", problem)
        })?;
        let arrivals = population.arrivals();
        let first = arrivals.first().copied().unwrap_or(0);
        let last = arrivals.last().copied().unwrap_or(0);
        let known = interarrival_cv(&arrivals).filter(|cv| *cv > 0.0);
        Ok(Self {
            control,
            turns: ((share * population.turns.len() as f64).round() as u64).max(1),
            span_us: last.saturating_sub(first) as f64,
            inputs,
            outputs: Moments::of(outputs),
            arrival_cv: control.arrival_cv.or(known).unwrap_or(1.0),
            model: commonest(prepared),
            block_tokens: population.block_tokens,
        })
    }

    fn turns(&self, draws: &mut Draws) -> Vec<Turn> {
        let mean_gap_us = self.span_us / self.turns as f64;
        let mut at_us = 0.0;
        let mut turns = Vec::with_capacity(usize::try_from(self.turns).unwrap_or(0));
        for index in 0..self.turns {
            turns.push(self.turn(index, at_us, draws));
            at_us += match self.control.arrivals {
                ControlArrivals::Constant => mean_gap_us,
                ControlArrivals::Poisson => mean_gap_us * draws.exponential(),
                ControlArrivals::Gamma => mean_gap_us * draws.gamma_of_mean_1(self.arrival_cv),
            };
        }
        turns
    }

    fn turn(&self, index: u64, at_us: f64, draws: &mut Draws) -> Turn {
        let input = self.draw(self.inputs, draws).max(1);
        let output = self.outputs.map(|outputs| self.draw(outputs, draws));
        let count = |tokens: u64| i64::try_from(tokens).ok();
        Turn {
            turn_id: i64::try_from(index).unwrap_or(i64::MAX),
            session: format!("control-{index:08}"),
            turn: 1,
            start_us: at_us.round() as i64,
            method: "POST".to_owned(),
            dialect: "trace".to_owned(),
            model: self.model.clone(),
            stream: Some(true),
            input_tokens: count(input),
            output_tokens: output.and_then(count),
            block_tokens: self.block_tokens.and_then(|n| i32::try_from(n).ok()),
            block_hashes: self.block_tokens.map(|block| draws.blocks(input, block)),
            exchange_id: format!("control-{index:08}"),
            proxy_id: "control".to_owned(),
            session_rule: "control".to_owned(),
            ..Turn::default()
        }
    }

    fn draw(&self, moments: Moments, draws: &mut Draws) -> u64 {
        match self.control.lengths {
            ControlLengths::Fixed => moments.mean.round() as u64,
            ControlLengths::Gaussian => {
                let drawn = moments.mean + moments.deviation * draws.normal();
                let (least, most) = (moments.least as f64, moments.most as f64);
                drawn.clamp(least, most).round() as u64
            }
            ControlLengths::MinMax => draws.between(moments.least, moments.most),
        }
    }

    fn finding(&self) -> String {
        let arrivals = match self.control.arrivals {
            ControlArrivals::Gamma => format!("gamma arrivals (cv {:.2})", self.arrival_cv),
            other => format!("{} arrivals", other.name()),
        };
        format!(
            "a control set: {} generated requests with {} lengths and {arrivals}; prompts of {}; no \
             sessions and no sharing: it is no sample of production",
            self.turns,
            self.control.lengths.name(),
            self.inputs
        )
    }
}

/// The model that most rows ask for; the first by name of several.
fn commonest(prepared: &Prepared) -> Option<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for model in prepared
        .ingested
        .rows
        .iter()
        .filter_map(|row| row.model.as_deref())
    {
        *counts.entry(model).or_default() += 1;
    }
    let most = counts.values().max().copied()?;
    let commonest = counts.iter().find(|(_, n)| **n == most)?;
    Some((*commonest.0).to_owned())
}
