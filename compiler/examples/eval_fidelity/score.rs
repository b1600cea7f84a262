//! What a report says, against what became of the latencies.

use serde_json::{Value, json};
use truetape_fidelity::direction::simulated::Change;
use truetape_fidelity::engine::{EngineConfig, Job, simulate};
use truetape_fidelity::mix::mix;
use truetape_fidelity::population::Population;
use truetape_fidelity::simulated::measures::{JUDGED, MEASURES, Measures};
use truetape_schemas::report::{Direction, Report};
use truetape_testkit::eval::figure;

/// A change that a sign is asked of, and one that a wrong sign of costs money: logarithms.
const ASKED_LN: f64 = 0.0488;
const COSTLY_LN: f64 = 0.0953;

/// Separates the times that a coarse clock hides from those that the report makes up.
const HIDDEN: u64 = 0x54_5255_5448;

/// Pooled latencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Measures);

impl Latencies {
    pub(crate) fn add(&mut self, engine: &EngineConfig, jobs: &[Job]) {
        self.0.add(jobs, &simulate(engine, jobs));
    }
}

/// A population as jobs; what the clock of the trace hides is made up.
pub(crate) fn jobs(population: &Population, block_tokens: u32) -> Vec<Job> {
    let step_us = population
        .clock_resolution_us
        .unwrap_or(1)
        .max(1)
        .unsigned_abs();
    let job = |turn: &truetape_fidelity::population::PopulationTurn| {
        let input = turn.input_tokens.filter(|tokens| *tokens > 0)?;
        let is = mix(input ^ turn.blocks.last().copied().unwrap_or(0)) ^ HIDDEN;
        let hidden = mix(is ^ turn.arrival_us.unsigned_abs()) % step_us;
        Some(Job::of_prompt_blocks(
            turn.arrival_us + i64::try_from(hidden).unwrap_or(0),
            input,
            turn.output_tokens.unwrap_or(1).max(1),
            &turn.blocks,
            block_tokens,
        ))
    };
    population.turns.iter().filter_map(job).collect()
}

/// One latency of one set on one engine.
#[derive(Clone, Debug)]
pub(crate) struct Score {
    pub(crate) replicas: u16,
    pub(crate) router: String,
    pub(crate) set: String,
    pub(crate) engine: String,
    pub(crate) known_engine: bool,
    pub(crate) measure: String,
    pub(crate) said: Direction,
    pub(crate) overall: Direction,
    pub(crate) said_ln: f64,
    pub(crate) true_ln: f64,
}

impl Score {
    fn true_sign(&self) -> Direction {
        if self.true_ln > 0.0 {
            Direction::Pessimistic
        } else {
            Direction::Optimistic
        }
    }

    fn is_asked(&self) -> bool {
        self.true_ln.abs() > ASKED_LN
    }

    fn is_right(&self) -> bool {
        self.said == self.true_sign()
    }

    fn is_wrong(&self) -> bool {
        matches!(self.said, Direction::Optimistic | Direction::Pessimistic) && !self.is_right()
    }

    pub(crate) fn is_costly(&self) -> bool {
        self.is_wrong() && self.true_ln.abs() > COSTLY_LN
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "replicas": self.replicas, "router": self.router, "set": self.set, "engine": self.engine,
            "measure": self.measure, "said": self.said.name(), "overall": self.overall.name(),
            "said_ln": self.said_ln, "true_ln": self.true_ln, "held_out": !self.known_engine,
        })
    }
}

/// The scores of a report, with the names left empty.
pub(crate) fn of(
    report: &Report,
    found: &Latencies,
    truth: &Latencies,
) -> impl Iterator<Item = Score> {
    let (found, truth) = (found.0.clone().measured(), truth.0.clone().measured());
    JUDGED.iter().filter_map(move |measure| {
        let at = MEASURES.iter().position(|name| name == measure)?;
        let value = |of: &[Option<f64>]| of.get(at).copied().flatten().filter(|value| *value > 0.0);
        let change = Change::of(&report.simulations, measure);
        Some(Score {
            replicas: 0,
            router: String::new(),
            set: String::new(),
            engine: String::new(),
            known_engine: false,
            measure: (*measure).to_owned(),
            said: change.map_or(Direction::Unknown, Change::direction),
            overall: report.direction,
            said_ln: change.map_or(0.0, |change| (change.low_ln + change.high_ln) / 2.0),
            true_ln: (value(&found)? / value(&truth)?).ln(),
        })
    })
}

/// Counts and sizes.
pub(crate) fn summary(scores: &[&Score]) -> Value {
    let asked: Vec<&&Score> = scores.iter().filter(|score| score.is_asked()).collect();
    let count = |of: fn(&Score) -> bool| asked.iter().filter(|score| of(score)).count();
    let rms = |of: fn(&Score) -> f64| {
        let sum: f64 = scores.iter().map(|score| of(score).powi(2)).sum();
        (sum / scores.len().max(1) as f64).sqrt()
    };
    json!({
        "latencies": scores.len(),
        "asked": asked.len(),
        "right": count(Score::is_right),
        "wrong": count(Score::is_wrong),
        "costly": count(Score::is_costly),
        "rms_ln_of_what_was_said": rms(|score| score.said_ln - score.true_ln),
        "rms_ln_of_nothing_said": rms(|score| score.true_ln),
    })
}

/// The same as a row.
pub(crate) fn cells(name: &str, scores: &[&Score]) -> Vec<String> {
    let summary = summary(scores);
    let number = |key: &str| summary.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let asked = number("asked");
    let percent = |count: f64| figure(100.0 * count / asked);
    let unsaid = asked - number("right") - number("wrong");
    vec![
        name.to_owned(),
        format!("{asked:.0} of {:.0}", number("latencies")),
        percent(number("right")),
        percent(number("wrong")),
        percent(unsaid),
        format!("{:.0}", number("costly")),
        figure(number("rms_ln_of_what_was_said")),
        figure(number("rms_ln_of_nothing_said")),
    ]
}
