//! What came back: completeness, lengths, cache, isolation.

use super::draft::{Draft, Unit};
use crate::latency::answered;
use std::collections::{HashMap, HashSet};
use truetape_schemas::capture::Outcome;
use truetape_schemas::report::{Dimension, Level};
use truetape_schemas::run::{Dispatch, Run};
use truetape_schemas::set::Turn;
use truetape_schemas::set::manifest::Manifest;

mod cache;
mod timing;
mod tokens;

/// Why a dispatch was not sent when the user asked for the beginning of the set only: a window of
/// the set, and no failure.
const AFTER_DURATION: &str = "after_duration";

/// Tolerance of the answers that may be missing.
const COMPLETED: f64 = 0.005;

/// A run beside its set.
pub(super) struct Log<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) turns: &'a [Turn],
    pub(super) run: &'a Run,
    /// Dispatches with the turn each of them sent.
    pub(super) rows: Vec<(&'a Dispatch, &'a Turn)>,
    /// Turns that the run was meant to send: all of the set's, or those before its `--duration`.
    pub(super) planned: Vec<&'a Turn>,
    /// Dispatches of turns that the set does not have.
    strays: usize,
}

impl<'a> Log<'a> {
    pub(super) fn new(
        manifest: &'a Manifest,
        turns: &'a [Turn],
        run: &'a Run,
        dispatches: &'a [Dispatch],
    ) -> Self {
        let by_id: HashMap<i64, &Turn> = turns.iter().map(|turn| (turn.turn_id, turn)).collect();
        let rows: Vec<(&Dispatch, &Turn)> = dispatches
            .iter()
            .filter_map(|dispatch| Some((dispatch, *by_id.get(&dispatch.turn_id)?)))
            .collect();
        let left_out: HashSet<i64> = rows
            .iter()
            .filter(|(dispatch, _)| dispatch.not_sent_reason.as_deref() == Some(AFTER_DURATION))
            .map(|(dispatch, _)| dispatch.turn_id)
            .collect();
        let planned = turns
            .iter()
            .filter(|turn| !left_out.contains(&turn.turn_id))
            .collect();
        let strays = dispatches.len() - rows.len();
        Self {
            manifest,
            turns,
            run,
            rows,
            planned,
            strays,
        }
    }

    fn answers(&self) -> impl Iterator<Item = &(&'a Dispatch, &'a Turn)> {
        self.rows.iter().filter(|(dispatch, _)| answered(dispatch))
    }

    /// A flag of the run, as text; `as-is` and `as_is` are the same.
    fn flag(&self, name: &str) -> Option<String> {
        let value = self.run.flags.get(name)?;
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        Some(text.replace('-', "_").to_lowercase())
    }

    /// Things that make a run hard to trust.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if self.strays > 0 {
            findings.push(format!(
                "{} dispatches are of turns that the set does not have",
                self.strays
            ));
        }
        let after = self.turns.len() - self.planned.len();
        if after > 0 {
            findings.push(format!(
                "the run is the beginning of the set: {after} of {} turns are after its duration, and \
                 the set's own report is about all of them",
                self.turns.len()
            ));
        }
        if !self.run.account.balances() {
            findings.push("the account of the run does not balance".to_owned());
        }
        findings
    }
}

/// Dimensions of level 2.
pub(super) fn dimensions(log: &Log<'_>) -> Vec<Dimension> {
    let mut dimensions = vec![set_digest(log), validity(log), completed(log)];
    dimensions.extend(tokens::dimensions(log));
    dimensions.extend(cache::dimensions(log));
    dimensions.extend(timing::dimensions(log));
    dimensions.extend(isolation(log));
    dimensions
}

fn yes(is: bool) -> Option<f64> {
    Some(if is { 1.0 } else { 0.0 })
}

fn set_digest(log: &Log<'_>) -> Dimension {
    let same = log.run.set_digest == log.manifest.digest;
    Draft::new("run.set", "the run is of this set", Unit::Share, 0.0)
        .compare(yes(same), Some(1.0))
        .note_if(!same, || {
            format!("the run is of set {}", log.run.set_digest)
        })
        .finish(Level::RunAgainstSet)
}

fn validity(log: &Log<'_>) -> Dimension {
    let validity = log.run.validity.as_str();
    let draft = Draft::new("run.validity", "the replayer kept up", Unit::Share, 0.0)
        .compare(yes(validity == "valid"), Some(1.0))
        .unknown_if(validity != "valid" && validity != "invalid", || {
            format!("the run is {validity}")
        });
    let draft = log
        .run
        .validity_reasons
        .iter()
        .fold(draft, |draft, reason| draft.note(reason));
    draft.finish(Level::RunAgainstSet)
}

/// Turns of the set that were answered, of those that production answered. A turn that failed in
/// production may fail again; one after the run's duration was not asked for.
fn completed(log: &Log<'_>) -> Dimension {
    let whole = |turn: &Turn| turn.recorded_outcome == Outcome::Complete;
    let planned = log.planned.iter().filter(|turn| whole(turn)).count();
    let done = log.answers().filter(|(_, turn)| whole(turn)).count();
    let failed_before = log.planned.len() - planned;
    let after = log.turns.len() - log.planned.len();
    Draft::new(
        "run.completed",
        "turns of the set that were answered",
        Unit::Share,
        COMPLETED,
    )
    .compare(
        (planned > 0).then(|| done as f64 / planned as f64),
        Some(1.0),
    )
    .unknown_if(planned == 0, || {
        "no turn of the set was answered in production".to_owned()
    })
    .note_if(after > 0, || {
        format!("{after} turns after the run's duration are left out")
    })
    .note_if(failed_before > 0, || {
        format!("{failed_before} turns that failed in production are left out")
    })
    .finish(Level::RunAgainstSet)
}

fn isolation(log: &Log<'_>) -> Vec<Dimension> {
    let cache = log.flag("cache");
    let clean = matches!(cache.as_deref(), Some("salted" | "flush" | "flushed"));
    let cache_known = cache.is_some();
    let cache_text = cache.unwrap_or_else(|| "not stated".to_owned());
    let captured: Vec<&str> = log
        .turns
        .iter()
        .map(|turn| authority(&turn.upstream))
        .collect();
    let known = captured.iter().any(|upstream| !upstream.is_empty());
    let origin = captured.contains(&authority(&log.run.target));
    vec![
        Draft::new(
            "run.isolation.cache",
            "nothing is cached from earlier runs",
            Unit::Share,
            0.0,
        )
        .compare(
            cache_known.then_some(if clean { 1.0 } else { 0.0 }),
            Some(1.0),
        )
        .unknown_if(!clean, || {
            format!("cache mode is {cache_text}; salted and flush are clean")
        })
        .finish(Level::RunAgainstSet),
        Draft::new(
            "run.isolation.origin",
            "the target is not what was recorded",
            Unit::Share,
            0.0,
        )
        .compare(yes(!origin), Some(1.0))
        .unknown_if(!known, || {
            "the set does not name what was recorded".to_owned()
        })
        .note_if(origin, || {
            "the run went to the server that the set was captured from".to_owned()
        })
        .finish(Level::RunAgainstSet),
    ]
}

/// Host and port of a URL, or what stands for them.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}
