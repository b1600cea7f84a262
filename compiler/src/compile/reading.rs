//! What is read off the bodies of an exchange before they are let go.

use super::row::{Client, Extra, MessageHash, Text};
use serde_json::{Value, json};
use std::borrow::Cow;
use truetape_fidelity::tokens;
use truetape_schemas::capture::{Exchange, Header};
use truetape_schemas::wire::{self, BodyEnd, Dialect, ResponseReader, canonical, coding};

/// Set by OpenAI's SDKs, and by clients that copy them.
const RETRY_HEADER: &str = "x-stainless-retry-count";

/// First messages that nobody sends to converse.
const PROBES: [&str; 4] = ["hi", "hello", "ping", "test"];

/// Bytes of a prompt at most that a probe of one token has.
const PROBE_BYTES_MAX: usize = 64;

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
            .and_then(|body| text(exchange, dialect, body)),
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
    Some(Text {
        messages: messages
            .iter()
            .map(|message| MessageHash {
                hash: hash(&message.canonical),
                system: matches!(message.role.as_str(), "system" | "developer"),
            })
            .collect(),
        answer: answer(exchange, dialect),
        rendered_bytes: rendered.len() as u64,
        probe: is_probe(exchange, &value),
    })
}

/// Renders the prompt of a request body as the reference engine does; none where it holds none.
pub(crate) fn render(dialect: Dialect, body: &Value) -> Option<Vec<u8>> {
    let prompt = |name: &str| body.get(name)?.as_str().map(tokens::render_completion);
    match dialect {
        Dialect::OpenaiChat
        | Dialect::OllamaChat
        | Dialect::AnthropicMessages
        | Dialect::OpenaiResponses => {
            let chat = as_chat(dialect, body)?;
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
fn as_chat(dialect: Dialect, body: &Value) -> Option<Cow<'_, Value>> {
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
fn answer(exchange: &Exchange, dialect: Dialect) -> Option<u64> {
    let body = exchange.response_body.as_deref()?;
    let status = u16::try_from(exchange.status?)
        .ok()
        .filter(|status| *status < 400)?;
    let content_type = header(&exchange.response_headers, "content-type");
    let encoding = exchange.response_encoding.as_deref();
    let mut reader = ResponseReader::new(dialect, status, content_type, encoding);
    reader.push(0, body);
    let message = reader.finish(BodyEnd::Clean).assistant_message()?;
    Some(hash(&canonical::identity(&message)))
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
