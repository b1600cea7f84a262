//! The documents of requests, as far as they are looked at: all dialects in one, since a word that
//! two of them have means the same in both.

use super::prompts::Prompts;
use crate::wire::json::{Count, Field, List, Number, Readable, object};
use crate::wire::openai::Text;
use serde::de::{MapAccess, SeqAccess};

object! {
    /// A request body.
    Body<'de> {
        model: Text<'de> = "model",
        stream: bool = "stream",
        max_completion_tokens: i64 = "max_completion_tokens",
        max_tokens: i64 = "max_tokens" | "max_output_tokens" | "n_predict",
        min_tokens: i64 = "min_tokens",
        temperature: f64 = "temperature",
        top_p: f64 = "top_p",
        n: i32 = "n",
        stop: Texts = "stop" | "stop_sequences",
        ignore_eos: bool = "ignore_eos",
        seed: i64 = "seed",
        response_format: Kind<'de> = "response_format",
        format: Format<'de> = "format",
        tools: Count = "tools",
        functions: Count = "functions",
        stream_options: StreamOptions = "stream_options",
        user: Text<'de> = "user",
        metadata: Metadata<'de> = "metadata",
        prompt_cache_key: Text<'de> = "prompt_cache_key",
        conversation: Name<'de> = "conversation",
        conversation_id: Text<'de> = "conversation_id",
        session_id: Text<'de> = "session_id" | "litellm_session_id",
        session_params: Identified<'de> = "session_params",
        previous_response_id: Text<'de> = "previous_response_id",
        // Ollama, SGLang and TGI have their parameters in an object.
        options: Options = "options" | "sampling_params" | "parameters",
        prompt: Prompts = "prompt" | "inputs" | "input_ids",
        input: Prompts = "input",
        text: TextField<'de> = "text",
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

object! {
    /// Parameters in an object of their own.
    Sampling {
        max_tokens: i64 = "num_predict" | "max_new_tokens",
        min_tokens: i64 = "min_new_tokens",
        temperature: f64 = "temperature",
        top_p: f64 = "top_p",
        n: i32 = "n",
        stop: Texts = "stop",
        ignore_eos: bool = "ignore_eos",
        seed: i64 = "seed" | "sampling_seed",
    }
}

/// Parameters in an object of their own. A batch may have one for each prompt: the first counts.
/// Other dialects use these words for other things, and are not at fault.
#[derive(Debug, Default)]
pub(super) struct Options(pub(super) Sampling);

impl<'de> Readable<'de> for Options {
    fn from_bool(_: bool) -> Option<Self> {
        Some(Self::default())
    }

    fn from_number(_: Number) -> Option<Self> {
        Some(Self::default())
    }

    fn from_text(_: Text<'de>) -> Option<Self> {
        Some(Self::default())
    }

    fn from_list<A: SeqAccess<'de>>(list: &mut A) -> Result<Option<Self>, A::Error> {
        let first = list.next_element::<Field<Sampling>>()?;
        Ok(Some(Self(first.and_then(Field::get).unwrap_or_default())))
    }

    fn from_object<A: MapAccess<'de>>(object: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(Sampling::from_object(object)?.map(Self))
    }

    fn is_odd(&self) -> bool {
        self.0.is_odd()
    }
}

/// A name, or an object that has one.
#[derive(Debug, Default)]
pub(super) struct Name<'de>(pub(super) Text<'de>);

impl<'de> Readable<'de> for Name<'de> {
    fn from_text(text: Text<'de>) -> Option<Self> {
        Some(Self(text))
    }

    fn from_object<A: MapAccess<'de>>(object: &mut A) -> Result<Option<Self>, A::Error> {
        let object = Identified::from_object(object)?.unwrap_or_default();
        Ok(object.id.get().map(Self))
    }
}

/// A form of the answer: a word, or a schema.
#[derive(Debug, Default)]
pub(super) struct Format<'de>(pub(super) Text<'de>);

impl<'de> Readable<'de> for Format<'de> {
    fn from_text(text: Text<'de>) -> Option<Self> {
        Some(Self(text))
    }

    fn from_object<A: MapAccess<'de>>(_: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(Some(Self("json_schema".into())))
    }
}

/// The prompts of SGLang, or the form of a response.
#[derive(Debug, Default)]
pub(super) struct TextField<'de> {
    pub(super) prompts: Option<Prompts>,
    pub(super) format: Option<Text<'de>>,
}

object! {
    /// The form of a response.
    TextForm<'de> { format: Kind<'de> = "format" }
}

impl<'de> Readable<'de> for TextField<'de> {
    fn from_text(_: Text<'de>) -> Option<Self> {
        Some(Self {
            prompts: Some(Prompts::ONE),
            format: None,
        })
    }

    fn from_list<A: SeqAccess<'de>>(list: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(Some(Self {
            prompts: Prompts::from_list(list)?,
            format: None,
        }))
    }

    fn from_object<A: MapAccess<'de>>(object: &mut A) -> Result<Option<Self>, A::Error> {
        let form = TextForm::from_object(object)?.unwrap_or_default();
        let kind = form.format.get().unwrap_or_default();
        Ok(Some(Self {
            prompts: None,
            format: kind.kind.get(),
        }))
    }
}

/// A text or a list of texts.
#[derive(Debug, Default)]
pub(super) struct Texts(pub(super) Vec<String>);

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
