//! How long an answer is asked to be: the policy of `--output`, turn by turn.
//!
//! Whatever the set says, no request carries `max_tokens: 0`, and none a minimum above its maximum:
//! servers refuse both, in the middle of a run.

use crate::cli::Output;
use truetape_schemas::set::Turn;

/// How an answer's length was controlled; the words of the column `enforcement`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// Exactly the recorded length.
    Enforce,
    /// At most this length.
    Cap,
    /// The client's own parameters.
    #[default]
    AsRecorded,
}

impl Enforcement {
    /// The word in the column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Cap => "cap",
            Self::AsRecorded => "as_recorded",
        }
    }
}

/// What a request asks for in place of what the recorded one asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// How the length is controlled.
    pub enforcement: Enforcement,
    /// Upper bound of each choice.
    pub max_tokens: Option<i64>,
    /// Lower bound of each choice.
    pub min_tokens: Option<i64>,
    /// What a user should know about this choice.
    pub remark: Option<Remark>,
}

/// Why a turn's length is not simply the recorded one. Counted in the plan's findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remark {
    /// Production's answer had no tokens; at least one is generated now.
    ZeroLength,
    /// Production's answer was not observed whole.
    UnknownLength,
    /// Several choices share one recorded total.
    SeveralChoices,
}

/// Decides what a turn's request asks for. `enforceable` says whether the target takes
/// `ignore_eos` and `min_tokens`.
pub fn ask(turn: &Turn, output: Output, enforceable: bool) -> Ask {
    if output == Output::AsRecorded {
        return as_recorded(turn, None);
    }
    let Some(recorded) = turn.output_tokens else {
        let forced = output == Output::Enforce && enforceable;
        return reaching(turn, unknown(turn), forced);
    };
    let choices = i64::from(turn.n.unwrap_or(1)).max(1);
    let remark = match (recorded, choices) {
        (..=0, _) => Some(Remark::ZeroLength),
        (_, 2..) => Some(Remark::SeveralChoices),
        _ => None,
    };
    // A set has the total of all choices, a request bounds each: rounding up keeps the work.
    let each = div_ceil(recorded.max(1), choices);
    if output == Output::Enforce && enforceable {
        let (max_tokens, min_tokens) = (Some(each), Some(each));
        return Ask {
            enforcement: Enforcement::Enforce,
            max_tokens,
            min_tokens,
            remark,
        };
    }
    Ask {
        enforcement: Enforcement::Cap,
        max_tokens: Some(each),
        min_tokens: None,
        remark,
    }
}

/// A length that was never observed is not invented: production's own bound, or none, is sent.
fn unknown(turn: &Turn) -> Ask {
    let remark = Some(Remark::UnknownLength);
    match turn.max_tokens {
        Some(bound) => Ask {
            enforcement: Enforcement::Cap,
            max_tokens: Some(bound.max(1)),
            min_tokens: None,
            remark,
        },
        None => as_recorded(turn, remark),
    }
}

/// An answer that production's client left must go on until then, or there is nothing to leave: at
/// least as many tokens as it had seen events are asked for, where the target can be made to.
fn reaching(turn: &Turn, ask: Ask, forced: bool) -> Ask {
    let seen = turn.recorded_token_events.map(i64::from);
    let Some(seen) = seen.filter(|seen| forced && 0 < *seen) else {
        return ask;
    };
    let least = ask.min_tokens.unwrap_or(seen).max(seen);
    Ask {
        min_tokens: Some(ask.max_tokens.map_or(least, |most| least.min(most))),
        ..ask
    }
}

fn as_recorded(turn: &Turn, remark: Option<Remark>) -> Ask {
    let max_tokens = turn.max_tokens.map(|bound| bound.max(1));
    let min_tokens = turn
        .min_tokens
        .map(|bound| bound.min(max_tokens.unwrap_or(bound)));
    Ask {
        enforcement: Enforcement::AsRecorded,
        max_tokens,
        min_tokens,
        remark,
    }
}

fn div_ceil(total: i64, parts: i64) -> i64 {
    total / parts + i64::from(total % parts != 0)
}

/// Tokens that a turn will make the target generate, as far as the plan can know.
pub fn expected_output(turn: &Turn, ask: &Ask) -> Option<i64> {
    let choices = i64::from(turn.n.unwrap_or(1)).max(1);
    match ask.enforcement {
        Enforcement::Enforce => ask.max_tokens.map(|each| each * choices),
        Enforcement::Cap | Enforcement::AsRecorded => turn
            .output_tokens
            .or(ask.max_tokens.map(|each| each * choices)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn turn(output_tokens: Option<i64>, max_tokens: Option<i64>) -> Turn {
        Turn {
            output_tokens,
            max_tokens,
            ..Turn::default()
        }
    }

    #[test]
    fn the_recorded_length_is_asked_for_from_both_sides() {
        let ask = ask(&turn(Some(100), Some(4_096)), Output::Enforce, true);
        assert_eq!((ask.min_tokens, ask.max_tokens), (Some(100), Some(100)));
        assert_eq!(ask.enforcement.name(), "enforce");
    }

    #[test]
    fn a_target_that_cannot_be_forced_is_capped_and_the_row_says_so() {
        let ask = ask(&turn(Some(100), None), Output::Enforce, false);
        assert_eq!((ask.min_tokens, ask.max_tokens), (None, Some(100)));
        assert_eq!(ask.enforcement.name(), "cap");
    }

    #[test]
    fn an_empty_answer_is_sent_as_one_token_and_counted() {
        let ask = ask(&turn(Some(0), None), Output::Enforce, true);
        assert_eq!((ask.min_tokens, ask.max_tokens), (Some(1), Some(1)));
        assert_eq!(ask.remark, Some(Remark::ZeroLength));
    }

    #[test]
    fn a_length_that_was_never_observed_is_not_invented() {
        let bounded = ask(&turn(None, Some(50)), Output::Enforce, true);
        assert_eq!(
            (bounded.enforcement, bounded.max_tokens),
            (Enforcement::Cap, Some(50))
        );
        let free = ask(&turn(None, None), Output::Enforce, true);
        assert_eq!(
            (free.enforcement, free.max_tokens),
            (Enforcement::AsRecorded, None)
        );
        assert_eq!(free.remark, Some(Remark::UnknownLength));
    }

    #[test]
    fn an_answer_that_was_left_goes_on_until_then() {
        let left = |max_tokens, min_tokens, seen| Turn {
            min_tokens,
            recorded_token_events: Some(seen),
            ..turn(None, max_tokens)
        };
        let least = |turn: &Turn, output, enforceable| ask(turn, output, enforceable).min_tokens;
        let cases = [
            (left(Some(50), None, 7), Some(7)),
            (left(Some(5), None, 7), Some(5)),
            (left(None, Some(9), 7), Some(9)),
            (left(None, None, 7), Some(7)),
            (left(Some(50), None, 0), None),
        ];
        for (turn, expected) in cases {
            assert_eq!(least(&turn, Output::Enforce, true), expected, "{turn:?}");
        }
        let turn = left(Some(50), None, 7);
        assert_eq!(least(&turn, Output::Enforce, false), None);
        assert_eq!(least(&turn, Output::Cap, true), None);
        assert_eq!(least(&turn, Output::AsRecorded, true), None);
    }

    #[test]
    fn choices_share_the_recorded_total() {
        let two = Turn {
            n: Some(2),
            ..turn(Some(5), None)
        };
        let ask = ask(&two, Output::Enforce, true);
        assert_eq!(ask.max_tokens, Some(3));
        assert_eq!(expected_output(&two, &ask), Some(6));
    }

    proptest! {
        #[test]
        fn no_request_asks_for_nothing_or_for_more_than_its_bound(
            recorded in proptest::option::of(0i64..5_000),
            max_tokens in proptest::option::of(0i64..5_000),
            min_tokens in proptest::option::of(0i64..5_000),
            n in proptest::option::of(0i32..5),
            recorded_token_events in proptest::option::of(0i32..5_000),
            output in prop_oneof![Just(Output::Enforce), Just(Output::Cap), Just(Output::AsRecorded)],
            enforceable: bool,
        ) {
            let turn = Turn { min_tokens, n, recorded_token_events, ..turn(recorded, max_tokens) };
            let ask = ask(&turn, output, enforceable);
            prop_assert!(ask.max_tokens.is_none_or(|bound| 0 < bound));
            if let (Some(min_tokens), Some(max_tokens)) = (ask.min_tokens, ask.max_tokens) {
                prop_assert!(min_tokens <= max_tokens);
            }
        }
    }
}
