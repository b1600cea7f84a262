//! The choices of a replica view: one like all of them, or one of them.

use super::{Choice, count, floor, one_share, share};
use crate::error::Error;
use crate::recipe::{Recipe, RoutingRule};
use crate::select::judge::{self, CHOSEN_ON, HELD_OUT, Setting};
use crate::select::reference::{Reference, Routing, busy_engine, route};
use crate::select::replica::{Plan, ReplicaView};
use crate::select::source::{Source, Units};
use crate::select::told;
use truetape_fidelity::engine::EngineConfig;
use truetape_schemas::set::manifest::Selection;

/// Turns of a source up to which its replicas are simulated; of more, the sums alone decide. A turn
/// takes about 5 us on each setting: 200,000 on seven of them, 7 s.
const SIMULATED_TURNS_MAX: usize = 200_000;

/// Turns that are simulated at most to choose and refine: at 5 us each, 30 s.
const JUDGED_TURNS_MAX: f64 = 6e6;

/// Engines that are asked about an exchange, on average: most are no gain on the first or second.
const ASKED_MEAN: f64 = 2.0;

/// Share by which a set may differ from one replica before its latencies are another thing.
const REPLICA_SHARE_OFF: f64 = 0.02;

/// How the source is spread over replicas, and what a user should know about that.
struct Spread {
    rule: RoutingRule,
    replicas: (Vec<u16>, u16),
    findings: Vec<String>,
}

fn spread(source: &Source<'_>, recipe: &Recipe) -> Result<Spread, Error> {
    let ask = &recipe.select;
    let captured = !source.replica.is_empty();
    let rule = ask.routing.unwrap_or(if captured {
        RoutingRule::Captured
    } else {
        RoutingRule::Session
    });
    if rule == RoutingRule::Captured && !captured {
        let problem = "select.routing: `captured`, but the captures show one upstream only; allowed \
            here are `session` and `prefix`, with select.replicas";
        return Err(Error::config("recipe", problem));
    }
    let one_for_each = 1.0 / one_share(ask, source, None).max(1.0 / f64::from(u16::MAX));
    let stated = ask.replicas.unwrap_or(one_for_each.round() as u16);
    let routing = match rule {
        RoutingRule::Captured => Routing::Captured,
        RoutingRule::Session => Routing::Session(stated),
        RoutingRule::Prefix => Routing::Prefix(stated),
    };
    let replicas = route(source, routing);
    let mut findings = Vec::new();
    if !captured && ask.routing.is_none() {
        findings.push(format!(
            "the captures show one upstream: the replica that this set stands for is one of {} behind \
             a balancer that keeps sessions together; say select.routing and select.replicas where \
             that is not so",
            replicas.1
        ));
    }
    Ok(Spread {
        rule,
        replicas,
        findings,
    })
}

/// The engine that candidates are judged on.
fn engine(source: &Source<'_>, recipe: &Recipe, replicas: &(Vec<u16>, u16)) -> EngineConfig {
    let blocks = source
        .population
        .block_tokens
        .unwrap_or(recipe.tokens.block_tokens);
    match &recipe.select.engine {
        Some(engine) => engine.clone(),
        None => busy_engine(source, replicas, blocks),
    }
}

fn on(settings: &[Setting], engine: &EngineConfig) -> Vec<EngineConfig> {
    settings.iter().map(|setting| setting.of(engine)).collect()
}

/// Chooses sessions that are together what one replica is on average.
pub(super) fn balanced(source: &Source<'_>, recipe: &Recipe) -> Result<Choice, Error> {
    let ask = &recipe.select;
    let Spread {
        rule,
        replicas,
        mut findings,
    } = spread(source, recipe)?;
    let share = share(recipe, source, Some(replicas.1))?;
    findings.extend(floor::floor(source, share));
    // What is not the load of one replica has no latencies to compare.
    let load = share * f64::from(replicas.1);
    let is_replica = (load - 1.0).abs() <= REPLICA_SHARE_OFF;
    if !is_replica && recipe.arrange.copies == 1 {
        findings.push(off_one_replica(share, replicas.1));
    }
    let engine = engine(source, recipe, &replicas);
    let turns = source.population.turns.len();
    let simulates = turns <= SIMULATED_TURNS_MAX && is_replica;
    if turns > SIMULATED_TURNS_MAX {
        findings.push(format!(
            "{turns} turns are more than the engine model was asked about ({SIMULATED_TURNS_MAX}): \
             sums and the dispersion of work alone decided"
        ));
    }
    let settings = if simulates {
        CHOSEN_ON.to_vec()
    } else {
        Vec::new()
    };
    let hidden_us = source.population.clock_resolution_us.unwrap_or(1);
    let engines = on(&settings, &engine);
    let reference = Reference::new(source, &replicas, &engine, &engines, hidden_us);
    let rounds = JUDGED_TURNS_MAX / (turns as f64 * share * ASKED_MEAN).max(1.0);
    let plan = Plan {
        share,
        weights: ask.weights.clone(),
        tolerances: ask.tolerances.clone(),
        engines,
        candidates: if simulates {
            ask.candidates.min(rounds as usize).max(1)
        } else {
            1
        },
        refinements: if simulates {
            ask.refinements.min(rounds as usize)
        } else {
            0
        },
        hidden_us,
    };
    let view = ReplicaView::new(source, &plan, &reference);
    let problem = view.problem();
    let chosen = view.choose(&problem);
    let turns = view.units.chosen_turns(&chosen.taken);
    let mut told = told::begin(source, "balanced", share, &turns);
    count(&mut told, "session", &chosen.taken);
    told.residuals = told::residuals(&problem, &chosen.taken);
    told.simulated = chosen.simulated as u64;
    tell_replicas(&mut told, rule, replicas.1);
    for ((setting, found), wanted) in settings.iter().zip(&chosen.measured).zip(&reference.pooled) {
        told.engines
            .push(told::engine_error(*setting, true, found, wanted));
    }
    if simulates {
        held_out(&mut told, source, &replicas, &engine, &turns, hidden_us);
    }
    Ok(Choice {
        findings,
        ..Choice::of(view.units.chosen_sessions(&chosen.taken), Some(share), told)
    })
}

/// Settings that nothing was chosen on.
fn held_out(
    told: &mut Selection,
    source: &Source<'_>,
    replicas: &(Vec<u16>, u16),
    engine: &EngineConfig,
    turns: &[u32],
    hidden_us: i64,
) {
    let engines = on(&HELD_OUT, engine);
    let reference = Reference::new(source, replicas, engine, &engines, hidden_us);
    for ((setting, engine), wanted) in HELD_OUT.iter().zip(&engines).zip(&reference.pooled) {
        let jobs = judge::jobs(source, turns, engine.block_tokens, hidden_us);
        let found = judge::run(engine, &jobs).measured();
        told.engines
            .push(told::engine_error(*setting, false, &found, wanted));
    }
}

fn tell_replicas(told: &mut Selection, rule: RoutingRule, replicas: u16) {
    told.routing = Some(rule.name().to_owned());
    told.replicas = Some(u32::from(replicas));
}

fn off_one_replica(share: f64, replicas: u16) -> String {
    let load = share * f64::from(replicas);
    format!(
        "{:.1} % of the tokens of {replicas} replicas are the load of {load:.2} replicas, whose latencies \
         are not those of one: the engine model was not asked; say select.token_share = {:.4}",
        100.0 * share,
        1.0 / f64::from(replicas)
    )
}

/// Takes one replica whole: the one that is most like all of them.
pub(super) fn typical(source: &Source<'_>, recipe: &Recipe) -> Result<Choice, Error> {
    let Spread {
        rule,
        replicas,
        mut findings,
    } = spread(source, recipe)?;
    let engine = engine(source, recipe, &replicas);
    let hidden_us = source.population.clock_resolution_us.unwrap_or(1);
    let simulates = source.population.turns.len() <= SIMULATED_TURNS_MAX;
    let settings: &[Setting] = if simulates { &CHOSEN_ON } else { &[] };
    let engines = on(settings, &engine);
    let reference = Reference::new(source, &replicas, &engine, &engines, hidden_us);
    let replica = reference.typical(source);
    // A session that several replicas served goes with the one that served it first.
    let mut home = vec![None; source.population.sessions as usize];
    for (turn, replica) in replicas.0.iter().enumerate() {
        if let Some(home @ None) = home.get_mut(source.session(turn)) {
            *home = Some(usize::from(*replica));
        }
    }
    let taken: Vec<bool> = home.iter().map(|home| *home == replica).collect();
    let share = 1.0 / f64::from(replicas.1.max(1));
    let units = Units::sessions(source);
    let of_unit: Vec<bool> = units.by_session(&taken);
    let turns = units.chosen_turns(&of_unit);
    let mut told = told::begin(source, "replica", share, &turns);
    count(&mut told, "session", &of_unit);
    tell_replicas(&mut told, rule, replicas.1);
    if let Some(replica) = replica {
        for ((setting, each), wanted) in settings.iter().zip(&reference.each).zip(&reference.pooled)
        {
            let found = each.get(replica).copied().unwrap_or_default();
            told.engines
                .push(told::engine_error(*setting, true, &found, wanted));
        }
        findings.push(format!(
            "replica {} of {} is taken whole",
            replica + 1,
            replicas.1
        ));
    }
    Ok(Choice {
        findings,
        ..Choice::of(taken, Some(share), told)
    })
}
