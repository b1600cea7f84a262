//! What came back: completeness, lengths, cache, isolation.

use super::UNKNOWN_SHARE_MAX;
use super::draft::{Draft, Unit};
use crate::latency::answered;
use crate::prefix::hits_per_request;
use std::collections::HashMap;
use truetape_schemas::capture::Outcome;
use truetape_schemas::report::{Dimension, Level};
use truetape_schemas::run::{Dispatch, Run};
use truetape_schemas::set::Turn;
use truetape_schemas::set::manifest::Manifest;

/// Tolerances.
const COMPLETED: f64 = 0.005;
const TOKENS_RELATIVE: f64 = 0.01;
const WITHIN_1: f64 = 0.01;
const CACHED_POINTS: f64 = 0.02;

/// A run beside its set.
pub(super) struct Log<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) turns: &'a [Turn],
    pub(super) run: &'a Run,
    /// Dispatches with the turn each of them sent.
    pub(super) rows: Vec<(&'a Dispatch, &'a Turn)>,
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
        Self {
            manifest,
            turns,
            run,
            strays: dispatches.len() - rows.len(),
            rows,
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
        if !self.run.account.balances() {
            findings.push("the account of the run does not balance".to_owned());
        }
        findings
    }
}

/// Dimensions of what came back.
pub(super) fn dimensions(log: &Log<'_>) -> Vec<Dimension> {
    let mut dimensions = vec![set_digest(log), validity(log), completed(log)];
    dimensions.extend(output_tokens(log));
    dimensions.push(input_tokens(log));
    dimensions.push(cached_simulated(log));
    dimensions.extend(cached_recorded(log));
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
/// production may fail again; one that was not in the plan (a shortened run) counts as missing.
fn completed(log: &Log<'_>) -> Dimension {
    let whole = |turn: &Turn| turn.recorded_outcome == Outcome::Complete;
    let planned = log.turns.iter().filter(|turn| whole(turn)).count();
    let done = log.answers().filter(|(_, turn)| whole(turn)).count();
    let failed_before = log.turns.len() - planned;
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
    .note_if(failed_before > 0, || {
        format!("{failed_before} turns that failed in production are left out")
    })
    .finish(Level::RunAgainstSet)
}

/// Pairs of what was asked and what came, over answers; with how many answers lack the second.
struct Paired {
    pairs: Vec<(f64, f64)>,
    asked: usize,
    unknown: usize,
}

impl Paired {
    fn of(
        log: &Log<'_>,
        asked: impl Fn(&Dispatch, &Turn) -> Option<i64>,
        got: impl Fn(&Dispatch) -> Option<i64>,
    ) -> Self {
        let mut paired = Self {
            pairs: Vec::new(),
            asked: 0,
            unknown: 0,
        };
        for (dispatch, turn) in log.answers() {
            let Some(asked) = asked(dispatch, turn) else {
                continue;
            };
            paired.asked += 1;
            match got(dispatch) {
                Some(got) => paired.pairs.push((asked as f64, got as f64)),
                None => paired.unknown += 1,
            }
        }
        paired
    }

    fn ratio(&self) -> (Option<f64>, Option<f64>) {
        let known = !self.pairs.is_empty();
        let asked = known.then(|| self.pairs.iter().map(|(asked, _)| asked).sum());
        (
            known.then(|| self.pairs.iter().map(|(_, got)| got).sum()),
            asked,
        )
    }

    /// Missing usage is UNKNOWN, never a length of zero.
    fn guard(&self, draft: Draft) -> Draft {
        draft
            .unknown_if(self.asked == 0, || {
                "no answer has a length to compare with".to_owned()
            })
            .unknown_if(
                self.unknown as f64 > UNKNOWN_SHARE_MAX * self.asked as f64,
                || {
                    format!(
                        "the target reported no usage for {} of {} answers",
                        self.unknown, self.asked
                    )
                },
            )
    }
}

/// An answer that production cut short has no length to enforce.
fn output_asked(dispatch: &Dispatch, turn: &Turn) -> Option<i64> {
    dispatch
        .output_tokens_asked
        .or(turn.output_tokens)
        .filter(|_| turn.recorded_outcome == Outcome::Complete)
}

fn output_tokens(log: &Log<'_>) -> Vec<Dimension> {
    let paired = Paired::of(log, output_asked, |dispatch| dispatch.output_tokens);
    let (got, asked) = paired.ratio();
    let close = paired
        .pairs
        .iter()
        .filter(|(asked, got)| (asked - got).abs() <= 1.0)
        .count();
    let close = (!paired.pairs.is_empty()).then(|| close as f64 / paired.pairs.len() as f64);
    let enforced = log
        .rows
        .iter()
        .filter(|(d, _)| d.enforcement == "enforce")
        .count();
    let loose = log.rows.len() - enforced;
    let note = || {
        format!(
            "the length of {loose} of {} answers was not enforced",
            log.rows.len()
        )
    };
    let ratio = Draft::new(
        "run.output_tokens.ratio",
        "generated tokens against the set's",
        Unit::Relative,
        TOKENS_RELATIVE,
    )
    .compare(got, asked)
    .note_if(loose > 0, note);
    let within = Draft::new(
        "run.output_tokens.within_1",
        "answers within one token of the set's",
        Unit::Share,
        WITHIN_1,
    )
    .compare(close, close.map(|_| 1.0))
    .direction(match got.zip(asked) {
        Some((got, asked)) => crate::direction::of(
            "run.output_tokens.ratio",
            Some(Unit::Relative.deviation(got, asked)),
            TOKENS_RELATIVE,
        ),
        None => truetape_schemas::report::Direction::Unknown,
    });
    [ratio, within]
        .map(|draft| paired.guard(draft).finish(Level::RunAgainstSet))
        .to_vec()
}

fn input_tokens(log: &Log<'_>) -> Dimension {
    let asked = |d: &Dispatch, turn: &Turn| d.input_tokens_asked.or(turn.input_tokens);
    let paired = Paired::of(log, asked, |dispatch| dispatch.input_tokens);
    let (got, asked) = paired.ratio();
    let draft = Draft::new(
        "run.input_tokens.ratio",
        "prompt tokens as the target counted them, against the set's",
        Unit::Relative,
        TOKENS_RELATIVE,
    )
    .compare(got, asked);
    paired.guard(draft).finish(Level::RunAgainstSet)
}

/// Share of prompt tokens that the target took from its cache.
fn cached_share(log: &Log<'_>) -> Option<f64> {
    let sum = |of: fn(&Dispatch) -> Option<i64>| {
        let known = log
            .answers()
            .filter(|(d, _)| d.cached_tokens.and(d.input_tokens).is_some());
        known.filter_map(|(d, _)| of(d)).sum::<i64>() as f64
    };
    let inputs = sum(|dispatch| dispatch.input_tokens);
    (inputs > 0.0).then(|| sum(|dispatch| dispatch.cached_tokens) / inputs)
}

fn cached_missing(log: &Log<'_>) -> Option<String> {
    let answers = log.answers().count();
    let silent = log
        .answers()
        .filter(|(d, _)| d.cached_tokens.is_none())
        .count();
    (silent as f64 > UNKNOWN_SHARE_MAX * answers as f64 || answers == 0)
        .then(|| format!("the target reported no cached tokens for {silent} of {answers} answers"))
}

/// Cached tokens against a simulated cache without bound, over the turns in the order they were
/// sent. The simulation is an upper bound: a target that reports more has seen these prompts
/// before; one that reports less may simply have a smaller cache. Blocks finer than the set's can
/// add up to a block to each prompt.
fn cached_simulated(log: &Log<'_>) -> Dimension {
    let mut rows: Vec<&(&Dispatch, &Turn)> = log.answers().collect();
    rows.sort_by_key(|(dispatch, _)| dispatch.sent_us);
    let empty: &[u64] = &[];
    let blocks = |turn: &Turn| turn.block_hashes.as_ref().map_or(0, Vec::len);
    let hashed = !rows.is_empty() && rows.iter().all(|(_, turn)| blocks(turn) > 0);
    let requests = rows
        .iter()
        .map(|(_, turn)| turn.block_hashes.as_deref().unwrap_or(empty));
    let hits: u64 = hits_per_request(requests, None)
        .into_iter()
        .map(u64::from)
        .sum();
    let inputs: i64 = rows.iter().filter_map(|(_, turn)| turn.input_tokens).sum();
    let block = f64::from(log.manifest.block_tokens.unwrap_or(0));
    let simulated =
        (hashed && inputs > 0 && block > 0.0).then(|| hits as f64 * block / inputs as f64);
    let slack = if inputs > 0 {
        rows.len() as f64 * block / inputs as f64
    } else {
        0.0
    };
    let share = cached_share(log);
    let below = share
        .zip(simulated)
        .is_some_and(|(share, simulated)| share < simulated);
    let missing = cached_missing(log);
    let draft = Draft::new(
        "run.cached_tokens.simulated",
        "cached share of the prompts, against a cache without bound",
        Unit::RatioPoints,
        CACHED_POINTS,
    )
    .compare(share, simulated)
    .unknown_if(missing.is_some(), || missing.clone().unwrap_or_default())
    .unknown_if(!hashed || block <= 0.0, || {
        "the set has no block hashes".to_owned()
    });
    let draft = match simulated {
        Some(_) if below => draft
            .target_between(0.0, simulated.unwrap_or(0.0))
            .note("the target's capacity is not known, and a smaller cache holds less"),
        Some(simulated) => draft.target_between(simulated, simulated + slack).note(
            "a cache of finer blocks than the set's may hold up to a block more of each prompt",
        ),
        None => draft,
    };
    draft.finish(Level::RunAgainstSet)
}

/// Cached tokens against what production's server reported, where it did. The two caches need not
/// be of one size, so a difference is information, and only reuse that no simulation explains is
/// judged (see [`cached_simulated`]).
fn cached_recorded(log: &Log<'_>) -> Option<Dimension> {
    let both = |turn: &&Turn| turn.cached_tokens.is_some() && turn.input_tokens.is_some();
    let recorded: Vec<&Turn> = log.turns.iter().filter(both).collect();
    let inputs: i64 = recorded.iter().filter_map(|turn| turn.input_tokens).sum();
    if inputs == 0 || (recorded.len() as f64) < (1.0 - UNKNOWN_SHARE_MAX) * log.turns.len() as f64 {
        return None;
    }
    let cached: i64 = recorded.iter().filter_map(|turn| turn.cached_tokens).sum();
    let missing = cached_missing(log);
    let share = cached_share(log);
    let target = cached as f64 / inputs as f64;
    let off = share.map_or(0.0, |share| (share - target).abs());
    Some(
        Draft::new(
            "run.cached_tokens.recorded",
            "cached share of the prompts, against production's",
            Unit::RatioPoints,
            CACHED_POINTS,
        )
        .compare(share, Some(target))
        .unknown_if(missing.is_some(), || missing.clone().unwrap_or_default())
        .unknown_if(off > CACHED_POINTS, || {
            "production's cache and the target's differ; whether in size or in what they held \
             cannot be told"
                .to_owned()
        })
        .finish(Level::RunAgainstSet),
    )
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
