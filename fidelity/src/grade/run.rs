//! What came back: completeness, lengths, cache, isolation.

use super::draft::{Draft, Unit};
use crate::latency::{answered, is_left_out, is_thinned};
use asked::Asked;
use std::collections::{HashMap, HashSet};
use truetape_schemas::capture::Outcome;
use truetape_schemas::report::{Dimension, Level};
use truetape_schemas::run::{Dispatch, Run};
use truetape_schemas::set::Turn;
use truetape_schemas::set::manifest::Manifest;

mod asked;
mod cache;
mod capacity;
mod counters;
mod isolation;
mod sides;
mod steady;
mod timing;
mod tokens;

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
            .filter(|(dispatch, _)| is_left_out(dispatch))
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

    /// Turns that were due in the run, and all of the set, where they are not the same.
    pub(super) fn part(&self) -> Option<(usize, usize)> {
        let (due, all) = (self.planned.len(), self.turns.len());
        (due < all).then_some((due, all))
    }

    /// Turns of sessions that were left out to lower the rate.
    fn thinned(&self) -> usize {
        let rows = self.rows.iter();
        rows.filter(|(dispatch, _)| is_thinned(dispatch)).count()
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
        let thinned = self.thinned();
        if thinned > 0 {
            findings.push(format!(
                "{thinned} of {} turns are of sessions that were left out to lower the rate, and the \
                 set's own report is about all of them",
                self.turns.len()
            ));
        }
        let after = self.turns.len() - self.planned.len() - thinned;
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
    dimensions.extend(counters::dimension(log));
    dimensions.extend(timing::dimensions(log));
    dimensions.push(capacity::dimension(log));
    dimensions.extend(isolation::dimensions(log));
    dimensions.extend(steady::dimensions(log));
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
    let left_out = log.turns.len() - log.planned.len();
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
    .note_if(left_out > log.thinned(), || {
        let after = left_out - log.thinned();
        format!("{after} turns after the run's duration are left out")
    })
    .note_if(log.thinned() > 0, || {
        let thinned = log.thinned();
        format!("{thinned} turns of sessions that were left out to lower the rate do not count")
    })
    .note_if(failed_before > 0, || {
        format!("{failed_before} turns that failed in production are left out")
    })
    .finish(Level::RunAgainstSet)
}
