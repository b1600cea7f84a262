//! Turns as the measures see them: when, how long, in which session, over which blocks.
//!
//! A capture, a set and a run are all populations of turns, and every measure is a function of one
//! population (a profile) or of two (a report).

use crate::facts::{Collector, Facts, Said};
use std::collections::HashMap;
use std::num::NonZeroU64;
use truetape_schemas::capture::Outcome;
use truetape_schemas::set::Turn;

/// One turn. What is not known is none; a measure that needs it becomes UNKNOWN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PopulationTurn {
    /// Its session: an index into the population's sessions.
    pub session: u32,
    /// When it arrived; only differences matter.
    pub arrival_us: i64,
    /// When its exchange ended, on the same clock.
    pub end_us: Option<i64>,
    /// Prompt tokens, history included.
    pub input_tokens: Option<u64>,
    /// Generated tokens; only complete answers have one (D7).
    pub output_tokens: Option<u64>,
    /// Prompt tokens that the server took from its cache.
    pub cached_tokens: Option<u64>,
    /// Chained hashes of the prompt's blocks; empty when there are none.
    pub blocks: Vec<u64>,
    /// What else it is: a combination of the population's [`facts`](Population::facts).
    pub facts: u32,
    /// Whose it is: a hash of the tenant. Only equality counts.
    pub tenant: Option<NonZeroU64>,
    /// The replica that served it, where several could be told apart.
    pub replica: Option<u16>,
}

/// Turns in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// The turns, sorted by arrival; ties keep the order in which they were captured.
    pub turns: Vec<PopulationTurn>,
    /// Number of sessions; every turn's `session` is below it.
    pub sessions: u32,
    /// Tokens in a block.
    pub block_tokens: Option<u32>,
    /// Smallest step of the clock that gave the arrivals, where it is known.
    pub clock_resolution_us: Option<i64>,
    /// What its turns are besides their lengths; empty where nobody looked.
    pub facts: Facts,
}

impl Population {
    /// Reads a population off the turns of a set.
    ///
    /// An output length counts only where the recorded answer was complete (D7). `recorded_end_us`
    /// counts from the arrival, as in the set. A set does not say whose its turns are.
    pub fn of_turns(
        turns: &[Turn],
        block_tokens: Option<u32>,
        clock_resolution_us: Option<i64>,
    ) -> Self {
        Self::of_owned_turns(turns, |_| None, block_tokens, clock_resolution_us)
    }

    /// The same where somebody knows the tenant of the turn at a place.
    pub fn of_owned_turns(
        turns: &[Turn],
        tenant: impl Fn(usize) -> Option<NonZeroU64>,
        block_tokens: Option<u32>,
        clock_resolution_us: Option<i64>,
    ) -> Self {
        let mut sessions: HashMap<&str, u32> = HashMap::new();
        let mut rows: Vec<PopulationTurn> = Vec::with_capacity(turns.len());
        let mut facts = Collector::new();
        for (place, turn) in turns.iter().enumerate() {
            let next = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
            let session = *sessions.entry(turn.session.as_str()).or_insert(next);
            let complete = turn.recorded_outcome == Outcome::Complete;
            rows.push(PopulationTurn {
                session,
                arrival_us: turn.start_us,
                end_us: turn
                    .recorded_end_us
                    .map(|end| turn.start_us.saturating_add(end)),
                input_tokens: count(turn.input_tokens),
                output_tokens: count(turn.output_tokens).filter(|_| complete),
                cached_tokens: count(turn.cached_tokens),
                blocks: turn.block_hashes.clone().unwrap_or_default(),
                facts: facts.add(&Said::of_turn(turn)),
                tenant: tenant(place),
                replica: None,
            });
        }
        // Stable: turns that arrived at the same instant stay as they were captured.
        rows.sort_by_key(|turn| turn.arrival_us);
        let sessions = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
        Self {
            turns: rows,
            sessions,
            block_tokens,
            clock_resolution_us,
            facts: facts.finish(),
        }
    }

    /// Arrivals in order.
    pub fn arrivals(&self) -> Vec<i64> {
        self.turns.iter().map(|turn| turn.arrival_us).collect()
    }

    /// Turns of each session that has any.
    pub fn turns_per_session(&self) -> Vec<u32> {
        let mut counts = vec![0u32; self.sessions as usize];
        for turn in &self.turns {
            if let Some(count) = counts.get_mut(turn.session as usize) {
                *count += 1;
            }
        }
        counts.retain(|count| *count > 0);
        counts
    }

    /// Whether any turn has blocks: without them nothing can be said about prefix reuse.
    pub fn has_blocks(&self) -> bool {
        self.turns.iter().any(|turn| !turn.blocks.is_empty())
    }
}

/// A count out of a column; a negative one is nobody's count.
fn count(value: Option<i64>) -> Option<u64> {
    value.and_then(|value| u64::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(session: &str, start_us: i64, outcome: Outcome) -> Turn {
        Turn {
            session: session.to_owned(),
            start_us,
            recorded_outcome: outcome,
            recorded_end_us: Some(10),
            input_tokens: Some(5),
            output_tokens: Some(7),
            cached_tokens: Some(-1),
            ..Turn::default()
        }
    }

    #[test]
    fn a_set_becomes_a_population_in_order_of_arrival() {
        let turns = [
            turn("b", 300, Outcome::Complete),
            turn("a", 100, Outcome::Truncated),
            turn("b", 100, Outcome::Complete),
        ];
        let population = Population::of_turns(&turns, Some(16), None);
        assert_eq!(population.sessions, 2);
        assert_eq!(population.arrivals(), [100, 100, 300]);
        let outputs: Vec<_> = population
            .turns
            .iter()
            .map(|turn| turn.output_tokens)
            .collect();
        assert_eq!(
            outputs,
            [None, Some(7), Some(7)],
            "a cut answer has no observed length"
        );
        assert_eq!(population.turns[2].end_us, Some(310));
        assert_eq!(
            population.turns[0].cached_tokens, None,
            "a negative count is unknown"
        );
        assert!(!population.has_blocks());
    }
}
