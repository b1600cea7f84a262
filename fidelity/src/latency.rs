//! Latencies of a run, on both clocks, with and without its failures.
//!
//! Two clocks: from the end of the send (D2), which is what the target did, and from the moment a
//! dispatch was allowed to go (due, or the end of what it depends on plus think time), which is what
//! a user would have waited. They differ by the lateness, connecting and the upload, and reporting
//! only the first hides a backlog (coordinated omission). Two populations: complete answers only,
//! and all that was sent with every failure counted as infinitely late, so that rejections of a few
//! milliseconds help nobody.
//!
//! Definitions: TTFT is the first token event (D2), E2EL the last (D3), ITL the gaps between token
//! events of one choice, zero allowed, pooled over answers, and TPOT is `(E2EL - TTFT)/(N - 1)`, which
//! an answer of fewer than two tokens, or of unknown length, does not have (D4, D5). An answer of no
//! tokens is a success without a TTFT.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::Dispatch;

mod gaps;
mod measure;
pub mod rates;
pub mod stats;

pub use gaps::Gaps;
pub(crate) use measure::tpot_ms;
use rates::{Rate, Throughput};
use stats::{Adjusted, Stats};

/// The lateness that 99 % of the dispatches must stay under for a schedule to count as kept.
pub const LATENESS_P99_MAX_MS: f64 = 10.0;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// The account.
    pub requests: Requests,
    /// Whether the 99th percentile of the lateness is at most 10 ms; null when nothing was sent.
    pub schedule_kept: Option<bool>,
    /// How late we sent: `sent - ready`, without connecting.
    pub lateness_ms: Stats,
    /// How far answers pushed their session: `ready - due`.
    pub session_delay_ms: Stats,
    /// Latencies from the end of the send.
    pub from_send: Clock,
    /// Latencies from the moment the dispatch was allowed to go.
    pub from_due: Clock,
    /// Gaps between token events, per choice, pooled over complete answers.
    pub itl_ms: Stats,
    /// Time per output token after the first, of complete answers with at least two.
    pub tpot_ms: Stats,
    /// The rate that was planned.
    pub planned: Rate,
    /// The rate that was sent.
    pub achieved: Rate,
    /// What the target delivered, complete answers only.
    pub throughput: Throughput,
}

/// The account of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// Planned.
    pub due: u64,
    /// Sent.
    pub sent: u64,
    /// Not sent, by reason.
    pub not_sent: BTreeMap<String, u64>,
    /// Complete answers.
    pub answered: u64,
    /// Sent and not answered completely.
    pub failed: u64,
    /// `failed / sent`; null when nothing was sent.
    pub error_rate: Option<f64>,
    /// Sent, by HTTP status; `none` where there was none.
    pub by_status: BTreeMap<String, u64>,
    /// Sent, by outcome.
    pub by_outcome: BTreeMap<String, u64>,
}

/// Latencies on one clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// Time to the first token event, of complete answers.
    pub ttft_ms: Stats,
    /// Time to the first token event that is not reasoning, of complete answers.
    pub ttfo_ms: Stats,
    /// Time to the last token event, of complete answers.
    pub e2el_ms: Stats,
    /// The same with every failure counted as infinitely late.
    pub failures_infinite: FailuresInfinite,
}

/// Latencies over everything that was sent, failures counted as infinitely late.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailuresInfinite {
    /// Time to the first token event.
    pub ttft_ms: Adjusted,
    /// Time to the last token event.
    pub e2el_ms: Adjusted,
}

/// Why dispatches were not sent where the user asked for a part of the set only, its beginning or a
/// share of its sessions: no failures.
const AFTER_DURATION: &str = "after_duration";
const THINNED: &str = "thinned";

/// Whether a dispatch is after the run's `--duration`: it was never planned.
pub fn is_after_duration(dispatch: &Dispatch) -> bool {
    dispatch.not_sent_reason.as_deref() == Some(AFTER_DURATION)
}

/// Whether a dispatch is of a session that was left out to lower the rate: it was never planned.
pub fn is_thinned(dispatch: &Dispatch) -> bool {
    dispatch.not_sent_reason.as_deref() == Some(THINNED)
}

/// Whether a dispatch is of a part of the set that the run was not asked for.
pub fn is_left_out(dispatch: &Dispatch) -> bool {
    is_after_duration(dispatch) || is_thinned(dispatch)
}

/// Whether a dispatch was answered completely: only these have latencies (D7).
pub fn answered(dispatch: &Dispatch) -> bool {
    dispatch.sent_us.is_some() && dispatch.outcome == Some(Outcome::Complete)
}

/// An instant of an exchange, from schedule zero; none when it was not sent.
///
/// Offsets count from the moment the request was fully sent (D2).
pub fn instant_us(dispatch: &Dispatch, offset_us: i64) -> Option<i64> {
    let request_end = dispatch
        .sent_us?
        .saturating_add(dispatch.request_end_us.unwrap_or(0));
    Some(request_end.saturating_add(offset_us))
}

/// How late a dispatch was sent; none when it was not sent.
pub fn lateness_us(dispatch: &Dispatch) -> Option<i64> {
    let sent = dispatch.sent_us?;
    Some(
        dispatch
            .lateness_us
            .unwrap_or(sent.saturating_sub(dispatch.ready_us.unwrap_or(dispatch.due_us))),
    )
}

/// Summarizes the dispatches of a run.
pub fn summarize(dispatches: &[Dispatch]) -> Summary {
    // Counted as a run counts them while it goes on: the same rows have to come to the same digits.
    let mut gaps = Gaps::default();
    for dispatch in dispatches {
        gaps.add(dispatch);
    }
    summarize_with(dispatches, gaps.stats())
}

/// The same of dispatches without their token events, whose gaps were counted before: a long run has
/// too many of them for memory.
pub fn summarize_with(dispatches: &[Dispatch], itl_ms: Stats) -> Summary {
    let sent = || {
        dispatches
            .iter()
            .filter(|dispatch| dispatch.sent_us.is_some())
    };
    let lateness_ms = Stats::of_us(sent().filter_map(lateness_us));
    Summary {
        requests: requests(dispatches),
        schedule_kept: lateness_ms.p99.map(|p99| p99 <= LATENESS_P99_MAX_MS),
        lateness_ms,
        session_delay_ms: Stats::of_us(sent().filter_map(|dispatch| dispatch.session_delay_us)),
        from_send: clock(dispatches, |_| 0),
        from_due: clock(dispatches, before_us),
        itl_ms,
        tpot_ms: Stats::of_ms(
            dispatches
                .iter()
                .filter(|d| answered(d))
                .filter_map(tpot_ms),
        ),
        planned: Rate::of(
            dispatches
                .iter()
                .filter(|dispatch| !is_left_out(dispatch))
                .map(|dispatch| dispatch.due_us),
        ),
        achieved: Rate::of(dispatches.iter().filter_map(|dispatch| dispatch.sent_us)),
        throughput: Throughput::of(dispatches),
    }
}

/// What passed between the moment a dispatch was allowed to go and the end of its request.
pub(crate) fn before_us(dispatch: &Dispatch) -> i64 {
    lateness_us(dispatch)
        .unwrap_or(0)
        .saturating_add(dispatch.request_end_us.unwrap_or(0))
}

fn requests(dispatches: &[Dispatch]) -> Requests {
    let mut requests = Requests {
        due: dispatches.len() as u64,
        ..Requests::default()
    };
    for dispatch in dispatches {
        if dispatch.sent_us.is_none() {
            let reason = dispatch
                .not_sent_reason
                .clone()
                .unwrap_or_else(|| "unknown".to_owned());
            *requests.not_sent.entry(reason).or_default() += 1;
            continue;
        }
        requests.sent += 1;
        let answered = answered(dispatch);
        requests.answered += u64::from(answered);
        requests.failed += u64::from(!answered);
        let status = dispatch
            .status
            .map_or_else(|| "none".to_owned(), |status| status.to_string());
        *requests.by_status.entry(status).or_default() += 1;
        let outcome = dispatch.outcome.map_or("unknown", Outcome::name);
        *requests.by_outcome.entry(outcome.to_owned()).or_default() += 1;
    }
    requests.error_rate =
        (requests.sent > 0).then(|| requests.failed as f64 / requests.sent as f64);
    requests
}

fn clock(dispatches: &[Dispatch], wait_us: impl Fn(&Dispatch) -> i64) -> Clock {
    let successes = |of: fn(&Dispatch) -> Option<i64>| {
        let answered = dispatches.iter().filter(|dispatch| answered(dispatch));
        Stats::of_us(
            answered.filter_map(|dispatch| Some(of(dispatch)?.saturating_add(wait_us(dispatch)))),
        )
    };
    let everything = |of: fn(&Dispatch) -> Option<i64>| {
        let sent = dispatches
            .iter()
            .filter(|dispatch| dispatch.sent_us.is_some());
        Adjusted::of_ms(sent.filter_map(|dispatch| {
            if !answered(dispatch) {
                return Some(f64::INFINITY);
            }
            Some(of(dispatch)?.saturating_add(wait_us(dispatch)) as f64 / 1_000.0)
        }))
    };
    Clock {
        ttft_ms: successes(|dispatch| dispatch.first_token_us),
        ttfo_ms: successes(|dispatch| dispatch.first_output_us),
        e2el_ms: successes(|dispatch| dispatch.last_token_us),
        failures_infinite: FailuresInfinite {
            ttft_ms: everything(|dispatch| dispatch.first_token_us),
            e2el_ms: everything(|dispatch| dispatch.last_token_us),
        },
    }
}

#[cfg(test)]
mod tests;
