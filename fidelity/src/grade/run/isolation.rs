//! Isolation: what the cache knew before the run, and whom the run was sent to.

use super::{Log, yes};
use crate::grade::draft::{Draft, Unit};
use truetape_schemas::report::{Dimension, Level};

/// Dimensions of isolation.
pub(super) fn dimensions(log: &Log<'_>) -> [Dimension; 2] {
    [cache(log), origin(log)]
}

/// A clean cache passes on evidence only: a flush that the target answered (the run would not exist
/// without), or a salt that was seen to be honoured.
fn cache(log: &Log<'_>) -> Dimension {
    let mode = log.flag("cache");
    let verified = log.flag("cache_verified");
    let draft = Draft::new(
        "run.isolation.cache",
        "nothing is cached from earlier runs",
        Unit::Share,
        0.0,
    );
    let clean = || draft.clone().compare(Some(1.0), Some(1.0));
    let dimension = match (mode.as_deref(), verified.as_deref()) {
        (Some("flush" | "flushed"), _) | (Some("salted"), Some("honoured")) => clean(),
        (Some("salted"), Some("partly")) => draft
            .compare(Some(0.0), Some(1.0))
            .unknown_if(true, || "some turns have no field for a salt".to_owned())
            .note("OPTIMISTIC for those: they may find prompts of earlier runs"),
        (Some("salted"), verified) => {
            let why = match verified {
                Some("unverified") => "was asked about, and what the target reports does not tell",
                Some("not_probed") => "was not asked about",
                _ => "is not stated",
            };
            draft
                .compare(Some(0.0), Some(1.0))
                .unknown_if(true, || {
                    format!("whether the target honours cache_salt {why}")
                })
                .note("OPTIMISTIC if it does not: prompts of earlier runs are then cached")
        }
        // Nobody kept earlier runs out; whether there were any is not known.
        (Some("as_is"), _) => draft
            .compare(Some(0.0), Some(1.0))
            .target_between(0.0, 1.0)
            .note("cache mode is as_is; salted and flush are clean"),
        (mode, _) => draft.unknown_if(true, || {
            format!(
                "cache mode is {}; salted and flush are clean",
                mode.unwrap_or("not stated")
            )
        }),
    };
    dimension.finish(Level::RunAgainstSet)
}

/// The replayer compares resolved addresses and says so; without its word, names are compared.
fn origin(log: &Log<'_>) -> Dimension {
    let stated = log.run.flags.get("captured_origin");
    let stated = stated.and_then(serde_json::Value::as_bool);
    let captured: Vec<&str> = log
        .turns
        .iter()
        .map(|turn| authority(&turn.upstream))
        .collect();
    let known = stated.is_some() || captured.iter().any(|upstream| !upstream.is_empty());
    let origin = stated.unwrap_or_else(|| captured.contains(&authority(&log.run.target)));
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
    .finish(Level::RunAgainstSet)
}

/// Host and port of a URL, or what stands for them.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}
