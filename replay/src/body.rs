//! Request bodies: built once, kept as shared parts, joined when a dispatch is sent.
//!
//! A session's later prompts repeat its earlier messages. Keeping every body whole would cost the
//! square of a conversation's length; a body here is a short head and a list of part numbers.

use crate::lengths::Ask;
use bytes::Bytes;
use serde_json::Value;
use std::collections::HashMap;
use truetape_schemas::set::{Content, ContentKind, Turn};
use truetape_schemas::wire::Dialect;

mod control;
mod fields;

use control::{CONTROLLED, INCLUDE_USAGE, PREVIOUS, controlled, recorded_salt, stream_options};
pub use control::{can_enforce, can_salt, can_send};
use fields::Fields;

/// The parts of all bodies of a set.
#[derive(Debug, Default)]
pub struct Library {
    parts: Vec<Bytes>,
    by_id: HashMap<String, u32>,
    templates: HashMap<String, Template>,
}

#[derive(Debug)]
struct Template {
    /// Its fields that are not [`CONTROLLED`], as JSON without the braces.
    rest: u32,
    controlled: Fields,
}

/// One body: `head part joiner part … tail`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    head: Bytes,
    rest: Option<u32>,
    opening: &'static str,
    parts: Vec<u32>,
    joiner: &'static str,
    tail: &'static str,
}

/// What the plan decides about a body besides its length.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// The model to ask for.
    pub model: Option<&'a str>,
    /// The value of `cache_salt`.
    pub cache_salt: Option<&'a str>,
}

impl Library {
    /// Takes in the parts of a set. Parts that are not what they say are left out: a turn that
    /// names one has no content.
    pub fn new(contents: Vec<Content>) -> Self {
        let mut library = Self::default();
        for content in contents {
            match content.kind {
                ContentKind::Message => library.add(content.content_id, content.body.into()),
                ContentKind::Text => {
                    if let Some(escaped) = escape(&content.body) {
                        library.add(content.content_id, escaped);
                    }
                }
                ContentKind::Template => library.add_template(content),
            }
        }
        library
    }

    fn add(&mut self, id: String, body: Bytes) {
        let number = self.push(body);
        self.by_id.insert(id, number);
    }

    fn push(&mut self, body: Bytes) -> u32 {
        self.parts.push(body);
        u32::try_from(self.parts.len() - 1).unwrap_or(u32::MAX)
    }

    fn add_template(&mut self, content: Content) {
        let Ok(fields) = serde_json::from_slice::<Fields>(&content.body) else {
            return;
        };
        let (controlled, rest) = fields.partition(|name| CONTROLLED.contains(&name));
        let rest = self.push(inner(rest.iter()).into());
        self.templates
            .insert(content.content_id, Template { rest, controlled });
    }

    fn part(&self, number: u32) -> &[u8] {
        self.parts.get(number as usize).map_or(&[], Bytes::as_ref)
    }

    /// Whether a turn's recorded request asked for usage in its stream; `None` without its template,
    /// and where usage is always told.
    pub fn asks_usage(&self, turn: &Turn) -> Option<bool> {
        if !control::asks_for_usage(Dialect::from_name(&turn.dialect)) {
            return None;
        }
        let template = self.templates.get(turn.template.as_ref()?)?;
        let options = stream_options(&template.controlled);
        Some(options.get(INCLUDE_USAGE) == Some("true"))
    }

    /// Whether a turn's recorded request kept its prefixes apart from others' by a salt of its own.
    pub fn is_salted(&self, turn: &Turn) -> bool {
        let template = turn.template.as_ref().and_then(|id| self.templates.get(id));
        template.is_some_and(|template| recorded_salt(&template.controlled).is_some())
    }

    /// Whether a turn's recorded request continued an answer by its id.
    pub fn continues(&self, turn: &Turn) -> bool {
        let template = turn.template.as_ref().and_then(|id| self.templates.get(id));
        let previous = template.and_then(|template| template.controlled.get(PREVIOUS));
        previous.is_some_and(|id| id != "null")
    }

    /// Plans the body of a turn; `None` when the set holds no content for it.
    pub fn body(&self, turn: &Turn, ask: &Ask, shape: &Shape<'_>) -> Option<Body> {
        if turn.content.is_empty() {
            return None;
        }
        let parts: Option<Vec<u32>> = turn
            .content
            .iter()
            .map(|id| self.by_id.get(id).copied())
            .collect();
        let template = match &turn.template {
            Some(id) => Some(self.templates.get(id)?),
            None => None,
        };
        let recorded = template.map(|template| &template.controlled);
        let head = controlled(turn, ask, shape, recorded);
        let head = inner(head.iter().map(|(name, json)| (*name, json.as_str())));
        let (opening, joiner, tail) = match Dialect::from_name(&turn.dialect) {
            Dialect::OpenaiCompletions => ("\"prompt\":\"", "", "\"}"),
            Dialect::SglangGenerate => ("\"text\":\"", "", "\"}"),
            Dialect::OpenaiResponses => ("\"input\":[", ",", "]}"),
            _ => ("\"messages\":[", ",", "]}"),
        };
        let rest = template.map(|template| template.rest);
        Some(Body {
            head: head.into(),
            rest,
            opening,
            parts: parts?,
            joiner,
            tail,
        })
    }
}

impl Body {
    /// Joins the parts to the bytes that are sent.
    pub fn bytes(&self, library: &Library) -> Bytes {
        self.bytes_after(library, None)
    }

    /// The same, continuing an answer that the target gave before.
    pub fn bytes_after(&self, library: &Library, previous: Option<&str>) -> Bytes {
        let mut whole = Vec::with_capacity(self.len_bound(library));
        whole.push(b'{');
        let previous = previous
            .map(Value::from)
            .map(|id| format!("\"{PREVIOUS}\":{id}"));
        for fields in [
            previous.as_deref().unwrap_or_default().as_bytes(),
            &self.head[..],
            self.rest.map_or(&[], |rest| library.part(rest)),
        ] {
            whole.extend_from_slice(fields);
            if !fields.is_empty() {
                whole.push(b',');
            }
        }
        whole.extend_from_slice(self.opening.as_bytes());
        for (nth, part) in self.parts.iter().enumerate() {
            if nth != 0 {
                whole.extend_from_slice(self.joiner.as_bytes());
            }
            whole.extend_from_slice(library.part(*part));
        }
        whole.extend_from_slice(self.tail.as_bytes());
        whole.into()
    }

    /// Room for the whole body: its length, a `previous_response_id` aside, or a few bytes more.
    pub fn len_bound(&self, library: &Library) -> usize {
        let parts = self
            .parts
            .iter()
            .map(|&part| library.part(part).len() + self.joiner.len());
        let rest = self.rest.map_or(0, |rest| library.part(rest).len());
        // One brace and two commas beside what is counted.
        self.head.len() + rest + self.opening.len() + parts.sum::<usize>() + self.tail.len() + 3
    }
}

/// Members of an object as JSON, without the braces.
fn inner<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let members: Vec<String> = fields
        .map(|(name, json)| format!("{}:{json}", Value::from(name)))
        .collect();
    members.join(",").into_bytes()
}

/// Text as the inside of a JSON string; `None` when it is not UTF-8.
fn escape(text: &[u8]) -> Option<Bytes> {
    let text = std::str::from_utf8(text).ok()?;
    let quoted = serde_json::to_vec(text).ok()?;
    let last = quoted.len().checked_sub(1)?;
    Some(Bytes::from(quoted).slice(1..last))
}

#[cfg(test)]
mod tests;
