//! What a sample must have as much of as its source: an additive vector for each unit.
//!
//! Every quantile becomes a *count*: as many turns of the sample must be at most as long as the
//! source's p90 as its share says. So the sum over the chosen units of everything here has a known
//! target, `p` times the source's, and choosing becomes a problem of adding up vectors.

pub use super::group::Group;
use super::source::{Source, Units};
use std::fmt::Write as _;
use truetape_fidelity::prefix::HitTable;
use truetape_fidelity::quantile::{quantile, sorted};

/// Ranks at which lengths are matched. They are dense where a tail is judged.
const RANKS: [f64; 14] = [
    0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.85, 0.9, 0.93, 0.96, 0.98, 0.985, 0.99, 0.995,
];

/// Ranks that reports judge by their value: they are matched more closely.
const JUDGED_RANKS: [f64; 2] = [0.5, 0.9];

/// From this rank on a length is in the tail, and is matched more closely.
const TAIL_RANK: f64 = 0.96;

/// Lengths of sessions that are matched, in turns.
const SESSION_TURNS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Pauses inside sessions that are matched, in seconds.
const PAUSES_S: [i64; 7] = [1, 5, 15, 60, 180, 600, 1_800];

/// Cells of the joint grid of prompt and answer lengths, each way.
const GRID: usize = 5;

/// Kinds of turns that are matched each by itself; the rarer ones are matched together.
const KINDS_MAX: usize = 12;

/// One sum that is matched.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// What it is about.
    pub group: Group,
    /// What it is, for people.
    pub name: String,
    /// The sum over all units.
    pub total: f64,
    /// The sum of the squares over all units.
    pub squares: f64,
    /// The sum that a share of 1 would be measured against: an error of this much is 100 %.
    pub base: f64,
    /// How much closer than its group this term is matched.
    pub sharper: f64,
}

/// The vectors of all units.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// What the places of a vector mean.
    pub terms: Vec<Term>,
    x: Vec<f32>,
}

impl Features {
    /// The vector of a unit.
    pub fn of(&self, unit: usize) -> &[f32] {
        let width = self.terms.len();
        let start = unit.saturating_mul(width);
        self.x.get(start..start + width).unwrap_or_default()
    }
}

/// What else goes into the vectors.
#[derive(Clone, Debug, Default)]
pub struct Extra<'a> {
    /// Hits of each turn, at the capacities named, and last without bound.
    pub hits: Option<&'a HitTable>,
    /// Names of the columns of `hits`.
    pub hit_names: Vec<String>,
    /// Stretches of time in which the tokens are matched.
    pub strata: usize,
}

/// Builds the vectors of all units.
pub fn features(source: &Source<'_>, units: &Units, extra: &Extra<'_>) -> Features {
    let plan = Plan::new(source, units, extra);
    let mut terms = plan.terms();
    let width = terms.len();
    let mut x = vec![0.0_f32; width * units.len()];
    let mut row = vec![0.0_f64; width];
    let mut totals = vec![0.0_f64; width];
    let mut squares = vec![0.0_f64; width];
    for unit in 0..units.len() {
        row.fill(0.0);
        plan.fill(source, units.turns(unit), &mut row);
        let start = unit * width;
        let slots = x.get_mut(start..start + width).unwrap_or_default();
        for ((slot, total), value) in slots.iter_mut().zip(&mut totals).zip(&row) {
            *slot = *value as f32;
            *total += value;
        }
        for (square, value) in squares.iter_mut().zip(&row) {
            *square += value * value;
        }
    }
    for ((term, total), squares) in terms.iter_mut().zip(&totals).zip(squares) {
        term.total = *total;
        term.squares = squares;
    }
    let bases = plan.bases(&totals);
    for (term, base) in terms.iter_mut().zip(bases) {
        term.base = base;
    }
    Features { terms, x }
}

/// What the vectors are made of, learned from the source.
struct Plan<'a> {
    extra: &'a Extra<'a>,
    inputs: Vec<f64>,
    outputs: Vec<f64>,
    grid: [Vec<f64>; 2],
    zero_us: i64,
    stratum_us: i64,
    kinds: Vec<u16>,
}

/// Sums at the head of every vector: turns, sessions, prompt tokens, answer tokens, blocks.
const SUMS: usize = 5;

impl<'a> Plan<'a> {
    fn new(source: &Source<'_>, units: &Units, extra: &'a Extra<'a>) -> Self {
        let turns = &source.population.turns;
        let known = |of: fn(&truetape_fidelity::population::PopulationTurn) -> Option<u64>| {
            sorted(
                turns
                    .iter()
                    .filter_map(|turn| of(turn).map(|tokens| tokens as f64)),
            )
        };
        let (inputs, outputs) = (
            known(|turn| turn.input_tokens),
            known(|turn| turn.output_tokens),
        );
        let cuts: Vec<f64> = (1..GRID).map(|cell| cell as f64 / GRID as f64).collect();
        let at = |values: &[f64], ranks: &[f64]| -> Vec<f64> {
            ranks
                .iter()
                .filter_map(|rank| quantile(values, *rank))
                .collect()
        };
        let zero_us = turns.first().map_or(0, |turn| turn.arrival_us);
        let span_us = turns.last().map_or(0, |turn| turn.arrival_us - zero_us);
        let strata = i64::try_from(extra.strata.max(1)).unwrap_or(1);
        debug_assert!(units.len() <= source.population.sessions as usize);
        Self {
            extra,
            grid: [at(&inputs, &cuts), at(&outputs, &cuts)],
            inputs: at(&inputs, &RANKS),
            outputs: at(&outputs, &RANKS),
            zero_us,
            stratum_us: span_us / strata + 1,
            kinds: kinds(&source.kind),
        }
    }

    fn terms(&self) -> Vec<Term> {
        let mut terms = Vec::new();
        let mut term = |group: Group, name: String, sharper: f64| {
            terms.push(Term {
                group,
                name,
                total: 0.0,
                squares: 0.0,
                base: 0.0,
                sharper,
            });
        };
        term(Group::Volume, "turns".to_owned(), 0.5);
        term(Group::Volume, "sessions".to_owned(), 0.2);
        term(Group::Volume, "input tokens".to_owned(), 4.0);
        term(Group::Volume, "output tokens".to_owned(), 2.0);
        term(Group::Volume, "blocks".to_owned(), 1.0);
        for (group, knots) in [(Group::Input, &self.inputs), (Group::Output, &self.outputs)] {
            for (rank, knot) in RANKS.iter().zip(knots) {
                let sharper = sharpness(*rank);
                term(
                    group,
                    format!("turns of at most {knot:.0} (p{})", 100.0 * rank),
                    sharper,
                );
            }
        }
        for turns in SESSION_TURNS {
            term(
                Group::Turns,
                format!("sessions of at most {turns} turns"),
                1.0,
            );
        }
        for name in &self.extra.hit_names {
            term(Group::Hits, format!("hits at {name}"), 1.0);
        }
        for stratum in 0..self.strata() {
            term(
                Group::Time,
                format!("tokens in stretch {}", stratum + 1),
                1.0,
            );
        }
        for place in 0..self.kinds.len() {
            term(Group::Mix, format!("turns of kind {}", place + 1), 1.0);
        }
        for pause in PAUSES_S {
            term(Group::Pauses, format!("pauses of at most {pause} s"), 1.0);
        }
        term(Group::Pauses, "pauses".to_owned(), 1.0);
        for cell in 0..self.cells() {
            let mut name = "turns in cell ".to_owned();
            // Writing to a `String` cannot fail.
            let _infallible = write!(name, "{}/{}", cell / GRID + 1, cell % GRID + 1);
            term(Group::Joint, name, 1.0);
        }
        terms
    }

    fn strata(&self) -> usize {
        if self.extra.strata > 1 {
            self.extra.strata
        } else {
            0
        }
    }

    fn cells(&self) -> usize {
        let both = self.grid.iter().all(|cuts| !cuts.is_empty());
        if both { GRID * GRID } else { 0 }
    }

    /// Adds up the turns of a unit.
    fn fill(&self, source: &Source<'_>, turns: &[u32], row: &mut [f64]) {
        let mut sessions: Vec<(u32, u32, Option<i64>)> = Vec::new();
        for at in turns {
            let at = *at as usize;
            let Some(turn) = source.population.turns.get(at) else {
                continue;
            };
            let mut row = Row { row, place: 0 };
            row.add(1.0);
            row.add(0.0);
            row.add(turn.input_tokens.unwrap_or(0) as f64);
            row.add(turn.output_tokens.unwrap_or(0) as f64);
            row.add(turn.blocks.len() as f64);
            row.up_to(&self.inputs, turn.input_tokens.map(|tokens| tokens as f64));
            row.up_to(
                &self.outputs,
                turn.output_tokens.map(|tokens| tokens as f64),
            );
            row.skip(SESSION_TURNS.len());
            let hits = self
                .extra
                .hits
                .map(|table| table.of(at))
                .unwrap_or_default();
            for place in 0..self.extra.hit_names.len() {
                row.add(hits.get(place).map_or(0.0, |hits| f64::from(*hits)));
            }
            let stratum = (turn.arrival_us - self.zero_us) / self.stratum_us;
            row.one_of(
                self.strata(),
                usize::try_from(stratum).ok(),
                source.tokens(at) as f64,
            );
            let kind = source.kind.get(at);
            let place = kind.and_then(|kind| self.kinds.iter().position(|other| other == kind));
            row.one_of(self.kinds.len(), place, 1.0);
            let mut open = sessions
                .iter_mut()
                .find(|(session, ..)| *session == turn.session);
            let pause = open
                .as_ref()
                .and_then(|(_, _, end)| Some(turn.arrival_us - (*end)?));
            let pause = pause.filter(|pause| *pause >= 0);
            let limits = PAUSES_S.map(|seconds| seconds as f64 * 1e6);
            row.up_to(&limits, pause.map(|pause| pause as f64));
            row.add(f64::from(u8::from(pause.is_some())));
            row.one_of(
                self.cells(),
                self.cell(turn.input_tokens, turn.output_tokens),
                1.0,
            );
            match &mut open {
                Some((_, count, end)) => {
                    *count += 1;
                    *end = turn.end_us.max(*end);
                }
                None => sessions.push((turn.session, 1, turn.end_us)),
            }
        }
        for (_, count, _) in sessions {
            let at = SUMS + self.inputs.len() + self.outputs.len();
            let mut row = Row { row, place: 1 };
            row.add(1.0);
            row.place = at;
            row.up_to(&SESSION_TURNS.map(f64::from), Some(f64::from(count)));
        }
    }

    fn cell(&self, input: Option<u64>, output: Option<u64>) -> Option<usize> {
        let [inputs, outputs] = &self.grid;
        let of = |cuts: &[f64], tokens: u64| cuts.partition_point(|cut| *cut < tokens as f64);
        Some(of(inputs, input?) * GRID + of(outputs, output?))
    }

    /// What 100 % of each term is.
    fn bases(&self, totals: &[f64]) -> Vec<f64> {
        let sum = |place: usize| totals.get(place).copied().unwrap_or(0.0);
        let (turns, sessions, blocks) = (sum(0), sum(1), sum(4));
        let tokens = sum(2) + sum(3);
        let lengths = self.inputs.len() + self.outputs.len();
        let mut bases: Vec<f64> = (0..SUMS).map(sum).collect();
        bases.extend(std::iter::repeat_n(turns, lengths));
        bases.extend(std::iter::repeat_n(sessions, SESSION_TURNS.len()));
        bases.extend(std::iter::repeat_n(blocks, self.extra.hit_names.len()));
        let stretch = tokens / self.strata().max(1) as f64;
        bases.extend(std::iter::repeat_n(stretch, self.strata()));
        bases.extend(std::iter::repeat_n(turns, self.kinds.len()));
        bases.extend(std::iter::repeat_n(turns, PAUSES_S.len() + 1));
        bases.extend(std::iter::repeat_n(turns, self.cells()));
        bases
    }
}

/// How much closer than the others a rank is matched.
fn sharpness(rank: f64) -> f64 {
    if rank >= TAIL_RANK || JUDGED_RANKS.contains(&rank) {
        4.0
    } else {
        1.0
    }
}

/// The commonest kinds, where there are several.
fn kinds(of_turn: &[u16]) -> Vec<u16> {
    let mut counts: std::collections::BTreeMap<u16, usize> = std::collections::BTreeMap::new();
    for kind in of_turn {
        *counts.entry(*kind).or_default() += 1;
    }
    let mut kinds: Vec<(usize, u16)> = counts.into_iter().map(|(kind, n)| (n, kind)).collect();
    kinds.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    kinds.truncate(KINDS_MAX);
    if kinds.len() < 2 {
        return Vec::new();
    }
    kinds.into_iter().map(|(_, kind)| kind).collect()
}

/// A vector that is being added to, place after place.
struct Row<'a> {
    row: &'a mut [f64],
    place: usize,
}

impl Row<'_> {
    fn add(&mut self, value: f64) {
        if let Some(slot) = self.row.get_mut(self.place) {
            *slot += value;
        }
        self.place += 1;
    }

    fn skip(&mut self, places: usize) {
        self.place += places;
    }

    /// Counts a value under every limit that it does not exceed.
    fn up_to(&mut self, limits: &[f64], value: Option<f64>) {
        for limit in limits {
            self.add(f64::from(u8::from(
                value.is_some_and(|value| value <= *limit),
            )));
        }
    }

    /// Adds a value in one of several places.
    fn one_of(&mut self, places: usize, place: Option<usize>, value: f64) {
        if let Some(place) = place.filter(|place| *place < places)
            && let Some(slot) = self.row.get_mut(self.place + place)
        {
            *slot += value;
        }
        self.skip(places);
    }
}
