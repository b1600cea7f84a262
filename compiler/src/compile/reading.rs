//! What is read off the bodies of an exchange before they are let go.

use super::row::{AnswerHash, Client, Extra, MessageHash, Role, Text};
use serde_json::{Value, json};
use std::borrow::Cow;
use truetape_fidelity::tokens;
use truetape_schemas::capture::{Exchange, Header};
use truetape_schemas::wire::{self, BodyEnd, Dialect, ResponseReader, canonical, coding};

mod hashed;
mod loose;
mod words;

/// Set by OpenAI's SDKs, and by clients that copy them.
const RETRY_HEADER: &str = "x-stainless-retry-count";

/// First messages that nobody sends to converse.
const PROBES: [&str; 4] = ["hi", "hello", "ping", "test"];

/// Bytes of a prompt at most that a probe of one token has.
const PROBE_BYTES_MAX: usize = 64;

/// The same with the JSON around it: a role, a content, quotes and braces.
const PROBE_JSON_BYTES_MAX: usize = PROBE_BYTES_MAX + 64;

/// What coding clients write into calls beside a conversation.
const ASIDES: [&str; 3] = [
    "[SUGGESTION MODE",
    "generate a title for this conversation",
    "write a 5-10 word title",
];

/// Parts of a message that are no text, by their `type`.
const MEDIA_PARTS: [&str; 9] = [
    "image_url",
    "image",
    "input_image",
    "input_audio",
    "audio",
    "video_url",
    "video",
    "file",
    "document",
];

/// Reads the bodies and headers of an exchange.
pub(crate) fn extra(exchange: &Exchange) -> Extra {
    let dialect = Dialect::from_name(&exchange.dialect);
    let retry_count = header(&exchange.request_headers, RETRY_HEADER)
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0);
    let body = plain_body(exchange);
    let user = body
        .as_deref()
        .and_then(|body| wire::read_request(dialect, body).user);
    let client = match (exchange.client_key.as_deref(), user.as_deref()) {
        (Some(key), _) => Some(Client {
            recorder: Some(recorder(exchange)),
            name: hash(key.as_bytes()),
        }),
        (None, Some(user)) => Some(Client {
            recorder: None,
            name: hash(user.as_bytes()),
        }),
        (None, None) => None,
    };
    Extra {
        text: body
            .as_deref()
            .and_then(|body| text(exchange, dialect, body))
            .or_else(|| hashed::text(exchange)),
        client,
        retry_count,
    }
}

/// The recorder process: keys of callers mean nothing beyond it.
fn recorder(exchange: &Exchange) -> u64 {
    hash(format!("{:?}@{}", exchange.proxy_epoch_us, exchange.proxy_id).as_bytes())
}

/// The request body as it reads, whatever it was packed with; none where it cannot be unpacked.
pub(crate) fn plain_body(exchange: &Exchange) -> Option<Cow<'_, [u8]>> {
    let body = exchange.request_body.as_deref()?;
    coding::decode(exchange.request_encoding.as_deref(), body).ok()
}

fn text(exchange: &Exchange, dialect: Dialect, body: &[u8]) -> Option<Text> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let rendered = render(dialect, &value)?;
    let messages = wire::read_messages(dialect, body)?;
    let hashes = messages.iter().map(|message| MessageHash {
        hash: hash(&message.canonical),
        loose: loose::hash_of(&message.canonical),
        bytes: u32::try_from(message.raw.len()).unwrap_or(u32::MAX),
        role: Role::of(&message.role),
    });
    let messages: Box<[MessageHash]> = hashes.collect();
    let answered = answer(exchange, dialect);
    let prompt = prompt_text(dialect, &value);
    let heard = match prompt {
        Some(text) => words::heard_in_prompt(text),
        None => heard(&value, &messages),
    };
    Some(Text {
        answer: answered.as_ref().map(answer_hash),
        prompt: prompt.and_then(words::prompt_chain).map(Box::new),
        said: answered.as_ref().map(words::said).unwrap_or_default(),
        heard,
        rendered_bytes: rendered.len() as u64,
        probe: is_probe(exchange, &value),
        aside: is_aside(&value),
        media: has_media(&value),
        messages,
        hashed: false,
    })
}

/// The prompt of a dialect that sends one text.
fn prompt_text(dialect: Dialect, body: &Value) -> Option<&str> {
    let name = match dialect {
        Dialect::OpenaiCompletions | Dialect::OllamaGenerate | Dialect::LlamacppCompletion => {
            "prompt"
        }
        Dialect::TgiGenerate => "inputs",
        Dialect::SglangGenerate => "text",
        _ => return None,
    };
    body.get(name)?.as_str()
}

/// What the first request of a conversation was told; later ones have their history to be known
/// by.
fn heard(body: &Value, messages: &[MessageHash]) -> Box<[u64]> {
    if messages
        .iter()
        .any(|message| message.role == Role::Assistant)
    {
        return Box::default();
    }
    let list = body.get("messages").or_else(|| body.get("input"));
    let list = list
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let told = list.iter().filter(|message| {
        let role = message.get("role").and_then(Value::as_str);
        Role::of(role.unwrap_or("user")) != Role::System
    });
    words::heard(told.filter_map(|message| message.get("content")))
}

fn answer_hash(message: &Value) -> AnswerHash {
    let identity = canonical::identity(message);
    let text = message.get("content").and_then(Value::as_str);
    AnswerHash {
        hash: hash(&identity),
        loose: loose::hash_of(&identity),
        bytes: u32::try_from(identity.len()).unwrap_or(u32::MAX),
        first: text.and_then(words::first),
    }
}

/// Whether a request says of itself that it is beside a conversation.
fn is_aside(body: &Value) -> bool {
    let messages = body.get("messages").and_then(Value::as_array);
    let last = messages.and_then(|messages| messages.last()?.get("content"));
    let says = |text: &str| ASIDES.iter().any(|aside| text.contains(aside));
    match last {
        Some(Value::String(text)) => says(text),
        Some(Value::Array(parts)) => parts
            .iter()
            .any(|part| part.get("text").and_then(Value::as_str).is_some_and(says)),
        _ => false,
    }
}

/// Whether a message of a request has a part that is no text.
fn has_media(body: &Value) -> bool {
    let lists = [body.get("messages"), body.get("input")];
    let messages = lists
        .into_iter()
        .flatten()
        .filter_map(Value::as_array)
        .flatten();
    messages
        .filter_map(|message| message.get("content"))
        .any(|content| {
            let parts = content.as_array().map_or(&[][..], Vec::as_slice);
            parts.iter().any(|part| {
                let kind = part.get("type").and_then(Value::as_str);
                kind.is_some_and(|kind| MEDIA_PARTS.contains(&kind))
            })
        })
        || messages_have_images(body)
}

/// Ollama has images beside the content.
fn messages_have_images(body: &Value) -> bool {
    let messages = body.get("messages").and_then(Value::as_array);
    let all = messages.into_iter().flatten().chain([body]);
    all.filter_map(|message| message.get("images")?.as_array())
        .any(|images| !images.is_empty())
}

/// Renders the prompt of a request body as the reference engine does; none where it holds none.
pub(crate) fn render(dialect: Dialect, body: &Value) -> Option<Vec<u8>> {
    let prompt = |name: &str| body.get(name)?.as_str().map(tokens::render_completion);
    match dialect {
        Dialect::OpenaiChat
        | Dialect::OllamaChat
        | Dialect::AnthropicMessages
        | Dialect::OpenaiResponses => {
            let chat = chat_of(dialect, body)?;
            Some(tokens::render_chat(&chat))
        }
        Dialect::OpenaiCompletions | Dialect::OllamaGenerate | Dialect::LlamacppCompletion => {
            prompt("prompt")
        }
        Dialect::TgiGenerate => prompt("inputs"),
        Dialect::SglangGenerate => prompt("text"),
        Dialect::OpenaiEmbeddings | Dialect::Trace | Dialect::Unknown => None,
    }
}

/// A chat of any dialect as a chat completion: the system prompt is the first message.
pub(crate) fn chat_of(dialect: Dialect, body: &Value) -> Option<Cow<'_, Value>> {
    let (system, list) = match dialect {
        Dialect::AnthropicMessages => ("system", "messages"),
        Dialect::OpenaiResponses => ("instructions", "input"),
        _ => {
            return body
                .get("messages")?
                .is_array()
                .then_some(Cow::Borrowed(body));
        }
    };
    let message = |role: &str, content: &Value| json!({ "role": role, "content": content });
    let said = |content: &&Value| !content.is_null();
    let system = body.get(system).filter(said);
    let mut messages: Vec<Value> = system
        .map(|content| message("system", content))
        .into_iter()
        .collect();
    match body.get(list)? {
        Value::Array(list) => messages.extend(list.iter().map(as_message)),
        text @ Value::String(_) if list == "input" => messages.push(message("user", text)),
        _ => return None,
    }
    Some(Cow::Owned(
        json!({ "tools": body.get("tools"), "messages": messages }),
    ))
}

/// An item of a Responses request as the message it is; a message as it is.
fn as_message(item: &Value) -> Value {
    let field = |name: &str| item.get(name).cloned().unwrap_or_default();
    match item.get("type").and_then(Value::as_str) {
        Some("function_call") => json!({
            "role": "assistant",
            "tool_calls": [{ "function": { "name": field("name"), "arguments": field("arguments") } }],
        }),
        Some("function_call_output") => json!({ "role": "tool", "content": field("output") }),
        _ => item.clone(),
    }
}

/// The salt with which a client keeps its prompts apart from those of others in the engine's cache.
pub(crate) fn cache_salt(body: &Value) -> Option<&str> {
    let salt = body.get("cache_salt")?.as_str()?;
    (!salt.is_empty()).then_some(salt)
}

/// The answer as a client appends it to its history: the strongest tie between two requests.
fn answer(exchange: &Exchange, dialect: Dialect) -> Option<Value> {
    let body = exchange.response_body.as_deref()?;
    let status = u16::try_from(exchange.status?)
        .ok()
        .filter(|status| *status < 400)?;
    let content_type = header(&exchange.response_headers, "content-type");
    let encoding = exchange.response_encoding.as_deref();
    let mut reader = ResponseReader::new(dialect, status, content_type, encoding);
    reader.push(0, body);
    reader.finish(BodyEnd::Clean).assistant_message()
}

fn is_probe(exchange: &Exchange, body: &Value) -> bool {
    let Some([message]) = body
        .get("messages")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
    else {
        return false;
    };
    let Some(content) = message.get("content").and_then(Value::as_str) else {
        return false;
    };
    let said = content.trim().to_ascii_lowercase();
    let one_token = exchange.max_tokens == Some(1) && content.len() <= PROBE_BYTES_MAX;
    one_token || PROBES.contains(&said.as_str())
}

fn header<'a>(headers: &'a [Header], name: &str) -> Option<&'a str> {
    let found = headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case(name));
    found.map(|header| header.value.as_str())
}

/// 64 bits of BLAKE3: among 10^6 chains and 10^8 look-ups a false match has a chance of 10^-5.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let digest = blake3::hash(bytes);
    let (first, _) = digest.as_bytes().split_at(8);
    first.try_into().map_or(0, u64::from_le_bytes)
}
