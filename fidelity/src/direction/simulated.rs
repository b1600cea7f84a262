//! Which way the engine model says that a replay bends results, and what it makes of the prior.

use super::DOMINANCE;
use crate::simulated::measures::JUDGED;
use truetape_schemas::report::{Dimension, Direction, Simulation, Verdict};

/// Changes of less than this bend nothing: the model is not as exact as that.
pub const NEUTRAL_RELATIVE: f64 = 0.03;

/// Kinds of dimension that the model does not see: what the target's cache knows, who sends, and
/// what is not a length.
const UNSEEN: &[&str] = &[
    "mix",
    "outcomes",
    "run.cache",
    "run.cached_tokens",
    "run.isolation",
    "run.lateness",
    "run.order",
];

/// The change of one latency over all levels, as logarithms: from the engine that says least to the
/// one that says most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The least.
    pub low_ln: f64,
    /// The most.
    pub high_ln: f64,
}

impl Change {
    /// The change of a measure over all levels that were simulated; none where none was.
    pub fn of(simulations: &[Simulation], measure: &str) -> Option<Self> {
        let each = simulations.iter().filter_map(|simulation| {
            let engines = simulation.engines.iter();
            let measures = engines.flat_map(|engine| engine.measures.iter());
            let changes = measures
                .filter(|of| of.name == measure)
                .filter_map(|of| of.change);
            let logs: Vec<f64> = changes
                .filter(|change| *change > -1.0)
                .map(f64::ln_1p)
                .collect();
            let low_ln = logs.iter().copied().reduce(f64::min)?;
            let high_ln = logs.iter().copied().reduce(f64::max)?;
            Some(Self { low_ln, high_ln })
        });
        each.reduce(|sum, next| Self {
            low_ln: sum.low_ln + next.low_ln,
            high_ln: sum.high_ln + next.high_ln,
        })
    }

    /// How far it goes to the optimistic and to the pessimistic side, beyond what is neutral.
    fn sides(self) -> (f64, f64) {
        let beyond = |by: f64| {
            if by < NEUTRAL_RELATIVE.ln_1p() {
                0.0
            } else {
                by
            }
        };
        (beyond(-self.low_ln), beyond(self.high_ln))
    }

    /// Its direction: a latency that falls looks better than production.
    pub fn direction(self) -> Direction {
        of_sides(self.sides())
    }
}

/// The side that is alone, or [`DOMINANCE`] times as far as the other.
fn of_sides((optimistic, pessimistic): (f64, f64)) -> Direction {
    match (optimistic, pessimistic) {
        (0.0, 0.0) => Direction::Neutral,
        (o, p) if o >= DOMINANCE * p => Direction::Optimistic,
        (o, p) if p >= DOMINANCE * o => Direction::Pessimistic,
        _ => Direction::Mixed,
    }
}

/// The direction of all judged latencies on all engines and levels; UNKNOWN where nothing ran.
///
/// Each side is as far as its farthest latency.
pub fn of(simulations: &[Simulation]) -> Direction {
    let changes = JUDGED
        .iter()
        .filter_map(|measure| Change::of(simulations, measure));
    let sides = changes
        .map(Change::sides)
        .reduce(|(o, p), (more_o, more_p)| (o.max(more_o), p.max(more_p)));
    sides.map_or(Direction::Unknown, of_sides)
}

/// The overall direction of a report, of the prior's and of what was simulated.
///
/// What was not simulated leaves the prior. A simulated change under 3 % is NEUTRAL and one that goes
/// both ways MIXED, whatever the prior says of what the model sees; where it has a sign and the prior
/// another, they disagree, and the direction is MIXED. What the model does not see is added by its
/// prior: alone it decides, against a simulated sign it is MIXED.
pub fn overall(
    prior: Direction,
    simulations: &[Simulation],
    dimensions: &[Dimension],
) -> Direction {
    use Direction::{Mixed, Neutral, Optimistic, Pessimistic, Unknown};
    let against = |one, other| {
        matches!(
            (one, other),
            (Optimistic, Pessimistic) | (Pessimistic, Optimistic)
        )
    };
    let simulated = of(simulations);
    let unseen = unseen(dimensions);
    match simulated {
        Unknown => prior,
        Mixed => Mixed,
        Neutral => unseen,
        sign if against(sign, prior) || against(sign, unseen) || unseen == Mixed => Mixed,
        sign => sign,
    }
}

/// The direction of what the model does not see, by its prior; NEUTRAL where nothing of it pushes.
fn unseen(dimensions: &[Dimension]) -> Direction {
    let failed = dimensions
        .iter()
        .any(|dimension| dimension.verdict == Verdict::Fail);
    let counts = |dimension: &&Dimension| {
        let unseen = UNSEEN.iter().any(|kind| dimension.id.starts_with(kind));
        unseen && (dimension.verdict == Verdict::Fail || !failed)
    };
    let counted: Vec<Dimension> = dimensions.iter().filter(counts).cloned().collect();
    super::overall(&counted, &[])
}

#[cfg(test)]
mod tests;
