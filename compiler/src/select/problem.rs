//! What is wanted of a choice: the share of every sum, and the dispersion of work.

use super::feature::{Features, Group, Term};
use super::source::{Source, Units};
use super::vector::Scaled;
use super::work::{Dispersion, Load, Work};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The error that is not worth removing, in standard deviations of a random sample: where units are
/// few and large, no tolerance is met, and what counts is that all are missed alike.
const CHANCE_MIN: f64 = 0.02;

/// How much each group counts.
pub type Weights = BTreeMap<Group, f64>;

/// By group: the error that counts as 1, where it is not the group's own.
pub type Tolerances = BTreeMap<Group, f64>;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// The units.
    pub units: &'a Units,
    /// Their vectors.
    pub features: &'a Features,
    /// Share of the source that is wanted.
    pub share: f64,
    /// By term: the sum that is wanted.
    pub targets: Vec<f64>,
    /// By term: the error that counts as 1; infinite where the term does not count.
    pub(super) tolerances: Vec<f64>,
    /// The dispersion of work that is wanted.
    pub work: Option<WorkTarget<'a>>,
    /// The terms that count, by place, and one over the tolerance of each.
    pub(super) scales: Vec<(usize, f32)>,
    /// See [`Problem::scaled`].
    scaled: OnceLock<Scaled>,
}

/// The dispersion of work that is wanted.
#[derive(Clone, Debug)]
pub struct WorkTarget<'a> {
    /// The work of nobody.
    pub empty: Work<'a>,
    /// What the dispersion should be.
    pub wanted: Dispersion,
    /// The error of a logarithm that counts as 1.
    pub tolerance: f64,
}

impl<'a> WorkTarget<'a> {
    /// Wants a dispersion of the work of these loads.
    pub fn new(
        source: &'a Source<'a>,
        loads: &'a [Load],
        resolution_us: i64,
        wanted: Dispersion,
        (weights, tolerances): (&Weights, &Tolerances),
    ) -> Option<Self> {
        let weight = weights.get(&Group::Work).copied().unwrap_or(1.0);
        let one = tolerances
            .get(&Group::Work)
            .copied()
            .unwrap_or(Group::Work.tolerance());
        (weight > 0.0).then(|| Self {
            empty: Work::new(source, loads, resolution_us),
            wanted,
            tolerance: one / weight.sqrt(),
        })
    }

    /// How far the dispersion of some work is off.
    pub(super) fn misfit(&self, work: &Work<'_>) -> f64 {
        let both = self
            .wanted
            .iter()
            .flatten()
            .zip(work.dispersion().into_iter().flatten());
        both.filter_map(|(wanted, found)| Some(((*wanted)?, found?)))
            .map(|(wanted, found)| ((found / wanted).ln() / self.tolerance).powi(2))
            .filter(|misfit| misfit.is_finite())
            .sum()
    }
}

impl<'a> Problem<'a> {
    /// Wants the share `share` of every sum, each as closely as its weight says; a weight of 0 holds
    /// a group out.
    pub fn new(
        units: &'a Units,
        features: &'a Features,
        share: f64,
        (weights, tolerances): (&Weights, &Tolerances),
    ) -> Self {
        let targets = features
            .terms
            .iter()
            .map(|term| share * term.total)
            .collect();
        let tolerance = |term: &Term| {
            let weight = weights.get(&term.group).copied().unwrap_or(1.0);
            let chance = (share * (1.0 - share).max(0.0) * term.squares).sqrt();
            let one = tolerances
                .get(&term.group)
                .copied()
                .unwrap_or(term.group.tolerance());
            let allowed = one * share * term.base;
            let allowed = allowed.max(CHANCE_MIN * chance) / term.sharper;
            if weight > 0.0 && allowed > 0.0 {
                allowed / weight.sqrt()
            } else {
                f64::INFINITY
            }
        };
        let tolerances: Vec<f64> = features.terms.iter().map(tolerance).collect();
        let scales = tolerances.iter().map(|one| (1.0 / one) as f32).enumerate();
        Self {
            units,
            features,
            share,
            targets,
            scales: scales.filter(|(_, scale)| *scale > 0.0).collect(),
            tolerances,
            work: None,
            scaled: OnceLock::new(),
        }
    }

    /// The vectors of all units in tolerances: made when a search asks for them first.
    pub(super) fn scaled(&self) -> &Scaled {
        self.scaled.get_or_init(|| {
            let of = |unit| self.features.of(unit);
            Scaled::new(&self.units.by_number(), of, &self.scales)
        })
    }

    /// The sums of a choice.
    pub fn sums(&self, taken: &[bool]) -> Vec<f64> {
        let mut sums = vec![0.0; self.features.terms.len()];
        let chosen = (0..self.units.len()).filter(|unit| taken.get(*unit) == Some(&true));
        for unit in chosen {
            for (sum, x) in sums.iter_mut().zip(self.features.of(unit)) {
                *sum += f64::from(*x);
            }
        }
        sums
    }
}
