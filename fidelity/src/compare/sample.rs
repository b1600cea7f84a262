//! A run, as a comparison sees it.

use crate::latency::{answered, lateness_us};
use crate::noise::design::label;
use crate::noise::series::Series;
use truetape_schemas::run::{Dispatch, Run};

/// A latency that is compared, from the moment a dispatch was allowed to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Time to the first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// Time to the last token.
    E2el,
}

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Its turn.
    pub turn_id: i64,
    /// Its session, as a number.
    pub session: u64,
    /// When it was due.
    pub due_us: i64,
    /// In milliseconds.
    pub ttft_ms: Option<f64>,
    /// In milliseconds.
    pub tpot_ms: Option<f64>,
    /// In milliseconds.
    pub e2el_ms: Option<f64>,
}

/// The complete answers of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The run's id.
    pub run_id: String,
    /// When it began, wall clock.
    pub zero_us: i64,
    /// Its answers.
    pub answers: Vec<Answer>,
    /// Exchanges that were sent and not answered completely.
    pub failed: u64,
    /// The share of it before it is steady; none where that cannot be told.
    pub warm_up: Option<f64>,
    /// Time from its first due turn to its last.
    pub span_us: i64,
}

impl Sample {
    /// Reads a run's rows.
    pub fn of(run: &Run, dispatches: &[Dispatch]) -> Self {
        let sent = || {
            dispatches
                .iter()
                .filter(|dispatch| dispatch.sent_us.is_some())
        };
        let answers: Vec<Answer> = dispatches.iter().filter_map(answer).collect();
        let due = || answers.iter().map(|answer| answer.due_us);
        let span_us = due()
            .max()
            .zip(due().min())
            .map_or(0, |(last, first)| last.saturating_sub(first));
        Self {
            run_id: run.run_id.clone(),
            zero_us: run.zero_us,
            failed: sent().filter(|dispatch| !answered(dispatch)).count() as u64,
            warm_up: Series::of(dispatches.iter()).cut(),
            span_us,
            answers,
        }
    }

    /// Values of a latency, each with its session.
    pub fn values(&self, of: Latency) -> impl Iterator<Item = (u64, f64)> {
        self.answers.iter().filter_map(move |answer| {
            let value = match of {
                Latency::Ttft => answer.ttft_ms,
                Latency::Tpot => answer.tpot_ms,
                Latency::E2el => answer.e2el_ms,
            };
            Some((answer.session, value?))
        })
    }

    /// The same without answers that were due before a share of it.
    pub fn after(&self, share: f64) -> Self {
        let first_us = self
            .answers
            .iter()
            .map(|answer| answer.due_us)
            .min()
            .unwrap_or(0);
        let from_us = first_us.saturating_add((self.span_us as f64 * share) as i64);
        let answers = self
            .answers
            .iter()
            .filter(|answer| answer.due_us >= from_us);
        Self {
            answers: answers.copied().collect(),
            ..self.clone()
        }
    }
}

fn answer(dispatch: &Dispatch) -> Option<Answer> {
    if !answered(dispatch) {
        return None;
    }
    // Lateness and the upload are what a user would have waited, too.
    let before_us = lateness_us(dispatch)
        .unwrap_or(0)
        .saturating_add(dispatch.request_end_us.unwrap_or(0));
    let ms = |us: Option<i64>| us.map(|us| us.saturating_add(before_us) as f64 / 1e3);
    let gaps = dispatch
        .output_tokens
        .filter(|tokens| *tokens > 1)
        .map(|tokens| tokens - 1);
    let decode = dispatch.last_token_us.zip(dispatch.first_token_us);
    let tpot = decode
        .zip(gaps)
        .map(|((last, first), gaps)| last.saturating_sub(first) as f64 / 1e3 / gaps as f64);
    Some(Answer {
        turn_id: dispatch.turn_id,
        session: label(&dispatch.session),
        due_us: dispatch.due_us,
        ttft_ms: ms(dispatch.first_token_us),
        tpot_ms: tpot,
        e2el_ms: ms(dispatch.last_token_us),
    })
}

/// Leaves out the warm-up of all runs: the longest of them, the same of each, so that what is left is
/// of the same turns. Where one of them never became steady nothing is left out.
pub fn steady(runs: &mut [Sample], against: &mut [Sample]) -> Option<String> {
    let cuts = || {
        runs.iter()
            .chain(against.iter())
            .filter_map(|sample| sample.warm_up)
    };
    let longest = cuts().reduce(f64::max)?;
    if longest > 0.5 {
        let never = cuts().filter(|cut| *cut > 0.5).count();
        return Some(format!(
            "{never} runs never became steady, as under a load in bursts; nothing was left out, and \
             pairs meet the same load"
        ));
    }
    if longest == 0.0 {
        return None;
    }
    for sample in runs.iter_mut().chain(against.iter_mut()) {
        *sample = sample.after(longest);
    }
    Some(format!(
        "the first {:.0} % of each run is warm-up and left out",
        longest * 100.0
    ))
}

/// What a reader of a comparison should know of its runs.
pub(super) fn findings(runs: &[Sample], against: &[Sample], paired: bool) -> Vec<String> {
    let mut findings = Vec::new();
    let failed = |samples: &[Sample]| samples.iter().map(|sample| sample.failed).sum::<u64>();
    let (of_runs, of_others) = (failed(runs), failed(against));
    if of_runs + of_others > 0 {
        findings.push(format!(
            "{of_runs} exchanges failed against {of_others}: latencies are those of what was answered"
        ));
    }
    if !paired {
        findings.push("not as many runs on both sides: they are not taken in pairs".to_owned());
    }
    let several = runs.len() > 1 && against.len() > 1;
    if several && !interleaved(runs, against) {
        findings.push(
            "one side ran before the other: a drift of the target would look like a difference; run \
             them interleaved, as ABBA"
                .to_owned(),
        );
    }
    findings
}

/// Whether neither side ended before the other began.
fn interleaved(runs: &[Sample], against: &[Sample]) -> bool {
    let ends = |samples: &[Sample]| {
        let zeros = || samples.iter().map(|sample| sample.zero_us);
        zeros().min().zip(zeros().max())
    };
    match (ends(runs), ends(against)) {
        (Some((first, last)), Some((first_other, last_other))) => {
            first < last_other && first_other < last
        }
        _ => true,
    }
}
