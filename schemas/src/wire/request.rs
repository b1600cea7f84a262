//! What was asked.

use super::Dialect;
use super::json::{Count, Field, List, Readable, object, read, repair};
use super::openai::Text;
use crate::capture::ParseStatus;
use serde::Serialize;
use serde::de::{MapAccess, SeqAccess};

/// What a request body says. What it does not say, or says in a way that cannot be read, is
/// `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RequestFacts {
    /// How well the body could be read.
    pub parse_status: ParseStatus,
    /// The model asked for.
    pub model: Option<String>,
    /// Whether a stream was asked for. A dialect's default is not filled in.
    pub stream: Option<bool>,
    /// `max_completion_tokens`, else `max_tokens`.
    pub max_tokens: Option<i64>,
    /// `min_tokens`.
    pub min_tokens: Option<i64>,
    /// `temperature`.
    pub temperature: Option<f64>,
    /// `top_p`.
    pub top_p: Option<f64>,
    /// Choices asked for.
    pub n: Option<i32>,
    /// Stop strings; one string is a list of one.
    pub stop: Option<Vec<String>>,
    /// `ignore_eos`.
    pub ignore_eos: Option<bool>,
    /// `seed`.
    pub seed: Option<i64>,
    /// `response_format.type`.
    pub response_format: Option<String>,
    /// Tools (or legacy functions) offered.
    pub tool_count: Option<i32>,
    /// `stream_options.include_usage`.
    pub include_usage: Option<bool>,
    /// `user`: may name a person.
    pub user: Option<String>,
    /// `metadata.user_id`: may name a person.
    pub metadata_user_id: Option<String>,
    /// `prompt_cache_key`.
    pub prompt_cache_key: Option<String>,
    /// `conversation`, `conversation.id` or `conversation_id`.
    pub conversation: Option<String>,
    /// `session_id`, `litellm_session_id`, or one of them inside `metadata`.
    pub session_id: Option<String>,
    /// `previous_response_id`.
    pub previous_response_id: Option<String>,
}

object! {
    /// A request body.
    Body<'de> {
        model: Text<'de> = "model",
        stream: bool = "stream",
        max_completion_tokens: i64 = "max_completion_tokens",
        max_tokens: i64 = "max_tokens",
        min_tokens: i64 = "min_tokens",
        temperature: f64 = "temperature",
        top_p: f64 = "top_p",
        n: i32 = "n",
        stop: Texts = "stop",
        ignore_eos: bool = "ignore_eos",
        seed: i64 = "seed",
        response_format: Kind<'de> = "response_format",
        tools: Count = "tools",
        functions: Count = "functions",
        stream_options: StreamOptions = "stream_options",
        user: Text<'de> = "user",
        metadata: Metadata<'de> = "metadata",
        prompt_cache_key: Text<'de> = "prompt_cache_key",
        conversation: Name<'de> = "conversation",
        conversation_id: Text<'de> = "conversation_id",
        session_id: Text<'de> = "session_id" | "litellm_session_id",
        previous_response_id: Text<'de> = "previous_response_id",
    }
}

object! {
    /// Anything with a `type`.
    Kind<'de> { kind: Text<'de> = "type" }
}

object! {
    /// What a stream should carry besides text.
    StreamOptions { include_usage: bool = "include_usage" }
}

object! {
    /// What the client says about the request.
    Metadata<'de> {
        user_id: Text<'de> = "user_id",
        session_id: Text<'de> = "session_id" | "litellm_session_id",
        conversation_id: Text<'de> = "conversation_id",
    }
}

object! {
    /// Anything with an `id`.
    Identified<'de> { id: Text<'de> = "id" }
}

/// A name, or an object that has one.
#[derive(Debug, Default)]
pub(super) struct Name<'de>(Text<'de>);

impl<'de> Readable<'de> for Name<'de> {
    fn from_text(text: Text<'de>) -> Option<Self> {
        Some(Self(text))
    }

    fn from_object<A: MapAccess<'de>>(object: &mut A) -> Result<Option<Self>, A::Error> {
        let object = Identified::from_object(object)?.unwrap_or_default();
        Ok(object.id.get().map(Self))
    }
}

/// A text or a list of texts.
#[derive(Debug, Default)]
pub(super) struct Texts(Vec<String>);

impl<'de> Readable<'de> for Texts {
    fn from_text(text: Text<'de>) -> Option<Self> {
        Some(Self(vec![text.into_owned()]))
    }

    fn from_list<A: SeqAccess<'de>>(list: &mut A) -> Result<Option<Self>, A::Error> {
        let list = List::<Text<'de>>::from_list(list)?;
        let texts = list.filter(|list| !list.is_odd()).map(|list| {
            list.items
                .into_iter()
                .filter_map(Field::get)
                .map(Text::into_owned)
                .collect()
        });
        Ok(texts.map(Self))
    }
}

/// Reads a request body. It never fails: see [`RequestFacts::parse_status`].
///
/// Bodies of an unknown dialect are looked into as well, as far as they are JSON objects: other
/// APIs name the model and the conversation with the same words.
pub fn read_request(dialect: Dialect, body: &[u8]) -> RequestFacts {
    let known = match dialect {
        Dialect::OpenaiChat | Dialect::OpenaiCompletions => true,
        Dialect::Unknown => false,
        Dialect::Trace => return RequestFacts::default(),
    };
    if !known && body.trim_ascii_start().first() != Some(&b'{') {
        return RequestFacts::default();
    }
    let mut facts = match read::<Body<'_>>(body) {
        Ok(body) => facts_of(body),
        Err(_) => match read::<Body<'_>>(&repair(body)) {
            Ok(body) => RequestFacts {
                parse_status: ParseStatus::Partial,
                ..facts_of(body)
            },
            Err(_) => RequestFacts {
                parse_status: ParseStatus::Failed,
                ..Default::default()
            },
        },
    };
    if !known {
        facts.parse_status = ParseStatus::NotApplicable;
    }
    facts
}

fn facts_of(body: Field<Body<'_>>) -> RequestFacts {
    let is_odd = body.is_odd();
    let Some(body) = body.get() else {
        return RequestFacts {
            parse_status: ParseStatus::Failed,
            ..Default::default()
        };
    };
    let metadata = body.metadata.get().unwrap_or_default();
    let conversation = body.conversation.get().map(|name| name.0.into_owned());
    RequestFacts {
        parse_status: if is_odd {
            ParseStatus::Partial
        } else {
            ParseStatus::Ok
        },
        model: body.model.some_text(),
        stream: body.stream.get(),
        max_tokens: body.max_completion_tokens.get().or(body.max_tokens.get()),
        min_tokens: body.min_tokens.get(),
        temperature: body.temperature.get(),
        top_p: body.top_p.get(),
        n: body.n.get(),
        stop: body.stop.get().map(|stop| stop.0),
        ignore_eos: body.ignore_eos.get(),
        seed: body.seed.get(),
        response_format: body
            .response_format
            .get()
            .and_then(|format| format.kind.some_text()),
        tool_count: tool_count(body.tools, body.functions),
        include_usage: body
            .stream_options
            .get()
            .and_then(|options| options.include_usage.get()),
        user: body.user.some_text(),
        metadata_user_id: metadata.user_id.some_text(),
        prompt_cache_key: body.prompt_cache_key.some_text(),
        conversation: conversation
            .filter(|conversation| !conversation.is_empty())
            .or_else(|| body.conversation_id.some_text())
            .or_else(|| metadata.conversation_id.some_text()),
        session_id: body
            .session_id
            .some_text()
            .or_else(|| metadata.session_id.some_text()),
        previous_response_id: body.previous_response_id.some_text(),
    }
}

fn tool_count(tools: Field<Count>, functions: Field<Count>) -> Option<i32> {
    let Count(count) = tools.get().or(functions.get())?;
    count.try_into().ok()
}

#[cfg(test)]
mod tests;
