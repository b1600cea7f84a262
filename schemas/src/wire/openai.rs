//! The documents of the OpenAI dialects, as far as they are looked at.
//!
//! Chat and completions, an event of a stream and a whole answer: one shape. An event says
//! `delta` where an answer says `message` and where completions say `text`.

use super::json::{Count, Field, List, Readable, object};
use serde::de::{MapAccess, SeqAccess};
use std::borrow::Cow;

/// A text.
pub(super) type Text<'de> = Cow<'de, str>;

object! {
    /// One event of a stream, or a whole answer.
    Answer<'de> {
        id: Text<'de> = "id",
        object: Text<'de> = "object",
        choices: List<Choice<'de>> = "choices",
        usage: Usage = "usage",
        prompt_token_ids: Count = "prompt_token_ids",
        timings: Timings = "timings",
        error: Fault<'de> = "error",
        error_type: Text<'de> = "error_type",
        // vLLM before 0.11 put the error itself at the top.
        code: Scalar<'de> = "code",
        kind: Text<'de> = "type",
    }
}

object! {
    /// One choice.
    Choice<'de> {
        index: i64 = "index",
        delta: Delta<'de> = "delta" | "message",
        text: Text<'de> = "text",
        finish_reason: Text<'de> = "finish_reason",
        logprobs: Logprobs = "logprobs",
        token_ids: Count = "token_ids",
        // vLLM, in completions.
        prompt_token_ids: Count = "prompt_token_ids",
        // OpenRouter says here that a choice failed.
        error: Fault<'de> = "error",
    }
}

object! {
    /// What an event adds to a message; or the message.
    Delta<'de> {
        content: Content<'de> = "content",
        refusal: Text<'de> = "refusal",
        reasoning: Text<'de> = "reasoning",
        reasoning_content: Text<'de> = "reasoning_content",
        tool_calls: List<ToolCall<'de>> = "tool_calls",
        function_call: Function<'de> = "function_call",
    }
}

object! {
    /// A piece of a tool call.
    ToolCall<'de> {
        index: i64 = "index",
        id: Text<'de> = "id",
        function: Function<'de> = "function",
        custom: Function<'de> = "custom",
    }
}

object! {
    /// A piece of a call's name or arguments.
    Function<'de> {
        name: Text<'de> = "name",
        arguments: Arguments<'de> = "arguments" | "input",
    }
}

object! {
    /// Probabilities: chat lists them by kind of text, completions as parallel lists.
    Logprobs {
        content: Count = "content",
        refusal: Count = "refusal",
        tokens: Count = "tokens" | "token_logprobs",
    }
}

object! {
    /// Lengths, as the server reports them.
    Usage {
        input_tokens: i64 = "prompt_tokens" | "input_tokens",
        output_tokens: i64 = "completion_tokens" | "output_tokens",
        input_details: UsageDetails = "prompt_tokens_details" | "input_tokens_details",
        output_details: UsageDetails = "completion_tokens_details" | "output_tokens_details",
        // SGLang reports reasoning here, some hosts cached tokens (one of them as `hit`).
        reasoning_tokens: i64 = "reasoning_tokens",
        cached_tokens: i64 = "cached_tokens" | "prompt_cache_hit_tokens",
    }
}

object! {
    /// llama.cpp's own counters.
    Timings {
        cache_n: i64 = "cache_n",
        prompt_n: i64 = "prompt_n",
        predicted_n: i64 = "predicted_n",
    }
}

object! {
    /// Parts of a length.
    UsageDetails {
        cached_tokens: i64 = "cached_tokens",
        reasoning_tokens: i64 = "reasoning_tokens",
    }
}

impl Logprobs {
    /// Tokens that have an entry.
    pub(super) fn tokens(&self) -> i64 {
        let count = |field: &Field<Count>| field.get_ref().map_or(0, |count| count.0);
        count(&self.content) + count(&self.refusal) + count(&self.tokens)
    }
}

/// The content of a message: a text, or a list of parts.
#[derive(Debug, Default)]
pub(super) struct Content<'de> {
    /// The text parts, joined.
    pub(super) text: Text<'de>,
    /// The thinking parts, joined.
    pub(super) thinking: String,
}

object! {
    /// A part of a content.
    Part<'de> {
        text: Text<'de> = "text",
        // Mistral nests the content of its thinking.
        thinking: Content<'de> = "thinking",
    }
}

impl<'de> Readable<'de> for Content<'de> {
    fn from_text(text: Text<'de>) -> Option<Self> {
        Some(Self {
            text,
            thinking: String::new(),
        })
    }

    fn from_list<A: SeqAccess<'de>>(list: &mut A) -> Result<Option<Self>, A::Error> {
        let mut content = Self::default();
        while let Some(part) = list.next_element::<Field<Part<'de>>>()? {
            let part = part.get().unwrap_or_default();
            *content.text.to_mut() += part.text.text();
            content.thinking += part
                .thinking
                .get_ref()
                .map_or("", |thinking| &thinking.text);
        }
        Ok(Some(content))
    }
}

/// The arguments of a call: JSON inside a text, as the dialect says, or the JSON itself.
#[derive(Debug, Default)]
pub(super) struct Arguments<'de>(pub(super) Text<'de>);

impl<'de> Readable<'de> for Arguments<'de> {
    fn from_text(text: Text<'de>) -> Option<Self> {
        Some(Self(text))
    }

    fn from_object<A: MapAccess<'de>>(object: &mut A) -> Result<Option<Self>, A::Error> {
        let mut map = serde_json::Map::new();
        while let Some((name, value)) = object.next_entry()? {
            map.insert(name, value);
        }
        Ok(Some(Self(Cow::Owned(
            serde_json::Value::Object(map).to_string(),
        ))))
    }
}

/// A number or a text, kept as text.
#[derive(Debug, Default)]
pub(super) struct Scalar<'de>(pub(super) Text<'de>);

impl<'de> Readable<'de> for Scalar<'de> {
    fn from_text(text: Text<'de>) -> Option<Self> {
        Some(Self(text))
    }

    fn from_number(number: super::json::Number) -> Option<Self> {
        Some(Self(Cow::Owned(number.to_string())))
    }
}

/// An error: an object, or a bare message.
#[derive(Debug, Default)]
pub(super) struct Fault<'de> {
    pub(super) code: Option<Text<'de>>,
    pub(super) kind: Option<Text<'de>>,
}

object! {
    /// An error as an object.
    FaultObject<'de> {
        code: Scalar<'de> = "code",
        // Google says what others call the type.
        kind: Text<'de> = "type" | "status",
    }
}

impl<'de> Readable<'de> for Fault<'de> {
    fn from_text(_: Text<'de>) -> Option<Self> {
        Some(Self::default())
    }

    fn from_object<A: MapAccess<'de>>(object: &mut A) -> Result<Option<Self>, A::Error> {
        let fault = FaultObject::from_object(object)?.unwrap_or_default();
        Ok(Some(Self {
            code: fault.code.get().map(|code| code.0),
            kind: fault.kind.get(),
        }))
    }
}
