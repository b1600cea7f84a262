//! Local search: from a random sample to one whose sums are right.
//!
//! It starts with the units of smallest permanent random number, as many as the budget holds, and
//! exchanges units for others as long as the misfit falls. Units of a large random number are not
//! even candidates, and each costs a little more the larger its number is: so samples of two versions
//! of a source stay near one plain random sample, and so near each other.

use super::problem::Problem;
use super::source::Stream;
use super::vector::{add, padded, squares, squares_with, subtract};
use super::work::{Dispersion, WINDOWS_S, Work};

/// Candidates that are looked at for one exchange: runs of neighbours in the pool, whose vectors lie
/// side by side. The pool is in the order of random numbers, so neighbours have nothing in common.
const RUNS: usize = 3;
/// See [`RUNS`].
const RUN: usize = 16;

/// Exchanges that are drawn at most to find one that will do.
const DRAWS_MAX: usize = 2_304;

/// Exchanges that are tried, for each unit of the sample.
const TRIES_PER_UNIT: usize = 40;

/// Exchanges that are tried at least, and at most (so a sample of a large source takes seconds).
const TRIES_MIN: usize = 10_000;
const TRIES_MAX: usize = 400_000;

/// Exchanges that are tried at most where a choice was searched before and only little has moved.
const TRIES_AGAIN_MAX: usize = 100_000;

/// Exchanges that may fail one after the other, for each unit of the sample, before it ends.
const FAILURES_PER_UNIT: usize = 6;

/// Units of up to this many times the share as their number are candidates.
const REACH: f64 = 4.0;

/// Candidates there must be for each unit of the sample, whatever their numbers.
const POOL_PER_UNIT: usize = 3;

/// What a unit costs whose number is as far beyond the share as the share is wide.
const FAR_COST: f64 = 0.02;

/// A choice that is being changed.
#[derive(Clone, Debug)]
pub struct State<'a> {
    problem: &'a Problem<'a>,
    /// How far each sum that counts is off, in tolerances.
    off: Vec<f32>,
    work: Option<Work<'a>>,
    taken: Vec<bool>,
    members: Vec<u32>,
    /// By unit: where it stands among the members.
    place: Vec<u32>,
    pool: Vec<u32>,
    /// By unit: what its number costs; and the sum over the members.
    far: Vec<f32>,
    far_sum: f64,
    misfit: f64,
}

/// One exchange: what goes and what comes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Exchange {
    /// The member that goes.
    pub gone: Option<u32>,
    /// The unit that comes.
    pub come: Option<u32>,
}

impl Exchange {
    /// The exchange that undoes it.
    pub fn back(self) -> Self {
        Self {
            gone: self.come,
            come: self.gone,
        }
    }
}

impl<'a> State<'a> {
    /// Starts from a choice.
    pub fn new(problem: &'a Problem<'a>, taken: Vec<bool>) -> Self {
        let numbers = &problem.units.random;
        let share = problem.share.clamp(1e-6, 1.0);
        let count = taken.iter().filter(|taken| **taken).count();
        let mut pool = problem.units.by_number();
        let near = pool.partition_point(|unit| {
            numbers
                .get(*unit as usize)
                .is_some_and(|number| *number <= REACH * share)
        });
        pool.truncate(near.max(POOL_PER_UNIT * count));
        let beyond = |number: &f64| (FAR_COST * ((number - share) / share).max(0.0)) as f32;
        let mut state = Self {
            off: Vec::new(),
            work: problem.work.as_ref().map(|work| work.empty.clone()),
            members: Vec::new(),
            place: vec![0; problem.units.len()],
            pool,
            far: numbers.iter().map(beyond).collect(),
            far_sum: 0.0,
            taken,
            problem,
            misfit: 0.0,
        };
        state.settle();
        state
    }

    /// Adds everything up anew.
    fn settle(&mut self) {
        let members = (0..).zip(&self.taken).filter(|(_, taken)| **taken);
        self.members = members.map(|(unit, _)| unit).collect();
        for (at, unit) in (0..).zip(&self.members) {
            if let Some(place) = self.place.get_mut(*unit as usize) {
                *place = at;
            }
        }
        self.far_sum = self
            .members
            .iter()
            .map(|unit| self.far_cost_of(*unit))
            .sum();
        let sums = self.problem.sums(&self.taken);
        let off = self.problem.scales.iter().map(|(place, scale)| {
            let both = sums.get(*place).zip(self.problem.targets.get(*place));
            both.map_or(0.0, |(sum, wanted)| ((sum - wanted) as f32) * scale)
        });
        self.off = off.collect();
        self.off.resize(padded(self.off.len()), 0.0);
        if let (Some(work), Some(target)) = (&mut self.work, &self.problem.work) {
            *work = target.empty.clone();
            for unit in &self.members {
                work.add(self.problem.units, *unit as usize);
            }
        }
        self.misfit = squares(&self.off) + self.work_misfit() + self.far_sum;
    }

    fn work_misfit(&self) -> f64 {
        let both = self.work.as_ref().zip(self.problem.work.as_ref());
        both.map_or(0.0, |(work, target)| target.misfit(work))
    }

    /// How far the choice is from what is wanted.
    pub fn misfit(&self) -> f64 {
        self.misfit
    }

    /// The choice.
    pub fn taken(&self) -> &[bool] {
        &self.taken
    }

    /// Searches until nothing gets better.
    pub fn search(&mut self, stream: &mut Stream) {
        self.search_for(stream, TRIES_MAX);
    }

    /// Searches on from a choice that was right before what is wanted moved a little.
    pub fn search_again(&mut self, stream: &mut Stream) {
        self.search_for(stream, TRIES_AGAIN_MAX);
    }

    fn search_for(&mut self, stream: &mut Stream, tries_max: usize) {
        let units = self.members.len();
        let tries = (TRIES_PER_UNIT * units).clamp(TRIES_MIN, tries_max);
        let failures_max = (FAILURES_PER_UNIT * units).max(TRIES_MIN / 5);
        let mut failures = 0;
        for _ in 0..tries {
            if failures > failures_max {
                break;
            }
            match self.best_exchange(stream, self.misfit) {
                Some((exchange, misfit)) => {
                    self.exchange(exchange);
                    self.misfit = misfit;
                    failures = 0;
                }
                None => failures += 1,
            }
        }
        // What was added up in single precision is added up anew.
        self.settle();
    }

    /// The best exchange of one member that leads below a misfit, if one does.
    pub fn best_exchange(&mut self, stream: &mut Stream, below: f64) -> Option<(Exchange, f64)> {
        let gone = *self.members.get(stream.below(self.members.len()))?;
        let vectors = self.problem.scaled();
        let mut without = self.off.clone();
        subtract(&mut without, vectors.of(gone));
        let far = self.far_cost_of(gone);
        let rest = self.far_sum - far;
        let mut candidates: Vec<(Exchange, f64)> = Vec::new();
        let mut consider = |gone: Option<u32>, come: Option<u32>, misfit: f64| {
            if misfit < below {
                candidates.push((Exchange { gone, come }, misfit));
            }
        };
        if self.members.len() > 1 {
            consider(Some(gone), None, squares(&without) + rest);
        }
        for _ in 0..RUNS {
            let start = stream.below(self.pool.len());
            for come in self.pool.iter().skip(start).take(RUN).copied() {
                if self.taken.get(come as usize) == Some(&true) {
                    continue;
                }
                let cost = rest + self.far_cost_of(come);
                let [swap, add] = squares_with([&without, &self.off], vectors.of(come));
                consider(Some(gone), Some(come), swap + cost);
                consider(None, Some(come), add + cost + far);
            }
        }
        candidates.sort_by(|a, b| a.1.total_cmp(&b.1));
        self.best_with_work(&candidates, below)
    }

    /// Some exchange that leads below a misfit: the first that is found.
    pub fn any_exchange(&mut self, stream: &mut Stream, below: f64) -> Option<(Exchange, f64)> {
        let vectors = self.problem.scaled();
        for _ in 0..DRAWS_MAX {
            let gone = *self.members.get(stream.below(self.members.len()))?;
            let come = *self.pool.get(stream.below(self.pool.len()))?;
            if self.taken.get(come as usize) == Some(&true) {
                continue;
            }
            let mut off = self.off.clone();
            subtract(&mut off, vectors.of(gone));
            add(&mut off, vectors.of(come));
            let far = self.far_sum - self.far_cost_of(gone) + self.far_cost_of(come);
            let sums = squares(&off) + far;
            let exchange = Exchange {
                gone: Some(gone),
                come: Some(come),
            };
            if sums < below
                && let found @ Some(_) = self.best_with_work(&[(exchange, sums)], below)
            {
                return found;
            }
        }
        None
    }

    /// Units of the choice.
    pub fn units(&self) -> usize {
        self.members.len()
    }

    fn far_cost_of(&self, unit: u32) -> f64 {
        self.far
            .get(unit as usize)
            .map_or(0.0, |cost| f64::from(*cost))
    }

    /// Of candidates in the order of their sums' misfit, the best when work counts too.
    fn best_with_work(
        &mut self,
        candidates: &[(Exchange, f64)],
        below: f64,
    ) -> Option<(Exchange, f64)> {
        if self.work.is_none() {
            return candidates.first().copied();
        }
        let mut best: Option<(Exchange, f64)> = None;
        for (exchange, sums) in candidates {
            let least = best.map_or(below, |(_, misfit)| misfit);
            if *sums >= least {
                break;
            }
            self.move_work(*exchange, false);
            let misfit = sums + self.work_misfit();
            self.move_work(*exchange, true);
            if misfit < least {
                best = Some((*exchange, misfit));
            }
        }
        best
    }

    fn move_work(&mut self, exchange: Exchange, back: bool) {
        let Some(work) = &mut self.work else { return };
        let units = self.problem.units;
        let (less, more) = if back {
            (exchange.come, exchange.gone)
        } else {
            (exchange.gone, exchange.come)
        };
        // What comes is added first: a window never holds less than nothing.
        if let Some(unit) = more {
            work.add(units, unit as usize);
        }
        if let Some(unit) = less {
            work.take(units, unit as usize);
        }
    }

    /// Carries out an exchange, and says what the misfit has become.
    pub fn exchange(&mut self, exchange: Exchange) {
        self.move_work(exchange, false);
        let vectors = self.problem.scaled();
        if let Some(unit) = exchange.gone {
            subtract(&mut self.off, vectors.of(unit));
            if let Some(taken) = self.taken.get_mut(unit as usize) {
                *taken = false;
            }
            self.far_sum -= self.far_cost_of(unit);
            self.leave(unit);
        }
        if let Some(unit) = exchange.come {
            add(&mut self.off, vectors.of(unit));
            if let Some(taken) = self.taken.get_mut(unit as usize) {
                *taken = true;
            }
            self.far_sum += self.far_cost_of(unit);
            if let Some(place) = self.place.get_mut(unit as usize) {
                *place = self.members.len() as u32;
            }
            self.members.push(unit);
        }
        self.misfit = squares(&self.off) + self.work_misfit() + self.far_sum;
    }

    /// Takes a unit off the list of members.
    fn leave(&mut self, unit: u32) {
        let Some(place) = self.place.get(unit as usize).map(|place| *place as usize) else {
            return;
        };
        if self.members.get(place) != Some(&unit) {
            return;
        }
        self.members.swap_remove(place);
        if let Some(moved) = self.members.get(place)
            && let Some(slot) = self.place.get_mut(*moved as usize)
        {
            *slot = place as u32;
        }
    }

    /// The dispersion of the choice's work.
    pub fn dispersion(&self) -> Option<Dispersion> {
        self.work.as_ref().map(Work::dispersion)
    }
}

/// Names of the dispersions, in their order.
pub fn work_names() -> impl Iterator<Item = String> {
    WINDOWS_S.into_iter().flat_map(|window_s| {
        ["uncached prompt tokens", "answer tokens"]
            .map(|what| format!("dispersion of {what} over {window_s} s"))
    })
}
