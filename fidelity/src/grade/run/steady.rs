//! Whether a run became steady, and whether its answers are enough for its tail.

use super::Log;
use crate::grade::draft::{Draft, Unit};
use crate::noise::series::{STEP_US, Series};
use crate::noise::{design, mser};
use truetape_schemas::report::{Dimension, Level};
use truetape_schemas::run::Dispatch;

/// The largest part of a run that its warm-up may take.
const WARM_UP: f64 = 0.5;

/// Independent answers that a p99 needs (MLPerf, at 99 % confidence).
const SAMPLES_P99_MIN: f64 = 662.0;

/// Answers of one minute resemble each other.
const MINUTE_US: i64 = 60_000_000;

pub(super) fn dimensions(log: &Log<'_>) -> Vec<Dimension> {
    vec![steady(log), samples(log)]
}

/// The larger of two warm-ups: of the tokens in flight, and of the time to first token.
fn steady(log: &Log<'_>) -> Dimension {
    let series = Series::of(log.rows.iter().map(|(dispatch, _)| *dispatch));
    let cut = series.cut();
    let needed_s = STEP_US / 1_000_000 * (mser::BATCH * mser::BATCHES_MIN) as i64;
    Draft::new(
        "noise.steady_state",
        "part of the run before it is steady",
        Unit::Share,
        WARM_UP,
    )
    .compare(cut, cut.map(|_| 0.0))
    .unknown_if(cut.is_none(), || {
        format!(
            "the run lasts {} s; {needed_s} s are needed to tell a warm-up",
            series.in_flight.len() as i64 * STEP_US / 1_000_000
        )
    })
    .unknown_if(cut.is_some_and(|cut| cut > WARM_UP), || {
        "it never became steady, as a load in bursts may not: compare runs in pairs".to_owned()
    })
    .finish(Level::Noise)
}

/// Answers, as independent ones, against what a p99 needs.
fn samples(log: &Log<'_>) -> Dimension {
    let rows = || log.answers().map(|(dispatch, _)| *dispatch);
    let ln_ttft = |d: &Dispatch| {
        d.first_token_us
            .filter(|us| *us > 0)
            .map(|us| (us as f64).ln())
    };
    let by = |cluster: &dyn Fn(&Dispatch) -> u64| {
        let values: Vec<(u64, f64)> = rows()
            .filter_map(|d| Some((cluster(d), ln_ttft(d)?)))
            .collect();
        design::of(&values)
    };
    let session = |d: &Dispatch| crate::noise::design::label(&d.session);
    let minute = |d: &Dispatch| (d.sent_us.unwrap_or(0) / MINUTE_US).unsigned_abs();
    let designs = [by(&session), by(&minute)];
    let worst = designs
        .iter()
        .flatten()
        .max_by(|a, b| a.effect.total_cmp(&b.effect));
    let count = rows().filter(|d| ln_ttft(d).is_some()).count();
    let effect = worst.map_or(1.0, |design| design.effect);
    let enough = (count as f64 / effect / SAMPLES_P99_MIN).min(1.0);
    let draft = Draft::new(
        "noise.samples",
        "independent answers, of those that a p99 needs",
        Unit::Share,
        0.0,
    )
    .compare((count > 0).then_some(enough), Some(1.0))
    .unknown_if(count == 0, || "no answer has a first token".to_owned())
    .unknown_if(enough < 1.0, || {
        format!(
            "{count} answers tell as much as {:.0}; a p99 needs {SAMPLES_P99_MIN}",
            count as f64 / effect
        )
    });
    match worst {
        Some(design) => draft.note(format!(
            "design effect {:.1}: TTFTs of one session, or of one minute, resemble each other",
            design.effect
        )),
        None => draft,
    }
    .finish(Level::Noise)
}
