//! Dimensions of arrivals: rate, dispersion, peak, and the dispersion of work.

use super::draft::{Draft, Unit};
use super::{Pair, UNKNOWN_SHARE_MAX, Z_95};
use crate::direction::NEAR_POISSON;
use crate::dispersion::thinning::{Clustered, Target};
use crate::dispersion::{self, Counts, SECOND_US, WINDOWS_FOR_PRODUCTION};
use crate::population::{Population, PopulationTurn};
use crate::profile::clock_resolution_us;
use crate::profile::prefix::Reuse;
use truetape_schemas::report::{Dimension, Direction, Level};

/// Windows of the dispersion, of the peak and of work, in seconds.
const IDC_WINDOWS_S: [i64; 3] = [1, 10, 60];
const PEAK_WINDOWS_S: [i64; 2] = [10, 60];
const WORK_WINDOWS_S: [i64; 2] = [10, 60];

/// Tolerances.
const IDC_LN: f64 = 0.15;
const PEAK_RELATIVE: f64 = 0.10;
const IDW_LN: f64 = 0.20;
const RATE_RELATIVE: f64 = 0.05;

/// Sessions of a set below which its rate is a matter of luck.
const RATE_SESSIONS_MIN: usize = 10;

/// Below this window a shape view promises nothing: systematic selection is under-dispersed there.
const SHAPE_WINDOW_MIN_S: i64 = 10;

/// What the rate of a set is a sample of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Semantics {
    /// One replica's sessions, where they were.
    Recorded,
    /// A smaller cluster that feels the fleet's relative burst.
    Shape,
    /// More users.
    Stress,
}

/// A population's arrivals, laid out for counting.
struct Rows {
    arrivals: Vec<i64>,
    sessions: Vec<u32>,
    ones: Vec<f64>,
}

impl Rows {
    fn of(population: &Population) -> Self {
        Self {
            arrivals: population.arrivals(),
            sessions: population.turns.iter().map(|turn| turn.session).collect(),
            ones: vec![1.0; population.turns.len()],
        }
    }

    fn weighing<'b>(&'b self, weights: &'b [f64]) -> Clustered<'b> {
        Clustered {
            arrivals: &self.arrivals,
            sessions: &self.sessions,
            weights,
        }
    }
}

/// Everything the dimensions of this module share.
struct Setting<'a> {
    pair: &'a Pair<'a>,
    semantics: Semantics,
    source: Rows,
    set: Rows,
    resolution_us: Option<i64>,
}

/// Dimensions of arrivals.
pub(super) fn dimensions(pair: &Pair<'_>) -> Vec<Dimension> {
    let semantics = match pair.ctx.rate.as_str() {
        "shape" => Semantics::Shape,
        "stress" => Semantics::Stress,
        _ => Semantics::Recorded,
    };
    let resolution_us = clock_resolution_us(pair.source)
        .0
        .max(clock_resolution_us(pair.set).0);
    let (source, set) = (Rows::of(pair.source), Rows::of(pair.set));
    let setting = Setting {
        pair,
        semantics,
        source,
        set,
        resolution_us,
    };
    let mut dimensions = vec![setting.rate()];
    dimensions.extend(IDC_WINDOWS_S.map(|window_s| setting.idc(window_s)));
    dimensions.extend(PEAK_WINDOWS_S.map(|window_s| setting.peak(window_s)));
    for (id, title, of) in WORKS {
        dimensions.extend(setting.work(id, title, *of));
    }
    dimensions
}

impl Setting<'_> {
    fn rate(&self) -> Dimension {
        let rate = |arrivals: &[i64], span_us: i64| {
            let gaps = arrivals.len().saturating_sub(1);
            (span_us > 0).then(|| gaps as f64 * SECOND_US as f64 / span_us as f64)
        };
        let p = self.pair.rate_share;
        let span_us = dispersion::span_us(&self.source.arrivals);
        // A thinned set keeps the source's window, quiet beginning and end included.
        let set_span_us = if p < 1.0 {
            span_us
        } else {
            dispersion::span_us(&self.set.arrivals)
        };
        let sessions = self.pair.sessions_set.max(1) as f64;
        Draft::new(
            "arrivals.rate",
            "mean rate of arrivals, per second",
            Unit::Relative,
            RATE_RELATIVE,
        )
        .compare(
            rate(&self.set.arrivals, set_span_us),
            rate(&self.source.arrivals, span_us).map(|rate| rate * p),
        )
        .unknown_if(self.pair.sessions_set < RATE_SESSIONS_MIN, || {
            format!(
                "{} sessions in the set; a rate needs {RATE_SESSIONS_MIN}",
                self.pair.sessions_set
            )
        })
        .within_reach(
            self.pair.chance(1.0 / sessions.sqrt()),
            "the chance of the draw",
        )
        .note_if(p != 1.0, || {
            format!("the target is {p:.4} of the source's rate")
        })
        .finish(Level::SetAgainstSource)
    }

    fn invalid(&self, window_s: i64) -> Option<String> {
        [&self.source, &self.set].into_iter().find_map(|rows| {
            let span_us = dispersion::span_us(&rows.arrivals);
            dispersion::invalid(window_s * SECOND_US, span_us, self.resolution_us)
        })
    }

    /// A draft with the reasons that make a window UNKNOWN, and the caveat of a short source.
    fn guarded(&self, draft: Draft, window_s: i64) -> Draft {
        let windows = Counts::of(&self.source.arrivals, window_s * SECOND_US).windows;
        let invalid = self.invalid(window_s);
        draft
            .void_if(invalid.clone())
            .unknown_if(self.semantics == Semantics::Shape && window_s < SHAPE_WINDOW_MIN_S, || {
                "a shape view promises nothing below 10 s".to_owned()
            })
            .note_if(invalid.is_none() && windows < WINDOWS_FOR_PRODUCTION, || {
                format!(
                    "the source has {windows} windows; whether it represents production at this \
                     scale is UNKNOWN below {WINDOWS_FOR_PRODUCTION}"
                )
            })
    }

    /// How far a set may lie from its target by chance: nothing when it is the whole source; what
    /// the draws say when sessions were thinned; the error of an IDC over its windows when it is a
    /// piece of time.
    fn chance_ln(&self, target: &Target, window_s: i64) -> f64 {
        if self.pair.rate_share == 1.0 && self.pair.share < 1.0 || self.pair.rate_share > 1.0 {
            let windows = Counts::of(&self.set.arrivals, window_s * SECOND_US).windows;
            return Z_95 * dispersion::relative_error(windows);
        }
        target.chance_ln
    }

    fn idc_target(&self, window_s: i64) -> Option<Target> {
        let (window_us, p) = (window_s * SECOND_US, self.pair.rate_share.min(1.0));
        let rows = self.source.weighing(&self.source.ones);
        let thinned = rows.idc(window_us, p)?;
        Some(match self.semantics {
            Semantics::Recorded => thinned,
            Semantics::Shape => Target {
                value: p * Counts::of(&self.source.arrivals, window_us).idc()?,
                ..thinned
            },
            // Independent users add up to the dispersion of one of their streams.
            Semantics::Stress => rows.idc(window_us, 1.0)?,
        })
    }

    fn idc(&self, window_s: i64) -> Dimension {
        let value = Counts::of(&self.set.arrivals, window_s * SECOND_US).idc();
        let target = self.idc_target(window_s);
        let title = format!("dispersion of arrivals over {window_s} s");
        let draft = Draft::new(
            format!("arrivals.idc_{window_s}s"),
            &title,
            Unit::LnRatio,
            IDC_LN,
        )
        .compare(value, target.map(|target| target.value));
        let near_poisson = value.zip(target).is_some_and(|(value, target)| {
            NEAR_POISSON.contains(&value) && NEAR_POISSON.contains(&target.value)
        });
        let draft = if near_poisson {
            draft.direction(Direction::Neutral)
        } else {
            draft
        };
        self.finish(draft, target, window_s)
    }

    fn peak(&self, window_s: i64) -> Dimension {
        let window_us = window_s * SECOND_US;
        let rows = self.source.weighing(&self.source.ones);
        let target = match self.semantics {
            Semantics::Recorded => rows.peak_to_mean(window_us, self.pair.rate_share),
            Semantics::Shape => rows.peak_to_mean(window_us, 1.0),
            Semantics::Stress => None,
        };
        let value = Counts::of(&self.set.arrivals, window_us).peak_to_mean();
        let title = format!("peak to mean of arrivals over {window_s} s");
        let id = format!("arrivals.peak_{window_s}s");
        let draft = Draft::new(id, &title, Unit::Relative, PEAK_RELATIVE)
            .compare(value, target.map(|target| target.value))
            .unknown_if(self.semantics == Semantics::Stress, || {
                "how peaks of more users add up depends on what they have in common".to_owned()
            });
        self.finish(draft, target, window_s)
    }

    fn finish(&self, draft: Draft, target: Option<Target>, window_s: i64) -> Dimension {
        let chance = target.map_or(0.0, |target| self.chance_ln(&target, window_s));
        let draft = draft
            .within_reach(chance, "the chance of the draw")
            .note_if(
                self.semantics == Semantics::Recorded && self.pair.rate_share < 1.0,
                || "the target is what thinning the source's sessions gives".to_owned(),
            );
        self.guarded(draft, window_s)
            .finish(Level::SetAgainstSource)
    }

    fn work(&self, id: &str, title: &str, of: Weigh) -> Vec<Dimension> {
        let source = of(self.pair.source, &self.pair.source_reuse);
        let set = of(self.pair.set, &self.pair.set_reuse);
        WORK_WINDOWS_S
            .into_iter()
            .map(|window_s| {
                let window_us = window_s * SECOND_US;
                let p = self.pair.rate_share.min(1.0);
                let target = source
                    .as_ref()
                    .and_then(|w| self.source.weighing(w).idc(window_us, p));
                let value = set
                    .as_ref()
                    .and_then(|w| Counts::weighted(&self.set.arrivals, w, window_us).idw());
                let title = format!("dispersion of {title} over {window_s} s");
                let id = format!("work.{id}_{window_s}s");
                let draft = Draft::new(id, &title, Unit::LnRatio, IDW_LN)
                    .compare(value, target.map(|target| target.value))
                    .unknown_if(source.is_none() || set.is_none(), || {
                        "more than 1 % of the lengths are unknown".to_owned()
                    })
                    .unknown_if(self.semantics != Semantics::Recorded, || {
                        "this view has no target for the dispersion of work".to_owned()
                    });
                let means = [&source, &set].map(|w| w.as_deref().map_or(0.0, mean));
                let draft = match value.zip(target) {
                    Some((value, target)) if only_relative(value, target.value, means) => draft
                        .direction(Direction::Neutral)
                        .note("relative to its mean, and the mean work of a turn differs the other way"),
                    _ => draft,
                };
                self.finish(draft, target, window_s)
            })
            .collect()
    }
}

/// Whether work is smoother only because each turn brings more of it, or lumpier only because each
/// brings less: in tokens the windows vary the other way, and the dimension of the mean says why.
fn only_relative(value: f64, target: f64, [source, set]: [f64; 2]) -> bool {
    let relative = value - target;
    let absolute = value * set.powi(2) - target * source.powi(2);
    relative * absolute < 0.0
}

fn mean(work: &[f64]) -> f64 {
    work.iter().sum::<f64>() / work.len().max(1) as f64
}

type Weigh = fn(&Population, &Reuse) -> Option<Vec<f64>>;

const WORKS: &[(&str, &str, Weigh)] = &[
    ("prefill", "uncached prompt tokens", prefill as Weigh),
    ("output", "generated tokens", generation as Weigh),
];

/// Prompt tokens that a cache without bound would not have held; all of them without blocks.
fn prefill(population: &Population, reuse: &Reuse) -> Option<Vec<f64>> {
    let block = f64::from(population.block_tokens.unwrap_or(0));
    let inputs = weights(population, |turn| turn.input_tokens)?;
    let hits = reuse
        .hits_per_turn
        .iter()
        .map(|hits| f64::from(*hits) * block);
    Some(
        inputs
            .iter()
            .zip(hits)
            .map(|(input, cached)| (input - cached).max(0.0))
            .collect(),
    )
}

fn generation(population: &Population, _reuse: &Reuse) -> Option<Vec<f64>> {
    weights(population, |turn| turn.output_tokens)
}

fn weights(population: &Population, of: fn(&PopulationTurn) -> Option<u64>) -> Option<Vec<f64>> {
    let unknown = population
        .turns
        .iter()
        .filter(|turn| of(turn).is_none())
        .count();
    if unknown as f64 > UNKNOWN_SHARE_MAX * population.turns.len() as f64 {
        return None;
    }
    Some(
        population
            .turns
            .iter()
            .map(|turn| of(turn).unwrap_or(0) as f64)
            .collect(),
    )
}
