//! Rates: planned, achieved, and what came back.

use super::{answered, instant_us};
use crate::dispersion::{Counts, SECOND_US};
use crate::quantile::total;
use serde::{Deserialize, Serialize};
use truetape_schemas::run::Dispatch;

/// Windows of the peak rates, in seconds.
const PEAK_WINDOWS_S: [i64; 2] = [1, 10];

/// Windows of the dispersions, in seconds.
const IDC_WINDOWS_S: [i64; 3] = [1, 10, 60];

/// Mean and peak rate of a sequence of instants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rate {
    /// Gaps between instants over the time from the first to the last.
    pub mean_per_s: Option<f64>,
    /// Most instants in a window of one second (windows from the first instant; the last may be
    /// partial).
    pub peak_1s_per_s: Option<f64>,
    /// Most instants in a window of ten seconds, per second.
    pub peak_10s_per_s: Option<f64>,
    /// Variance over mean of the counts in full windows of one second; none below two of them.
    pub idc_1s: Option<f64>,
    /// The same over ten seconds.
    pub idc_10s: Option<f64>,
    /// The same over a minute.
    pub idc_60s: Option<f64>,
}

impl Rate {
    /// Describes instants in microseconds.
    pub fn of(instants_us: impl Iterator<Item = i64>) -> Self {
        let mut instants: Vec<i64> = instants_us.collect();
        instants.sort_unstable();
        let span_us = crate::dispersion::span_us(&instants);
        let idc = |window_s| Counts::of(&instants, window_s * SECOND_US).idc();
        let [idc_1s, idc_10s, idc_60s] = IDC_WINDOWS_S.map(idc);
        let [second, ten] = PEAK_WINDOWS_S.map(|window_s| peak_per_s(&instants, window_s));
        Self {
            mean_per_s: (span_us > 0)
                .then(|| (instants.len() - 1) as f64 / (span_us as f64 / SECOND_US as f64)),
            peak_1s_per_s: second,
            peak_10s_per_s: ten,
            idc_1s,
            idc_10s,
            idc_60s,
        }
    }
}

fn peak_per_s(instants: &[i64], window_s: i64) -> Option<f64> {
    let first = *instants.first()?;
    let window = |instant: &i64| instant.saturating_sub(first) / (window_s * SECOND_US);
    let counts = instants
        .chunk_by(|a, b| window(a) == window(b))
        .map(<[i64]>::len);
    counts.max().map(|count| count as f64 / window_s as f64)
}

/// What the target delivered, from the first send to the last end of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Throughput {
    /// That time.
    pub duration_s: Option<f64>,
    /// Complete answers per second.
    pub answers_per_s: Option<f64>,
    /// Output tokens of complete answers whose count is known.
    pub output_tokens: u64,
    /// Complete answers whose output tokens nobody counted; they are missing above.
    pub output_tokens_unknown: u64,
    /// Output tokens per second.
    pub output_tokens_per_s: Option<f64>,
    /// Prompt tokens of complete answers, as the server counted them.
    pub input_tokens: u64,
    /// Share of those prompt tokens that the server took from its cache, where it says so.
    pub cached_share: Option<f64>,
}

impl Throughput {
    /// Adds up complete answers.
    pub fn of(dispatches: &[Dispatch]) -> Self {
        let duration_s = duration_s(dispatches);
        let per_s = |sum: u64| duration_s.filter(|s| *s > 0.0).map(|s| sum as f64 / s);
        let answers: Vec<&Dispatch> = dispatches.iter().filter(|d| answered(d)).collect();
        let sum = |of: fn(&Dispatch) -> Option<i64>| {
            total(answers.iter().filter_map(|d| u64::try_from(of(d)?).ok()))
        };
        let output_tokens = sum(|d| d.output_tokens);
        let unknown = answers.iter().filter(|d| d.output_tokens.is_none()).count() as u64;
        let reported = sum(|d| d.cached_tokens.and(d.input_tokens));
        let cached = sum(|d| d.input_tokens.and(d.cached_tokens));
        Self {
            duration_s,
            answers_per_s: per_s(answers.len() as u64),
            output_tokens,
            output_tokens_unknown: unknown,
            output_tokens_per_s: per_s(output_tokens),
            input_tokens: sum(|d| d.input_tokens),
            cached_share: (reported > 0).then(|| cached as f64 / reported as f64),
        }
    }
}

fn duration_s(dispatches: &[Dispatch]) -> Option<f64> {
    let first = dispatches.iter().filter_map(|d| d.sent_us).min()?;
    let end = |d: &Dispatch| instant_us(d, d.end_us.or(d.last_token_us).unwrap_or(0));
    let last = dispatches.iter().filter_map(end).max()?;
    Some(last.saturating_sub(first) as f64 / SECOND_US as f64)
}
