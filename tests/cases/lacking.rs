//! What this build is known to lack, by what a case's own files ask for.
//!
//! A feature that is lacking makes some keys wrong, and excuses those and no others: that bytes are
//! passed on as they came is never excused, nor is anything that went wrong while a case was run.

use crate::case::{Case, EXPECTED, Kind};
use crate::check::asks_for;
use crate::findings::Wrong;

/// One thing that is lacking.
#[derive(Debug)]
pub(crate) struct Lacking {
    /// What a case that needs it has in its files.
    sign: &'static str,
    /// What it is.
    pub(crate) what: &'static str,
    /// Kinds of case that it is lacking for.
    kinds: &'static [Kind],
    /// Values that are wrong without it.
    keys: &'static [&'static [&'static str]],
}

impl Lacking {
    /// Whether this is wrong for want of it.
    pub(crate) fn excuses(&self, wrong: &Wrong) -> bool {
        let mut names = self.keys.iter().copied().flatten();
        let key = wrong.key.as_deref();
        key.is_some_and(|key| names.any(|name| asks_for(key, name)))
    }
}

/// What a case needs and this build lacks.
pub(crate) fn lacking(case: &Case) -> Vec<&'static Lacking> {
    let mut text = String::new();
    for file in case.files().filter(|file| *file != EXPECTED) {
        text += &String::from_utf8_lossy(&case.bytes(file).unwrap_or_default());
        text.push('\n');
    }
    let kind = case.kind();
    let applies = |lacking: &&Lacking| {
        kind.is_some_and(|kind| lacking.kinds.contains(&kind)) && text.contains(lacking.sign)
    };
    LACKING.iter().filter(applies).collect()
}

/// Kinds that read answers off the wire.
const LIVE: &[Kind] = &[Kind::Stream, Kind::Json, Kind::Raw, Kind::Script];

/// What is read out of an answer's events.
const ANSWER: &[&str] = &[
    "content",
    "content_chars",
    "choices",
    "reasoning_content",
    "tool_calls",
    "error_code",
    "error_type",
    "finish_reason",
    "finish_reasons",
    "data_events",
];

/// What is read out of its usage.
const USAGE: &[&str] = &[
    "prompt_tokens",
    "prompt_tokens_source",
    "input_tokens",
    "input_tokens_source",
    "output_tokens",
    "output_tokens_source",
    "output_tokens_partial",
    "cached_tokens",
    "reasoning_tokens",
    "tokens_per_event",
];

/// When its tokens came.
const TOKEN_TIMES: &[&str] = &[
    "ttft_ms",
    "ttfo_ms",
    "e2el_ms",
    "tpot_ms",
    "itl_gaps_ms",
    "itl_gaps_by_choice_ms",
    "event_times_ms_token",
    "token_events",
];

/// Nothing at the moment.
const LACKING: &[Lacking] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_excuses_its_own_keys_and_no_fault() {
        let dialect = Lacking {
            sign: "/v2/chat",
            what: "a dialect",
            kinds: LIVE,
            keys: &[ANSWER, USAGE, TOKEN_TIMES],
        };
        let about = |key: &str| dialect.excuses(&Wrong::about(key, String::new()));
        assert!(about("content") && about("ttft_ms") && about("token_events_min"));
        for kept in ["client_body_identical", "http_status", "outcome", "rows"] {
            assert!(!about(kept), "{kept}");
        }
        assert!(!dialect.excuses(&Wrong::fault("the proxy ended with 1")));
    }
}
