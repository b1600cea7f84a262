//! The series of prompts: cold, warm, under another salt; and times, where nothing else is told.

use crate::client::{Client, Exchanged};
use crate::probe_target::{self, Sample, Takes, question};
use crate::scrape::{Phase, Scraped, Totals};
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::metrics::Counters;

/// How often the nonce stands in the prompt: 64 times 37 bytes, several blocks of any engine.
const NONCE_REPEATS: usize = 64;

/// Pairs of a cold and a warm prompt whose times are compared.
const TIMED_PAIRS: usize = 5;

/// What was seen of the series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Cached tokens of the three answers, as each told them.
    pub told: [Option<i64>; 3],
    /// Whether each was answered.
    pub answered: [bool; 3],
    /// What the counters say of the second.
    pub second: Counters,
    /// What they say of the third.
    pub third: Counters,
    /// Median time to first token of cold and of warm prompts; asked only where nothing else is told.
    pub ttft_us: Option<(i64, i64)>,
}

impl Seen {
    /// Whether answers or counters said anything.
    pub fn is_told(&self) -> bool {
        self.told.iter().any(Option::is_some) || self.second.cached_tokens.is_some()
    }
}

/// Asks the series. `nonce` must be new, so that no earlier question has cached the prompt.
pub(super) async fn ask(
    client: &Client,
    headers: &http::HeaderMap,
    sample: &Sample<'_>,
    takes: Takes,
    nonce: &str,
) -> Seen {
    let text = prompt(nonce);
    let mut seen = Seen::default();
    let mut before = Vec::new();
    for (nth, which) in ["a", "a", "b"].into_iter().enumerate() {
        let salt = format!("probe-{which}-{nonce}");
        let sample = Sample {
            text: &text,
            salt: &salt,
            ..*sample
        };
        let exchanged = client
            .send(&question(client, headers, &sample, takes))
            .await;
        let after = probe_target::samples(client, headers).await;
        let counted = difference(&before, &after);
        before = after;
        if let Some(told) = seen.told.get_mut(nth) {
            *told = exchanged.facts.cached_tokens;
        }
        if let Some(answered) = seen.answered.get_mut(nth) {
            *answered = exchanged.facts.outcome == Outcome::Complete;
        }
        match nth {
            1 => seen.second = counted,
            2 => seen.third = counted,
            _ => {}
        }
    }
    if !seen.is_told() {
        seen.ttft_us = timed(client, headers, sample, takes, nonce).await;
    }
    seen
}

fn prompt(nonce: &str) -> String {
    format!("{nonce} ").repeat(NONCE_REPEATS)
}

fn difference(before: &[Scraped], after: &[Scraped]) -> Counters {
    let mut totals = Totals::default();
    totals.add(Phase::Before, before);
    totals.add(Phase::After, after);
    totals.counters()
}

async fn timed(
    client: &Client,
    headers: &http::HeaderMap,
    sample: &Sample<'_>,
    takes: Takes,
    nonce: &str,
) -> Option<(i64, i64)> {
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for pair in 0..TIMED_PAIRS {
        let text = prompt(&format!("{pair}-{nonce}"));
        let sample = Sample {
            text: &text,
            ..*sample
        };
        for times in [&mut cold, &mut warm] {
            let exchanged = client
                .send(&question(client, headers, &sample, takes))
                .await;
            times.push(Exchanged::ttft_us(&exchanged)?);
        }
    }
    Some((median(cold)?, median(warm)?))
}

fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
