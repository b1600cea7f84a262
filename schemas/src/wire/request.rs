//! What was asked.

use super::Dialect;
use super::json::{Count, Field, read, repair};
use crate::capture::ParseStatus;
use body::{Body, Sampling};
use prompts::Prompts;
use serde::Serialize;

mod body;
mod prompts;

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
    /// `max_completion_tokens`, else `max_tokens` or what the dialect calls it. A negative number
    /// means no maximum.
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
    /// `response_format.type`, `text.format.type`, or `format`.
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
    /// `session_id`, `litellm_session_id`, or one of them inside `metadata`; `session_params.id`.
    pub session_id: Option<String>,
    /// `previous_response_id`.
    pub previous_response_id: Option<String>,
    /// How many prompts there are, in dialects that take a batch of them.
    pub prompts: Option<i64>,
    /// How many tokens the prompts have, where they are given as token ids.
    pub prompt_token_ids: Option<i64>,
}

/// Reads a request body. It never fails: see [`RequestFacts::parse_status`].
///
/// Bodies of an unknown dialect are looked into as well, as far as they are JSON objects: other
/// APIs name the model and the conversation with the same words.
pub fn read_request(dialect: Dialect, body: &[u8]) -> RequestFacts {
    let known = match dialect {
        Dialect::Unknown => false,
        Dialect::Trace => return RequestFacts::default(),
        _ => true,
    };
    if !known && body.trim_ascii_start().first() != Some(&b'{') {
        return RequestFacts::default();
    }
    let mut facts = match read::<Body<'_>>(body) {
        Ok(body) => facts_of(dialect, body),
        Err(_) => match read::<Body<'_>>(&repair(body)) {
            Ok(body) => RequestFacts {
                parse_status: ParseStatus::Partial,
                ..facts_of(dialect, body)
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

fn facts_of(dialect: Dialect, body: Field<Body<'_>>) -> RequestFacts {
    let is_odd = body.is_odd();
    let Some(body) = body.get() else {
        return RequestFacts {
            parse_status: ParseStatus::Failed,
            ..Default::default()
        };
    };
    let prompts = prompts(dialect, &body);
    let text_format = body.text.get().and_then(|text| text.format);
    let Sampling {
        max_tokens,
        min_tokens,
        temperature,
        top_p,
        n,
        stop,
        ignore_eos,
        seed,
    } = body.options.get().unwrap_or_default().0;
    let session_params = body.session_params.get().unwrap_or_default();
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
        max_tokens: (body.max_completion_tokens.get())
            .or(body.max_tokens.get())
            .or(max_tokens.get())
            .filter(|most| *most >= 0),
        min_tokens: body.min_tokens.get().or(min_tokens.get()),
        temperature: body.temperature.get().or(temperature.get()),
        top_p: body.top_p.get().or(top_p.get()),
        n: body.n.get().or(n.get()),
        stop: body.stop.get().or(stop.get()).map(|stop| stop.0),
        ignore_eos: body.ignore_eos.get().or(ignore_eos.get()),
        seed: body.seed.get().or(seed.get()),
        response_format: body
            .response_format
            .get()
            .and_then(|format| format.kind.some_text())
            .or(text_format.map(std::borrow::Cow::into_owned))
            .or(body.format.get().map(|format| format.0.into_owned())),
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
            .or_else(|| metadata.session_id.some_text())
            .or_else(|| session_params.id.some_text()),
        previous_response_id: body.previous_response_id.some_text(),
        prompts: prompts.map(|prompts| prompts.items),
        prompt_token_ids: prompts.and_then(|prompts| prompts.ids),
    }
}

fn prompts(dialect: Dialect, body: &Body<'_>) -> Option<Prompts> {
    let prompt = body.prompt.get_ref().copied();
    match dialect {
        Dialect::OpenaiEmbeddings => body.input.get_ref().copied(),
        Dialect::SglangGenerate => {
            let text = body.text.get_ref().and_then(|text| text.prompts);
            text.or(prompt)
        }
        Dialect::OpenaiCompletions
        | Dialect::TgiGenerate
        | Dialect::OllamaGenerate
        | Dialect::LlamacppCompletion => prompt,
        _ => None,
    }
}

fn tool_count(tools: Field<Count>, functions: Field<Count>) -> Option<i32> {
    let Count(count) = tools.get().or(functions.get())?;
    count.try_into().ok()
}

#[cfg(test)]
mod tests;
