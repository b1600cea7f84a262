//! A run as a series: what goes on in it, ten seconds at a time.

use super::mser;
use crate::latency::{answered, instant_us};
use truetape_schemas::run::Dispatch;

/// A value of the series: the mean of so long.
pub const STEP_US: i64 = 10_000_000;

/// A series longer than this is no run of ours: ten days of ten seconds.
const STEPS_MAX: i64 = 86_400;

/// Means of ten seconds each, from the first send to the last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Tokens in flight.
    pub in_flight: Vec<f64>,
    /// Time to first token, in microseconds.
    pub ttft: Vec<f64>,
}

impl Series {
    /// Measures the dispatches of a run.
    pub fn of<'a>(dispatches: impl Iterator<Item = &'a Dispatch> + Clone) -> Self {
        let sent = || dispatches.clone().filter_map(|dispatch| dispatch.sent_us);
        let (Some(first), Some(last)) = (sent().min(), sent().max()) else {
            return Self::default();
        };
        let steps = (last.saturating_sub(first) / STEP_US).clamp(0, STEPS_MAX);
        let steps = usize::try_from(steps).unwrap_or(0);
        let mut in_flight = vec![0.0; steps];
        let mut ttft = vec![(0.0, 0.0); steps];
        for dispatch in dispatches {
            let Some(sent) = dispatch.sent_us.filter(|_| answered(dispatch)) else {
                continue;
            };
            let step = usize::try_from(sent.saturating_sub(first) / STEP_US).unwrap_or(usize::MAX);
            if let (Some((sum, count)), Some(us)) = (ttft.get_mut(step), dispatch.first_token_us) {
                *sum += us as f64;
                *count += 1.0;
            }
            let end = dispatch.end_us.or(dispatch.last_token_us);
            let end = end
                .and_then(|end| instant_us(dispatch, end))
                .unwrap_or(sent);
            let tokens = |n: Option<i64>| n.map_or(0.0, |n| n.max(0) as f64);
            // Half of the answer is there on average.
            let weight = tokens(dispatch.input_tokens.or(dispatch.input_tokens_asked))
                + tokens(dispatch.output_tokens) / 2.0;
            add(
                &mut in_flight,
                sent.saturating_sub(first),
                end.saturating_sub(first),
                weight,
            );
        }
        // A step without an answer has no TTFT: it takes that of the step before.
        let mut before = ttft
            .iter()
            .find(|(_, count)| *count > 0.0)
            .map_or(0.0, |(s, n)| s / n);
        let ttft = ttft.into_iter().map(|(sum, count)| {
            if count > 0.0 {
                before = sum / count;
            }
            before
        });
        Self {
            ttft: ttft.collect(),
            in_flight,
        }
    }

    /// The larger of two warm-ups, as a share of the run; none for a run that is too short.
    pub fn cut(&self) -> Option<f64> {
        let cuts = [mser::cut(&self.in_flight), mser::cut(&self.ttft)];
        cuts.into_iter().flatten().reduce(f64::max)
    }
}

/// Adds a weight to the steps from one instant to another, in proportion to the time in each.
fn add(steps: &mut [f64], from_us: i64, to_us: i64, weight: f64) {
    let mut at = usize::try_from(from_us / STEP_US).unwrap_or(usize::MAX);
    while let Some(step) = steps.get_mut(at) {
        let begin = at as i64 * STEP_US;
        // A log of somebody else's can hold any time.
        let inside = to_us
            .min(begin.saturating_add(STEP_US))
            .saturating_sub(from_us.max(begin));
        if inside <= 0 {
            return;
        }
        *step += weight * inside as f64 / STEP_US as f64;
        at += 1;
    }
}
