//! When requests came: over time, and how bursty at which scale.

use super::Evidence;
use super::chart::{Axis, Lines, Mark, Series, Whose};
use super::scale::Kind;
use crate::dispersion::{self, Counts, SECOND_US};
use crate::profile::portrait::STRETCHES;
use truetape_schemas::report::Level;

/// Windows of the dispersion, in seconds.
const WINDOWS_S: [u32; 9] = [1, 2, 5, 10, 20, 30, 60, 120, 300];

/// Arrivals of both sides, sorted, from schedule zero.
struct Sides {
    planned: Vec<i64>,
    sent: Vec<i64>,
}

impl Sides {
    fn of(evidence: &Evidence<'_>) -> Self {
        let mut planned: Vec<i64> = match (evidence.run, evidence.set) {
            (None, Some(set)) => set.turns.iter().map(|turn| turn.start_us).collect(),
            _ => evidence.due().map(|dispatch| dispatch.due_us).collect(),
        };
        let mut sent: Vec<i64> = evidence
            .due()
            .filter_map(|dispatch| dispatch.sent_us)
            .collect();
        planned.sort_unstable();
        sent.sort_unstable();
        Self { planned, sent }
    }
}

/// Arrivals over time.
pub(super) fn over_time(evidence: &Evidence<'_>) -> Lines {
    let sides = Sides::of(evidence);
    let ends = [sides.planned.last(), sides.sent.last()]
        .into_iter()
        .flatten();
    let end = ends.copied().max().unwrap_or(0).max(0);
    let stretch = end / STRETCHES as i64 + 1;
    let rates = |arrivals: &[i64]| -> Vec<Option<f64>> {
        if arrivals.is_empty() {
            return vec![None; STRETCHES];
        }
        let upto = |at: usize| arrivals.partition_point(|arrival| *arrival < stretch * at as i64);
        let of = |at: usize| upto(at + 1).saturating_sub(if at == 0 { 0 } else { upto(at) });
        let seconds = stretch as f64 / SECOND_US as f64;
        (0..STRETCHES)
            .map(|at| Some(of(at) as f64 / seconds))
            .collect()
    };
    let middle = |at: usize| stretch as f64 * (at as f64 + 0.5) / SECOND_US as f64;
    Lines {
        id: "arrivals",
        title: "Arrivals over time",
        about: format!(
            "Requests a second, in stretches of {:.2} s. Where the run lags behind the schedule, an \
             earlier answer of the session was late, or the replayer was.",
            stretch as f64 / SECOND_US as f64
        ),
        x: Axis::new("seconds from the start", Kind::Linear),
        y: Axis::new("requests a second", Kind::Linear),
        grid: (0..STRETCHES).map(middle).collect(),
        series: vec![
            Series::new("set, as due", Whose::Set, rates(&sides.planned)),
            Series::new("run, as sent", Whose::Run, rates(&sides.sent)),
        ],
        at_x: Vec::new(),
        at_y: Vec::new(),
        lacks: run_lacks(evidence, sides.sent.is_empty()),
    }
}

fn run_lacks(evidence: &Evidence<'_>, nothing_sent: bool) -> Vec<String> {
    let why = match evidence.run {
        None => "a run",
        Some(_) if nothing_sent => "a request that was sent",
        Some(_) => return Vec::new(),
    };
    vec![why.to_owned()]
}

/// Dispersion of arrivals over time scales.
pub(super) fn dispersion(evidence: &Evidence<'_>) -> Lines {
    let sides = Sides::of(evidence);
    let source = evidence.source_profile();
    let of_source = |window_s: &u32| {
        let windows = &source.as_ref()?.arrivals.dispersion;
        windows
            .iter()
            .find(|window| window.window_s == *window_s)?
            .idc
    };
    let measured = |arrivals: &[i64]| -> Vec<Option<f64>> {
        let span = dispersion::span_us(arrivals);
        let idc = |window_s: &u32| {
            let window_us = i64::from(*window_s) * SECOND_US;
            let valid = dispersion::invalid(window_us, span, None).is_none();
            Counts::of(arrivals, window_us).idc().filter(|_| valid)
        };
        WINDOWS_S.iter().map(idc).collect()
    };
    let wanted = |window_s: &u32| {
        let target = |level, id: String| evidence.dimension(level, &id).and_then(|d| d.target);
        target(Level::SetAgainstSource, format!("arrivals.idc_{window_s}s"))
    };
    let over = |of: &dyn Fn(&u32) -> Option<f64>| WINDOWS_S.iter().map(of).collect();
    Lines {
        id: "dispersion",
        title: "Burstiness over time scales",
        about: "Variance over mean of the arrivals in windows of that length (IDC); a Poisson stream \
                has 1. What the set should have follows from what it is a sample of: fewer users are a \
                smoother crowd. Too few windows, and there is no point."
            .to_owned(),
        x: Axis::new("window, seconds", Kind::Log),
        y: Axis::new("IDC", Kind::Log),
        grid: WINDOWS_S.map(f64::from).into(),
        series: vec![
            Series::new("production", Whose::Production, over(&of_source)).dots(),
            Series::new("wanted of the set", Whose::Wanted, over(&wanted)).dots(),
            Series::new("set, as due", Whose::Set, measured(&sides.planned)).dots(),
            Series::new("run, as sent", Whose::Run, measured(&sides.sent)).dots(),
        ],
        at_x: Vec::new(),
        at_y: vec![Mark {
            at: 1.0,
            says: "Poisson".to_owned(),
            whose: Whose::Wanted,
        }],
        lacks: match source {
            None => vec!["production's, which the set holds; name it with --set or --store".to_owned()],
            Some(_) => Vec::new(),
        },
    }
}
