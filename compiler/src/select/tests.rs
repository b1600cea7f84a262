//! Choices of made-up traffic, whose sharing and load are known.

use super::family::families;
use super::fleet::{Fleet, Plan as FleetPlan, share_of};
use super::judge::{self, Setting};
use super::problem::{Tolerances, Weights};
use super::reference::{Reference, Routing, busy_engine, route};
use super::replica::{Plan, ReplicaView};
use super::search::{Exchange, State};
use super::source::{Source, Stream, Units};
use super::work::Work;
use truetape_fidelity::dispersion::{Counts, SECOND_US};
use truetape_fidelity::engine::EngineConfig;
use truetape_fidelity::mix::mix;
use truetape_fidelity::population::{Population, PopulationTurn};

mod budget;

const BLOCK: u32 = 16;

/// Sessions of one to six turns over an hour; all share a system prompt, and each third one a document
/// with some others.
fn population(sessions: u32) -> Population {
    let mut turns = Vec::new();
    for session in 0..sessions {
        let mut stream = Stream::new(u64::from(session) + 7);
        let mut blocks: Vec<u64> = (1..=6).collect();
        if session % 3 == 0 {
            let document = u64::from(session) % 150;
            blocks.extend((0..10).map(|i| 1_000 + document * 100 + i));
        }
        let mut now = (stream.unit() * 3_600e6) as i64;
        for _ in 0..1 + stream.below(6) {
            let have = blocks.len() as u64;
            let grown = 1 + (40.0 * stream.unit().powi(3)) as u64;
            let own = |i| mix((u64::from(session) << 20) + i);
            blocks.extend((have..have + grown).map(own));
            let output = 10 + (400.0 * stream.unit().powi(2)) as u64;
            turns.push(PopulationTurn {
                session,
                arrival_us: now,
                end_us: Some(now + 2_000_000),
                input_tokens: Some(blocks.len() as u64 * u64::from(BLOCK)),
                output_tokens: Some(output),
                blocks: blocks.clone(),
                ..PopulationTurn::default()
            });
            now += 3_000_000 + (stream.unit() * 60e6) as i64;
        }
    }
    turns.sort_by_key(|turn| turn.arrival_us);
    Population {
        turns,
        sessions,
        block_tokens: Some(BLOCK),
        ..Population::default()
    }
}

fn source(population: &Population, seed: u64) -> Source<'_> {
    Source {
        population,
        random: (0..population.sessions)
            .map(|session| mix(mix(seed) ^ u64::from(session)))
            .collect(),
        replica: Vec::new(),
        kind: Vec::new(),
        by_turns: false,
    }
}

fn fleet_plan(share: f64) -> FleetPlan {
    FleetPlan {
        share,
        capacities: vec![2_000, 5_000, 20_000],
        weights: Weights::new(),
        tolerances: Tolerances::new(),
        by_family: true,
    }
}

#[test]
fn families_share_nothing_but_split_blocks() {
    let population = population(600);
    let source = source(&population, 1);
    let found = families(&source, 0.2);
    assert!(
        found.split.contains(&1),
        "the system prompt ties nobody together"
    );
    let mut holder = std::collections::HashMap::new();
    for turn in &population.turns {
        let label = found.labels[turn.session as usize];
        for block in turn
            .blocks
            .iter()
            .filter(|block| !found.split.contains(*block))
        {
            assert_eq!(*holder.entry(*block).or_insert(label), label);
        }
    }
    let mut labels = found.labels.clone();
    labels.sort_unstable();
    labels.dedup();
    assert!(labels.len() < 600, "documents tie sessions together");
    assert!(labels.len() > 300, "and only those");
}

#[test]
fn a_giant_family_is_cut_lower() {
    let mut population = population(300);
    // Everybody holds one more block, and it is in no prompt often enough to be split by itself.
    for turn in &mut population.turns {
        turn.blocks.insert(0, 9_999);
    }
    let source = source(&population, 1);
    let found = families(&source, 0.001);
    let share = found.largest_tokens as f64 / source.tokens_all() as f64;
    assert!(share < 0.1, "{share}");
}

#[test]
fn a_balanced_fleet_is_nearer_than_a_random_one_and_the_same_every_time() {
    let population = population(900);
    let source = source(&population, 3);
    let plan = fleet_plan(0.2);
    let fleet = Fleet::new(&source, &plan, 1);
    let problem = fleet.problem();
    let random = fleet.units.smallest(0.2, 0.0);
    let taken = fleet.choose(problem.clone());
    assert_eq!(taken, fleet.choose(problem.clone()));
    let misfit = |taken: &[bool]| State::new(&problem, taken.to_vec()).misfit();
    assert!(
        misfit(&taken) < misfit(&random) / 10.0,
        "{} {}",
        misfit(&taken),
        misfit(&random)
    );
    let share = share_of(&source, &fleet.units.chosen_turns(&taken));
    assert!((share / 0.2 - 1.0).abs() < 0.005, "{share}");
    let mean = |taken: &[bool]| {
        let errors = fleet.curve_errors(taken);
        errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64
    };
    assert!(
        mean(&taken) < 0.02 && mean(&taken) < mean(&random),
        "{}",
        mean(&taken)
    );
}

#[test]
fn a_group_that_is_held_out_does_not_move_the_choice() {
    let population = population(300);
    let source = source(&population, 3);
    let held = |tolerance: f64| {
        let plan = FleetPlan {
            weights: [(super::feature::Group::Joint, 0.0)].into(),
            tolerances: [(super::feature::Group::Joint, tolerance)].into(),
            ..fleet_plan(0.2)
        };
        let fleet = Fleet::new(&source, &plan, 1);
        fleet.choose(fleet.problem())
    };
    assert_eq!(held(0.1), held(1e-6));
}

#[test]
fn the_next_version_of_a_set_overlaps_the_former() {
    let (before, after) = (population(900), population(960));
    let plan = fleet_plan(0.2);
    let chosen = |population: &Population| {
        let source = source(population, 3);
        let fleet = Fleet::new(&source, &plan, 1);
        let taken = fleet.choose(fleet.problem());
        fleet.units.chosen_sessions(&taken)
    };
    let (before, after) = (chosen(&before), chosen(&after));
    let kept = before
        .iter()
        .zip(&after)
        .filter(|(a, b)| **a && **b)
        .count();
    let had = before.iter().filter(|taken| **taken).count();
    // Two samples that know nothing of each other would have a fifth in common.
    assert!(kept as f64 > 0.4 * had as f64, "{kept} of {had}");
}

#[test]
fn an_exchange_that_is_undone_leaves_nothing_behind() {
    let population = population(200);
    let source = source(&population, 5);
    let plan = fleet_plan(0.3);
    let fleet = Fleet::new(&source, &plan, 1);
    let problem = fleet.problem();
    let mut state = State::new(&problem, fleet.units.smallest(0.3, 0.0));
    let (misfit, dispersion) = (state.misfit(), state.dispersion());
    let gone = state.taken().iter().position(|taken| *taken).unwrap() as u32;
    let come = state.taken().iter().position(|taken| !*taken).unwrap() as u32;
    let exchange = Exchange {
        gone: Some(gone),
        come: Some(come),
    };
    state.exchange(exchange);
    assert!((state.misfit() - misfit).abs() > 1e-6);
    let anew = State::new(&problem, state.taken().to_vec());
    assert!((state.misfit() / anew.misfit() - 1.0).abs() < 1e-3);
    state.exchange(exchange.back());
    assert!((state.misfit() / misfit - 1.0).abs() < 1e-3);
    assert_eq!(state.dispersion(), dispersion);
}

#[test]
fn work_has_the_dispersion_that_it_is_defined_to_have() {
    let population = population(400);
    let source = source(&population, 1);
    let units = Units::sessions(&source);
    let loads: Vec<[u32; 2]> = (0..population.turns.len() as u32)
        .map(|at| [at % 97, at % 31 + 1])
        .collect();
    let mut work = Work::new(&source, &loads, 1);
    (0..units.len()).for_each(|unit| work.add(&units, unit));
    let arrivals = population.arrivals();
    for (scale, window_s) in super::work::WINDOWS_S.iter().enumerate() {
        for kind in 0..2 {
            let weights: Vec<f64> = loads.iter().map(|load| f64::from(load[kind])).collect();
            let wanted = Counts::weighted(&arrivals, &weights, window_s * SECOND_US)
                .idw()
                .unwrap();
            let found = work.dispersion()[scale][kind].unwrap();
            assert!(
                (found / wanted - 1.0).abs() < 1e-9,
                "{window_s} s: {found}, wanted {wanted}"
            );
        }
    }
    (0..units.len()).for_each(|unit| work.take(&units, unit));
    assert_eq!(work.dispersion(), [[None; 2]; 3]);
}

#[test]
fn routing_keeps_sessions_together_and_a_replica_is_like_itself() {
    let population = population(300);
    let source = source(&population, 2);
    let routed = route(&source, Routing::Session(3));
    let mut home = std::collections::HashMap::new();
    for (turn, replica) in population.turns.iter().zip(&routed.0) {
        assert_eq!(home.entry(turn.session).or_insert(*replica), replica);
    }
    let engine = EngineConfig {
        block_tokens: BLOCK,
        ..EngineConfig::default()
    };
    let one = (vec![0; population.turns.len()], 1);
    let reference = Reference::new(&source, &one, &engine, std::slice::from_ref(&engine), 1);
    let all: Vec<u32> = (0..population.turns.len() as u32).collect();
    let measured = judge::run(&engine, &judge::jobs(&source, &all, BLOCK, 1)).measured();
    assert_eq!(judge::misfit(&measured, &reference.pooled[0]), 0.0);
}

#[test]
fn a_busy_engine_is_busy() {
    let population = population(600);
    let source = source(&population, 2);
    let routed = route(&source, Routing::Session(2));
    let engine = busy_engine(&source, &routed, BLOCK);
    let reference = Reference::new(
        &source,
        &routed,
        &engine,
        &[
            engine.clone(),
            Setting {
                memory: 1.0,
                time: 0.1,
                step_tokens: 1.0,
            }
            .of(&engine),
        ],
        1,
    );
    let ttft = |setting: usize| reference.pooled[setting][1].unwrap();
    assert!(ttft(0) > 5.0 * ttft(1), "{} {}", ttft(0), ttft(1));
}

#[test]
fn the_engine_model_brings_latencies_nearer_and_sums_stay_right() {
    let population = population(500);
    let source = source(&population, 4);
    let routed = route(&source, Routing::Session(4));
    let engine = busy_engine(&source, &routed, BLOCK);
    let engines: Vec<EngineConfig> = judge::CHOSEN_ON[..3]
        .iter()
        .map(|setting| setting.of(&engine))
        .collect();
    let reference = Reference::new(&source, &routed, &engine, &engines, 1);
    let plan = |refinements: usize| Plan {
        share: 0.25,
        weights: Weights::new(),
        tolerances: Tolerances::new(),
        engines: engines.clone(),
        candidates: 2,
        refinements,
        hidden_us: 1,
    };
    let (plain, refined) = (plan(0), plan(40));
    let view = |plan| {
        let view = ReplicaView::new(&source, plan, &reference);
        let chosen = view.choose(&view.problem());
        // What is told is what the sessions measure, whichever engines were asked last.
        let judged = view.judge(&chosen.taken, f64::INFINITY).unwrap();
        assert_eq!(judged.0, chosen.measured);
        assert!((judged.1 / chosen.misfit - 1.0).abs() < 1e-9);
        (
            share_of(&source, &view.units.chosen_turns(&chosen.taken)),
            chosen,
        )
    };
    let ((_, plain), (share, refined)) = (view(&plain), view(&refined));
    assert!(
        refined.misfit < plain.misfit,
        "{} {}",
        refined.misfit,
        plain.misfit
    );
    assert!((share / 0.25 - 1.0).abs() < 0.01, "{share}");
    let real: f64 = reference
        .each
        .iter()
        .zip(&reference.pooled)
        .map(|(each, pooled)| {
            each.iter()
                .map(|replica| judge::misfit(replica, pooled))
                .sum::<f64>()
                / each.len() as f64
        })
        .sum();
    assert!(
        refined.misfit < real,
        "{} against a real replica's {real}",
        refined.misfit
    );
}

#[test]
fn the_typical_window_avoids_the_odd_hour() {
    let mut population = population(600);
    // The second half is odd: all its answers are long.
    for turn in &mut population.turns {
        if turn.arrival_us > 1_800_000_000 {
            turn.output_tokens = Some(5_000);
        }
    }
    let source = source(&population, 1);
    let start_us = super::window::typical_start_us(&source, 900_000_000);
    // The stretch that has both kinds is in the middle.
    assert!(
        (900_000_000..1_800_000_000).contains(&start_us),
        "{start_us}"
    );
}
