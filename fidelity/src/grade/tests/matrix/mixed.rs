//! Distortions of what turns are: whose, for which model, and how they ended.

use crate::grade::tests::known_good::{
    SESSIONS, changed, combined, grade, parts, population, tenant,
};
use crate::population::PopulationTurn;
use truetape_schemas::report::Report;

/// Tenants that are left, of forty.
const TENANTS_LEFT: u32 = 8;

fn with_facts(of: impl Fn(u32, u32, u32) -> u32) -> Report {
    let source = population(SESSIONS);
    let set = changed(&source, |_, turn| {
        let (model, tools, ending) = parts(turn.facts);
        Some(PopulationTurn {
            facts: of(model, tools, ending),
            ..turn.clone()
        })
    });
    grade(&source, &set)
}

fn without(ending: u32) -> Report {
    let source = population(SESSIONS);
    let set = changed(&source, |_, turn| {
        let (_, _, ended) = parts(turn.facts);
        (ended != ending).then(|| turn.clone())
    });
    grade(&source, &set)
}

pub(super) fn fewer_models() -> Report {
    with_facts(|_, tools, ending| combined(0, tools, ending))
}

/// Every session belongs to one of a few tenants.
pub(super) fn fewer_tenants() -> Report {
    let source = population(SESSIONS);
    let set = changed(&source, |_, turn| {
        Some(PopulationTurn {
            tenant: Some(tenant(turn.session % TENANTS_LEFT)),
            ..turn.clone()
        })
    });
    grade(&source, &set)
}

pub(super) fn no_tools() -> Report {
    with_facts(|model, _, ending| combined(model, 0, ending))
}

pub(super) fn no_failures() -> Report {
    without(2)
}

pub(super) fn no_retries() -> Report {
    without(4)
}
