//! Cached tokens, as the target's own counters tell them, beside what its answers told.

use super::Log;
use super::cache::{CACHED_POINTS, cached_missing, cached_share};
use crate::grade::draft::{Draft, Unit};
use truetape_schemas::report::{Dimension, Direction, Level};

/// Prompt tokens by the counters, against those of the run's answers: more is company.
const COMPANY: f64 = 0.05;

/// Compares two witnesses of one thing. Absent where the target was not asked for its counters.
pub(super) fn dimension(log: &Log<'_>) -> Option<Dimension> {
    let counters = log.run.counters.as_ref()?;
    let counted = counters.cached_share();
    let told = cached_share(log);
    let missing = cached_missing(log);
    let prompts: f64 = log
        .answers()
        .filter_map(|(dispatch, _)| dispatch.input_tokens)
        .map(|tokens| tokens as f64)
        .sum();
    let seen = counters.queried_tokens.or(counters.prompt_tokens);
    let company = seen.filter(|seen| prompts * (1.0 + COMPANY) < *seen);
    let off = counted
        .zip(told)
        .map_or(0.0, |(counted, told)| (counted - told).abs());
    let draft = Draft::new(
        "run.cached_tokens.counters",
        "cached share of the prompts by the target's counters, against its answers",
        Unit::RatioPoints,
        CACHED_POINTS,
    )
    .compare(counted, told)
    .direction(Direction::Neutral)
    .unknown_if(counted.is_none(), || {
        "the target has no counters of what it took from its cache".to_owned()
    })
    .unknown_if(company.is_some(), || {
        format!(
            "the target counted {:.0} prompt tokens and the run's answers {prompts:.0}: others use \
             it too, or requests failed",
            company.unwrap_or_default()
        )
    })
    .unknown_if(missing.is_some(), || missing.clone().unwrap_or_default())
    .unknown_if(off > CACHED_POINTS, || {
        "the target's counters and its answers disagree".to_owned()
    });
    Some(draft.finish(Level::RunAgainstSet))
}
