//! A population with everything a distortion can break: bursts, sessions, shared prefixes, tails.

use crate::facts::{Collector, Facts, Said};
use crate::grade::{SetContext, set_against_source};
use crate::mix::mix;
use crate::population::{Population, PopulationTurn};
use std::num::NonZeroU64;
use truetape_schemas::capture::Outcome;
use truetape_schemas::report::Report;
use truetape_schemas::set::Turn;

/// Tokens of a block.
pub(super) const BLOCK_TOKENS: u32 = 16;

/// Blocks of the system prompt that all sessions share.
const SYSTEM_BLOCKS: u64 = 20;

/// Sessions of the full-size population.
pub(super) const SESSIONS: u32 = 2_000;

/// A stream of uniform numbers.
struct Stream(u64);

impl Stream {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(1);
        (mix(self.0) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Log-normal, by the sum of twelve uniforms.
    fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        median * (sigma * normal).exp()
    }
}

/// About `sessions * 2.7` turns in about two hours. Two thirds of the sessions start in bursts.
pub(super) fn population(sessions: u32) -> Population {
    let span_us = f64::from(sessions) * 5e6;
    let bursts = f64::from(sessions) / 25.0;
    let mut turns = Vec::new();
    for session in 0..sessions {
        let mut stream = Stream(u64::from(session) << 32);
        let start_us = if stream.uniform() < 0.67 {
            let burst = (stream.uniform() * bursts) as u64;
            Stream(burst << 20).uniform() * span_us + stream.exponential(3e6)
        } else {
            stream.uniform() * span_us
        };
        add_session(&mut turns, session, start_us as i64, &mut stream);
    }
    sorted(turns, sessions)
}

fn add_session(turns: &mut Vec<PopulationTurn>, session: u32, start_us: i64, stream: &mut Stream) {
    let mut blocks: Vec<u64> = (1..=SYSTEM_BLOCKS).collect();
    let mut now = start_us;
    let length = 1 + (stream.exponential(1.9)) as u64;
    for _ in 0..length.min(14) {
        let grown = (stream.lognormal(30.0, 1.1)) as u64 + 1;
        let have = blocks.len() as u64;
        blocks.extend((have..have + grown).map(|i| mix((u64::from(session) << 24) + i)));
        let output = stream.lognormal(180.0, 0.8).max(1.0);
        let facts = combination(session, blocks.len() as u64);
        let service_us = 300_000 + (output * 20_000.0) as i64;
        turns.push(PopulationTurn {
            session,
            arrival_us: now,
            end_us: Some(now + service_us),
            input_tokens: Some(blocks.len() as u64 * u64::from(BLOCK_TOKENS) - 3),
            output_tokens: Some(output as u64),
            cached_tokens: None,
            blocks: blocks.clone(),
            facts,
            replica: None,
            tenant: Some(tenant(session)),
        });
        now += service_us + stream.exponential(40e6) as i64;
    }
}

/// Puts turns in order.
pub(super) fn sorted(mut turns: Vec<PopulationTurn>, sessions: u32) -> Population {
    turns.sort_by_key(|turn| turn.arrival_us);
    Population {
        turns,
        sessions,
        block_tokens: Some(BLOCK_TOKENS),
        clock_resolution_us: None,
        facts: facts(),
    }
}

/// What a turn of the known-good population may be: a model, tools or none, and an ending.
pub(super) const MODELS: [&str; 3] = ["large", "small", "adapter"];
const ENDINGS: [(Outcome, Option<&str>, bool); 5] = [
    (Outcome::Complete, Some("stop"), false),
    (Outcome::Complete, Some("length"), false),
    (Outcome::Error, Some("none"), false),
    (Outcome::ClientAborted, Some("none"), false),
    (Outcome::Complete, Some("stop"), true),
];

/// All combinations, numbered from 1: endings vary first, then tools, then models.
pub(super) fn facts() -> Facts {
    let mut facts = Collector::new();
    for model in MODELS {
        for tools in [0, 3] {
            for (outcome, finish, retry) in ENDINGS {
                facts.add(&Said {
                    model: Some(model),
                    dialect: "openai_chat",
                    request: true,
                    stream: Some(true),
                    tool_count: Some(tools),
                    outcome: Some(outcome),
                    finish,
                    retry: Some(retry),
                    ..Said::default()
                });
            }
        }
    }
    facts.finish()
}

/// The combination with this model, tools or none, and this ending.
pub(super) fn combined(model: u32, tools: u32, ending: u32) -> u32 {
    1 + ending + 5 * tools + 10 * model
}

/// Its model, its tools and its ending.
pub(super) fn parts(combination: u32) -> (u32, u32, u32) {
    let at = combination - 1;
    (at / 10, at / 5 % 2, at % 5)
}

/// Six of ten sessions ask for one model and one for the third; a quarter brings tools. Of the turns
/// 10 % reach their limit, 1.5 % fail, 1 % are given up and 1 % repeat.
fn combination(session: u32, turn: u64) -> u32 {
    let uniform = crate::draws::unit(mix(u64::from(session) << 24 | turn));
    let model = [0, 0, 0, 0, 0, 0, 1, 1, 1, 2][(mix(u64::from(session) ^ 5) % 10) as usize];
    let tools = u32::from(mix(u64::from(session) ^ 6).is_multiple_of(4));
    let ending = match uniform {
        uniform if uniform < 0.10 => 1,
        uniform if uniform < 0.115 => 2,
        uniform if uniform < 0.125 => 3,
        uniform if uniform < 0.135 => 4,
        _ => 0,
    };
    combined(model, tools, ending)
}

/// One of forty tenants, of which the first have most sessions.
pub(super) fn tenant(session: u32) -> NonZeroU64 {
    let uniform = crate::draws::unit(mix(u64::from(session) ^ 7));
    NonZeroU64::MIN.saturating_add((40.0 * uniform * uniform) as u64)
}

/// The same population with each turn changed or left out.
pub(super) fn changed(
    population: &Population,
    mut change: impl FnMut(usize, &PopulationTurn) -> Option<PopulationTurn>,
) -> Population {
    let turns = population.turns.iter().enumerate();
    let turns = turns
        .filter_map(|(index, turn)| change(index, turn))
        .collect();
    Population {
        turns,
        ..sorted(Vec::new(), population.sessions)
    }
    .resorted()
}

impl Population {
    fn resorted(self) -> Self {
        sorted(self.turns, self.sessions)
    }
}

/// The turns of a set with that population.
pub(super) fn turns(population: &Population) -> Vec<Turn> {
    let mut last: std::collections::HashMap<u32, i64> = std::collections::HashMap::new();
    let rows = population.turns.iter().zip(0i64..);
    rows.map(|(turn, turn_id)| {
        let parent = last.insert(turn.session, turn_id);
        let ended = parent.map(|id| {
            population.turns[usize::try_from(id).unwrap()]
                .end_us
                .unwrap()
        });
        Turn {
            turn_id,
            session: format!("s{}", turn.session),
            parent,
            depends_on: parent.into_iter().collect(),
            start_us: turn.arrival_us,
            gap_us: ended.map(|ended| turn.arrival_us - ended),
            input_tokens: turn.input_tokens.map(|tokens| tokens as i64),
            output_tokens: turn.output_tokens.map(|tokens| tokens as i64),
            block_tokens: Some(BLOCK_TOKENS as i32),
            block_hashes: Some(turn.blocks.clone()),
            recorded_end_us: turn.end_us.map(|end| end - turn.arrival_us),
            upstream: "10.0.0.1:8000".to_owned(),
            ..Turn::default()
        }
    })
    .collect()
}

/// A set in a fleet view, with nothing else said.
pub(super) fn context() -> SetContext {
    SetContext {
        set_name: "good".to_owned(),
        view: "fleet".to_owned(),
        rate: "recorded".to_owned(),
        ..SetContext::default()
    }
}

/// Grades a set that should be its whole source.
pub(super) fn grade(source: &Population, set: &Population) -> Report {
    let linked = SetContext {
        unlinked_share: Some(0.0),
        ..context()
    };
    set_against_source(source, set, &linked)
}

/// Half of the sessions, drawn at random.
pub(super) fn half(source: &Population) -> Population {
    changed(source, |_, turn| {
        mix(u64::from(turn.session) + 99)
            .is_multiple_of(2)
            .then(|| turn.clone())
    })
}
