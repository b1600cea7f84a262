//! What turns are besides their lengths: model, parameters, how they ended.
//!
//! Millions of turns have few combinations of these, so a population keeps each combination once
//! and a turn its number. Number 0 is a turn of which nothing is known.

use std::collections::{BTreeMap, HashMap};
use truetape_schemas::capture::Outcome;
use truetape_schemas::set::{Turn, TurnKind};

/// Combinations that are kept apart. Models and finish reasons are other people's words, so a table
/// must not grow with the traffic: what comes later is unknown. 65,536 of 44 bytes are 3 MiB.
const COMBINATIONS_MAX: usize = 1 << 16;

/// Words that are kept apart, for the same reason.
const WORDS_MAX: usize = 1 << 16;

/// One thing that is known of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Its model, or the adapter that is asked for like one.
    Model,
    /// Its dialect.
    Dialect,
    /// Whether it asked for a stream: `yes` or `no`.
    Stream,
    /// Whether it brought tools: `yes` or `no`.
    Tools,
    /// The form its answer was held to; `free` without one.
    Schema,
    /// How tokens were drawn: `greedy`, `drawn` or `default`, and how many answers where several.
    Sampling,
    /// The limit on its answer, as a power of two that holds it; `none` without one.
    Limit,
    /// How it ended: `answered`, `aborted` by its client, `failed`.
    Ending,
    /// The finish reason of its first choice.
    Finish,
    /// Whether it repeats a request that failed: `yes` or `no`.
    Retry,
}

/// How many there are.
const FIELDS: usize = Field::Retry as usize + 1;

type Combination = [u32; FIELDS];

/// What the turns of a population are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Word 0 is no word.
    words: Vec<String>,
    /// Combination 0 is nothing known.
    combinations: Vec<Combination>,
}

impl Facts {
    /// What a combination says of a field; none where it is not known.
    pub fn word(&self, combination: u32, field: Field) -> Option<&str> {
        let number = *self
            .combinations
            .get(combination as usize)?
            .get(field as usize)?;
        let word = self.words.get(number as usize).filter(|_| number > 0)?;
        Some(word)
    }

    /// Combinations that are told apart.
    pub fn len(&self) -> u32 {
        u32::try_from(self.combinations.len()).unwrap_or(u32::MAX)
    }

    /// Whether nobody looked.
    pub fn is_empty(&self) -> bool {
        self.combinations.is_empty()
    }

    /// Counts turns, given by their combinations, by what they say of a field; and how many say
    /// nothing.
    pub fn count(
        &self,
        turns: impl Iterator<Item = u32>,
        field: Field,
    ) -> (BTreeMap<&str, u64>, u64) {
        let mut uses = vec![0_u64; self.combinations.len()];
        let mut unknown = 0;
        for combination in turns {
            match uses.get_mut(combination as usize) {
                Some(uses) => *uses += 1,
                None => unknown += 1,
            }
        }
        let mut counts = BTreeMap::new();
        for (combination, uses) in (0..).zip(uses).filter(|(_, uses)| *uses > 0) {
            match self.word(combination, field) {
                Some(word) => *counts.entry(word).or_default() += uses,
                None => unknown += uses,
            }
        }
        (counts, unknown)
    }
}

/// What is said of one turn. What is not known is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    /// The model.
    pub model: Option<&'a str>,
    /// The dialect's name.
    pub dialect: &'a str,
    /// Whether the request itself was seen; of a trace only lengths are known.
    pub request: bool,
    /// Whether a stream was asked for; none for what the server does by itself, which is none.
    pub stream: Option<bool>,
    /// Tools that were brought.
    pub tool_count: Option<i32>,
    /// The form of the answer.
    pub response_format: Option<&'a str>,
    /// The temperature.
    pub temperature: Option<f64>,
    /// Answers asked for.
    pub n: Option<i32>,
    /// The limit on the answer.
    pub max_tokens: Option<i64>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// HTTP status.
    pub status: Option<i32>,
    /// The finish reason of the first choice.
    pub finish: Option<&'a str>,
    /// Whether it repeats a request that failed.
    pub retry: Option<bool>,
}

/// The dialect of what is no request, but a row of a trace.
const TRACE: &str = "trace";

impl<'a> Said<'a> {
    /// What a turn of a set says.
    pub fn of_turn(turn: &'a Turn) -> Self {
        let reasons = turn.recorded_finish_reasons.as_ref();
        Self {
            model: turn.model.as_deref(),
            dialect: &turn.dialect,
            request: turn.dialect != TRACE && !turn.dialect.is_empty(),
            stream: turn.stream,
            tool_count: turn.tool_count,
            response_format: turn.response_format.as_deref(),
            temperature: turn.temperature,
            n: turn.n,
            max_tokens: turn.max_tokens,
            outcome: Some(turn.recorded_outcome),
            status: turn.recorded_status,
            finish: reasons
                .and_then(|reasons| reasons.first())
                .map(String::as_str),
            retry: Some(turn.kind == TurnKind::Retry),
        }
    }

    fn sampling(&self) -> String {
        let drawn = match self.temperature {
            None => "default",
            Some(temperature) if temperature <= 0.0 => "greedy",
            Some(_) => "drawn",
        };
        match self.n {
            Some(n) if n > 1 => format!("{drawn}, several"),
            _ => drawn.to_owned(),
        }
    }

    fn limit(&self) -> String {
        let limit = self
            .max_tokens
            .and_then(|tokens| u64::try_from(tokens).ok());
        // One beyond the largest power of two has none that holds it.
        limit.map_or("none".to_owned(), |tokens| {
            tokens
                .checked_next_power_of_two()
                .unwrap_or(u64::MAX)
                .to_string()
        })
    }

    fn ending(&self) -> Option<&'static str> {
        let refused = self.status.is_some_and(|status| status >= 400);
        Some(match self.outcome? {
            Outcome::Complete if !refused => "answered",
            Outcome::ClientAborted => "aborted",
            _ => "failed",
        })
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// Collects the facts of a population, turn by turn.
#[derive(Debug, Default)]
pub struct Collector {
    facts: Facts,
    words: HashMap<String, u32>,
    combinations: HashMap<Combination, u32>,
}

impl Collector {
    /// Makes one with nothing in it.
    pub fn new() -> Self {
        let mut collector = Self::default();
        collector.facts.words.push(String::new());
        collector.facts.combinations.push(Combination::default());
        collector.combinations.insert(Combination::default(), 0);
        collector
    }

    /// The number of what is said of a turn.
    pub fn add(&mut self, said: &Said<'_>) -> u32 {
        let mut combination = Combination::default();
        let mut set = |field: Field, word: Option<&str>| {
            let number = word
                .filter(|word| !word.is_empty())
                .map_or(0, |word| self.number(word));
            if let Some(slot) = combination.get_mut(field as usize) {
                *slot = number;
            }
        };
        set(Field::Model, said.model);
        set(Field::Dialect, Some(said.dialect));
        set(Field::Ending, said.ending());
        set(Field::Finish, said.finish);
        set(Field::Retry, said.retry.map(yes));
        if said.request {
            set(Field::Stream, Some(yes(said.stream.unwrap_or(false))));
            set(Field::Tools, Some(yes(said.tool_count.unwrap_or(0) > 0)));
            set(Field::Schema, said.response_format.or(Some("free")));
            set(Field::Sampling, Some(&said.sampling()));
            set(Field::Limit, Some(&said.limit()));
        }
        self.place(combination)
    }

    fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.words.get(word) {
            return *number;
        }
        let next = self.facts.words.len();
        if next >= WORDS_MAX {
            return 0;
        }
        let number = u32::try_from(next).unwrap_or(0);
        self.facts.words.push(word.to_owned());
        self.words.insert(word.to_owned(), number);
        number
    }

    fn place(&mut self, combination: Combination) -> u32 {
        if let Some(place) = self.combinations.get(&combination) {
            return *place;
        }
        let next = self.facts.combinations.len();
        if next >= COMBINATIONS_MAX {
            return 0;
        }
        let place = u32::try_from(next).unwrap_or(0);
        self.facts.combinations.push(combination);
        self.combinations.insert(combination, place);
        place
    }

    /// What was collected.
    pub fn finish(self) -> Facts {
        self.facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<'a>() -> Said<'a> {
        Said {
            model: Some("m"),
            dialect: "openai_chat",
            request: true,
            outcome: Some(Outcome::Complete),
            retry: Some(false),
            ..Said::default()
        }
    }

    #[test]
    fn turns_that_say_the_same_share_a_number() {
        let mut collector = Collector::new();
        let one = collector.add(&said());
        let same = collector.add(&said());
        let other = collector.add(&Said {
            stream: Some(true),
            max_tokens: Some(300),
            ..said()
        });
        assert_eq!((one, one == other), (same, false));
        let facts = collector.finish();
        assert_eq!(facts.word(one, Field::Stream), Some("no"));
        assert_eq!(facts.word(other, Field::Stream), Some("yes"));
        assert_eq!(facts.word(other, Field::Limit), Some("512"));
        assert_eq!(facts.word(one, Field::Limit), Some("none"));
        assert_eq!(facts.word(one, Field::Finish), None);
        assert_eq!(facts.word(99, Field::Model), None);
    }

    #[test]
    fn a_trace_says_nothing_of_its_requests() {
        let mut collector = Collector::new();
        let trace = Said {
            dialect: TRACE,
            request: false,
            model: None,
            ..said()
        };
        let number = collector.add(&trace);
        let facts = collector.finish();
        for field in [
            Field::Model,
            Field::Stream,
            Field::Tools,
            Field::Schema,
            Field::Sampling,
        ] {
            assert_eq!(facts.word(number, field), None, "{field:?}");
        }
        assert_eq!(facts.word(number, Field::Ending), Some("answered"));
    }

    #[test]
    fn endings_are_told_apart() {
        let ending = |outcome, status| {
            Said {
                outcome: Some(outcome),
                status,
                ..said()
            }
            .ending()
        };
        assert_eq!(ending(Outcome::Complete, Some(200)), Some("answered"));
        assert_eq!(ending(Outcome::Complete, Some(429)), Some("failed"));
        assert_eq!(ending(Outcome::ClientAborted, Some(200)), Some("aborted"));
        assert_eq!(ending(Outcome::Truncated, None), Some("failed"));
    }

    #[test]
    fn counts_add_up_to_the_turns() {
        let mut collector = Collector::new();
        let a = collector.add(&said());
        let b = collector.add(&Said {
            model: None,
            ..said()
        });
        let facts = collector.finish();
        let (counts, unknown) = facts.count([a, a, b, 0, 77].into_iter(), Field::Model);
        assert_eq!((counts, unknown), ([("m", 2)].into(), 3));
    }

    #[test]
    fn tables_do_not_grow_with_the_traffic() {
        let mut collector = Collector::new();
        for at in 0..WORDS_MAX + 100 {
            let name = format!("m{at}");
            collector.add(&Said {
                model: Some(&name),
                ..said()
            });
        }
        let facts = collector.finish();
        assert!(facts.words.len() <= WORDS_MAX && facts.combinations.len() <= COMBINATIONS_MAX);
    }
}
