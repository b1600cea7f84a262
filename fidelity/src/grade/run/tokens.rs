//! Token counts, as the target reported them.

use super::Log;
use crate::grade::UNKNOWN_SHARE_MAX;
use crate::grade::draft::{Draft, Unit};
use truetape_schemas::capture::Outcome;
use truetape_schemas::report::{Dimension, Direction, Level};
use truetape_schemas::run::Dispatch;
use truetape_schemas::set::Turn;

/// Tolerances.
const TOKENS_RELATIVE: f64 = 0.01;
const WITHIN_1: f64 = 0.01;

/// Dimensions of token counts.
pub(super) fn dimensions(log: &Log<'_>) -> Vec<Dimension> {
    let mut dimensions = output_tokens(log);
    dimensions.push(input_tokens(log));
    dimensions
}

/// Pairs of what was asked and what came, over answers; with how many answers lack the second.
struct Paired {
    pairs: Vec<(f64, f64)>,
    asked: usize,
    unknown: usize,
}

impl Paired {
    fn of(
        log: &Log<'_>,
        asked: impl Fn(&Dispatch, &Turn) -> Option<i64>,
        got: impl Fn(&Dispatch) -> Option<i64>,
    ) -> Self {
        let mut paired = Self {
            pairs: Vec::new(),
            asked: 0,
            unknown: 0,
        };
        for (dispatch, turn) in log.answers() {
            let Some(asked) = asked(dispatch, turn) else {
                continue;
            };
            paired.asked += 1;
            match got(dispatch) {
                Some(got) => paired.pairs.push((asked as f64, got as f64)),
                None => paired.unknown += 1,
            }
        }
        paired
    }

    fn ratio(&self) -> (Option<f64>, Option<f64>) {
        let known = !self.pairs.is_empty();
        let asked = known.then(|| self.pairs.iter().map(|(asked, _)| asked).sum());
        (
            known.then(|| self.pairs.iter().map(|(_, got)| got).sum()),
            asked,
        )
    }

    /// Missing usage is UNKNOWN, never a length of zero.
    fn guard(&self, draft: Draft) -> Draft {
        draft
            .unknown_if(self.asked == 0, || {
                "no answer has a length to compare with".to_owned()
            })
            .unknown_if(
                self.unknown as f64 > UNKNOWN_SHARE_MAX * self.asked as f64,
                || {
                    format!(
                        "the target reported no usage for {} of {} answers",
                        self.unknown, self.asked
                    )
                },
            )
    }
}

/// An answer that production cut short has no length to enforce.
fn output_asked(dispatch: &Dispatch, turn: &Turn) -> Option<i64> {
    dispatch
        .output_tokens_asked
        .or(turn.output_tokens)
        .filter(|_| turn.recorded_outcome == Outcome::Complete)
}

fn output_tokens(log: &Log<'_>) -> Vec<Dimension> {
    let paired = Paired::of(log, output_asked, |dispatch| dispatch.output_tokens);
    let (got, asked) = paired.ratio();
    let close = paired
        .pairs
        .iter()
        .filter(|(asked, got)| (asked - got).abs() <= 1.0)
        .count();
    let close = (!paired.pairs.is_empty()).then(|| close as f64 / paired.pairs.len() as f64);
    let enforced = log
        .rows
        .iter()
        .filter(|(d, _)| d.enforcement == "enforce")
        .count();
    let loose = log.rows.len() - enforced;
    let note = || {
        format!(
            "the length of {loose} of {} answers was not enforced",
            log.rows.len()
        )
    };
    let ratio = Draft::new(
        "run.output_tokens.ratio",
        "generated tokens against the set's",
        Unit::Relative,
        TOKENS_RELATIVE,
    )
    .compare(got, asked)
    .note_if(loose > 0, note);
    let within = Draft::new(
        "run.output_tokens.within_1",
        "answers within one token of the set's",
        Unit::Share,
        WITHIN_1,
    )
    .compare(close, close.map(|_| 1.0))
    .direction(match got.zip(asked) {
        Some((got, asked)) => crate::direction::of(
            "run.output_tokens.ratio",
            Some(Unit::Relative.deviation(got, asked)),
            TOKENS_RELATIVE,
        ),
        None => Direction::Unknown,
    });
    [ratio, within]
        .map(|draft| paired.guard(draft).finish(Level::RunAgainstSet))
        .to_vec()
}

fn input_tokens(log: &Log<'_>) -> Dimension {
    let asked = |d: &Dispatch, turn: &Turn| d.input_tokens_asked.or(turn.input_tokens);
    let paired = Paired::of(log, asked, |dispatch| dispatch.input_tokens);
    let (got, asked) = paired.ratio();
    let draft = Draft::new(
        "run.input_tokens.ratio",
        "prompt tokens as the target counted them, against the set's",
        Unit::Relative,
        TOKENS_RELATIVE,
    )
    .compare(got, asked);
    paired.guard(draft).finish(Level::RunAgainstSet)
}
