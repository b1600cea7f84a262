//! Whether the target honours `cache_salt`: a server that takes it and does nothing with it makes a
//! second run of a set look better than the first.
//!
//! Requests of one token with the same fresh prompt: the second has the salt of the first and must
//! find its prefix cached, else nothing can be said; two more have other salts and must not.
//!
//! There is a pause before each: a server that keeps a prefix with a slot (llama.cpp) still holds
//! the slot for a moment after it answered, and would be asked what it cannot show.

use crate::client::{Client, Exchanged};
use crate::error::Error;
use crate::probe_target::{Sample, Takes, question};
use std::time::Duration;
use truetape_schemas::capture::Outcome;

/// How often the nonce stands in the prompt: 64 times 37 bytes, several blocks of any engine.
const NONCE_REPEATS: usize = 64;

/// Times that the prefix of the first request is looked for.
const TRIES: usize = 3;

/// Before each request: a slot is let go within milliseconds of the end of its answer.
const PAUSE: Duration = Duration::from_millis(100);

/// What was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Salting {
    /// Another salt finds nothing.
    Honoured,
    /// The same, and some turns have no field for a salt.
    Partly,
    /// Another salt finds what it must not.
    Ignored,
    /// The target does not say what it took from its cache, or has none.
    Unverified,
    /// It was not asked.
    NotProbed,
}

impl Salting {
    /// The word in the flag `cache_verified`; none where the run is not salted.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Honoured => Some("honoured"),
            Self::Partly => Some("partly"),
            Self::Ignored => None,
            Self::Unverified => Some("unverified"),
            Self::NotProbed => Some("not_probed"),
        }
    }

    /// The same of a run in which `unsalted` of `sent` requests have no field for a salt; none when
    /// all of them.
    pub fn of_run(self, unsalted: usize, sent: usize) -> Option<Self> {
        match self {
            _ if unsalted == sent => None,
            Self::Honoured if unsalted != 0 => Some(Self::Partly),
            other => Some(other),
        }
    }

    /// What a user should know.
    pub fn finding(self) -> Option<&'static str> {
        match self {
            // That nothing was asked is a finding of its own, and so is what a dialect cannot say.
            Self::Honoured | Self::Partly | Self::NotProbed => None,
            Self::Ignored => Some(
                "cache: the target ignores cache_salt: prefixes of earlier runs may be reused (optimistic)",
            ),
            Self::Unverified => Some(
                "cache: the target reports no cached tokens: whether it honours cache_salt is unknown",
            ),
        }
    }
}

/// Asks the target. `nonce` must be new, so that no earlier question has cached the prompt.
pub async fn verify(
    client: &Client,
    headers: &http::HeaderMap,
    sample: &Sample<'_>,
    takes: Takes,
    nonce: &str,
) -> Result<Salting, Error> {
    let text = format!("{nonce} ").repeat(NONCE_REPEATS);
    let ask = async |which: &str| {
        let salt = format!("probe-{which}-{nonce}");
        let sample = Sample {
            text: &text,
            salt: &salt,
            ..*sample
        };
        tokio::time::sleep(PAUSE).await;
        let exchanged = client
            .send(&question(client, headers, &sample, takes))
            .await;
        cached_tokens(&exchanged)
    };
    let mut same = vec![ask("a").await];
    for _ in 0..TRIES {
        same.push(ask("a").await);
        if matches!(same.last(), Some(Some(1..))) {
            break;
        }
    }
    let others = [ask("b").await, ask("c").await];
    Ok(judge(&same, &others))
}

/// Servers leave a count of zero out as often as they report it.
fn cached_tokens(exchanged: &Exchanged) -> Option<i64> {
    let complete = exchanged.facts.outcome == Outcome::Complete;
    complete.then(|| exchanged.facts.cached_tokens.unwrap_or(0))
}

/// `same` with one salt, the last of them with the prefix cached if ever; `others` with other salts.
fn judge(same: &[Option<i64>], others: &[Option<i64>]) -> Salting {
    let shown = same.iter().all(Option::is_some) && matches!(same.last(), Some(Some(1..)));
    if !shown || same.len() < 2 {
        return Salting::Unverified;
    }
    if others.iter().any(|cached| matches!(cached, Some(1..))) {
        return Salting::Ignored;
    }
    match others.iter().all(Option::is_some) {
        true => Salting::Honoured,
        false => Salting::Unverified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_field_for_a_salt_is_not_isolated_by_one() {
        let cases = [
            ((Salting::Honoured, 0), Some("honoured")),
            ((Salting::Honoured, 1), Some("partly")),
            ((Salting::Unverified, 1), Some("unverified")),
            ((Salting::NotProbed, 1), Some("not_probed")),
            ((Salting::Honoured, 3), None),
        ];
        for ((salting, unsalted), expected) in cases {
            let of_run = salting.of_run(unsalted, 3);
            assert_eq!(
                of_run.and_then(Salting::word),
                expected,
                "{salting:?} {unsalted}"
            );
        }
    }

    #[test]
    fn only_a_cache_that_shows_itself_can_be_judged() {
        let (none, cold, warm) = (None, Some(0), Some(512));
        let cases = [
            (vec![cold, warm], [cold, cold], Salting::Honoured),
            (vec![cold, warm], [warm, warm], Salting::Ignored),
            // One slot was busy, the other was not.
            (vec![cold, warm], [cold, warm], Salting::Ignored),
            (vec![cold, cold, warm], [cold, cold], Salting::Honoured),
            (
                vec![cold, cold, cold, cold],
                [cold, cold],
                Salting::Unverified,
            ),
            (vec![cold, warm], [none, cold], Salting::Unverified),
            (vec![none, warm], [cold, cold], Salting::Unverified),
            (vec![warm], [cold, cold], Salting::Unverified),
        ];
        for (same, others, expected) in cases {
            assert_eq!(judge(&same, &others), expected, "{same:?} {others:?}");
        }
    }
}
