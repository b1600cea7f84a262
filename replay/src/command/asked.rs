//! What the target takes, asked before the run.

use crate::body::{can_enforce, can_salt, can_send};
use crate::cli::{Output, ReplayArgs};
use crate::client::Client;
use crate::error::Error;
use crate::isolation::{self, Salting};
use crate::load::Loaded;
use crate::probe_target::{self, Probed, Sample, Takes};
use truetape_schemas::set::Turn;
use truetape_schemas::wire::Dialect;

/// What the target takes, and what that means.
pub(super) struct Asked {
    pub(super) takes: Takes,
    /// None where no salt is wanted.
    pub(super) salting: Option<Salting>,
    pub(super) findings: Vec<String>,
}

/// Finds out what the target takes, as far as the run needs to know. A salt that it takes and ignores
/// counts as refused.
pub(super) async fn takes(
    args: &ReplayArgs,
    client: &Client,
    headers: &http::HeaderMap,
    set: &Loaded,
    probed: &Probed,
    salt: Option<&str>,
) -> Result<Asked, Error> {
    let wanted = Takes {
        lengths: args.output == Output::Enforce,
        salt: salt.is_some(),
    };
    let Some(first) = example(&set.turns).filter(|_| !args.no_probe) else {
        let finding =
            "probe: skipped: that lengths are enforced and the cache is salted is assumed";
        return Ok(Asked {
            takes: wanted,
            salting: wanted.salt.then_some(Salting::NotProbed),
            findings: vec![finding.to_owned()],
        });
    };
    let served = first
        .model
        .as_ref()
        .filter(|model| probed.engine.models.contains(model));
    let model = args
        .model
        .as_ref()
        .or(served)
        .or(probed.engine.models.first());
    // A salt of its own: the question must not warm the cache of the run.
    let own_salt = format!("probe-{}", salt.unwrap_or_default());
    let sample = Sample {
        path: &first.path,
        dialect: Dialect::from_name(&first.dialect),
        model: model.or(first.model.as_ref()).map(String::as_str),
        salt: &own_salt,
        text: "ping",
        tokens: 1,
    };
    let mut takes = probe_target::takes(client, headers, &sample, wanted).await?;
    let mut findings = Vec::new();
    if wanted.salt && !takes.salt {
        findings.push(
            "cache: the target refuses cache_salt: prefixes of earlier runs may be reused (optimistic)"
                .to_owned(),
        );
    }
    let mut salting = None;
    if takes.salt && can_salt(sample.dialect) {
        let nonce = truetape_schemas::ids::new_exchange_id();
        let found = isolation::verify(client, headers, &sample, takes, &nonce).await?;
        findings.extend(found.finding().map(str::to_owned));
        takes.salt = found != Salting::Ignored;
        salting = Some(found);
    }
    Ok(Asked {
        takes,
        salting,
        findings,
    })
}

/// The turn whose like is asked: the first whose dialect has a field for all that is to be found out,
/// else the first that can be sent at all.
fn example(turns: &[Turn]) -> Option<&Turn> {
    let with = |says: fn(Dialect) -> bool| {
        let mut turns = turns.iter();
        turns.find(|turn| says(Dialect::from_name(&turn.dialect)))
    };
    with(|dialect| can_send(dialect) && can_salt(dialect) && can_enforce(dialect))
        .or_else(|| with(can_send))
}
