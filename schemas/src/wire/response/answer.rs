//! The facts of an answer, event by event, whatever its dialect.

use super::anthropic::Prompt;
use super::calls::CallPiece;
use super::choice::{Choice, Material, Piece, Room};
use super::dialects;
use super::lengths::{self, Listed, Report, Tally};
use super::sglang::Counting;
use crate::capture::{LengthSource, ParseStatus};
use crate::wire::json::Field;
use crate::wire::limits::{AnswerLimits, CHOICES_MAX};
use crate::wire::openai::Text;
use crate::wire::sse::Event;
use crate::wire::{Dialect, ResponseFacts};

/// The data of the event that ends a stream.
const DONE: &[u8] = b"[DONE]";

/// The name of an event that says that something failed.
const ERROR: &[u8] = b"error";

/// What is known of an answer so far.
#[derive(Debug)]
pub(super) struct Answer {
    dialect: Dialect,
    pub(super) facts: ResponseFacts,
    /// The end marker was seen.
    pub(super) done: bool,
    /// The body says that something failed.
    pub(super) error: bool,
    /// The body says that someone called it off.
    pub(super) cancelled: bool,
    /// Something in a readable event was not what it should be, or did not fit.
    pub(super) odd: bool,
    pub(super) choices: Vec<Choice>,
    room: Room,
    pub(super) listed: Listed,
    pub(super) tally: Tally,
    /// A report was about all choices together.
    pub(super) totalled: bool,
    /// What Anthropic's reports say about the prompt, apart.
    pub(super) prompt: Prompt,
    /// How SGLang streams.
    pub(super) counting: Counting,
    /// Events that could be read, and that could not.
    readable: u64,
    unreadable: u64,
    token_events_max: usize,
}

/// Where a document came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An event, complete at this time; whether it is named an error.
    Event { at_us: i64, is_error: bool },
    /// A whole answer; whether its status is an error.
    Whole { at_us: Option<i64>, is_error: bool },
}

impl Source {
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::Whole { .. })
    }

    pub(super) fn is_error(self) -> bool {
        let (Self::Event { is_error, .. } | Self::Whole { is_error, .. }) = self;
        is_error
    }
}

impl Answer {
    pub(super) fn new(dialect: Dialect, limits: AnswerLimits) -> Self {
        Self {
            dialect,
            facts: ResponseFacts::default(),
            done: false,
            error: false,
            cancelled: false,
            odd: false,
            choices: Vec::new(),
            room: Room::new(limits.text_bytes_max),
            listed: Listed::default(),
            tally: Tally::default(),
            totalled: false,
            prompt: Prompt::default(),
            counting: Counting::default(),
            readable: 0,
            unreadable: 0,
            token_events_max: limits.token_events_max,
        }
    }

    /// Takes an event.
    pub(super) fn event(&mut self, at_us: i64, event: Event<'_>) {
        let is_error = event.name == ERROR;
        self.data(event.data, Source::Event { at_us, is_error });
    }

    /// Takes a line of JSON. A first line that is also the last is a whole answer.
    pub(super) fn line(&mut self, at_us: i64, line: &[u8]) {
        let is_error = false;
        let is_whole = self.facts.data_events == 0 && dialects::is_last_line(line);
        self.data(
            line,
            if is_whole {
                let at_us = Some(at_us);
                Source::Whole { at_us, is_error }
            } else {
                Source::Event { at_us, is_error }
            },
        );
    }

    fn data(&mut self, data: &[u8], source: Source) {
        let data = data.trim_ascii();
        if self.done {
            // What follows the end marker is not part of the answer.
            self.odd |= !data.is_empty() && data != DONE;
        } else if data == DONE {
            self.facts.data_events += 1;
            self.done = true;
        } else if !data.is_empty() {
            self.facts.data_events += 1;
            self.error |= source.is_error();
            self.read(data, source);
        }
    }

    /// Takes an event that no blank line ended. Where it is whole it counts as any other; where
    /// it is half an event it is as if it had not come.
    pub(super) fn last_event(&mut self, at_us: i64, event: Event<'_>) {
        let data = event.data.trim_ascii();
        if data == DONE || event.name == ERROR || is_object(data) {
            self.event(at_us, event);
        }
    }

    /// Takes a line that no line feed ended, likewise.
    pub(super) fn last_line(&mut self, at_us: i64, line: &[u8]) {
        if is_object(line.trim_ascii()) {
            self.line(at_us, line);
        }
    }

    fn read(&mut self, data: &[u8], source: Source) -> bool {
        let dialect = self.dialect;
        let is_read = dialects::read(self, dialect, data, source);
        if is_read {
            self.readable += 1;
        } else {
            self.unreadable += 1;
        }
        is_read
    }

    /// Takes a whole answer; `false` where it is not JSON, also not nearly.
    pub(super) fn whole(&mut self, at_us: Option<i64>, body: &[u8], status: u16) -> bool {
        let is_error = status >= 400;
        let is_read = self.read(body, Source::Whole { at_us, is_error });
        if !is_read && self.dialect.streams_lines() {
            return self.mislabelled_lines(at_us, body);
        }
        is_read
    }

    /// Takes a stream that was declared one document. It was held to its end, so its times are
    /// those of a document.
    fn mislabelled_lines(&mut self, at_us: Option<i64>, body: &[u8]) -> bool {
        let is_error = false;
        self.odd = true;
        let lines = body.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| is_object(line.trim_ascii()));
        let mut any = false;
        for line in lines {
            any |= self.read(line, Source::Whole { at_us, is_error });
        }
        any
    }

    /// Takes the provider's id of the answer; the first counts.
    pub(super) fn id(&mut self, id: &Field<Text<'_>>) {
        if self.facts.response_id.is_none() {
            self.facts.response_id = id.some_text();
        }
    }

    /// Takes an error; the first code and the first type count.
    pub(super) fn fail(&mut self, code: Option<&str>, kind: Option<&str>) {
        let some = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        self.error = true;
        self.facts.error_code = self.facts.error_code.take().or(some(code));
        self.facts.error_type = self.facts.error_type.take().or(some(kind));
    }

    /// Takes a report of lengths.
    pub(super) fn report(&mut self, report: Report, from: LengthSource) {
        self.odd |= lengths::report(&mut self.facts, report, from);
    }

    /// Lets a choice in, and returns its index; none where there is no such choice.
    pub(super) fn admit(&mut self, index: &Field<i64>, otherwise: usize) -> Option<usize> {
        let index = match index {
            Field::Is(index) => usize::try_from(*index).ok(),
            Field::Absent => Some(otherwise),
            Field::Odd => None,
        };
        let index = index.filter(|index| *index < CHOICES_MAX);
        match index {
            Some(index) if index >= self.choices.len() => {
                self.choices.resize_with(index + 1, Choice::default);
            }
            Some(_) => {}
            None => self.odd = true,
        }
        index
    }

    /// Adds a piece of a call to a choice, by the call's position.
    pub(super) fn call(&mut self, index: usize, call: usize, piece: &CallPiece<'_>) -> bool {
        let Self { choices, room, .. } = self;
        let choice = choices.get_mut(index);
        choice.is_some_and(|choice| choice.calls.add(call, piece, room))
    }

    /// Adds a piece to a choice that was let in.
    pub(super) fn add(&mut self, index: usize, piece: &Piece<'_>, source: Source) {
        let Self { choices, room, .. } = self;
        let Some(choice) = choices.get_mut(index) else {
            return;
        };
        let material = choice.add(piece, room);
        if material != Material::Nothing {
            self.listed.add(piece.listed);
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
    pub(super) fn end(mut self) -> ResponseFacts {
        dialects::total(&mut self);
        let Self {
            mut facts,
            choices,
            listed,
            ..
        } = self;
        listed.stand_in(&mut facts);
        for choice in choices {
            facts.tool_calls.push(choice.calls.to_values());
            facts.finish_reasons.push(choice.finish_reason);
            facts.texts.push(choice.text);
            facts.reasoning_texts.push(choice.reasoning);
            facts.refusals.push(choice.refusal);
        }
        facts
    }

    /// The language of the answer.
    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }
}

fn is_object(data: &[u8]) -> bool {
    data.starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok()
}
