//! Where each dialect keeps what it says: the system prompt, the messages, the settings.

use truetape_schemas::wire::Dialect;

/// What becomes of a field of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is the prompt, whose parts stand apart.
    Prompt,
    /// It is a system prompt, said before all messages.
    System,
    /// It stays as it is: it shapes the answer, and names nobody.
    Kept,
    /// Its texts are replaced.
    Scrubbed,
    /// A word of the protocol, or something to be replaced.
    Choice,
    /// Of an object, the numbers and switches stay.
    Settings,
    /// It becomes a keyed hash of itself.
    Salt,
    /// Made-up answers do not meet it.
    Stop,
    /// It is left out.
    Dropped,
}

/// Fields that are carried over as they are.
#[rustfmt::skip]
const KEPT: [&str; 24] = [
    "model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "min_tokens",
    "temperature", "top_p", "top_k", "min_p", "n", "best_of", "seed", "ignore_eos",
    "frequency_penalty", "presence_penalty", "repetition_penalty", "logprobs", "top_logprobs",
    "parallel_tool_calls", "echo", "max_output_tokens", "max_tool_calls", "return_logprob",
];

/// Where a dialect keeps its messages, or its text.
pub(super) fn prompt_field(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::OpenaiChat | Dialect::AnthropicMessages => Some("messages"),
        Dialect::OpenaiResponses => Some("input"),
        Dialect::OpenaiCompletions => Some("prompt"),
        Dialect::SglangGenerate => Some("text"),
        _ => None,
    }
}

/// Where a dialect keeps a system prompt beside its messages.
pub(super) fn system_field(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::AnthropicMessages => Some("system"),
        Dialect::OpenaiResponses => Some("instructions"),
        _ => None,
    }
}

/// What becomes of a field.
pub(super) fn fate(dialect: Dialect, key: &str) -> Fate {
    let newer = matches!(
        dialect,
        Dialect::AnthropicMessages | Dialect::OpenaiResponses
    );
    match key {
        _ if prompt_field(dialect) == Some(key) => Fate::Prompt,
        _ if system_field(dialect) == Some(key) => Fate::System,
        _ if KEPT.contains(&key) => Fate::Kept,
        "tools" | "functions" | "response_format" => Fate::Scrubbed,
        "tool_choice" => Fate::Choice,
        "cache_salt" => Fate::Salt,
        "stop" | "stop_sequences" => Fate::Stop,
        "thinking" if dialect == Dialect::AnthropicMessages => Fate::Scrubbed,
        // The format of the answer, and how much is thought.
        "text" | "reasoning" if dialect == Dialect::OpenaiResponses => Fate::Scrubbed,
        "truncation" if newer => Fate::Choice,
        "sampling_params" if dialect == Dialect::SglangGenerate => Fate::Settings,
        _ => Fate::Dropped,
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, fate};
    use truetape_schemas::wire::Dialect;

    #[test]
    fn a_name_means_what_it_means_in_its_dialect() {
        assert_eq!(fate(Dialect::SglangGenerate, "text"), Fate::Prompt);
        assert_eq!(fate(Dialect::OpenaiResponses, "text"), Fate::Scrubbed);
        assert_eq!(fate(Dialect::OpenaiChat, "text"), Fate::Dropped);
        assert_eq!(fate(Dialect::AnthropicMessages, "system"), Fate::System);
        assert_eq!(fate(Dialect::OpenaiChat, "system"), Fate::Dropped);
        for dialect in [
            Dialect::OpenaiChat,
            Dialect::AnthropicMessages,
            Dialect::OpenaiResponses,
        ] {
            for named in ["user", "metadata", "previous_response_id", "container"] {
                assert_eq!(fate(dialect, named), Fate::Dropped, "{named}");
            }
        }
    }
}
