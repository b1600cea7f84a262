//! Events of a streamed answer, and the usage that all answers share.

use super::ask::{Api, Ask, UsageWanted};
use super::driver::{Finish, Progress};
use super::speech::Speech;
use serde_json::{Value, json};

/// The last event.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// What names an answer: its id, when it was begun, and by which model.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) id: String,
    pub(super) created_s: i64,
    pub(super) model: String,
}

impl Name {
    /// Names an answer that begins now.
    pub(super) fn of(ask: &Ask) -> Self {
        let prefix = match ask.api {
            Api::Chat => "chatcmpl",
            Api::Completions => "cmpl",
        };
        let id = format!("{prefix}-{}", truetape_schemas::ids::new_exchange_id());
        let created_s = truetape_schemas::time::wall_now_us() / 1_000_000;
        Self {
            id,
            created_s,
            model: ask.model.clone(),
        }
    }
}

/// How long prompt and answer are, as far as the answer has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) prompt_tokens: u64,
    /// Nothing where the server does not tell.
    pub(super) cached_tokens: Option<u64>,
    pub(super) completion_tokens: u64,
}

impl Usage {
    /// The object of the API.
    pub(super) fn to_json(self) -> Value {
        let details = self
            .cached_tokens
            .map(|tokens| json!({"cached_tokens": tokens}));
        json!({
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
            "prompt_tokens_details": details,
        })
    }
}

/// The word for how an answer ended.
pub(super) fn finish_reason(finish: Finish, speech: &Speech) -> &'static str {
    match (finish, &speech.tool) {
        (Finish::Length, _) => "length",
        (Finish::Stop, Some(_)) => "tool_calls",
        (Finish::Stop, None) => "stop",
    }
}

/// Writes the events of one answer.
#[derive(Debug)]
pub(super) struct Events {
    api: Api,
    speech: Speech,
    finish: Finish,
    usage: UsageWanted,
    prompt_tokens: u64,
    hide_cached_tokens: bool,
    /// The start of every event, up to its choices.
    opening: String,
}

impl Events {
    pub(super) fn new(ask: &Ask, hide_cached_tokens: bool) -> Self {
        let name = Name::of(ask);
        let object = match ask.api {
            Api::Chat => "chat.completion.chunk",
            Api::Completions => "text_completion",
        };
        let (id, created_s, model) = (name.id, name.created_s, json!(name.model));
        let opening = format!(
            r#"data: {{"id":"{id}","object":"{object}","created":{created_s},"model":{model},"choices":["#
        );
        Self {
            api: ask.api,
            speech: ask.speech.clone(),
            finish: ask.finish,
            usage: ask.usage,
            prompt_tokens: ask.job.prompt_tokens,
            hide_cached_tokens,
            opening,
        }
    }

    /// Tokens of the whole answer.
    pub(super) fn tokens(&self) -> u64 {
        self.speech.tokens
    }

    /// What comes before the first token: the role, in a chat.
    pub(super) fn begin(&self, out: &mut Vec<u8>, progress: Progress) {
        if self.api == Api::Chat {
            self.delta(
                out,
                r#"{"role":"assistant","content":""}"#,
                None,
                progress,
                0,
            );
        }
    }

    /// One token.
    pub(super) fn token(&self, out: &mut Vec<u8>, index: u64, progress: Progress) {
        let text = json!(self.speech.token(index));
        let delta = match (self.api, &self.speech.tool) {
            (Api::Completions, _) => text.to_string(),
            (Api::Chat, None) => format!(r#"{{"content":{text}}}"#),
            (Api::Chat, Some(function)) if index == 0 => {
                let (id, function) = (self.speech.call_id(), json!(function));
                format!(
                    r#"{{"tool_calls":[{{"index":0,"id":"{id}","type":"function","function":{{"name":{function},"arguments":{text}}}}}]}}"#
                )
            }
            (Api::Chat, Some(_)) => {
                format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":{text}}}}}]}}"#)
            }
        };
        self.delta(out, &delta, None, progress, index + 1);
    }

    /// What comes after the last token: why it was the last, the usage if wanted, the end.
    pub(super) fn end(&self, out: &mut Vec<u8>, progress: Progress) {
        let empty = match self.api {
            Api::Chat => "{}",
            Api::Completions => r#""""#,
        };
        let reason = finish_reason(self.finish, &self.speech);
        self.delta(out, empty, Some(reason), progress, self.speech.tokens);
        if self.usage.at_end {
            out.extend_from_slice(self.opening.as_bytes());
            out.push(b']');
            self.push_usage(out, progress, self.speech.tokens);
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(DONE);
    }

    /// One event with one choice.
    fn delta(
        &self,
        out: &mut Vec<u8>,
        delta: &str,
        reason: Option<&str>,
        progress: Progress,
        said: u64,
    ) {
        let key = match self.api {
            Api::Chat => "delta",
            Api::Completions => "text",
        };
        let reason = json!(reason);
        out.extend_from_slice(self.opening.as_bytes());
        let choice =
            format!(r#"{{"index":0,"{key}":{delta},"logprobs":null,"finish_reason":{reason}}}]"#);
        out.extend_from_slice(choice.as_bytes());
        if self.usage.always {
            self.push_usage(out, progress, said);
        }
        out.extend_from_slice(b"}\n\n");
    }

    fn push_usage(&self, out: &mut Vec<u8>, progress: Progress, said: u64) {
        let usage = Usage {
            prompt_tokens: self.prompt_tokens,
            cached_tokens: (!self.hide_cached_tokens).then_some(progress.cached_tokens),
            completion_tokens: said,
        };
        out.extend_from_slice(format!(r#","usage":{}"#, usage.to_json()).as_bytes());
    }
}
