//! The balanced choice of a fleet view.

use super::{Choice, count, floor, share};
use crate::error::Error;
use crate::recipe::Recipe;
use crate::select::fleet::{Fleet, Plan, share_of};
use crate::select::source::Source;
use crate::select::told;

/// Share of a budget that one family may take before a user is told.
const GIANT_SHARE_MAX: f64 = 0.05;

/// Chooses families for a smaller pooled cache.
pub(super) fn balanced(source: &Source<'_>, recipe: &Recipe) -> Result<Choice, Error> {
    let ask = &recipe.select;
    let share = share(recipe, source, None)?;
    let plan = Plan {
        share,
        capacities: ask.capacities_blocks.clone(),
        weights: ask.weights.clone(),
        tolerances: ask.tolerances.clone(),
        by_family: true,
    };
    let mut findings = floor::floor(source, share);
    let step_us = source.population.clock_resolution_us.unwrap_or(1);
    let fleet = Fleet::new(source, &plan, step_us);
    let taken = fleet.choose(fleet.problem());
    let turns = fleet.units.chosen_turns(&taken);
    let mut told = told::begin(source, "balanced", share, &turns);
    count(&mut told, "family", &taken);
    told.hot_blocks = Some(fleet.families.split.len() as u64);
    told.cache_factor = Some(share_of(source, &turns));
    told.residuals = told::residuals(&fleet.problem(), &taken);
    let largest = fleet.families.largest_tokens as f64 / (source.tokens_all() as f64).max(1.0);
    if largest > GIANT_SHARE_MAX * share {
        findings.push(format!(
            "the largest family holds {:.1} % of the source's tokens, and is taken whole or not at all",
            100.0 * largest
        ));
    }
    Ok(Choice {
        findings,
        ..Choice::of(fleet.units.chosen_sessions(&taken), Some(share), told)
    })
}
