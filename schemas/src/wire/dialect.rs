//! Which language a request speaks.

use super::json::{Field, Given, object, read};

/// An API whose requests and answers can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI chat completions, as spoken by OpenAI, vLLM, SGLang, llama.cpp and many gateways.
    OpenaiChat,
    /// OpenAI text completions, likewise.
    OpenaiCompletions,
    /// OpenAI responses.
    OpenaiResponses,
    /// OpenAI embeddings: nothing is generated.
    OpenaiEmbeddings,
    /// Anthropic messages.
    AnthropicMessages,
    /// SGLang's own `/generate`.
    SglangGenerate,
    /// Text Generation Inference, `/generate` and `/generate_stream`.
    TgiGenerate,
    /// Ollama's own `/api/chat`.
    OllamaChat,
    /// Ollama's own `/api/generate`.
    OllamaGenerate,
    /// llama.cpp's own `/completion`.
    LlamacppCompletion,
    /// A row of an imported length trace: there was no request to read.
    Trace,
    /// Any other traffic. It is recorded, with its lengths NULL.
    #[default]
    Unknown,
}

/// What a path ends in, the longer before the shorter.
const ENDINGS: [(&str, Dialect); 10] = [
    ("/chat/completions", Dialect::OpenaiChat),
    ("/completions", Dialect::OpenaiCompletions),
    ("/responses", Dialect::OpenaiResponses),
    ("/embeddings", Dialect::OpenaiEmbeddings),
    // Not `/messages` alone: threads and mail have messages too.
    ("/v1/messages", Dialect::AnthropicMessages),
    ("/generate_stream", Dialect::TgiGenerate),
    ("/api/chat", Dialect::OllamaChat),
    ("/api/generate", Dialect::OllamaGenerate),
    ("/generate", Dialect::SglangGenerate),
    ("/completion", Dialect::LlamacppCompletion),
];

object! {
    /// The fields by which requests to `/generate` can be told apart.
    Marks {
        text: Given = "text" | "input_ids" | "input_embeds" | "sampling_params",
        inputs: Given = "inputs",
        prompt: Given = "prompt" | "model",
    }
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 12] = [
        Self::OpenaiChat,
        Self::OpenaiCompletions,
        Self::OpenaiResponses,
        Self::OpenaiEmbeddings,
        Self::AnthropicMessages,
        Self::SglangGenerate,
        Self::TgiGenerate,
        Self::OllamaChat,
        Self::OllamaGenerate,
        Self::LlamacppCompletion,
        Self::Trace,
        Self::Unknown,
    ];

    /// The word in the column `dialect`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai_chat",
            Self::OpenaiCompletions => "openai_completions",
            Self::OpenaiResponses => "openai_responses",
            Self::OpenaiEmbeddings => "openai_embeddings",
            Self::AnthropicMessages => "anthropic_messages",
            Self::SglangGenerate => "sglang_generate",
            Self::TgiGenerate => "tgi_generate",
            Self::OllamaChat => "ollama_chat",
            Self::OllamaGenerate => "ollama_generate",
            Self::LlamacppCompletion => "llamacpp_completion",
            Self::Trace => "trace",
            Self::Unknown => "unknown",
        }
    }

    /// Reads the word in the column; a word of a later version is [`Dialect::Unknown`].
    pub fn from_name(name: &str) -> Self {
        let known = Self::ALL.into_iter().find(|dialect| dialect.name() == name);
        known.unwrap_or_default()
    }

    /// Tells the dialect of a request. The path may be an absolute URL, carry a query and have a
    /// prefix, as in `/openai/v1/chat/completions?api-version=1`.
    ///
    /// Several servers have a `/generate`: where the body is at hand, [`Dialect::refined`] tells
    /// them apart.
    pub fn of(method: &str, path: &str) -> Self {
        if method != "POST" {
            return Self::Unknown;
        }
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let path = path.trim_end_matches('/');
        let ending = ENDINGS.iter().find(|(ending, _)| path.ends_with(ending));
        ending.map_or(Self::Unknown, |(_, dialect)| *dialect)
    }

    /// Tells the dialect by the request's body where the path leaves it open.
    pub fn refined(self, body: &[u8]) -> Self {
        if !matches!(self, Self::SglangGenerate | Self::OllamaGenerate) {
            return self;
        }
        let Ok(Field::Is(marks)) = read::<Marks>(body) else {
            return self;
        };
        let has = |field: &Field<Given>| field.get_ref().is_some();
        if has(&marks.inputs) {
            Self::TgiGenerate
        } else if has(&marks.text) {
            Self::SglangGenerate
        } else if has(&marks.prompt) && self == Self::OllamaGenerate {
            self
        } else {
            Self::Unknown
        }
    }

    /// Whether its answers are generated text.
    pub fn generates(self) -> bool {
        !matches!(self, Self::OpenaiEmbeddings | Self::Trace | Self::Unknown)
    }

    /// Whether its streams are lines of JSON.
    pub(super) fn streams_lines(self) -> bool {
        matches!(self, Self::OllamaChat | Self::OllamaGenerate)
    }
}

#[cfg(test)]
mod tests;
