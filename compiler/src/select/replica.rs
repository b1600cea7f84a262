//! The replica view: a set stands for one replica as it is on average.
//!
//! What one replica sees follows from how production routes, so the reference is computed from the
//! replicas themselves: hits inside each one's own traffic, the dispersion of its work, and its
//! latencies on the engine model. Sessions are chosen so that their sums and their dispersion are
//! those of a replica, no smoother and no burstier; then the model picks among candidates, and
//! exchanges of sessions that leave the sums right are kept where they bring latencies nearer.

use super::feature::{Extra, Features, features};
use super::fleet::hit_names;
use super::judge::{self, Measured};
use super::problem::{Problem, Tolerances, Weights, WorkTarget};
use super::reference::Reference;
use super::refine::refine;
use super::search::State;
use super::source::{Source, Stream, Units};
use truetape_fidelity::engine::EngineConfig;

/// Stretches of time in which the tokens are matched: enough for a slow drift, too few to balance a
/// replica's bad moments away.
const STRATA: usize = 3;

/// What a replica view is made with.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Share of the tokens.
    pub share: f64,
    /// How much each group counts; those at 0 are held out.
    pub weights: Weights,
    /// The error of each group that counts as 1.
    pub tolerances: Tolerances,
    /// Engines that candidates are chosen on.
    pub engines: Vec<EngineConfig>,
    /// Candidates.
    pub candidates: usize,
    /// Exchanges that are tried on the best of them.
    pub refinements: usize,
    /// What the clock hides of an arrival.
    pub hidden_us: i64,
}

/// A choice, and what the engine model says about it.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// By unit: whether it is taken.
    pub taken: Vec<bool>,
    /// How far its sums are off.
    pub sums_misfit: f64,
    /// By engine chosen on: what it measures.
    pub measured: Vec<Measured>,
    /// How far that is off.
    pub misfit: f64,
    /// Candidates and exchanges that were simulated.
    pub simulated: usize,
}

/// A source, made ready for a replica view.
#[derive(Clone, Debug)]
pub struct ReplicaView<'a> {
    source: &'a Source<'a>,
    pub(super) plan: &'a Plan,
    pub(super) reference: &'a Reference,
    /// The units: sessions.
    pub units: Units,
    /// Their vectors.
    pub features: Features,
}

impl<'a> ReplicaView<'a> {
    /// Learns what a sample has to keep.
    pub fn new(source: &'a Source<'a>, plan: &'a Plan, reference: &'a Reference) -> Self {
        let units = Units::sessions(source);
        let extra = Extra {
            hits: Some(&reference.hits),
            hit_names: hit_names(&reference.capacities),
            strata: STRATA,
        };
        let features = features(source, &units, &extra);
        Self {
            source,
            plan,
            reference,
            units,
            features,
        }
    }

    /// What is wanted of a choice.
    pub fn problem(&'a self) -> Problem<'a> {
        let counts = (&self.plan.weights, &self.plan.tolerances);
        let mut problem = Problem::new(&self.units, &self.features, self.plan.share, counts);
        let (loads, step) = (&self.reference.loads, self.plan.hidden_us);
        problem.work = WorkTarget::new(self.source, loads, step, self.reference.work, counts);
        problem
    }

    /// Runs a choice on every engine that is chosen on; none as soon as the misfit reaches `below`.
    pub fn judge(&self, taken: &[bool], below: f64) -> Option<(Vec<Measured>, f64)> {
        let turns = self.units.chosen_turns(taken);
        let mut measured = Vec::new();
        let mut misfit = 0.0;
        for engine in 0..self.plan.engines.len() {
            let (found, more) = self.on(engine, &turns)?;
            misfit += more;
            if misfit >= below {
                return None;
            }
            measured.push(found);
        }
        Some((measured, misfit))
    }

    /// Runs turns on one of the engines that are chosen on.
    pub(super) fn on(&self, engine: usize, turns: &[u32]) -> Option<(Measured, f64)> {
        let wanted = self.reference.pooled.get(engine)?;
        let engine = self.plan.engines.get(engine)?;
        let jobs = judge::jobs(self.source, turns, engine.block_tokens, self.plan.hidden_us);
        let found = judge::run(engine, &jobs).measured();
        let misfit = judge::misfit(&found, wanted);
        Some((found, misfit))
    }

    /// Chooses sessions.
    pub fn choose(&self, problem: &Problem<'_>) -> Chosen {
        let mut best: Option<(State<'_>, Chosen)> = None;
        let candidates = self.plan.candidates.max(1);
        for candidate in 0..candidates {
            let shift =
                candidate as f64 / candidates as f64 * self.plan.share.min(1.0 - self.plan.share);
            let mut state = State::new(problem, self.units.smallest(self.plan.share, shift));
            state.search(&mut Stream::new(candidate as u64));
            let least = best.as_ref().map_or(f64::INFINITY, |(_, best)| best.misfit);
            let Some((measured, misfit)) = self.judge(state.taken(), least) else {
                continue;
            };
            let chosen = Chosen {
                taken: state.taken().to_vec(),
                sums_misfit: state.misfit(),
                measured,
                misfit,
                simulated: candidate + 1,
            };
            best = Some((state, chosen));
        }
        match best {
            Some((state, chosen)) => refine(
                self,
                state,
                Chosen {
                    simulated: candidates,
                    ..chosen
                },
            ),
            None => Chosen {
                taken: vec![false; self.units.len()],
                sums_misfit: 0.0,
                measured: Vec::new(),
                misfit: 0.0,
                simulated: 0,
            },
        }
    }
}
