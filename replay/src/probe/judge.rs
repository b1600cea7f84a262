//! What the answers to a probe mean.

use super::Check;
use super::series::Seen;
use truetape_schemas::report::Verdict;
use truetape_schemas::wire::ResponseFacts;

/// A warm prompt that takes less than this of a cold one's time was cached.
const WARM_OF_COLD: f64 = 0.6;

/// Whether prefixes are cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caching {
    /// Whether they are.
    pub verdict: Verdict,
    /// The evidence.
    pub found: String,
}

impl Caching {
    pub(super) fn check(&self) -> Check {
        Check {
            name: "caching",
            verdict: self.verdict,
            found: self.found.clone(),
            so: match self.verdict {
                Verdict::Pass => None,
                Verdict::Fail => {
                    Some("every prompt is computed from its first token on (pessimistic)")
                }
                Verdict::Unknown => Some("what it takes from its cache cannot be checked in a run"),
            },
        }
    }
}

/// Judges by what the answers told, else by the counters, else by time. `configured` is what the target
/// says of its own settings.
pub fn caching(seen: &Seen, configured: Option<bool>) -> Caching {
    let is = |verdict, found: String| Caching { verdict, found };
    if !seen.answered[0] || !seen.answered[1] {
        return is(Verdict::Unknown, "the series was not answered".to_owned());
    }
    let counted = &seen.second;
    match (seen.told[1], counted.cached_tokens, seen.ttft_us) {
        (Some(told @ 1..), _, _) => is(
            Verdict::Pass,
            format!("a repeated prompt took {told} tokens from the cache, by its answer"),
        ),
        (_, Some(cached), _) if 0.0 < cached => is(
            Verdict::Pass,
            format!("a repeated prompt took {cached:.0} tokens from the cache, by the counters"),
        ),
        _ if configured == Some(false) => is(
            Verdict::Fail,
            "off, by the target's own settings".to_owned(),
        ),
        (Some(_), _, _) => is(
            Verdict::Fail,
            "a repeated prompt took nothing from a cache, by its answer".to_owned(),
        ),
        (None, Some(_), _) => is(
            Verdict::Fail,
            "a repeated prompt took nothing from a cache, by the counters".to_owned(),
        ),
        (None, None, Some((cold_us, warm_us))) => {
            let found = format!(
                "first token after {:.1} ms, and after {:.1} ms of a repeated prompt",
                cold_us as f64 / 1e3,
                warm_us as f64 / 1e3
            );
            let fast = (warm_us as f64) < cold_us as f64 * WARM_OF_COLD;
            // A small model may be as fast without a cache.
            is(
                if fast {
                    Verdict::Pass
                } else {
                    Verdict::Unknown
                },
                found,
            )
        }
        (None, None, None) => is(
            Verdict::Unknown,
            "the target does not say what it takes from its cache".to_owned(),
        ),
    }
}

/// Judges whether another salt finds nothing.
pub fn salting(seen: &Seen, taken: bool, caching: Verdict) -> Check {
    let is = |verdict, found: &str, so| Check {
        name: "salt",
        verdict,
        found: found.to_owned(),
        so,
    };
    let elsewhere = Some("use --cache flush, or start the target again between runs");
    if !taken {
        return is(Verdict::Fail, "cache_salt is refused", elsewhere);
    }
    if caching != Verdict::Pass || !seen.answered[2] {
        return is(
            Verdict::Unknown,
            "no cache was seen that it could divide",
            elsewhere,
        );
    }
    // A warm prompt that told its tokens makes silence a zero: servers leave zeros out.
    let told = seen.told[1].map(|_| seen.told[2].unwrap_or(0));
    let counted = seen.third.cached_tokens.map(|tokens| tokens as i64);
    match told.or(counted) {
        Some(..=0) => is(Verdict::Pass, "another cache_salt finds nothing", None),
        Some(_) => is(
            Verdict::Fail,
            "cache_salt is taken and ignored: another one finds the prompt",
            elsewhere,
        ),
        None => is(
            Verdict::Unknown,
            "the target does not say what it found",
            elsewhere,
        ),
    }
}

/// Judges whether a length can be forced.
pub fn lengths(facts: &ResponseFacts, taken: bool, asked: i64) -> Check {
    let is = |verdict, found: String, so| Check {
        name: "lengths",
        verdict,
        found,
        so,
    };
    let capped = Some("use --output cap");
    if !taken {
        let found = "ignore_eos or min_tokens is refused".to_owned();
        return is(Verdict::Fail, found, capped);
    }
    match facts.output_tokens {
        Some(got) if got == asked => is(
            Verdict::Pass,
            format!("{got} tokens of {asked} that were forced"),
            None,
        ),
        Some(got) => is(
            Verdict::Fail,
            format!("{got} tokens of {asked} that were forced: ignore_eos is taken and ignored"),
            capped,
        ),
        None => is(
            Verdict::Unknown,
            "the target reported no usage".to_owned(),
            capped,
        ),
    }
}

/// Judges whether usage is told in a stream.
pub fn usage(facts: &ResponseFacts) -> Check {
    let (input, output) = (facts.input_tokens, facts.output_tokens);
    let told = input.is_some() && output.is_some();
    Check {
        name: "usage",
        verdict: if told { Verdict::Pass } else { Verdict::Fail },
        found: match (input, output) {
            (Some(input), Some(output)) => format!("{input} tokens in, {output} out"),
            _ => "not told in a stream".to_owned(),
        },
        so: (!told).then_some("lengths of a run cannot be checked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truetape_schemas::run::metrics::Counters;

    fn seen(told: [Option<i64>; 3], counted: [Option<f64>; 2]) -> Seen {
        let counters = |cached_tokens| Counters {
            cached_tokens,
            ..Counters::default()
        };
        Seen {
            told,
            answered: [true; 3],
            second: counters(counted[0]),
            third: counters(counted[1]),
            ttft_us: None,
        }
    }

    #[test]
    fn caching_is_judged_by_answers_then_counters_then_settings_then_time() {
        let none = [None; 3];
        let timed = |cold, warm| Seen {
            ttft_us: Some((cold, warm)),
            ..seen(none, [None; 2])
        };
        let unanswered = Seen {
            answered: [true, false, true],
            ..seen([Some(0), Some(9), Some(0)], [None; 2])
        };
        let cases = [
            (
                seen([Some(0), Some(512), None], [None; 2]),
                None,
                Verdict::Pass,
            ),
            (
                seen([Some(0), Some(0), Some(0)], [None; 2]),
                None,
                Verdict::Fail,
            ),
            (seen(none, [Some(512.0), None]), None, Verdict::Pass),
            (seen(none, [Some(0.0), None]), None, Verdict::Fail),
            (seen(none, [None; 2]), Some(false), Verdict::Fail),
            (seen(none, [None; 2]), Some(true), Verdict::Unknown),
            (timed(100_000, 20_000), None, Verdict::Pass),
            (timed(100_000, 90_000), None, Verdict::Unknown),
            (unanswered, None, Verdict::Unknown),
        ];
        for (seen, configured, verdict) in cases {
            assert_eq!(caching(&seen, configured).verdict, verdict, "{seen:?}");
        }
    }

    #[test]
    fn a_salt_is_judged_only_where_a_cache_was_seen() {
        let (pass, unknown) = (Verdict::Pass, Verdict::Unknown);
        let cases = [
            (
                seen([Some(0), Some(9), Some(0)], [None; 2]),
                true,
                pass,
                Verdict::Pass,
            ),
            (
                seen([None, Some(9), None], [None; 2]),
                true,
                pass,
                Verdict::Pass,
            ),
            (
                seen([Some(0), Some(9), Some(9)], [None; 2]),
                true,
                pass,
                Verdict::Fail,
            ),
            (
                seen([None; 3], [Some(9.0), Some(9.0)]),
                true,
                pass,
                Verdict::Fail,
            ),
            (
                seen([None; 3], [Some(9.0), Some(0.0)]),
                true,
                pass,
                Verdict::Pass,
            ),
            (seen([None; 3], [None; 2]), true, pass, Verdict::Unknown),
            (
                seen([Some(0), Some(0), Some(0)], [None; 2]),
                true,
                unknown,
                Verdict::Unknown,
            ),
            (
                seen([Some(0), Some(9), Some(0)], [None; 2]),
                false,
                pass,
                Verdict::Fail,
            ),
        ];
        for (seen, taken, caching, verdict) in cases {
            assert_eq!(salting(&seen, taken, caching).verdict, verdict, "{seen:?}");
        }
    }

    #[test]
    fn a_length_that_was_taken_and_not_kept_is_a_failure() {
        let facts = |output_tokens| ResponseFacts {
            input_tokens: Some(3),
            output_tokens,
            ..ResponseFacts::default()
        };
        for (got, taken, verdict, told) in [
            (Some(8), true, Verdict::Pass, Verdict::Pass),
            (Some(2), true, Verdict::Fail, Verdict::Pass),
            (Some(8), false, Verdict::Fail, Verdict::Pass),
            (None, true, Verdict::Unknown, Verdict::Fail),
        ] {
            assert_eq!(lengths(&facts(got), taken, 8).verdict, verdict);
            assert_eq!(usage(&facts(got)).verdict, told);
        }
    }
}
