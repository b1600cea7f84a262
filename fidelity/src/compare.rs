//! Runs of one set against other runs of it: what can be claimed, and what cannot.
//!
//! What is compared are quantiles of latencies, as logarithms, run by run: turns of one run are not
//! independent, runs are. Runs in pairs (the same set, seed and schedule, interleaved as ABBA) leave
//! what both of a pair met out of the difference. Three bars stand before a claim, and all must be
//! passed: the p-value of Student's t, corrected for all measures together by Holm; the smallest
//! difference that so many runs find in four of five cases; and the difference that runs of the
//! baseline show among themselves (A/A). Fewer than [`PAIRS_MIN`] pairs claim nothing.

use crate::noise::{bootstrap, holm, student};
use crate::quantile::{mean, quantile, sorted};
use sample::Latency;
use serde::Serialize;

pub mod sample;
pub mod words;

pub use sample::Sample;

/// Pairs, or runs of each side, that a claim needs: two differences have no spread to speak of.
pub const PAIRS_MIN: usize = 3;

/// A claim that is wrong in one of twenty comparisons of equals.
const ALPHA: f64 = 0.05;

/// How often a difference as large as the smallest that can be found is found.
const POWER: f64 = 0.8;

/// Turns that a p99 needs, for each run (MLPerf); below, it is one turn's.
const ANSWERS_P99_MIN: usize = 100;

/// What is compared.
pub const MEASURES: [(&str, Latency, f64); 8] = [
    ("ttft_p50", Latency::Ttft, 0.5),
    ("ttft_p90", Latency::Ttft, 0.9),
    ("ttft_p99", Latency::Ttft, 0.99),
    ("tpot_p50", Latency::Tpot, 0.5),
    ("tpot_p99", Latency::Tpot, 0.99),
    ("e2el_p50", Latency::E2el, 0.5),
    ("e2el_p90", Latency::E2el, 0.9),
    ("e2el_p99", Latency::E2el, 0.99),
];

/// What may be said of one measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// The runs are slower than those they are compared with.
    Slower,
    /// They are faster.
    Faster,
    /// No difference was found that these runs could show.
    None,
    /// There are too few runs, or answers, to say.
    Unknown,
}

/// One measure, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Its name, as in `ttft_p99`.
    pub measure: String,
    /// Of the runs, in milliseconds: the geometric mean of the runs' quantiles.
    pub value_ms: Option<f64>,
    /// Of those they are compared with.
    pub target_ms: Option<f64>,
    /// `value / target - 1`.
    pub change: Option<f64>,
    /// The 95 % interval of the change: over runs, or inside the runs where there are too few.
    pub interval: Option<(f64, f64)>,
    /// The smallest change that these runs would find in four of five cases.
    pub detectable: Option<f64>,
    /// The change that runs of the baseline show among themselves.
    pub against_itself: Option<f64>,
    /// The probability of a difference as large where there is none.
    pub p: Option<f64>,
    /// The same, corrected for all measures together.
    pub p_corrected: Option<f64>,
    /// Pairs that would find a change as large as this one.
    pub pairs_needed: Option<u64>,
    /// What may be said.
    pub claim: Claim,
    /// Why no more.
    pub note: Option<String>,
}

/// Runs against runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Whether runs were taken in pairs.
    pub paired: bool,
    /// Runs, and those they are compared with.
    pub runs: (usize, usize),
    /// What may be said of all measures together: SLOWER where any is, then FASTER.
    pub claim: Claim,
    /// The answer in a line.
    pub answer: String,
    /// Measures in their order.
    pub effects: Vec<Effect>,
    /// Things a reader should know.
    pub findings: Vec<String>,
}

/// Compares runs with as many others, pair by pair in their order; or all with all, where there are
/// not as many.
pub fn compare(runs: &[Sample], against: &[Sample]) -> Comparison {
    let paired = runs.len() == against.len();
    let mut effects: Vec<Effect> = MEASURES
        .iter()
        .map(|(name, of, q)| effect(name, *of, *q, runs, against, paired))
        .collect();
    let p_values: Vec<f64> = effects
        .iter()
        .map(|effect| effect.p.unwrap_or(1.0))
        .collect();
    for (effect, p) in effects.iter_mut().zip(holm::corrected(&p_values)) {
        effect.p_corrected = effect.p.map(|_| p);
        judge(effect);
    }
    let any = |claim: Claim| effects.iter().any(|effect| effect.claim == claim);
    let claim = [Claim::Slower, Claim::Faster, Claim::None]
        .into_iter()
        .find(|claim| any(*claim))
        .unwrap_or(Claim::Unknown);
    let mut comparison = Comparison {
        paired,
        runs: (runs.len(), against.len()),
        claim,
        answer: String::new(),
        effects,
        findings: sample::findings(runs, against, paired),
    };
    comparison.answer = words::answer(&comparison);
    comparison
}

/// Differences of logarithms, and what they are worth.
struct Differences {
    mean: f64,
    /// Standard error of the mean.
    error: f64,
    freedom: f64,
}

impl Differences {
    fn paired(runs: &[f64], against: &[f64]) -> Option<Self> {
        let each: Vec<f64> = runs
            .iter()
            .zip(against)
            .map(|(run, other)| run - other)
            .collect();
        let count = each.len() as f64;
        Some(Self {
            mean: mean(&each)?,
            error: (variance(&each)? / count).sqrt(),
            freedom: count - 1.0,
        })
    }

    /// Two groups that need not vary alike (Welch).
    fn unpaired(runs: &[f64], against: &[f64]) -> Option<Self> {
        let part = |values: &[f64]| Some(variance(values)? / values.len() as f64);
        let (a, b) = (part(runs)?, part(against)?);
        let own = |part: f64, values: &[f64]| part.powi(2) / (values.len() as f64 - 1.0);
        let parts = own(a, runs) + own(b, against);
        Some(Self {
            mean: mean(runs)? - mean(against)?,
            error: (a + b).sqrt(),
            freedom: if parts > 0.0 {
                (a + b).powi(2) / parts
            } else {
                1.0
            },
        })
    }

    fn interval(&self) -> (f64, f64) {
        let half = student::quantile(1.0 - ALPHA / 2.0, self.freedom) * self.error;
        (self.mean - half, self.mean + half)
    }

    fn p(&self) -> f64 {
        match self.error {
            error if error > 0.0 => student::two_sided_p(self.mean / error, self.freedom),
            _ if self.mean == 0.0 => 1.0,
            _ => 0.0,
        }
    }

    fn detectable_ln(&self) -> f64 {
        detectable_ln(self.error, self.freedom)
    }
}

fn detectable_ln(error: f64, freedom: f64) -> f64 {
    (student::quantile(1.0 - ALPHA / 2.0, freedom) + student::quantile(POWER, freedom)) * error
}

fn variance(values: &[f64]) -> Option<f64> {
    let middle = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

fn effect(
    name: &str,
    of: Latency,
    q: f64,
    runs: &[Sample],
    against: &[Sample],
    paired: bool,
) -> Effect {
    let quantiles = |samples: &[Sample]| -> Option<Vec<f64>> {
        let each = samples.iter().map(|sample| {
            let values = sorted(sample.values(of).map(|(_, ms)| ms));
            quantile(&values, q)
                .filter(|ms| *ms > 0.0 && ms.is_finite())
                .map(f64::ln)
        });
        each.collect::<Option<Vec<f64>>>()
            .filter(|logs| !logs.is_empty())
    };
    let mut effect = Effect {
        measure: name.to_owned(),
        value_ms: None,
        target_ms: None,
        change: None,
        interval: None,
        detectable: None,
        against_itself: None,
        p: None,
        p_corrected: None,
        pairs_needed: None,
        claim: Claim::Unknown,
        note: None,
    };
    let (Some(value), Some(target)) = (quantiles(runs), quantiles(against)) else {
        effect.note = Some("a run has no such latency".to_owned());
        return effect;
    };
    effect.value_ms = mean(&value).map(f64::exp);
    effect.target_ms = mean(&target).map(f64::exp);
    effect.change = mean(&value)
        .zip(mean(&target))
        .map(|(a, b)| (a - b).exp_m1());
    effect.against_itself = against_itself_ln(&target).map(f64::exp_m1);
    let enough = runs.len().min(against.len()) >= PAIRS_MIN;
    let differences = match paired {
        true => Differences::paired(&value, &target),
        false => Differences::unpaired(&value, &target),
    };
    match differences.filter(|_| enough) {
        Some(found) => {
            let (low, high) = found.interval();
            effect.interval = Some((low.exp_m1(), high.exp_m1()));
            effect.detectable = Some(found.detectable_ln().exp_m1());
            effect.p = Some(found.p());
            let spread = found.error * (value.len() as f64).sqrt();
            effect.pairs_needed = pairs_needed(spread, found.mean.abs());
        }
        None => {
            let inside = bootstrap::shift_ln(&clustered(runs, of), &clustered(against, of), q);
            effect.interval = inside.map(|(low, high)| (low.exp_m1(), high.exp_m1()));
            effect.note = Some(format!(
                "{} against {} runs: {PAIRS_MIN} pairs are needed to claim anything; the interval \
                 knows nothing of what differs from run to run",
                runs.len(),
                against.len()
            ));
        }
    }
    let fewest = runs
        .iter()
        .chain(against)
        .map(|sample| sample.values(of).count())
        .min();
    if q > 0.95 && fewest.unwrap_or(0) < ANSWERS_P99_MIN {
        effect.p = None;
        effect.note = Some(format!(
            "a run has {} answers; a p99 needs {ANSWERS_P99_MIN} of each",
            fewest.unwrap_or(0)
        ));
    }
    effect
}

/// The baseline's runs in two halves, one after the other in turn: what equals differ by.
fn against_itself_ln(logs: &[f64]) -> Option<f64> {
    let half = |odd: usize| {
        let every = logs.iter().skip(odd).step_by(2).copied();
        mean(&every.collect::<Vec<f64>>())
    };
    Some((half(0)? - half(1)?).abs())
}

/// Pairs of that spread that would find a difference in four of five cases.
fn pairs_needed(spread: f64, wanted_ln: f64) -> Option<u64> {
    /// More than anybody runs.
    const PAIRS_MAX: u64 = 200;
    (PAIRS_MIN as u64..=PAIRS_MAX).find(|pairs| {
        let count = *pairs as f64;
        detectable_ln(spread / count.sqrt(), count - 1.0) <= wanted_ln
    })
}

fn clustered(samples: &[Sample], of: Latency) -> bootstrap::Clustered {
    let runs: Vec<Vec<(u64, f64)>> = samples
        .iter()
        .map(|sample| sample.values(of).collect())
        .collect();
    bootstrap::Clustered::of(&runs)
}

/// All three bars.
fn judge(effect: &mut Effect) {
    let (Some(change), Some(p), Some(detectable)) =
        (effect.change, effect.p_corrected, effect.detectable)
    else {
        return;
    };
    effect.claim = Claim::None;
    let size = change.ln_1p().abs();
    if p >= ALPHA {
        return;
    }
    let refused = if size < detectable.ln_1p() {
        Some("it is below the smallest difference that these runs can find")
    } else if effect
        .against_itself
        .is_some_and(|same| size <= same.ln_1p())
    {
        Some("runs of the baseline differ as much among themselves")
    } else {
        None
    };
    match refused {
        Some(why) => effect.note = Some(format!("not claimed: {why}")),
        None if change > 0.0 => effect.claim = Claim::Slower,
        None => effect.claim = Claim::Faster,
    }
}

#[cfg(test)]
mod tests;
