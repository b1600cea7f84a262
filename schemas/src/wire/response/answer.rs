//! The facts of an answer, event by event.

use super::choice::{Choice, Material, Room};
use super::lengths::{self, Listed};
use crate::capture::ParseStatus;
use crate::wire::ResponseFacts;
use crate::wire::json::{Field, read, repair};
use crate::wire::limits::{AnswerLimits, CHOICES_MAX};
use crate::wire::openai;
use crate::wire::sse::Event;

/// The data of the event that ends a stream.
const DONE: &[u8] = b"[DONE]";

/// The name of an event that says that something failed.
const ERROR: &[u8] = b"error";

/// What is known of an answer so far.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) facts: ResponseFacts,
    /// The end marker was seen.
    pub(super) done: bool,
    /// The body says that something failed.
    pub(super) error: bool,
    choices: Vec<Choice>,
    room: Room,
    listed: Listed,
    /// Events that could be read, and that could not.
    readable: u64,
    unreadable: u64,
    token_events_max: usize,
    /// Something in a readable event was not what it should be, or did not fit.
    odd: bool,
}

/// Where a document came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// An event, complete at this time; whether it is named an error.
    Event { at_us: i64, is_error: bool },
    /// A whole answer; whether its status is an error.
    Whole { at_us: Option<i64>, is_error: bool },
}

impl Answer {
    pub(super) fn new(limits: AnswerLimits) -> Self {
        Self {
            facts: ResponseFacts::default(),
            done: false,
            error: false,
            choices: Vec::new(),
            room: Room::new(limits.text_bytes_max),
            listed: Listed::default(),
            readable: 0,
            unreadable: 0,
            token_events_max: limits.token_events_max,
            odd: false,
        }
    }

    /// Takes an event.
    pub(super) fn event(&mut self, at_us: i64, event: Event<'_>) {
        let data = event.data.trim_ascii();
        if self.done {
            // What follows the end marker is not part of the answer.
            self.odd |= !data.is_empty() && data != DONE;
        } else if data == DONE {
            self.facts.data_events += 1;
            self.done = true;
        } else if !data.is_empty() {
            self.facts.data_events += 1;
            let is_error = event.name == ERROR;
            self.error |= is_error;
            if !self.read(data, Source::Event { at_us, is_error }) {
                self.unreadable += 1;
            }
        }
    }

    /// Takes an event that no blank line ended. Where it is whole it counts as any other; where
    /// it is half an event it is as if it had not come.
    pub(super) fn last_event(&mut self, at_us: i64, event: Event<'_>) {
        let data = event.data.trim_ascii();
        let is_whole = data == DONE
            || event.name == ERROR
            || data.starts_with(b"{")
                && serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok();
        if is_whole {
            self.event(at_us, event);
        }
    }

    fn read(&mut self, data: &[u8], source: Source) -> bool {
        if let Ok(document) = read(data) {
            self.document(document, source);
            return true;
        }
        let repaired = repair(data);
        let Ok(document) = read(&repaired) else {
            return false;
        };
        self.odd = true;
        self.document(document, source);
        true
    }

    /// Takes a whole answer; `false` where it is not JSON, also not nearly.
    pub(super) fn whole(&mut self, at_us: Option<i64>, body: &[u8], status: u16) -> bool {
        self.read(
            body,
            Source::Whole {
                at_us,
                is_error: status >= 400,
            },
        )
    }

    fn document(&mut self, document: Field<openai::Answer<'_>>, source: Source) {
        self.readable += 1;
        self.odd |= document.is_odd();
        let Some(document) = document.get() else {
            return;
        };
        if self.facts.response_id.is_none() {
            self.facts.response_id = document.id.some_text();
        }
        self.fault(&document, source);
        if let Some(usage) = document.usage.get() {
            self.odd |= lengths::report(&mut self.facts, &usage);
        }
        self.listed.input = document
            .prompt_token_ids
            .get()
            .map(|c| c.0)
            .or(self.listed.input);
        let choices = document
            .choices
            .get()
            .map_or_else(Vec::new, |list| list.items);
        for (position, choice) in choices.into_iter().enumerate() {
            if let Some(choice) = choice.get() {
                self.choice(position, &choice, source);
            }
        }
    }

    fn fault(&mut self, document: &openai::Answer<'_>, source: Source) {
        let (Source::Event { is_error, .. } | Source::Whole { is_error, .. }) = source;
        let in_choice = |choice: &Field<openai::Choice<'_>>| {
            choice
                .get_ref()
                .is_some_and(|choice| choice.error.get_ref().is_some())
        };
        let choices = document
            .choices
            .get_ref()
            .map_or(&[][..], |list| &list.items);
        let choice = choices
            .iter()
            .find(|choice| in_choice(choice))
            .and_then(Field::get_ref);
        let fault = document
            .error
            .get_ref()
            .or(choice.and_then(|choice| choice.error.get_ref()));
        let (code, kind) = match fault {
            Some(fault) => (fault.code.as_deref(), fault.kind.as_deref()),
            None if is_error || document.object.text() == "error" => (
                document.code.get_ref().map(|code| &*code.0),
                Some(document.kind.text()),
            ),
            None => return,
        };
        let some = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        self.error = true;
        self.facts.error_code = self.facts.error_code.take().or(some(code));
        self.facts.error_type = self.facts.error_type.take().or(some(kind));
    }

    fn choice(&mut self, position: usize, choice: &openai::Choice<'_>, source: Source) {
        let index = match (&choice.index, source) {
            (Field::Is(index), _) => usize::try_from(*index).ok(),
            (Field::Absent, Source::Whole { .. }) => Some(position),
            (Field::Absent, Source::Event { .. }) => Some(0),
            (Field::Odd, _) => None,
        };
        let Some(index) = index.filter(|index| *index < CHOICES_MAX) else {
            self.odd = true;
            return;
        };
        if index >= self.choices.len() {
            self.choices.resize_with(index + 1, Choice::default);
        }
        let Some(known) = self.choices.get_mut(index) else {
            return;
        };
        let is_whole = matches!(source, Source::Whole { .. });
        let ids = choice.token_ids.get_ref().map(|ids| ids.0);
        let logprobs = choice.logprobs.get_ref().map(|logprobs| logprobs.tokens());
        let listed = ids.or(logprobs).unwrap_or(0);
        let material = known.add(choice, listed, is_whole, &mut self.room);
        if material != Material::Nothing {
            self.listed.add(listed);
            self.token_event(index, material, source);
        }
    }

    fn token_event(&mut self, index: usize, material: Material, source: Source) {
        let facts = &mut self.facts;
        match source {
            Source::Event { at_us, .. } => {
                facts.first_token_us.get_or_insert(at_us);
                if material == Material::Output {
                    facts.first_output_us.get_or_insert(at_us);
                }
                facts.last_token_us = Some(at_us);
                if facts.token_event_offsets_us.len() < self.token_events_max {
                    facts.token_event_offsets_us.push(at_us);
                    facts
                        .token_event_choices
                        .push(i32::try_from(index).unwrap_or(i32::MAX));
                } else {
                    self.odd = true;
                }
            }
            // All of its tokens were there at its end; when the first was, nobody can tell.
            Source::Whole { at_us, .. } => facts.last_token_us = at_us,
        }
    }

    /// Whether every choice that was seen said why it ended, and there was one.
    pub(super) fn is_finished(&self) -> bool {
        let mut seen = self.choices.iter().filter(|choice| choice.seen).peekable();
        seen.peek().is_some() && seen.all(|choice| choice.finish_reason.is_some())
    }

    pub(super) fn parse_status(&self) -> ParseStatus {
        let is_partial = self.odd || self.room.exceeded || self.facts.skipped > 0;
        match (self.readable, self.unreadable) {
            (0, 1..) => ParseStatus::Failed,
            (_, 1..) => ParseStatus::Partial,
            _ if is_partial => ParseStatus::Partial,
            _ => ParseStatus::Ok,
        }
    }

    /// Ends the answer.
    pub(super) fn end(self) -> ResponseFacts {
        let Self {
            mut facts,
            choices,
            listed,
            ..
        } = self;
        listed.stand_in(&mut facts);
        for choice in choices {
            facts.tool_calls.push(choice.tool_calls());
            facts.finish_reasons.push(choice.finish_reason);
            facts.texts.push(choice.text);
            facts.reasoning_texts.push(choice.reasoning);
            facts.refusals.push(choice.refusal);
        }
        facts
    }
}
