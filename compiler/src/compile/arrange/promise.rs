//! What an arrangement promises, checked on what became of it.

use truetape_fidelity::dispersion::thinning::Clustered;
use truetape_fidelity::dispersion::{Counts, SECOND_US, invalid, span_us};
use truetape_fidelity::population::Population;
use truetape_schemas::set::manifest::Invariant;

/// Windows in which arrivals are counted, in seconds.
const WINDOWS_S: [i64; 2] = [10, 60];

/// Tolerance of the logarithm of a dispersion.
const IDC_LN: f64 = 0.15;

/// Tolerance of a shape: a share of the value.
const SHAPE_RELATIVE: f64 = 0.15;

/// Tolerance of a load: a share of the value.
const LOAD_RELATIVE: f64 = 0.01;

/// Arrivals before and after.
pub(super) struct Arrivals<'a> {
    pub(super) source: &'a Population,
    /// Sorted arrivals of the set.
    pub(super) set: Vec<i64>,
    /// Share of the source's sessions that a sample like this has.
    pub(super) share: f64,
}

impl Arrivals<'_> {
    fn windows(&self) -> impl Iterator<Item = (i64, Option<String>)> {
        let span_us = span_us(&self.source.arrivals());
        let step_us = self.source.clock_resolution_us;
        WINDOWS_S
            .into_iter()
            .map(move |seconds| (seconds, invalid(seconds * SECOND_US, span_us, step_us)))
    }

    /// Sessions that were thinned and not moved: `IDC_p(t) = A(t) + p·(IDC(t) - A(t))`.
    pub(super) fn thinned(&self) -> Vec<Invariant> {
        let arrivals = self.source.arrivals();
        let sessions: Vec<u32> = self.source.turns.iter().map(|turn| turn.session).collect();
        let weights = vec![1.0; arrivals.len()];
        let rows = Clustered {
            arrivals: &arrivals,
            sessions: &sessions,
            weights: &weights,
        };
        self.windows()
            .map(|(seconds, invalid)| {
                let target = rows
                    .idc(seconds * SECOND_US, self.share)
                    .filter(|_| invalid.is_none());
                let got = Counts::of(&self.set, seconds * SECOND_US)
                    .idc()
                    .filter(|_| invalid.is_none());
                let holds = target.zip(got).map(|(target, got)| {
                    (got / target.value).ln().abs() <= IDC_LN.max(target.chance_ln)
                });
                Invariant {
                    name: format!(
                        "dispersion of arrivals over {seconds} s is that of thinned sessions"
                    ),
                    wanted: target.map(|target| target.value),
                    got,
                    holds,
                }
            })
            .collect()
    }

    /// Starts that were moved to keep the shape: peak to mean, and the variation of counts, are the
    /// source's.
    pub(super) fn shape(&self, starts: &[i64]) -> Vec<Invariant> {
        let mut first: Vec<Option<i64>> = vec![None; self.source.sessions as usize];
        for turn in &self.source.turns {
            if let Some(first) = first.get_mut(turn.session as usize) {
                first.get_or_insert(turn.arrival_us);
            }
        }
        let mut source: Vec<i64> = first.into_iter().flatten().collect();
        source.sort_unstable();
        let mut starts = starts.to_vec();
        starts.sort_unstable();
        let share = starts.len() as f64 / source.len().max(1) as f64;
        let mut found = Vec::new();
        for (seconds, invalid) in self.windows() {
            let counts = |at: &[i64]| Counts::of(at, seconds * SECOND_US);
            let (whole, set) = (counts(&source), counts(&starts));
            // Whole sessions cannot stand for less than one: where the mean window holds a few, the
            // peak is a matter of rounding.
            let rounding = set.windows as f64 / set.sum.max(1.0);
            let mut promise = |name: String, wanted: Option<f64>, got: Option<f64>| {
                let (wanted, got) = (
                    wanted.filter(|_| invalid.is_none()),
                    got.filter(|_| invalid.is_none()),
                );
                let holds = wanted.zip(got).map(|(wanted, got)| {
                    (got - wanted).abs() <= SHAPE_RELATIVE * wanted + rounding
                });
                found.push(Invariant {
                    name,
                    wanted,
                    got,
                    holds,
                });
            };
            promise(
                format!("peak to mean of session starts over {seconds} s is the source's"),
                whole.peak_to_mean(),
                set.peak_to_mean(),
            );
            promise(
                format!(
                    "dispersion of session starts over {seconds} s is the source's times the share"
                ),
                whole.idc().map(|idc| share * idc),
                set.idc(),
            );
        }
        found
    }

    /// Several samples at once are as much load as all of them.
    pub(super) fn stress(&self, one: f64, copies: u32, got: f64) -> Vec<Invariant> {
        let wanted = one * f64::from(copies);
        vec![Invariant {
            name: format!("share of the source's tokens is {copies} times that of one sample"),
            wanted: Some(wanted),
            got: Some(got),
            holds: Some((got / wanted - 1.0).abs() <= LOAD_RELATIVE),
        }]
    }
}

/// No session was taken apart: pauses inside them are what they were.
pub(super) fn pauses(changed: usize) -> Invariant {
    Invariant {
        name: "pauses inside sessions that changed".to_owned(),
        wanted: Some(0.0),
        got: Some(changed as f64),
        holds: Some(changed == 0),
    }
}
