//! Why an answer's length is not the one that was asked for.

use std::collections::BTreeMap;
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::Dispatch;

/// Reasons; the words of the column `length_miss`.
pub mod reason {
    /// The model ended by itself.
    pub const EOS: &str = "eos";
    /// A limit of the target cut it: its context, or a bound of its own.
    pub const LIMIT: &str = "limit";
    /// The target refuses or ignores what would have forced it.
    pub const REFUSED_PARAMETER: &str = "refused_parameter";
    /// A client went away: the recorded one, or this one when the run was cut.
    pub const CANCEL: &str = "cancel";
    /// There was no whole answer.
    pub const FAILURE: &str = "failure";
    /// The target reported no usage, or did not say why it ended.
    pub const UNKNOWN: &str = "unknown";
}

/// Finish reasons of an answer that was cut, by any dialect.
const CUT: [&str; 4] = ["length", "max_tokens", "max_output_tokens", "incomplete"];

/// Says why the length was missed; none when it was met, or was not controlled. `refused` says that
/// the target does not take what would force a length.
pub fn miss(row: &Dispatch, refused: bool) -> Option<&'static str> {
    let asked = row.output_tokens_asked?;
    let outcome = row.outcome?;
    if !matches!(row.enforcement.as_str(), "enforce" | "cap") {
        return None;
    }
    match outcome {
        Outcome::Complete => {}
        Outcome::ClientAborted => return Some(reason::CANCEL),
        _ => return Some(reason::FAILURE),
    }
    // An answer of no tokens is asked for as one of one.
    let asked = asked.max(1);
    let Some(got) = row.output_tokens else {
        return Some(reason::UNKNOWN);
    };
    if got == asked {
        return None;
    }
    if asked < got {
        // A bound that was taken and not kept.
        return Some(reason::REFUSED_PARAMETER);
    }
    let said = row.finish_reasons.as_deref().unwrap_or_default();
    Some(match said {
        [] => reason::UNKNOWN,
        said if said.iter().any(|why| CUT.contains(&why.as_str())) => reason::LIMIT,
        _ if refused => reason::REFUSED_PARAMETER,
        _ => reason::EOS,
    })
}

/// Counts misses in one sentence; none when every length was met.
pub fn finding(rows: &[Dispatch]) -> Option<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for miss in rows.iter().filter_map(|row| row.length_miss.as_deref()) {
        *counts.entry(miss).or_default() += 1;
    }
    let controlled = rows
        .iter()
        .filter(|row| row.sent_us.is_some() && row.enforcement != "as_recorded")
        .count();
    let each: Vec<String> = counts
        .iter()
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    let missed: u64 = counts.values().sum();
    (missed > 0).then(|| {
        format!(
            "lengths: {missed} of {controlled} controlled lengths were missed: {}",
            each.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(outcome: Outcome, got: Option<i64>, why: &str) -> Dispatch {
        Dispatch {
            sent_us: Some(0),
            output_tokens_asked: Some(10),
            output_tokens: got,
            outcome: Some(outcome),
            finish_reasons: (!why.is_empty()).then(|| vec![why.to_owned()]),
            enforcement: "enforce".to_owned(),
            ..Dispatch::default()
        }
    }

    #[test]
    fn a_missed_length_has_a_reason() {
        use Outcome::{ClientAborted, Complete, Error, Timeout, Truncated};
        let cases = [
            (row(Complete, Some(10), "length"), false, None),
            (row(Complete, Some(7), "stop"), false, Some("eos")),
            (
                row(Complete, Some(7), "end_turn"),
                true,
                Some("refused_parameter"),
            ),
            (row(Complete, Some(7), "length"), true, Some("limit")),
            (row(Complete, Some(7), "max_tokens"), false, Some("limit")),
            (
                row(Complete, Some(12), "stop"),
                false,
                Some("refused_parameter"),
            ),
            (row(Complete, Some(7), ""), false, Some("unknown")),
            (row(Complete, None, "stop"), false, Some("unknown")),
            (row(ClientAborted, Some(7), ""), false, Some("cancel")),
            (row(Error, None, ""), false, Some("failure")),
            (row(Truncated, Some(10), ""), false, Some("failure")),
            (row(Timeout, None, ""), true, Some("failure")),
        ];
        for (row, refused, expected) in cases {
            assert_eq!(miss(&row, refused), expected, "{row:?}");
        }
    }

    #[test]
    fn what_was_not_controlled_or_not_sent_misses_nothing() {
        let free = Dispatch {
            enforcement: "as_recorded".into(),
            ..row(Outcome::Complete, Some(3), "stop")
        };
        let unasked = Dispatch {
            output_tokens_asked: None,
            ..row(Outcome::Complete, Some(3), "stop")
        };
        let unsent = Dispatch {
            outcome: None,
            ..row(Outcome::Complete, None, "")
        };
        for row in [free, unasked, unsent] {
            assert_eq!(miss(&row, false), None, "{row:?}");
        }
        let empty = Dispatch {
            output_tokens_asked: Some(0),
            ..row(Outcome::Complete, Some(1), "length")
        };
        assert_eq!(miss(&empty, false), None);
    }

    #[test]
    fn misses_are_counted_in_one_sentence() {
        let missed = |why: &str| Dispatch {
            length_miss: Some(why.to_owned()),
            ..row(Outcome::Complete, Some(3), "stop")
        };
        let rows = [
            missed("eos"),
            missed("limit"),
            missed("eos"),
            row(Outcome::Complete, Some(10), "length"),
        ];
        assert_eq!(
            finding(&rows).unwrap(),
            "lengths: 3 of 4 controlled lengths were missed: 2 eos, 1 limit"
        );
        assert_eq!(finding(&rows[3..]), None);
    }
}
