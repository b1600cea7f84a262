//! The fleet view: one pooled cache, made smaller with the sample.
//!
//! The units are families, so that a sample loses no reuse between sessions; hits at several
//! capacities are matched like lengths are. What is cached of a sample also depends on who else was
//! taken, so the hit curve of the sample is simulated, and the targets of its sums are moved by what
//! is missing, until the curve is right.

use super::family::{Families, families};
use super::feature::{Extra, Features, Group, features};
use super::problem::{Problem, Tolerances, Weights, WorkTarget};
use super::search::State;
use super::source::{Source, Stream, Units};
use super::work::{Dispersion, Load, Work};
use truetape_fidelity::prefix::{Curve, HitTable, hit_curve, hit_table};

/// Stretches of time in which the tokens are matched.
const STRATA: usize = 6;

/// How often the targets of hits are moved.
const ROUNDS: usize = 6;

/// Error of a hit ratio that is left alone.
const RATIO_ERROR_MIN: f64 = 0.0005;

/// Mean error of the curve that counts as much as a sum that is off by its tolerance.
const CURVE_TOLERANCE: f64 = 0.001;

/// Capacities of the curve where none are stated: what the source holds, halved this often.
const HALVINGS: u32 = 7;

/// What a fleet view is made with.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Share of the tokens.
    pub share: f64,
    /// Capacities of the hit curve, in blocks of the source's cache; empty for a spread.
    pub capacities: Vec<usize>,
    /// How much each group counts; those at 0 are held out.
    pub weights: Weights,
    /// The error of each group that counts as 1.
    pub tolerances: Tolerances,
    /// Whether the units are families, or plain sessions.
    pub by_family: bool,
}

/// A source, made ready for a fleet view.
#[derive(Clone, Debug)]
pub struct Fleet<'a> {
    source: &'a Source<'a>,
    plan: &'a Plan,
    /// The units.
    pub units: Units,
    /// Their vectors.
    pub features: Features,
    /// Families, and what lies above them.
    pub families: Families,
    /// The capacities of the curve.
    pub capacities: Vec<usize>,
    /// The curve of the source.
    pub curve: Curve,
    loads: Vec<Load>,
    work: Dispersion,
    resolution_us: i64,
}

impl<'a> Fleet<'a> {
    /// Learns what a sample has to keep.
    pub fn new(source: &'a Source<'a>, plan: &'a Plan, resolution_us: i64) -> Self {
        let families = families(source, plan.share);
        let units = if plan.by_family {
            Units::new(source, &families.labels)
        } else {
            Units::sessions(source)
        };
        let requests = || {
            source
                .population
                .turns
                .iter()
                .map(|turn| turn.blocks.as_slice())
        };
        let curve = hit_curve(requests(), &plan.capacities);
        let capacities = if plan.capacities.is_empty() {
            spread(curve.unique)
        } else {
            plan.capacities.clone()
        };
        let table = hit_table(requests(), &capacities);
        let curve = hit_curve(requests(), &capacities);
        let extra = Extra {
            hits: Some(&table),
            hit_names: hit_names(&capacities),
            strata: STRATA,
        };
        let features = features(source, &units, &extra);
        let loads = loads(source, &table, capacities.len());
        let work = thinned(source, &units, &loads, plan.share, resolution_us);
        Self {
            source,
            plan,
            units,
            features,
            families,
            capacities,
            curve,
            loads,
            work,
            resolution_us,
        }
    }

    /// What is wanted of a choice.
    pub fn problem(&'a self) -> Problem<'a> {
        let counts = (&self.plan.weights, &self.plan.tolerances);
        let mut problem = Problem::new(&self.units, &self.features, self.plan.share, counts);
        let (loads, step) = (&self.loads, self.resolution_us);
        problem.work = WorkTarget::new(self.source, loads, step, self.work, counts);
        problem
    }

    /// Chooses units.
    pub fn choose(&self, mut problem: Problem<'_>) -> Vec<bool> {
        let mut stream = Stream::new(0);
        let mut taken = self.units.smallest(self.plan.share, 0.0);
        let mut best: Option<(f64, Vec<bool>)> = None;
        for round in 0..ROUNDS {
            let mut state = State::new(&problem, taken);
            if round == 0 {
                state.search(&mut stream);
            } else {
                state.search_again(&mut stream);
            }
            taken = state.taken().to_vec();
            let errors = self.curve_errors(&taken);
            let mean =
                errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len().max(1) as f64;
            // Sums come first: a curve that is right at their cost is no gain.
            let score = state.misfit() + (mean / CURVE_TOLERANCE).powi(2);
            if best.as_ref().is_none_or(|(least, _)| score < *least) {
                best = Some((score, taken.clone()));
            }
            if errors.is_empty() || errors.iter().all(|error| error.abs() < RATIO_ERROR_MIN) {
                break;
            }
            self.move_targets(&mut problem, &errors);
        }
        best.map_or(taken, |(_, taken)| taken)
    }

    /// The error of the choice's hit ratio at each capacity, each made smaller with the choice.
    pub fn curve_errors(&self, taken: &[bool]) -> Vec<f64> {
        let turns = self.units.chosen_turns(taken);
        let p = share_of(self.source, &turns);
        let scaled = self.scaled(&self.capacities, p);
        let found = curve_of(self.source, &turns, &scaled).hit_ratios();
        let wanted = self.curve.hit_ratios();
        found
            .iter()
            .zip(wanted)
            .map(|(found, wanted)| found - wanted)
            .collect()
    }

    /// Capacities of a cache that is to a sample what the whole one is to the source:
    /// `C' = H + p·(C - H)`, where `H` is what split blocks take.
    pub fn scaled(&self, capacities: &[usize], p: f64) -> Vec<usize> {
        let split = self.families.split.len();
        let scale = |capacity: &usize| {
            let hot = split.min(*capacity);
            hot + (p * (capacity - hot) as f64).round() as usize
        };
        capacities.iter().map(scale).collect()
    }

    fn move_targets(&self, problem: &mut Problem<'_>, errors: &[f64]) {
        let blocks = self.plan.share * self.curve.refs as f64;
        let hits = self.features.terms.iter().enumerate();
        let hits = hits.filter(|(_, term)| term.group == Group::Hits);
        for ((place, _), error) in hits.zip(errors) {
            if let Some(target) = problem.targets.get_mut(place) {
                *target -= error * blocks;
            }
        }
    }
}

/// Names of the columns of a table of hits.
pub(super) fn hit_names(capacities: &[usize]) -> Vec<String> {
    let bounded = capacities
        .iter()
        .map(|capacity| format!("{capacity} blocks"));
    bounded
        .chain(std::iter::once("any size".to_owned()))
        .collect()
}

/// Powers of two times what the source holds.
fn spread(unique: u64) -> Vec<usize> {
    let unique = usize::try_from(unique).unwrap_or(usize::MAX);
    let sizes = (0..=HALVINGS).rev().map(|halvings| unique >> halvings);
    sizes.filter(|size| *size > 0).collect()
}

/// What arrives with each turn, where a cache of that column held what it could.
pub(super) fn loads(source: &Source<'_>, table: &HitTable, column: usize) -> Vec<Load> {
    let block = u64::from(source.population.block_tokens.unwrap_or(0));
    let turns = source.population.turns.iter().enumerate();
    let load = turns.map(|(at, turn)| {
        let cached = table
            .of(at)
            .get(column)
            .map_or(0, |hits| u64::from(*hits) * block);
        let prefill = turn.input_tokens.unwrap_or(0).saturating_sub(cached);
        [prefill, turn.output_tokens.unwrap_or(0)].map(|n| u32::try_from(n).unwrap_or(u32::MAX))
    });
    load.collect()
}

/// What thinning makes of the dispersion of work: `IDW_p = A + p·(IDW - A)`, with `A` that of units
/// that arrive each by itself.
fn thinned(
    source: &Source<'_>,
    units: &Units,
    loads: &[Load],
    p: f64,
    resolution_us: i64,
) -> Dispersion {
    let mut whole = Work::new(source, loads, resolution_us);
    for unit in 0..units.len() {
        whole.add(units, unit);
    }
    let alone = whole.cluster_factors(units);
    let mut wanted = whole.dispersion();
    for (wanted, alone) in wanted.iter_mut().flatten().zip(alone.into_iter().flatten()) {
        *wanted = (*wanted)
            .zip(alone)
            .map(|(whole, alone)| alone + p * (whole - alone));
    }
    wanted
}

/// The share of the tokens that some turns hold.
pub fn share_of(source: &Source<'_>, turns: &[u32]) -> f64 {
    let tokens: u64 = turns.iter().map(|turn| source.tokens(*turn as usize)).sum();
    tokens as f64 / (source.tokens_all() as f64).max(1.0)
}

/// The hit curve of some turns.
pub fn curve_of(source: &Source<'_>, turns: &[u32], capacities: &[usize]) -> Curve {
    let blocks = turns
        .iter()
        .filter_map(|turn| source.population.turns.get(*turn as usize));
    hit_curve(blocks.map(|turn| turn.blocks.as_slice()), capacities)
}
