//! When it was sent: arrivals, lateness, order, pauses.

use super::Log;
use super::asked::Asked;
use crate::direction::NEAR_POISSON;
use crate::dispersion::{self, Counts, SECOND_US, clock};
use crate::grade::Z_95;
use crate::grade::draft::{Draft, Unit};
use crate::latency::{LATENESS_P99_MAX_MS, instant_us, is_left_out, lateness_us};
use crate::quantile::{quantile, sorted};
use std::collections::HashMap;
use truetape_schemas::report::{Dimension, Direction, Level};
use truetape_schemas::run::Dispatch;
use truetape_schemas::set::Turn;

/// Tolerances.
const IDC_LN: f64 = 0.15;
const PEAK_RELATIVE: f64 = 0.10;
const RATE_RELATIVE: f64 = 0.05;
const PAUSES_KEPT: f64 = 0.005;

/// A pause that is this much too short was kept: clocks are read before and after a system call.
const PAUSE_SLACK_US: i64 = 1_000;

/// Session starts that a rate needs.
const RATE_STARTS_MIN: usize = 10;

/// Dimensions of timing.
pub(super) fn dimensions(log: &Log<'_>) -> Vec<Dimension> {
    let streams = Streams::of(log);
    let mut dimensions = vec![streams.rate()];
    dimensions.extend([1, 10, 60].map(|window_s| streams.idc(window_s)));
    dimensions.extend([10, 60].map(|window_s| streams.peak(window_s)));
    dimensions.push(lateness(log));
    let ends = Ends::of(log);
    dimensions.push(ends.order(log));
    dimensions.extend(ends.pauses(log));
    dimensions
}

/// Arrivals as they should be, and as they went out; starts are turns that depend on none.
struct Streams {
    asked: Asked,
    /// As the set has them, or as they were due where another rate was asked for. A control is
    /// compared with the set: what it distorts is what it is for.
    wanted: Vec<i64>,
    sent: Vec<i64>,
    /// The control's own rate, where it was asked to have another.
    starts_wanted: Vec<i64>,
    starts_sent: Vec<i64>,
    resolution_us: Option<i64>,
}

impl Streams {
    fn of(log: &Log<'_>) -> Self {
        let asked = Asked::of(log);
        let starts = |turn: &Turn| turn.depends_on.is_empty();
        let turns = |keep: &dyn Fn(&Turn) -> bool| {
            let kept = log.planned.iter().filter(|turn| keep(turn));
            in_order(kept.map(|turn| turn.start_us).collect())
        };
        let rows = |keep: &dyn Fn(&Turn) -> bool, at: &dyn Fn(&Dispatch) -> Option<i64>| {
            let kept = log.rows.iter().filter(|(_, turn)| keep(turn));
            in_order(kept.filter_map(|(dispatch, _)| at(dispatch)).collect())
        };
        let due = |keep: &dyn Fn(&Turn) -> bool| {
            rows(keep, &|dispatch| {
                asked.due(dispatch).filter(|_| !is_left_out(dispatch))
            })
        };
        let wanted = if asked.rate.is_some() && asked.control.is_none() {
            due(&|_| true)
        } else {
            turns(&|_| true)
        };
        let starts_wanted = if asked.rate.is_some() {
            due(&starts)
        } else {
            turns(&starts)
        };
        let stated = log.manifest.semantics.clock_resolution_us;
        Self {
            resolution_us: stated.max(clock::resolution_us(&wanted)),
            wanted,
            sent: rows(&|_| true, &|dispatch| dispatch.sent_us),
            starts_wanted,
            starts_sent: rows(&starts, &|dispatch| dispatch.sent_us),
            asked,
        }
    }

    fn noted(&self, draft: Draft) -> Draft {
        let notes = self.asked.notes().into_iter();
        notes.fold(draft, |draft, note| draft.note(note))
    }

    /// The rate of session starts: later turns wait for answers, and how long those take is the
    /// target's doing, not the load's.
    fn rate(&self) -> Dimension {
        let rate = |starts: &[i64]| {
            let span_us = dispersion::span_us(starts);
            (span_us > 0).then(|| (starts.len() - 1) as f64 * SECOND_US as f64 / span_us as f64)
        };
        let fewest = self.starts_wanted.len().min(self.starts_sent.len());
        let title = "rate of session starts, per second";
        let draft = Draft::new("run.arrivals.rate", title, Unit::Relative, RATE_RELATIVE)
            .compare(rate(&self.starts_sent), rate(&self.starts_wanted))
            .unknown_if(fewest < RATE_STARTS_MIN, || {
                format!("{fewest} session starts; a rate needs {RATE_STARTS_MIN}")
            });
        self.noted(draft).finish(Level::RunAgainstSet)
    }

    fn idc(&self, window_s: i64) -> Dimension {
        let of = |instants: &[i64]| Counts::of(instants, window_s * SECOND_US).idc();
        let (value, target) = (of(&self.sent), of(&self.wanted));
        let near = [value, target]
            .into_iter()
            .flatten()
            .all(|idc| NEAR_POISSON.contains(&idc));
        let title = format!("dispersion of sends over {window_s} s");
        let id = format!("run.arrivals.idc_{window_s}s");
        let draft = Draft::new(id, &title, Unit::LnRatio, IDC_LN).compare(value, target);
        let draft = if near {
            draft.direction(Direction::Neutral)
        } else {
            draft
        };
        self.guarded(draft, window_s)
    }

    fn peak(&self, window_s: i64) -> Dimension {
        let of = |instants: &[i64]| Counts::of(instants, window_s * SECOND_US).peak_to_mean();
        let title = format!("peak to mean of sends over {window_s} s");
        let id = format!("run.arrivals.peak_{window_s}s");
        let draft = Draft::new(id, &title, Unit::Relative, PEAK_RELATIVE)
            .compare(of(&self.sent), of(&self.wanted));
        self.guarded(draft, window_s)
    }

    /// Few windows hold few turns: one that an answer pushed into the next window is no finding.
    fn guarded(&self, draft: Draft, window_s: i64) -> Dimension {
        let window_us = window_s * SECOND_US;
        let invalid = [&self.wanted, &self.sent].into_iter().find_map(|instants| {
            dispersion::invalid(window_us, dispersion::span_us(instants), self.resolution_us)
        });
        let windows = Counts::of(&self.wanted, window_us).windows;
        let error = if windows < 2 {
            0.0
        } else {
            Z_95 * dispersion::relative_error(windows)
        };
        self.noted(draft)
            .void_if(invalid)
            .within_reach(error, "the error of so few windows")
            .finish(Level::RunAgainstSet)
    }
}

fn in_order(mut instants: Vec<i64>) -> Vec<i64> {
    instants.sort_unstable();
    instants
}

fn lateness(log: &Log<'_>) -> Dimension {
    let sent = log.rows.iter().map(|(dispatch, _)| *dispatch);
    let ms = sorted(sent.filter_map(lateness_us).map(|us| us as f64 / 1_000.0));
    let ttft = sorted(
        log.rows
            .iter()
            .filter_map(|(d, _)| d.first_token_us)
            .map(|us| us as f64 / 1e3),
    );
    let p99 = quantile(&ms, 0.99);
    let part = p99
        .zip(quantile(&ttft, 0.5))
        .filter(|(_, ttft)| *ttft > 0.0);
    let draft = Draft::new(
        "run.lateness.p99",
        "99th percentile of our own lateness, in ms",
        Unit::Ms,
        LATENESS_P99_MAX_MS,
    )
    .compare(p99, Some(0.0));
    match part.map(|(p99, ttft)| p99 / ttft) {
        Some(part) if part > LATENESS_OF_TTFT => draft.note(format!(
            "it is {:.0} % of the median TTFT: latencies carry that much of the client",
            part * 100.0
        )),
        _ => draft,
    }
    .finish(Level::RunAgainstSet)
}

/// Lateness beyond this part of the median TTFT is said.
const LATENESS_OF_TTFT: f64 = 0.05;

/// When each turn's exchange ended, from schedule zero.
struct Ends(HashMap<i64, i64>);

impl Ends {
    fn of(log: &Log<'_>) -> Self {
        let end = |d: &Dispatch| Some((d.turn_id, instant_us(d, d.end_us.or(d.last_token_us)?)?));
        Self(
            log.rows
                .iter()
                .filter_map(|(dispatch, _)| end(dispatch))
                .collect(),
        )
    }

    /// The end of the latest dependency; none when one of them is not known to have ended.
    fn latest(&self, depends_on: &[i64]) -> Option<i64> {
        let ends: Option<Vec<i64>> = depends_on
            .iter()
            .map(|id| self.0.get(id).copied())
            .collect();
        ends?.into_iter().max()
    }

    fn order(&self, log: &Log<'_>) -> Dimension {
        let (mut judged, mut kept, mut unknown) = (0u64, 0u64, 0u64);
        for (dispatch, turn) in &log.rows {
            let (Some(sent), false) = (dispatch.sent_us, turn.depends_on.is_empty()) else {
                continue;
            };
            match self.latest(&turn.depends_on) {
                Some(end) => {
                    judged += 1;
                    kept += u64::from(sent >= end);
                }
                None => unknown += 1,
            }
        }
        let depending = log.turns.iter().any(|turn| !turn.depends_on.is_empty());
        let share = (judged > 0).then(|| kept as f64 / judged as f64);
        // Where no turn depends on another there is no order to break.
        let share = share.or((!depending).then_some(1.0));
        Draft::new(
            "run.order",
            "turns sent after the answers they depend on",
            Unit::Share,
            0.0,
        )
        .compare(share, Some(1.0))
        .note_if(unknown > 0, || {
            format!("{unknown} turns depend on one whose end is not known")
        })
        .finish(Level::RunAgainstSet)
    }

    /// Pauses that were waited in full. Longer ones are not counted against a run: a turn waits for
    /// its due time too, and after a faster answer that is a longer pause.
    fn pauses(&self, log: &Log<'_>) -> Option<Dimension> {
        let pauses: Vec<bool> = log
            .rows
            .iter()
            .filter_map(|(dispatch, turn)| {
                let waited = dispatch
                    .sent_us?
                    .saturating_sub(self.latest(&turn.depends_on)?);
                Some(waited.saturating_add(PAUSE_SLACK_US) >= turn.gap_us?)
            })
            .collect();
        let recorded = log
            .turns
            .iter()
            .filter(|turn| turn.gap_us.is_some())
            .count();
        let depending = log
            .turns
            .iter()
            .filter(|turn| !turn.depends_on.is_empty())
            .count();
        if depending == 0 {
            return None;
        }
        let kept = pauses.iter().filter(|kept| **kept).count();
        let share = (!pauses.is_empty()).then(|| kept as f64 / pauses.len() as f64);
        Some(
            Draft::new(
                "run.think_time.kept",
                "pauses waited in full",
                Unit::Share,
                PAUSES_KEPT,
            )
            .compare(share, Some(1.0))
            .unknown_if(recorded == 0, || "the set knows no pause".to_owned())
            .finish(Level::RunAgainstSet),
        )
    }
}
