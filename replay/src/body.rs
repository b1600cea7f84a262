//! Request bodies: built once, kept as shared parts, joined when a dispatch is sent.
//!
//! A session's later prompts repeat its earlier messages. Keeping every body whole would cost the
//! square of a conversation's length; a body here is a short head and a list of part numbers.

use crate::lengths::{Ask, Enforcement};
use bytes::Bytes;
use serde_json::Value;
use std::collections::HashMap;
use truetape_schemas::set::{Content, ContentKind, Turn};
use truetape_schemas::wire::Dialect;

mod fields;

use fields::Fields;

/// Fields of a request that the plan decides, whatever the recorded request said.
const CONTROLLED: &[&str] = &[
    "model",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "ignore_eos",
    "stop",
    "cache_salt",
    "messages",
    "prompt",
];

/// The name newer OpenAI clients use for `max_tokens`.
const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";

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

    /// Whether a turn's recorded request asked for usage in its stream; `None` without its template.
    pub fn asks_usage(&self, turn: &Turn) -> Option<bool> {
        let template = self.templates.get(turn.template.as_ref()?)?;
        let options = stream_options(&template.controlled);
        Some(options.get(INCLUDE_USAGE) == Some("true"))
    }

    /// Whether a turn's recorded request kept its prefixes apart from others' by a salt of its own.
    pub fn is_salted(&self, turn: &Turn) -> bool {
        let template = turn.template.as_ref().and_then(|id| self.templates.get(id));
        template.is_some_and(|template| recorded_salt(&template.controlled).is_some())
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
        let mut whole = Vec::with_capacity(self.len_bound(library));
        whole.push(b'{');
        for fields in [
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

    /// Room for the whole body.
    fn len_bound(&self, library: &Library) -> usize {
        let parts = self
            .parts
            .iter()
            .map(|&part| library.part(part).len() + self.joiner.len());
        let rest = self.rest.map_or(0, |rest| library.part(rest).len());
        // One brace and two commas beside what is counted.
        self.head.len() + rest + self.opening.len() + parts.sum::<usize>() + self.tail.len() + 3
    }
}

/// The controlled fields of one request with their JSON, in a fixed order.
fn controlled(
    turn: &Turn,
    ask: &Ask,
    shape: &Shape<'_>,
    recorded: Option<&Fields>,
) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    let mut put = |name: &'static str, value: Option<Value>| {
        fields.extend(value.map(|value| (name, value.to_string())));
    };
    put("model", shape.model.map(Value::from));
    // Measured as a stream whatever production did: without one there is no first token, and
    // without usage no length.
    put("stream", Some(Value::Bool(true)));
    let newer = recorded.is_some_and(|recorded| recorded.get(MAX_COMPLETION_TOKENS).is_some());
    let bound = if newer {
        MAX_COMPLETION_TOKENS
    } else {
        "max_tokens"
    };
    put(bound, ask.max_tokens.map(Value::from));
    put("min_tokens", ask.min_tokens.map(Value::from));
    let salt = shape.cache_salt.map(|salt| salt_of(salt, recorded));
    put("cache_salt", salt.map(Value::from));
    if ask.enforcement == Enforcement::Enforce {
        put("ignore_eos", Some(Value::Bool(true)));
    } else {
        put(
            "ignore_eos",
            turn.ignore_eos.filter(|_| is_own(ask)).map(Value::Bool),
        );
    }
    if recorded.is_none() {
        sampling(turn, &mut put);
    }
    // Stop strings are part of what production asked; only an enforced length has no room for them.
    if ask.enforcement != Enforcement::Enforce {
        match recorded.and_then(|recorded| recorded.get("stop")) {
            Some(stop) => fields.push(("stop", stop.to_owned())),
            None => put("stop", turn.stop.clone().map(Value::from)),
        }
    }
    fields.push(("stream_options", with_usage(recorded)));
    fields
}

const INCLUDE_USAGE: &str = "include_usage";

/// The recorded options of the stream, with usage asked for.
fn with_usage(recorded: Option<&Fields>) -> String {
    let options = recorded.map(stream_options).unwrap_or_default();
    let others = options.iter().filter(|(name, _)| *name != INCLUDE_USAGE);
    let fields = inner(std::iter::once((INCLUDE_USAGE, "true")).chain(others));
    format!("{{{}}}", String::from_utf8_lossy(&fields))
}

fn stream_options(recorded: &Fields) -> Fields {
    let options = recorded.get("stream_options");
    options
        .and_then(|options| serde_json::from_str(options).ok())
        .unwrap_or_default()
}

fn recorded_salt(recorded: &Fields) -> Option<String> {
    let salt = recorded.get("cache_salt")?;
    serde_json::from_str(salt).ok()
}

/// The run's salt; where production kept the prefixes of its tenants apart, one of its own for each.
fn salt_of(salt: &str, recorded: Option<&Fields>) -> String {
    let Some(own) = recorded.and_then(recorded_salt) else {
        return salt.to_owned();
    };
    let mut hasher = blake3::Hasher::new_derive_key(SALT_CONTEXT);
    // With its length, so that no two pairs of salts are one text.
    hasher.update(&(salt.len() as u64).to_le_bytes());
    hasher.update(salt.as_bytes());
    hasher.update(own.as_bytes());
    hasher.finalize().to_hex().to_string()
}

/// What the hash of two salts is for.
const SALT_CONTEXT: &str = "truetape replay: cache_salt of a run and of a recorded request";

fn is_own(ask: &Ask) -> bool {
    ask.enforcement == Enforcement::AsRecorded
}

/// The sampling columns, for turns without a template (imported traces).
fn sampling(turn: &Turn, put: &mut impl FnMut(&'static str, Option<Value>)) {
    put("temperature", turn.temperature.map(Value::from));
    put("top_p", turn.top_p.map(Value::from));
    put("n", turn.n.map(Value::from));
    put("seed", turn.seed.map(Value::from));
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
