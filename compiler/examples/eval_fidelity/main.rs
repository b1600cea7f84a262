//! Whether a report says the right thing: `make eval-fidelity`.
//!
//! Mooncake conversation is served by a fleet of N replicas behind three routers; what all replicas
//! measure on the engine model, each with a cache of its own, is production. Sets of 1/N of it by
//! several methods, and one of them with each distortion of the table, run on one replica. Their
//! reports are made as always, without production's latencies, on the report's own engines; what they
//! say (a direction for each latency, and how far it goes) is held against what really became of the
//! latencies on engines that the report does not know.
//!
//! A sign counts where the true change is over 5 %: right, wrong, or not said (NEUTRAL, MIXED). A
//! sign that is wrong by over 10 % is the one that costs money.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an evaluation prints its table, and how far it is"
)]

use score::Score;
use serde_json::json;
use truetape_compiler::select::feature::Group;
use truetape_compiler::select::fleet;
use truetape_compiler::select::problem::{Tolerances, Weights};
use truetape_compiler::select::reference::{Reference, Routing, route};
use truetape_compiler::select::source::{Source, Units};
use truetape_compiler::select::window;
use truetape_fidelity::engine::EngineConfig;
use truetape_fidelity::grade::{SetContext, set_against_source};
use truetape_fidelity::mix::mix;
use truetape_fidelity::population::Population;
use truetape_testkit::eval::{Eval, Table};
use truetape_testkit::shared;

mod distort;
#[expect(dead_code, reason = "what another evaluation uses of it")]
#[path = "../eval_replica/engines.rs"]
mod engines;
#[path = "../traces_kit/mooncake.rs"]
mod mooncake;
mod score;
#[expect(dead_code, reason = "what other evaluations use of it")]
#[path = "../traces_kit/shown.rs"]
mod shown;

/// The load of the engine is that of this many replicas.
const LOADED_AS: f64 = 4.0;

/// How production spreads its traffic, and how a report is told: its view.
const ROUTERS: [(&str, &str); 3] = [
    ("session-affine", "replica"),
    ("prefix-aware", "fleet"),
    ("round-robin", "replica"),
];

/// Salts, where none are asked for.
const SALTS: u64 = 1;

/// A set, and what it is of the source.
struct Set {
    name: String,
    population: Population,
    rate_share: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let salts = shown::argument("--salts", SALTS);
    let eval = Eval::begin("fidelity");
    let Some(path) = shared::path("traces/mooncake/conversation_trace.jsonl") else {
        return Ok(());
    };
    let population = mooncake::mooncake(&path)?;
    let mut scores: Vec<Score> = Vec::new();
    for replicas in [4_u16, 10] {
        for salt in 0..salts {
            for (router, tapped) in ROUTERS
                .iter()
                .flat_map(|router| [(*router, true), (*router, false)])
            {
                scores.extend(one(&population, replicas, salt, router, tapped));
                eprintln!("N = {replicas}, salt {salt}, {} done", router.0);
            }
        }
    }
    println!(
        "{}",
        table("By router", &scores, |score| score.router.clone())
    );
    println!("{}", table("By set", &scores, |score| score.set.clone()));
    println!(
        "{}",
        table("By engine", &scores, |score| score.engine.clone())
    );
    println!(
        "{}",
        table("By latency", &scores, |score| score.measure.clone())
    );
    let all: Vec<&Score> = scores.iter().filter(|score| !score.known_engine).collect();
    let wrong: Vec<_> = all
        .iter()
        .filter(|score| score.is_costly())
        .map(|score| score.json())
        .collect();
    let figures = json!({
        "salts": salts,
        "held_out": score::summary(&all),
        "costly": wrong,
        "scores": scores.iter().map(Score::json).collect::<Vec<_>>(),
    });
    let path = eval.write(&shown::root(), &figures)?;
    println!("written to {}", path.display());
    Ok(())
}

/// Scores of all sets of one fleet: its report knows the router by name, or each turn's replica from
/// a tap on each of them.
fn one(
    population: &Population,
    replicas: u16,
    salt: u64,
    router: (&str, &str),
    tapped: bool,
) -> Vec<Score> {
    let random = |session: u32| mix(mix(salt ^ 0xF1D) ^ u64::from(session));
    let mut source = Source {
        population,
        random: (0..population.sessions).map(random).collect(),
        replica: Vec::new(),
        kind: Vec::new(),
        by_turns: false,
    };
    let routed = match router.0 {
        "session-affine" => route(&source, Routing::Session(replicas)),
        "prefix-aware" => route(&source, Routing::Prefix(replicas)),
        _ => {
            let turns = 0..population.turns.len();
            (
                turns
                    .map(|turn| (turn % usize::from(replicas)) as u16)
                    .collect(),
                replicas,
            )
        }
    };
    let at_hand = engines::at_hand(replicas, LOADED_AS);
    let engines = engines::shown(&at_hand);
    let truth: Vec<score::Latencies> = engines
        .iter()
        .map(|engine| production(population, &routed.0, replicas, engine))
        .collect();
    let sets = sets(&mut source, replicas, salt, &routed);
    let mut seen = population.clone();
    for (turn, replica) in seen.turns.iter_mut().zip(&routed.0) {
        turn.replica = tapped.then_some(*replica);
    }
    let taps = if tapped {
        "a tap on each replica"
    } else {
        "one tap"
    };
    let mut scores = Vec::new();
    for set in sets {
        let context = SetContext {
            set_name: set.name.clone(),
            view: router.1.to_owned(),
            rate: "recorded".to_owned(),
            share: Some(1.0 / f64::from(replicas)),
            rate_share: Some(set.rate_share),
            ..SetContext::default()
        };
        let report = set_against_source(&seen, &set.population, &context);
        for (place, (engine, truth)) in engines.iter().zip(&truth).enumerate() {
            let mut found = score::Latencies::default();
            found.add(engine, &score::jobs(&set.population, engine.block_tokens));
            let name = engines::NAMES.get(place).copied().unwrap_or_default();
            scores.extend(score::of(&report, &found, truth).map(|score| Score {
                replicas,
                router: format!("{}, {taps}", router.0),
                set: set.name.clone(),
                engine: name.to_owned(),
                // The first has the memory of one of the report's own.
                known_engine: place == 0,
                ..score
            }));
        }
    }
    scores
}

/// What all replicas measure together.
fn production(
    population: &Population,
    replica: &[u16],
    replicas: u16,
    engine: &EngineConfig,
) -> score::Latencies {
    let mut pooled = score::Latencies::default();
    for own in 0..replicas {
        let turns = population.turns.iter().zip(replica);
        let turns = turns
            .filter(|(_, replica)| **replica == own)
            .map(|(turn, _)| turn.clone());
        let part = Population {
            turns: turns.collect(),
            ..population.clone()
        };
        pooled.add(engine, &score::jobs(&part, engine.block_tokens));
    }
    pooled
}

/// Sets by every method, and a good one with every distortion.
fn sets(source: &mut Source<'_>, replicas: u16, salt: u64, routed: &(Vec<u16>, u16)) -> Vec<Set> {
    let share = 1.0 / f64::from(replicas);
    let population = source.population;
    let of = |name: &str, turns: &[u32], rate_share: f64| Set {
        name: name.to_owned(),
        population: Population {
            turns: turns
                .iter()
                .filter_map(|turn| population.turns.get(*turn as usize).cloned())
                .collect(),
            ..population.clone()
        },
        rate_share,
    };
    let units = Units::sessions(source);
    let iid =
        |turn: &u32| mix(mix(salt ^ 0x1D) ^ u64::from(*turn)).is_multiple_of(u64::from(replicas));
    let iid: Vec<u32> = (0..population.turns.len() as u32).filter(iid).collect();
    let random = units.chosen_turns(&units.smallest(share, 0.5));
    let balanced = balanced(source, share);
    let reference = Reference::new(source, routed, &EngineConfig::default(), &[], 1);
    let typical = reference
        .typical(source)
        .and_then(|at| reference.turns.get(at).cloned());
    let span_us = truetape_fidelity::dispersion::span_us(&population.arrivals());
    let length_us = (span_us as f64 * share) as i64;
    let from_us = window::typical_start_us(source, length_us);
    let first_us = population.turns.first().map_or(0, |turn| turn.arrival_us);
    let inside = |turn: &u32| {
        let at = population
            .turns
            .get(*turn as usize)
            .map_or(0, |turn| turn.arrival_us - first_us);
        (from_us..from_us + length_us).contains(&at)
    };
    let all: Vec<u32> = (0..population.turns.len() as u32).collect();
    let by_replica = |turn: &u32| routed.0.get(*turn as usize) == Some(&0);
    // A window of one replica: production's rate there is that replica's.
    let window: Vec<u32> = all
        .iter()
        .copied()
        .filter(|turn| inside(turn) && by_replica(turn))
        .collect();
    let mut sets = vec![
        of("requests drawn one by one", &iid, share),
        of("random sessions", &random, share),
        of("balanced families", &balanced, share),
        of("a window of one replica", &window, share),
    ];
    sets.extend(typical.map(|turns| of("a typical replica", &turns, share)));
    let good = of("", &random, share);
    sets.extend(
        distort::all(&good.population)
            .into_iter()
            .map(|(name, population)| Set {
                name: name.to_owned(),
                population,
                rate_share: share,
            }),
    );
    sets
}

/// Families of a share of the tokens, as the compiler takes them for a fleet view.
fn balanced(source: &Source<'_>, share: f64) -> Vec<u32> {
    let plan = fleet::Plan {
        share,
        capacities: Vec::new(),
        weights: Weights::from([(Group::Pauses, 0.0), (Group::Joint, 0.0)]),
        tolerances: Tolerances::new(),
        by_family: true,
    };
    let step_us = source.population.clock_resolution_us.unwrap_or(1);
    let fleet = fleet::Fleet::new(source, &plan, step_us);
    let chosen = fleet.choose(fleet.problem());
    fleet.units.chosen_turns(&chosen)
}

/// Figures of the engines that the report does not know, by some name.
fn table(title: &str, scores: &[Score], by: impl Fn(&Score) -> String) -> String {
    let columns = [
        "",
        "true change over 5 %",
        "right %",
        "wrong %",
        "not said %",
        "wrong by over 10 %",
        "rms of ln size",
        "rms without a report",
    ];
    let mut table = Table::new(title, &columns);
    let mut names: Vec<String> = Vec::new();
    for name in scores.iter().map(&by) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names.iter().map(Some).chain([None]) {
        let with: Vec<&Score> = scores
            .iter()
            .filter(|score| !score.known_engine || title == "By engine")
            .filter(|score| name.is_none_or(|name| by(score) == *name))
            .collect();
        table.row(score::cells(name.map_or("all", String::as_str), &with));
    }
    table.markdown()
}
