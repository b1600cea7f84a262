//! Cached tokens, as the target reported them.

use super::Log;
use crate::grade::UNKNOWN_SHARE_MAX;
use crate::grade::draft::{Draft, Unit};
use crate::latency::answered;
use crate::prefix::{hits_per_request, saved_tokens};
use std::collections::HashMap;
use truetape_schemas::report::{Dimension, Direction, Level};
use truetape_schemas::run::Dispatch;
use truetape_schemas::set::Turn;

/// Tolerance of the cached share.
pub(super) const CACHED_POINTS: f64 = 0.02;

/// Dimensions of cached tokens.
pub(super) fn dimensions(log: &Log<'_>) -> Vec<Dimension> {
    let mut dimensions = vec![cached_simulated(log)];
    dimensions.extend(cached_recorded(log));
    dimensions
}

/// Share of prompt tokens that the target took from its cache.
pub(super) fn cached_share(log: &Log<'_>) -> Option<f64> {
    let sum = |of: fn(&Dispatch) -> Option<i64>| {
        let known = log
            .answers()
            .filter(|(d, _)| d.cached_tokens.and(d.input_tokens).is_some());
        tokens(known.filter_map(|(d, _)| of(d)))
    };
    let inputs = sum(|dispatch| dispatch.input_tokens);
    (inputs > 0.0).then(|| sum(|dispatch| dispatch.cached_tokens) / inputs)
}

pub(super) fn cached_missing(log: &Log<'_>) -> Option<String> {
    let answers = log.answers().count();
    let silent = log
        .answers()
        .filter(|(d, _)| d.cached_tokens.is_none())
        .count();
    (silent as f64 > UNKNOWN_SHARE_MAX * answers as f64 || answers == 0)
        .then(|| format!("the target reported no cached tokens for {silent} of {answers} answers"))
}

/// Adds up token counts.
fn tokens(counts: impl Iterator<Item = i64>) -> f64 {
    counts.map(|count| count as f64).sum()
}

fn input(turn: &Turn) -> u64 {
    let tokens = turn.input_tokens.and_then(|t| u64::try_from(t).ok());
    tokens.unwrap_or(0)
}

/// What a cache without bound holds of the prompts that were answered, in tokens.
struct Held {
    /// At least: blocks that earlier prompts brought.
    least: f64,
    /// At most: what the target generated for a turn's parent is cached too, where it says again
    /// what production's server said. Blocks finer than the set's can add up to a block to each
    /// prompt; blocks of the set's own size, only what completes them.
    most: f64,
    /// Tokens of these prompts.
    inputs: f64,
    /// Whether there are blocks to simulate with.
    hashed: bool,
    /// Whether the target says that its blocks are of the set's size.
    same_blocks: bool,
}

impl Held {
    /// Runs the cache over everything that was sent, in that order: the prompt of an exchange that
    /// failed may be cached as well.
    fn of(log: &Log<'_>) -> Self {
        let mut rows: Vec<&(&Dispatch, &Turn)> = log
            .rows
            .iter()
            .filter(|(dispatch, _)| dispatch.sent_us.is_some())
            .collect();
        rows.sort_by_key(|(dispatch, _)| dispatch.sent_us);
        let block = u64::from(log.manifest.block_tokens.unwrap_or(0));
        let blocks = |turn: &Turn| turn.block_hashes.as_ref().map_or(0, Vec::len);
        let hashed = 0 < block && !rows.is_empty() && rows.iter().all(|(_, t)| blocks(t) > 0);
        let requests = rows
            .iter()
            .map(|(_, turn)| turn.block_hashes.as_deref().unwrap_or_default());
        let said: HashMap<i64, (u64, u64)> = rows
            .iter()
            .map(|(dispatch, turn)| (turn.turn_id, (input(turn), generated(dispatch, turn))))
            .collect();
        let of_target = log
            .run
            .engine
            .block_tokens
            .and_then(|n| u64::try_from(n).ok());
        let same_blocks = of_target == Some(block);
        let mut held = Self {
            least: 0.0,
            most: 0.0,
            inputs: 0.0,
            hashed,
            same_blocks,
        };
        for (hits, (dispatch, turn)) in hits_per_request(requests, None).into_iter().zip(&rows) {
            if !answered(dispatch) {
                continue;
            }
            let input = input(turn);
            let least = saved_tokens(input, block, u64::from(hits));
            let parent = turn.parent.and_then(|parent| said.get(&parent).copied());
            let most = match parent {
                Some((prompt, answer)) if same_blocks => saved_tokens(
                    input,
                    block,
                    (prompt + answer).checked_div(block).unwrap_or(0),
                ),
                None if same_blocks => least,
                parent => least + parent.map_or(0, |(_, answer)| answer) + block,
            };
            held.inputs += input as f64;
            held.least += least as f64;
            held.most += most.min(input).max(least) as f64;
        }
        held
    }

    /// The interval of the cached share.
    fn shares(&self) -> Option<(f64, f64)> {
        let known = self.hashed && self.inputs > 0.0;
        known.then(|| (self.least / self.inputs, self.most / self.inputs))
    }
}

/// Tokens that the target generated, or was to generate where it did not say.
fn generated(dispatch: &Dispatch, turn: &Turn) -> u64 {
    let tokens = dispatch.output_tokens.or(turn.output_tokens);
    tokens.and_then(|t| u64::try_from(t).ok()).unwrap_or(0)
}

/// Cached tokens against a simulated cache without bound. What such a cache holds lies in an
/// interval: a target that reports more has seen these prompts before; one that reports less may
/// simply have a smaller cache; inside, nothing speaks for either.
fn cached_simulated(log: &Log<'_>) -> Dimension {
    let held = Held::of(log);
    let shares = held.shares();
    let share = cached_share(log);
    let missing = cached_missing(log);
    let draft = Draft::new(
        "run.cached_tokens.simulated",
        "cached share of the prompts, against a cache without bound",
        Unit::RatioPoints,
        CACHED_POINTS,
    )
    .compare(share, shares.map(|(least, _)| least))
    .unknown_if(missing.is_some(), || missing.clone().unwrap_or_default())
    .unknown_if(!held.hashed, || "the set has no block hashes".to_owned());
    let draft = match (share, shares) {
        (Some(share), Some((least, _))) if share < least => draft
            .target_between(0.0, least)
            .note("the target's capacity is not known, and a smaller cache holds less"),
        (Some(share), Some((least, most))) => {
            let draft = draft.target_between(least, most).note(format!(
                "with what the target generates{}, up to {:.1} % may be cached",
                if held.same_blocks {
                    ""
                } else {
                    ", and with finer blocks"
                },
                most * 100.0
            ));
            if share <= most {
                draft.direction(Direction::Neutral)
            } else {
                draft
            }
        }
        _ => draft,
    };
    draft.finish(Level::RunAgainstSet)
}

/// Cached tokens against what production's server reported, where it did. The two caches need not
/// be of one size, so a difference is information, and only reuse that no simulation explains is
/// judged (see [`cached_simulated`]).
fn cached_recorded(log: &Log<'_>) -> Option<Dimension> {
    let both = |turn: &&Turn| turn.cached_tokens.is_some() && turn.input_tokens.is_some();
    let recorded: Vec<&Turn> = log.turns.iter().filter(both).collect();
    let inputs = tokens(recorded.iter().filter_map(|turn| turn.input_tokens));
    if inputs <= 0.0 || (recorded.len() as f64) < (1.0 - UNKNOWN_SHARE_MAX) * log.turns.len() as f64
    {
        return None;
    }
    let cached = tokens(recorded.iter().filter_map(|turn| turn.cached_tokens));
    let missing = cached_missing(log);
    let share = cached_share(log);
    let target = cached / inputs;
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
