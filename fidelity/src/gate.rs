//! A gate: what a report and its run must hold for a pipeline to go on.
//!
//! A gate says which dimensions must PASS, which of them may be UNKNOWN, which directions are
//! allowed, and bounds of what was measured. What cannot be judged does not hold: a dimension that
//! the report lacks, a quantile that nobody measured, a bound on a run that is not valid.

use crate::latency::Summary;
use crate::latency::stats::{Adjusted, Stats};
use serde::{Deserialize, Serialize};
use truetape_schemas::report::{Dimension, Direction, Report, Verdict};
use truetape_schemas::run::Run;

/// Stands for every dimension in a list of them.
pub const ALL: &str = "*";

/// The only validity of a run whose numbers mean something.
const VALID: &str = "valid";

/// Dimensions that a rule names, when more of them do not hold.
const NAMED_MAX: usize = 5;

/// A gate, as a file says it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gate {
    /// Dimensions that must PASS: ids, beginnings of ids in whole words, or `*` for all.
    pub must_pass: Vec<String>,
    /// Dimensions, named in the same way, that may be UNKNOWN all the same.
    pub may_be_unknown: Vec<String>,
    /// Allowed overall directions; empty allows all.
    pub directions: Vec<Direction>,
    /// What was measured.
    pub bounds: Bounds,
}

/// Bounds of what a run measured.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// Where TTFT and E2EL begin.
    pub clock: Clock,
    /// What a failed request counts as in TTFT and E2EL.
    pub failures: Failures,
    /// Largest share of the requests that failed.
    pub error_rate: Option<f64>,
    /// Time to first token, milliseconds.
    pub ttft_ms: Quantiles,
    /// Time per output token, milliseconds; of complete answers only, and from no clock.
    pub tpot_ms: Quantiles,
    /// End-to-end latency, milliseconds.
    pub e2el_ms: Quantiles,
}

/// Where a latency begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// When the request was allowed to go: what a user waits.
    #[default]
    FromDue,
    /// When the request was sent: what the target did.
    FromSend,
}

/// What a failed request counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failures {
    /// Infinitely late.
    #[default]
    Infinite,
    /// Nothing: only complete answers count.
    LeftOut,
}

/// Largest values of quantiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "every field is the quantile of its name")]
pub struct Quantiles {
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
}

impl Quantiles {
    fn named(&self) -> [(&'static str, Option<f64>); 4] {
        [
            ("p50", self.p50),
            ("p90", self.p90),
            ("p95", self.p95),
            ("p99", self.p99),
        ]
    }
}

/// One rule of a gate, judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Its name, as in `must_pass input_tokens` or `ttft_ms.p99`.
    pub name: String,
    /// Whether it holds.
    pub held: bool,
    /// What was found, and what was allowed.
    pub said: String,
}

/// A gate, judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Every rule, in the order of the file.
    pub rules: Vec<Rule>,
}

impl Outcome {
    /// Whether every rule holds.
    pub fn is_open(&self) -> bool {
        self.rules.iter().all(|rule| rule.held)
    }

    /// Rules that do not hold.
    pub fn broken(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| !rule.held)
    }

    /// The whole outcome in a sentence.
    pub fn sentence(&self) -> String {
        let broken = self.broken().count();
        match (broken, self.rules.len()) {
            (0, all) => format!("the gate is open: {all} of {all} rules hold"),
            (broken, all) => format!("the gate is shut: {broken} of {all} rules do not hold"),
        }
    }
}

impl Gate {
    /// Looks whether a gate means something; says what does not.
    pub fn check(&self) -> Result<(), String> {
        let bounds = self.bounds.all();
        if self.must_pass.is_empty() && self.directions.is_empty() && bounds.is_empty() {
            let problem = "holds no rule, and would let everything pass; give it must_pass, directions or bounds";
            return Err(problem.to_owned());
        }
        if !self.may_be_unknown.is_empty() && self.must_pass.is_empty() {
            let problem =
                "may_be_unknown: it loosens must_pass, which is empty; add must_pass = [\"*\"]";
            return Err(problem.to_owned());
        }
        let lists = [&self.must_pass, &self.may_be_unknown];
        if lists.into_iter().flatten().any(String::is_empty) {
            return Err(
                "a dimension without a name; allowed are ids, beginnings of ids and `*`".to_owned(),
            );
        }
        let wrong = |(_, most): &&(String, f64)| !most.is_finite() || *most < 0.0;
        match bounds.iter().find(wrong) {
            Some((name, most)) => Err(format!("bounds.{name}: {most}, allowed are numbers from 0")),
            None if self.bounds.error_rate.is_some_and(|most| most > 1.0) => Err(
                "bounds.error_rate: above 1; it is a share, 0.01 is one in a hundred".to_owned(),
            ),
            None => Ok(()),
        }
    }

    /// Whether a failed dimension shuts this gate.
    pub fn asks_for(&self, id: &str) -> bool {
        self.must_pass.iter().any(|name| names(name, id))
    }

    /// Judges a report and its run.
    pub fn judge(&self, report: &Report, run: &Run) -> Outcome {
        let mut rules: Vec<Rule> = self
            .must_pass
            .iter()
            .map(|name| self.passes(name, report))
            .collect();
        if !self.directions.is_empty() {
            rules.push(direction(&self.directions, report));
        }
        rules.extend(self.bounds.judge(run));
        Outcome { rules }
    }

    fn passes(&self, name: &str, report: &Report) -> Rule {
        let of = |dimension: &&Dimension| names(name, &dimension.id);
        let all: Vec<&Dimension> = report.dimensions.iter().filter(of).collect();
        let tolerated = |id: &str| self.may_be_unknown.iter().any(|name| names(name, id));
        let holds = |dimension: &Dimension| match dimension.verdict {
            Verdict::Pass => true,
            Verdict::Unknown => tolerated(&dimension.id),
            Verdict::Fail => false,
        };
        let broken: Vec<&Dimension> = all.iter().copied().filter(|d| !holds(d)).collect();
        let unknown = all
            .iter()
            .filter(|d| d.verdict == Verdict::Unknown && holds(d))
            .count();
        let said = match (all.len(), broken.as_slice()) {
            (0, _) => "the report has no such dimension".to_owned(),
            (all, []) if unknown == 0 => format!("{all} of {all} PASS"),
            (all, []) => format!(
                "{} of {all} PASS, {unknown} UNKNOWN as allowed",
                all - unknown
            ),
            (all, broken) => format!("{} of {all} do not hold: {}", broken.len(), listed(broken)),
        };
        Rule {
            name: format!("must_pass {name}"),
            held: !all.is_empty() && broken.is_empty(),
            said,
        }
    }
}

/// Whether a name of a gate means a dimension: whole words of its id, from the beginning.
fn names(name: &str, id: &str) -> bool {
    let rest = id.strip_prefix(name);
    name == ALL || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn listed(broken: &[&Dimension]) -> String {
    let each = broken.iter().take(NAMED_MAX).map(|dimension| {
        let note = dimension
            .note
            .as_deref()
            .filter(|_| dimension.verdict == Verdict::Unknown);
        let note = note.map_or_else(String::new, |note| format!(" ({note})"));
        format!("{} {}{note}", dimension.id, dimension.verdict.name())
    });
    let mut text = each.collect::<Vec<_>>().join(", ");
    if let Some(more) = broken.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn direction(allowed: &[Direction], report: &Report) -> Rule {
    let all: Vec<&str> = allowed.iter().map(|direction| direction.name()).collect();
    Rule {
        name: "directions".to_owned(),
        held: allowed.contains(&report.direction),
        said: format!("{}, allowed: {}", report.direction.name(), all.join(", ")),
    }
}

impl Bounds {
    /// Every bound that is set, with its name.
    fn all(&self) -> Vec<(String, f64)> {
        let tables = [
            ("ttft_ms", &self.ttft_ms),
            ("tpot_ms", &self.tpot_ms),
            ("e2el_ms", &self.e2el_ms),
        ];
        let of_tables = tables.into_iter().flat_map(|(name, quantiles)| {
            quantiles
                .named()
                .into_iter()
                .filter_map(move |(q, most)| Some((format!("{name}.{q}"), most?)))
        });
        let rate = self.error_rate.map(|most| ("error_rate".to_owned(), most));
        rate.into_iter().chain(of_tables).collect()
    }

    fn judge(&self, run: &Run) -> Vec<Rule> {
        let summary: Summary = serde_json::from_value(run.summary.clone()).unwrap_or_default();
        let judged = |(name, most): (String, f64)| {
            let found = self.found(&summary, &name);
            let (held, said) = match found {
                _ if run.validity != VALID => {
                    let why = format!("not judged: the run is {}, not {VALID}", run.validity);
                    (false, why)
                }
                None => (
                    false,
                    format!("not judged: nobody measured it, allowed {most}"),
                ),
                Some(found) if found.is_infinite() => (
                    false,
                    format!("infinite: so many requests failed, allowed {most}"),
                ),
                Some(found) => (found <= most, format!("{found:.6}, allowed {most}")),
            };
            Rule {
                name: format!("bounds {name}"),
                held,
                said,
            }
        };
        self.all().into_iter().map(judged).collect()
    }

    /// What a summary says of a bound.
    fn found(&self, summary: &Summary, name: &str) -> Option<f64> {
        let Some((measure, quantile)) = name.split_once('.') else {
            return summary.requests.error_rate;
        };
        let clock = match self.clock {
            Clock::FromDue => &summary.from_due,
            Clock::FromSend => &summary.from_send,
        };
        match (measure, self.failures) {
            ("tpot_ms", _) => finite(&summary.tpot_ms, quantile),
            ("ttft_ms", Failures::LeftOut) => finite(&clock.ttft_ms, quantile),
            ("e2el_ms", Failures::LeftOut) => finite(&clock.e2el_ms, quantile),
            ("ttft_ms", Failures::Infinite) => adjusted(&clock.failures_infinite.ttft_ms, quantile),
            (_, Failures::Infinite) => adjusted(&clock.failures_infinite.e2el_ms, quantile),
            (_, Failures::LeftOut) => None,
        }
    }
}

fn finite(stats: &Stats, quantile: &str) -> Option<f64> {
    match quantile {
        "p50" => stats.p50,
        "p90" => stats.p90,
        "p95" => stats.p95,
        "p99" => stats.p99,
        _ => None,
    }
}

fn adjusted(stats: &Adjusted, quantile: &str) -> Option<f64> {
    let found = match quantile {
        "p50" => stats.p50,
        "p90" => stats.p90,
        "p95" => stats.p95,
        "p99" => stats.p99,
        _ => None,
    };
    found.map(|ms| ms.0)
}

#[cfg(test)]
mod tests;
