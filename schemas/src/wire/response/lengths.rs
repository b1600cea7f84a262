//! Lengths: what the server reports, and what can stand in for it (D5).

use crate::capture::LengthSource;
use crate::wire::ResponseFacts;

/// A report of lengths, in the words of no dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) input: Option<i64>,
    pub(super) output: Option<i64>,
    pub(super) cached: Option<i64>,
    pub(super) reasoning: Option<i64>,
}

/// Takes a report, and says whether something in it cannot be.
///
/// The last value of each length counts: servers that report more than once report sums so far,
/// and a report that is silent about a length takes nothing back. What a server counted on the
/// side (`exact`) does not replace what it reports as usage.
pub(super) fn report(facts: &mut ResponseFacts, report: Report, from: LengthSource) -> bool {
    let lengths = [
        (
            &mut facts.input_tokens,
            &mut facts.input_tokens_source,
            report.input,
        ),
        (
            &mut facts.output_tokens,
            &mut facts.output_tokens_source,
            report.output,
        ),
        (
            &mut facts.cached_tokens,
            &mut facts.cached_tokens_source,
            report.cached,
        ),
        (
            &mut facts.reasoning_tokens,
            &mut facts.reasoning_tokens_source,
            report.reasoning,
        ),
    ];
    let mut is_odd = false;
    for (length, source, reported) in lengths {
        let Some(reported) = reported else { continue };
        if reported < 0 {
            is_odd = true;
        } else if from == LengthSource::Usage || *source != LengthSource::Usage {
            *length = Some(reported);
            *source = from;
        }
    }
    is_odd
}

/// Tokens that the server listed one by one, by id or by probability.
#[derive(Debug, Default)]
pub(super) struct Listed {
    output: i64,
    pub(super) input: Option<i64>,
    /// There was material without a list: the sum is not the length.
    is_partial: bool,
}

impl Listed {
    /// Takes a token event that lists so many tokens.
    pub(super) fn add(&mut self, listed: i64) {
        self.output = self.output.saturating_add(listed);
        self.is_partial |= listed == 0;
    }

    /// Where the server reports no length, the tokens that it listed are the length, if it listed
    /// them all.
    pub(super) fn stand_in(&self, facts: &mut ResponseFacts) {
        if facts.output_tokens.is_none() && self.output > 0 && !self.is_partial {
            facts.output_tokens = Some(self.output);
            facts.output_tokens_source = LengthSource::Exact;
        }
        if let (None, Some(input)) = (facts.input_tokens, self.input) {
            facts.input_tokens = Some(input);
            facts.input_tokens_source = LengthSource::Exact;
        }
    }
}

/// Running counts by choice.
#[derive(Debug, Default)]
pub(super) struct Tally(Vec<Option<Report>>);

impl Tally {
    /// Takes the counts of a choice so far. The index is one that the answer has let in.
    pub(super) fn put(&mut self, index: usize, report: Report) {
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        if let Some(known) = self.0.get_mut(index) {
            let before = known.unwrap_or_default();
            *known = Some(Report {
                input: report.input.or(before.input),
                output: report.output.or(before.output),
                cached: report.cached.or(before.cached),
                reasoning: report.reasoning.or(before.reasoning),
            });
        }
    }

    /// The counts of a choice so far.
    pub(super) fn of(&self, index: usize) -> Report {
        self.0.get(index).copied().flatten().unwrap_or_default()
    }

    /// Whether these choices, and no others, have counted their output.
    pub(super) fn covers(&self, mut seen: impl Iterator<Item = usize>) -> bool {
        seen.all(|index| self.of(index).output.is_some())
    }

    /// Adds up. Two choices with one and the same prompt length may share one prompt (`n` of 2)
    /// or have one each (a batch): that is not known here, and so their sum is not either.
    pub(super) fn sum(&self) -> Report {
        let counted: Vec<Report> = self.0.iter().copied().flatten().collect();
        let inputs: Vec<Option<i64>> = counted.iter().map(|report| report.input).collect();
        let is_one = inputs.len() == 1;
        let differ = inputs
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if a != b));
        let of_prompts = |length: fn(&Report) -> Option<i64>| {
            let lengths = counted.iter().map(length);
            (is_one || differ).then(|| total(lengths)).flatten()
        };
        Report {
            input: of_prompts(|report| report.input),
            output: total(counted.iter().map(|report| report.output)),
            cached: of_prompts(|report| report.cached),
            reasoning: total(counted.iter().map(|report| report.reasoning)),
        }
    }
}

/// The sum, if every length is known and there is one.
fn total(lengths: impl Iterator<Item = Option<i64>>) -> Option<i64> {
    let mut sum = None;
    for length in lengths {
        sum = Some(i64::saturating_add(sum.unwrap_or(0), length?));
    }
    sum
}
