//! What a target promises, and whether a run shows that it kept it.

use serde::Serialize;
use truetape_fidelity::latency::Summary;
use truetape_fidelity::latency::stats::{Adjusted, Stats};

/// A promise of several bounds, all of which have to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo {
    word: String,
    bounds: Vec<Bound>,
}

#[derive(Clone, Debug, PartialEq)]
struct Bound {
    name: String,
    measure: Measure,
    most: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Measure {
    /// From the due time, failures counted as infinitely late: a target that refuses is not fast.
    Ttft(Quantile),
    E2el(Quantile),
    /// Of complete answers: a failure has no gaps.
    Itl(Quantile),
    Tpot(Quantile),
    /// Share of what was sent.
    Errors,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantile {
    P50,
    P90,
    P95,
    P99,
}

/// A bound beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The bound's name, as it was typed.
    pub bound: String,
    /// What was measured: milliseconds, or a share of errors; null where nothing was, or where it is
    /// infinite, since too many failed.
    pub value: Option<f64>,
    /// The largest value that holds.
    pub most: f64,
    /// Whether it holds. What was not measured does not.
    pub holds: bool,
}

const ALLOWED: &str = "allowed are bounds like ttft-p99=2s,tpot-p50=50ms,errors=1%: ttft, e2el, itl or tpot, with -p50, -p90, \
     -p95 or -p99";

impl Slo {
    /// Reads `MEASURE-QUANTILE=TIME,...`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bounds: Option<Vec<Bound>> = text.split(',').map(Bound::parse).collect();
        let bounds = bounds.ok_or(ALLOWED)?;
        Ok(Self {
            word: text.to_owned(),
            bounds,
        })
    }

    /// The word of it, as it was typed.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// Holds each bound against a run.
    pub fn judge(&self, summary: &Summary) -> Vec<Judged> {
        let judged = |bound: &Bound| {
            let value = bound.measure.of(summary);
            Judged {
                bound: bound.name.clone(),
                value: value.filter(|value| value.is_finite()),
                most: bound.most,
                holds: value.is_some_and(|value| value <= bound.most),
            }
        };
        self.bounds.iter().map(judged).collect()
    }
}

impl Bound {
    fn parse(text: &str) -> Option<Self> {
        let (name, most) = text.trim().split_once('=')?;
        let (measure, most) = match name.split_once('-') {
            None => (Measure::Errors, share(most).filter(|_| name == "errors")?),
            Some((measure, quantile)) => {
                let quantile = Quantile::parse(quantile)?;
                let measure = match measure {
                    "ttft" => Measure::Ttft(quantile),
                    "e2el" => Measure::E2el(quantile),
                    "itl" => Measure::Itl(quantile),
                    "tpot" => Measure::Tpot(quantile),
                    _ => return None,
                };
                let most = humantime::parse_duration(most).ok()?;
                (measure, most.as_secs_f64() * 1e3)
            }
        };
        Some(Self {
            name: name.to_owned(),
            measure,
            most,
        })
    }
}

fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

impl Measure {
    fn of(self, summary: &Summary) -> Option<f64> {
        let failures = &summary.from_due.failures_infinite;
        match self {
            Self::Ttft(quantile) => quantile.adjusted(&failures.ttft_ms),
            Self::E2el(quantile) => quantile.adjusted(&failures.e2el_ms),
            Self::Itl(quantile) => quantile.of(&summary.itl_ms),
            Self::Tpot(quantile) => quantile.of(&summary.tpot_ms),
            Self::Errors => summary.requests.error_rate,
        }
    }
}

impl Quantile {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "p50" => Some(Self::P50),
            "p90" => Some(Self::P90),
            "p95" => Some(Self::P95),
            "p99" => Some(Self::P99),
            _ => None,
        }
    }

    fn of(self, stats: &Stats) -> Option<f64> {
        match self {
            Self::P50 => stats.p50,
            Self::P90 => stats.p90,
            Self::P95 => stats.p95,
            Self::P99 => stats.p99,
        }
    }

    fn adjusted(self, stats: &Adjusted) -> Option<f64> {
        let value = match self {
            Self::P50 => stats.p50,
            Self::P90 => stats.p90,
            Self::P95 => stats.p95,
            Self::P99 => stats.p99,
        };
        value.map(|millis| millis.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truetape_schemas::capture::Outcome;
    use truetape_schemas::run::Dispatch;

    fn row(ttft_ms: i64, outcome: Outcome) -> Dispatch {
        Dispatch {
            ready_us: Some(0),
            sent_us: Some(0),
            lateness_us: Some(0),
            request_end_us: Some(0),
            first_token_us: Some(ttft_ms * 1_000),
            last_token_us: Some(ttft_ms * 1_000 + 90_000),
            end_us: Some(ttft_ms * 1_000 + 90_000),
            output_tokens: Some(10),
            outcome: Some(outcome),
            ..Dispatch::default()
        }
    }

    fn holds(slo: &str, rows: &[Dispatch]) -> Vec<bool> {
        let summary = truetape_fidelity::latency::summarize(rows);
        let judged = Slo::parse(slo).unwrap().judge(&summary);
        judged.iter().map(|bound| bound.holds).collect()
    }

    #[test]
    fn bounds_hold_up_to_their_value() {
        let rows: Vec<Dispatch> = (0..10).map(|_| row(200, Outcome::Complete)).collect();
        assert_eq!(
            holds("ttft-p99=200ms,tpot-p50=10ms,errors=0%", &rows),
            [true; 3]
        );
        assert_eq!(
            holds("ttft-p50=199ms,tpot-p99=9ms,e2el-p90=1s", &rows),
            [false, false, true]
        );
    }

    #[test]
    fn a_failure_is_infinitely_late_and_what_was_not_measured_does_not_hold() {
        let mut rows: Vec<Dispatch> = (0..7).map(|_| row(5, Outcome::Complete)).collect();
        rows.extend((0..3).map(|_| row(1, Outcome::Error)));
        assert_eq!(
            holds("ttft-p50=1s,ttft-p90=1h,errors=29%,errors=30%", &rows),
            [true, false, false, true]
        );
        assert_eq!(holds("itl-p50=1h,ttft-p50=1h", &[]), [false, false]);
    }

    #[test]
    fn slips_are_told() {
        for slip in [
            "",
            "ttft=1s",
            "ttft-p98=1s",
            "ttft-p99",
            "ttft-p99=1",
            "errors=2",
            "errors=200%",
            "speed-p50=1s",
            "ttft-p99=1s,,",
        ] {
            assert!(
                Slo::parse(slip).unwrap_err().starts_with("allowed are"),
                "{slip}"
            );
        }
        assert_eq!(
            Slo::parse("ttft-p99=2s, errors=1%").unwrap().word(),
            "ttft-p99=2s, errors=1%"
        );
    }
}
