//! Whether a run can be trusted, and how the process ends.

use crate::arrivals;
use crate::breaker::Trip;
use crate::error::Error;
use crate::plan::reason;
use crate::row;
use crate::settings::micros;
use crate::walk::Walked;
use std::path::Path;
use std::time::Duration;
use truetape_fidelity::{latency, quantile};
use truetape_schemas::run::{Dispatch, FORMAT, Run, Step};
use truetape_schemas::set::manifest::Manifest;
use truetape_schemas::time::format_utc;

/// The replayer kept its schedule, and the run went to its end.
pub const VALID: &str = "valid";
/// The replayer was too late: a bad ruler.
pub const INVALID: &str = "invalid";
/// The run did not go to its end.
pub const STOPPED: &str = "stopped";

/// What is known of a run from its rows: everything but what it was and where it went.
pub fn run(
    manifest: &Manifest,
    walked: &Walked,
    lateness_p99_max: Duration,
    max_in_flight: Option<usize>,
) -> Run {
    let late = too_late(walked, lateness_p99_max, max_in_flight);
    let stopped = walked.stopped.as_ref().map(|trip| trip.problem.clone());
    let by_user = walked.stopped.as_ref().is_some_and(is_by_user);
    let validity = match (&late, &stopped) {
        // Whoever stopped it asked for no verdict on the replayer.
        (_, Some(_)) if by_user => STOPPED,
        (Some(_), _) => INVALID,
        (None, Some(_)) => STOPPED,
        (None, None) => VALID,
    };
    let summary = latency::summarize_with(&walked.rows, walked.gaps.stats());
    Run {
        format: FORMAT.to_string(),
        set_name: manifest.name.clone(),
        set_digest: manifest.digest.clone(),
        zero: format_utc(walked.zero_us),
        zero_us: walked.zero_us,
        duration_us: walked.duration_us,
        validity: validity.to_owned(),
        validity_reasons: late.into_iter().chain(stopped).collect(),
        account: row::account(&walked.rows),
        summary: serde_json::to_value(summary).unwrap_or_default(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Run::default()
    }
}

/// What rows with all their token events come to.
pub(crate) fn summary(rows: &[Dispatch]) -> serde_json::Value {
    serde_json::to_value(latency::summarize(rows)).unwrap_or_default()
}

/// What each step of the rate came to, but for the gaps between token events, which are only known of
/// the whole run. The last one holds what is due after it, too: the later turns
/// of its sessions.
pub fn steps(steps: &[arrivals::Step], rows: &[Dispatch]) -> Vec<Step> {
    let last = steps.len().saturating_sub(1);
    let told = |(place, step): (usize, &arrivals::Step)| {
        let is_in = |row: &&Dispatch| {
            step.from_us <= row.due_us && (place == last || row.due_us < step.to_us)
        };
        let due: Vec<Dispatch> = rows.iter().filter(is_in).cloned().collect();
        Step {
            rate_scale: step.rate_scale,
            from_us: step.from_us,
            to_us: step.to_us,
            summary: summary(&due),
        }
    };
    steps.iter().enumerate().map(told).collect()
}

fn is_by_user(trip: &Trip) -> bool {
    trip.reason == reason::STOPPED
}

fn too_late(walked: &Walked, most: Duration, max_in_flight: Option<usize>) -> Option<String> {
    let late = walked
        .rows
        .iter()
        .filter_map(|row| Some(row.lateness_us? as f64));
    let p99_us = quantile::quantile(&quantile::sorted(late), 0.99)?;
    if p99_us <= micros(most) as f64 {
        return None;
    }
    let why = match max_in_flight {
        Some(cap) => format!("; --max-in-flight {cap} holds requests back"),
        None => String::new(),
    };
    let p99_ms = p99_us / 1_000.0;
    Some(format!(
        "lateness p99 is {p99_ms:.1} ms, above --lateness-p99-max {most:?}{why}"
    ))
}

/// Ends the process as the run ended: the run is on disk by now, whatever comes.
pub fn end(out: &Path, run: &Run, stopped: Option<&Trip>) -> Result<(), Error> {
    let path = out.to_owned();
    let problem = run.validity_reasons.join("; ");
    match (run.validity.as_str(), stopped) {
        (INVALID, _) => Err(Error::Invalid { path, problem }),
        (_, Some(trip)) if is_by_user(trip) => Err(Error::Stopped { path, problem }),
        (_, Some(_)) => Err(Error::Broken { path, problem }),
        (_, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truetape_schemas::blame::Blamed as _;
    use truetape_schemas::capture::Outcome;

    fn walked(lateness_us: &[i64], stopped: Option<Trip>) -> Walked {
        let row = |lateness_us: &i64| Dispatch {
            ready_us: Some(0),
            sent_us: Some(*lateness_us),
            lateness_us: Some(*lateness_us),
            request_end_us: Some(0),
            end_us: Some(500_000),
            last_token_us: Some(500_000),
            outcome: Some(Outcome::Complete),
            ..Dispatch::default()
        };
        let rows = lateness_us.iter().map(row).collect();
        Walked {
            rows,
            gaps: latency::Gaps::default(),
            zero_us: 0,
            duration_us: 0,
            stopped,
            findings: Vec::new(),
        }
    }

    fn judged(walked: &Walked, cap: Option<usize>) -> (Run, Option<u8>) {
        let run = run(
            &Manifest::default(),
            walked,
            Duration::from_millis(100),
            cap,
        );
        let ended = end(Path::new("r"), &run, walked.stopped.as_ref());
        (run, ended.err().map(|error| error.blame().exit_code()))
    }

    #[test]
    fn a_run_that_was_held_back_is_invalid_and_says_by_what() {
        let late_us: Vec<i64> = (0..8).map(|i| i * 400_000).collect();
        let (run, code) = judged(&walked(&late_us, None), Some(1));
        assert_eq!((run.validity.as_str(), code), (INVALID, Some(74)));
        assert_eq!(
            run.validity_reasons,
            [
                "lateness p99 is 2772.0 ms, above --lateness-p99-max 100ms; --max-in-flight 1 holds requests back"
            ]
        );
        assert_eq!(run.summary["schedule_kept"], false);
    }

    #[test]
    fn every_turn_is_in_the_step_that_it_was_due_in() {
        let row = |due_us| Dispatch {
            due_us,
            ..Dispatch::default()
        };
        let rows = [0, 9, 10, 19, 25].map(row);
        let step = |rate_scale, from_us, to_us| arrivals::Step {
            rate_scale,
            from_us,
            to_us,
        };
        let told = steps(&[step(1.0, 0, 10), step(2.0, 10, 20)], &rows);
        let due = told
            .iter()
            .map(|step| step.summary["requests"]["due"].as_u64());
        assert_eq!(due.collect::<Vec<_>>(), [Some(2), Some(3)]);
        assert!(steps(&[], &rows).is_empty());
    }

    #[test]
    fn a_run_ends_as_it_was_stopped() {
        let trip = |reason: &'static str| {
            Some(Trip {
                reason,
                problem: "why".into(),
            })
        };
        let cases = [
            (None, VALID, None),
            (trip(reason::STOPPED), STOPPED, Some(75)),
            (trip(reason::ERROR_RATE), STOPPED, Some(69)),
        ];
        let late = walked(&[9_000_000], trip(reason::STOPPED));
        let (run, code) = judged(&late, None);
        assert_eq!((run.validity.as_str(), code), (STOPPED, Some(75)));
        assert_eq!(run.validity_reasons.len(), 2);
        for (stopped, validity, expected) in cases {
            let (run, code) = judged(&walked(&[50], stopped), None);
            assert_eq!((run.validity.as_str(), code), (validity, expected));
            assert!(run.account.balances());
        }
    }
}
