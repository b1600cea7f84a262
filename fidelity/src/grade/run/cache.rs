//! Cached tokens, as the target reported them.

use super::Log;
use crate::grade::UNKNOWN_SHARE_MAX;
use crate::grade::draft::{Draft, Unit};
use crate::prefix::hits_per_request;
use truetape_schemas::report::{Dimension, Level};
use truetape_schemas::run::Dispatch;
use truetape_schemas::set::Turn;

/// Tolerance of the cached share.
const CACHED_POINTS: f64 = 0.02;

/// Dimensions of cached tokens.
pub(super) fn dimensions(log: &Log<'_>) -> Vec<Dimension> {
    let mut dimensions = vec![cached_simulated(log)];
    dimensions.extend(cached_recorded(log));
    dimensions
}

/// Share of prompt tokens that the target took from its cache.
fn cached_share(log: &Log<'_>) -> Option<f64> {
    let sum = |of: fn(&Dispatch) -> Option<i64>| {
        let known = log
            .answers()
            .filter(|(d, _)| d.cached_tokens.and(d.input_tokens).is_some());
        tokens(known.filter_map(|(d, _)| of(d)))
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

/// Adds up token counts.
fn tokens(counts: impl Iterator<Item = i64>) -> f64 {
    counts.map(|count| count as f64).sum()
}

/// Tokens that so many hits save: whole blocks, and never the last token, which must be computed.
fn cacheable(turn: &Turn, block: u64, hits: u64) -> u64 {
    let input = turn
        .input_tokens
        .and_then(|tokens| u64::try_from(tokens).ok())
        .unwrap_or(0);
    let whole = input.saturating_sub(1).checked_div(block).unwrap_or(0);
    hits.min(whole) * block
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
    let block = u64::from(log.manifest.block_tokens.unwrap_or(0));
    let held: f64 = hits_per_request(requests, None)
        .into_iter()
        .zip(&rows)
        .map(|(hits, (_, turn))| cacheable(turn, block, u64::from(hits)) as f64)
        .sum();
    let inputs = tokens(rows.iter().filter_map(|(_, turn)| turn.input_tokens));
    let simulated = (hashed && inputs > 0.0 && block > 0).then(|| held / inputs);
    let block = block as f64;
    let slack = if inputs > 0.0 {
        rows.len() as f64 * block / inputs
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
