//! What the engine model adds to a report: tokens in flight, and what a difference does to latencies.

use super::Pair;
use super::draft::{Draft, Unit};
use super::run::Log;
use crate::direction;
use crate::latency::answered;
use crate::population::Population;
use crate::simulated::measures::MEASURES;
use crate::simulated::{self, OnEngine, Routing, Sides, Simulated};
use truetape_schemas::report::{
    Dimension, Direction, Level, SimulatedEngine, SimulatedMeasure, Simulation,
};

/// Tolerance of the tokens in flight.
const IN_FLIGHT_RELATIVE: f64 = 0.10;

/// Both sides on the engine model, or why not.
pub(super) type Outcome = Result<Simulated, String>;

/// Runs a set beside its source.
pub(super) fn of_set(pair: &Pair<'_>) -> Outcome {
    if pair.ctx.rate == "shape" {
        let why = "a shape view feels a fleet's burst on a part of its load: no replica of \
            production's did, so there is nothing to simulate it against";
        return Err(why.to_owned());
    }
    if pair.rate_share > 1.0 {
        let why = "more users than there were: there is nothing to simulate them against";
        return Err(why.to_owned());
    }
    simulated::simulate(&Sides {
        wanted: pair.source,
        found: pair.set,
        rate_share: pair.rate_share,
        routing: match pair.ctx.view.as_str() {
            "fleet" => Routing::Prefix,
            _ => Routing::Session,
        },
        kv_tokens: None,
    })
}

/// Runs what was sent beside the set, on the target's memory where it told.
pub(super) fn of_run(log: &Log<'_>) -> Outcome {
    let (wanted, found): (Population, Population) = log.populations();
    let kv_tokens = log.run.engine.kv_tokens;
    let mut simulated = simulated::simulate(&Sides {
        wanted: &wanted,
        found: &found,
        rate_share: 1.0,
        routing: Routing::Session,
        kv_tokens: kv_tokens.and_then(|tokens| u64::try_from(tokens).ok()),
    })?;
    let rows = log.comparable();
    let answers = rows.iter().filter(|(dispatch, _)| answered(dispatch));
    simulated.wanted_turns.1 = rows.len() as u64;
    simulated.found_turns.1 = answers.count() as u64;
    Ok(simulated)
}

/// The tokens in flight of a set against its source's, on the first engine.
pub(super) fn in_flight(outcome: &Outcome) -> Vec<Dimension> {
    [
        (
            "kv.inflight_p50",
            "median of the tokens in flight, simulated",
            "kv_tokens_p50",
        ),
        (
            "kv.inflight_p99",
            "99th percentile of the tokens in flight, simulated",
            "kv_tokens_p99",
        ),
    ]
    .into_iter()
    .map(|(id, title, measure)| {
        let engine = outcome
            .as_ref()
            .ok()
            .and_then(|simulated| simulated.engines.first());
        let at = simulated::place(measure).unwrap_or(usize::MAX);
        let of = |side: fn(&OnEngine) -> &simulated::measures::Measured| {
            side(engine?).get(at).copied().flatten()
        };
        let target = of(|engine| &engine.wanted);
        // Replicas differ among themselves, and a set is one of them.
        let chance = engine
            .and_then(|engine| engine.chance_ln(at))
            .unwrap_or(0.0);
        Draft::new(id, title, Unit::Relative, IN_FLIGHT_RELATIVE)
            .compare(of(|engine| &engine.found), target)
            .within_reach(chance, "what replicas differ by")
            .unknown_if(outcome.is_err(), || {
                outcome.clone().err().unwrap_or_default()
            })
            .finish(Level::SetAgainstSource)
    })
    .collect()
}

/// The simulation as a report tells it.
pub(super) fn told(level: Level, outcome: &Outcome) -> Simulation {
    match outcome {
        Err(why) => Simulation {
            level,
            direction: Direction::Unknown,
            note: Some(why.clone()),
            replicas: 0,
            target_turns: 0,
            turns: 0,
            engines: Vec::new(),
        },
        Ok(simulated) => {
            let mut told = Simulation {
                level,
                direction: Direction::Unknown,
                note: note(simulated),
                replicas: simulated.replicas,
                target_turns: simulated.wanted_turns.0,
                turns: simulated.found_turns.0,
                engines: simulated.engines.iter().map(engine).collect(),
            };
            told.direction = direction::simulated::of(std::slice::from_ref(&told));
            told
        }
    }
}

fn note(simulated: &Simulated) -> Option<String> {
    let mut notes = Vec::new();
    if !simulated.is_whole() {
        let ((wanted, wanted_all), (found, found_all)) =
            (simulated.wanted_turns, simulated.found_turns);
        notes.push(format!(
            "{wanted} of {wanted_all} turns were simulated against {found} of {found_all}: a stretch \
             of time or some of the replicas, {} turns of a side at most",
            simulated::TURNS_MAX
        ));
    }
    if simulated.coarser > 1 {
        notes.push(format!(
            "{} blocks are one of the model's",
            simulated.coarser
        ));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn engine(on: &OnEngine) -> SimulatedEngine {
    let both = on.wanted.iter().zip(&on.found);
    let measures = MEASURES.iter().zip(both).map(|(name, (target, value))| {
        // Times are told in milliseconds, as everywhere in a report.
        let is_time =
            name.starts_with("ttft") || name.starts_with("tpot") || name.starts_with("e2el");
        let scale = if is_time { 1e-3 } else { 1.0 };
        let both = value.zip(*target).filter(|(_, target)| *target > 0.0);
        SimulatedMeasure {
            name: (*name).to_owned(),
            target: target.map(|target| target * scale),
            value: value.map(|value| value * scale),
            change: both.map(|(value, target)| value / target - 1.0),
        }
    });
    SimulatedEngine {
        kv_tokens: on.config.kv_tokens(),
        busy: on.busy,
        measures: measures.collect(),
    }
}
