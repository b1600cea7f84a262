//! The messages of a request, one by one.

use super::Dialect;
use super::canonical::identity_of_json;
use super::limits::MESSAGES_MAX;
use serde::Deserialize;
use serde_json::value::RawValue;

mod responses;

/// One message of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// `user`, `assistant`, ...; [`PROMPT_ROLE`] for the prompt of a completion; empty where the
    /// message does not say.
    pub role: String,
    /// Its identity: see [`super::canonical`]. Equal bytes mean the same message.
    pub canonical: Vec<u8>,
    /// Its JSON as it was sent, byte for byte. Items of a Responses request that make up one
    /// message are joined by a comma.
    pub raw: Vec<u8>,
}

/// The role of the one message that stands for the prompt of a completion.
pub const PROMPT_ROLE: &str = "prompt";

/// The role of the system prompt, in dialects that send it beside the messages.
const SYSTEM_ROLE: &str = "system";

/// The values are kept as they were sent, since their bytes are what a server caches by.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    inputs: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    input_ids: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Role {
    role: String,
}

/// Reads the messages of a request body: those of a chat, the system prompt first, or the prompt
/// of a completion as one. `None` where the dialect has none, the body cannot be read, or there
/// are more than [`MESSAGES_MAX`].
pub fn read_messages(dialect: Dialect, body: &[u8]) -> Option<Vec<Message>> {
    match dialect {
        Dialect::OpenaiChat | Dialect::OllamaChat => {
            let messages = read(body)?.messages?;
            of_list(None, &messages, |list| {
                list.iter().map(|one| message_of(one.get())).collect()
            })
        }
        Dialect::AnthropicMessages => {
            let Body {
                system, messages, ..
            } = read(body)?;
            of_list(system, &messages?, |list| {
                list.iter().map(|one| message_of(one.get())).collect()
            })
        }
        Dialect::OpenaiResponses => {
            let Body {
                instructions,
                input,
                ..
            } = read(body)?;
            let input = input?.get();
            match serde_json::from_str::<Vec<&RawValue>>(input) {
                Ok(items) => of_list(instructions, &items, responses::messages),
                Err(_) => of_list(instructions, &[], |_| vec![beside("user", input)]),
            }
        }
        Dialect::OpenaiCompletions | Dialect::LlamacppCompletion => {
            Some(vec![prompt_of(read(body)?.prompt?.get())])
        }
        Dialect::OllamaGenerate => {
            let Body { system, prompt, .. } = read(body)?;
            of_list(system, &[], |_| {
                prompt
                    .map(|prompt| prompt_of(prompt.get()))
                    .into_iter()
                    .collect()
            })
        }
        Dialect::TgiGenerate => Some(vec![prompt_of(read(body)?.inputs?.get())]),
        Dialect::SglangGenerate => {
            let Body {
                text, input_ids, ..
            } = read(body)?;
            Some(vec![prompt_of(text.or(input_ids)?.get())])
        }
        Dialect::OpenaiEmbeddings | Dialect::Trace | Dialect::Unknown => None,
    }
}

fn read(body: &[u8]) -> Option<Body<'_>> {
    serde_json::from_slice(body).ok()
}

/// The messages of a list, after the system prompt where one is sent beside it.
fn of_list(
    system: Option<&RawValue>,
    list: &[&RawValue],
    messages: impl Fn(&[&RawValue]) -> Vec<Message>,
) -> Option<Vec<Message>> {
    if list.len() > MESSAGES_MAX {
        return None;
    }
    let says = |system: &&RawValue| !matches!(system.get(), "null" | "\"\"" | "[]");
    let system = system.filter(says);
    let mut all: Vec<Message> = system
        .map(|system| beside(SYSTEM_ROLE, system.get()))
        .into_iter()
        .collect();
    all.append(&mut messages(list));
    Some(all)
}

fn message_of(raw: &str) -> Message {
    let role = serde_json::from_str::<Role>(raw)
        .map(|message| message.role)
        .unwrap_or_default();
    let raw = raw.as_bytes().to_vec();
    Message {
        role,
        canonical: identity_of_json(&raw),
        raw,
    }
}

/// A list of one prompt is that prompt.
fn prompt_of(raw: &str) -> Message {
    let one = serde_json::from_str::<[&RawValue; 1]>(raw).map_or(raw, |[prompt]| prompt.get());
    Message {
        raw: raw.as_bytes().to_vec(),
        ..beside(PROMPT_ROLE, one)
    }
}

/// A content that is sent without a message around it.
fn beside(role: &str, content: &str) -> Message {
    let message = format!("{{\"role\":\"{role}\",\"content\":{content}}}");
    Message {
        role: role.to_owned(),
        canonical: identity_of_json(message.as_bytes()),
        raw: content.as_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests;
