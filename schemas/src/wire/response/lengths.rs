//! Lengths: what the server reports, and what can stand in for it (D5).

use crate::capture::LengthSource;
use crate::wire::ResponseFacts;
use crate::wire::openai::Usage;

/// Takes a report of lengths, and says whether something in it cannot be.
///
/// The last value of each length counts: servers that report more than once report sums so far,
/// and a report that is silent about a length takes nothing back.
pub(super) fn report(facts: &mut ResponseFacts, usage: &Usage) -> bool {
    let input_details = usage.input_details.get_ref();
    let output_details = usage.output_details.get_ref();
    let cached = input_details.and_then(|details| details.cached_tokens.get_ref());
    let cached = cached.or(usage.cached_tokens.get_ref());
    let reasoning = output_details.and_then(|details| details.reasoning_tokens.get_ref());
    let reasoning = reasoning.or(usage.reasoning_tokens.get_ref());
    let (input, output) = (usage.input_tokens.get_ref(), usage.output_tokens.get_ref());
    let lengths = [
        (
            &mut facts.input_tokens,
            &mut facts.input_tokens_source,
            input,
        ),
        (
            &mut facts.output_tokens,
            &mut facts.output_tokens_source,
            output,
        ),
        (
            &mut facts.cached_tokens,
            &mut facts.cached_tokens_source,
            cached,
        ),
        (
            &mut facts.reasoning_tokens,
            &mut facts.reasoning_tokens_source,
            reasoning,
        ),
    ];
    let mut is_odd = false;
    for (length, source, reported) in lengths {
        let Some(reported) = reported else { continue };
        if *reported < 0 {
            is_odd = true;
            continue;
        }
        *length = Some(*reported);
        *source = LengthSource::Usage;
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
        self.output += listed;
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
