//! How near a fleet-view choice comes to its source, beside what people do today: `make eval-selection`.
//!
//! Mooncake conversation at 20, 10 and 5 % of the tokens and Claude Code sessions at 20 %, over
//! `--salts` permanent random numbers (20): requests drawn one by one, random sessions, and ours.
//! Figures are roots of mean squares; what the search never saw says so.

#![expect(clippy::print_stdout, reason = "an evaluation prints its table")]

use serde_json::json;
use truetape_compiler::select::feature::Group;
use truetape_compiler::select::fleet::{Fleet, Plan};
use truetape_compiler::select::problem::{Tolerances, Weights};
use truetape_compiler::select::source::{Source, Units};
use truetape_fidelity::mix::mix;
use truetape_fidelity::population::Population;
use truetape_testkit::eval::{Eval, Table, figure};
use truetape_testkit::shared;

#[path = "../traces_kit/claude.rs"]
mod claude;
mod measure;
#[path = "../traces_kit/mooncake.rs"]
mod mooncake;
#[path = "../traces_kit/shown.rs"]
mod shown;

/// Names of the designs.
const DESIGNS: [&str; 3] = ["iid requests", "random sessions", "ours"];

/// One source at one share.
struct Case {
    name: String,
    share: f64,
    capacities: Vec<usize>,
    weights: Weights,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let salts = shown::argument("--salts", 20);
    let eval = Eval::begin("eval-selection");
    let mut figures = Vec::new();
    if let Some(path) = shared::path("traces/mooncake/conversation_trace.jsonl") {
        let population = mooncake::mooncake(&path)?;
        for percent in [20, 10, 5] {
            let case = Case {
                name: format!("Mooncake conversation, {percent} % of the tokens"),
                share: f64::from(percent) / 100.0,
                capacities: vec![1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000],
                weights: weights(&[]),
            };
            figures.push(run(&population, &case, salts));
        }
    }
    if let Some(path) = shared::path("traces/claude_code/claude_code_compact.jsonl") {
        let population = claude::claude_code(&path)?;
        // The sessions have no clock in common, so when they arrive means nothing.
        let case = Case {
            name: "Claude Code sessions, 20 % of the tokens".to_owned(),
            share: 0.2,
            capacities: Vec::new(),
            weights: weights(&[Group::Time, Group::Work]),
        };
        figures.push(run(&population, &case, salts));
    }
    let path = eval.write(&shown::root(), &json!({ "salts": salts, "cases": figures }))?;
    println!("written to {}", path.display());
    Ok(())
}

/// The product's weights, with some groups held out besides.
fn weights(more: &[Group]) -> Weights {
    let held = [Group::Pauses, Group::Joint]
        .into_iter()
        .chain(more.iter().copied());
    held.map(|group| (group, 0.0)).collect()
}

fn run(population: &Population, case: &Case, salts: u64) -> serde_json::Value {
    let mut errors: [Vec<Vec<f64>>; 3] = Default::default();
    let mut kept = Vec::new();
    let plan = Plan {
        share: case.share,
        capacities: case.capacities.clone(),
        weights: case.weights.clone(),
        tolerances: Tolerances::new(),
        by_family: true,
    };
    for salt in 0..salts {
        let source = source(population, salt);
        let fleet = Fleet::new(&source, &plan, population.clock_resolution_us.unwrap_or(1));
        let units = Units::sessions(&source);
        let chosen = fleet.choose(fleet.problem());
        let iid = |turn: &u32| {
            let draw = mix(mix(salt ^ 0x1D) ^ u64::from(*turn));
            (draw >> 11) as f64 / (1_u64 << 53) as f64 <= case.share
        };
        let designs = [
            (0..population.turns.len() as u32).filter(iid).collect(),
            units.chosen_turns(&units.smallest(case.share, 0.0)),
            fleet.units.chosen_turns(&chosen),
        ];
        for (errors, turns) in errors.iter_mut().zip(&designs) {
            errors.push(measure::errors(&fleet, &source, case.share, turns));
        }
        let former = fleet.units.chosen_sessions(&chosen);
        kept.extend(overlap(population, &plan, salt, &former));
    }
    print(case, salts, &errors, &kept)
}

fn source(population: &Population, salt: u64) -> Source<'_> {
    let number = |session: u32| mix(mix(salt) ^ u64::from(session));
    Source {
        population,
        random: (0..population.sessions).map(number).collect(),
        replica: Vec::new(),
        kind: Vec::new(),
        by_turns: false,
    }
}

/// How many sessions of a set of the first 95 % of the time are still in that of all of it.
fn overlap(population: &Population, plan: &Plan, salt: u64, later: &[bool]) -> Option<f64> {
    // Once is enough: it takes as long as the choice itself.
    if salt > 0 {
        return None;
    }
    let mut earlier = population.clone();
    let first = earlier.turns.first()?.arrival_us;
    let last = earlier.turns.last()?.arrival_us;
    let end = first + (last - first) / 100 * 95;
    earlier.turns.retain(|turn| turn.arrival_us < end);
    let source = source(&earlier, salt);
    let fleet = Fleet::new(&source, plan, earlier.clock_resolution_us.unwrap_or(1));
    let former = fleet.units.chosen_sessions(&fleet.choose(fleet.problem()));
    let had = former.iter().filter(|taken| **taken).count();
    let both = former.iter().zip(later).filter(|(a, b)| **a && **b).count();
    Some(both as f64 / had.max(1) as f64)
}

fn print(case: &Case, salts: u64, errors: &[Vec<Vec<f64>>; 3], kept: &[f64]) -> serde_json::Value {
    let title = format!("{}, {salts} salts, rms error", case.name);
    let mut table = Table::new(
        &title,
        &[
            "dimension",
            DESIGNS[0],
            DESIGNS[1],
            DESIGNS[2],
            "ours, bias",
        ],
    );
    let mut rows = Vec::new();
    for (place, (name, held_out)) in measure::DIMENSIONS.iter().enumerate() {
        let of = |design: usize| {
            let rows = errors.get(design).into_iter().flatten();
            shown::bias_and_rms(rows.filter_map(|row| row.get(place).copied()))
        };
        let rms = [of(0).1, of(1).1, of(2).1];
        let cells = rms.iter().map(|rms| figure(*rms)).chain([figure(of(2).0)]);
        table.row(std::iter::once((*name).to_owned()).chain(cells));
        rows.push(
            json!({ "dimension": name, "held_out": held_out, "rms": rms, "bias_ours": of(2).0 }),
        );
    }
    println!("{}", table.markdown());
    let kept = kept.first().copied();
    if let Some(kept) = kept {
        println!(
            "sessions of a set of the first 95 % of the time that are still in it: {:.0} %\n",
            100.0 * kept
        );
    }
    json!({ "case": case.name, "share": case.share, "rows": rows, "kept": kept })
}
