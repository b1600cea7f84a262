//! What is read off the bodies of an exchange before they are let go.

use super::row::{Client, Extra, MessageHash, Text};
use serde_json::Value;
use truetape_fidelity::tokens;
use truetape_schemas::capture::{Exchange, Header};
use truetape_schemas::wire::{self, BodyEnd, Dialect, ResponseReader, canonical};

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
    let user = body.and_then(|body| wire::read_request(dialect, body).user);
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
        text: body.and_then(|body| text(exchange, dialect, body)),
        client,
        retry_count,
    }
}

/// The recorder process: keys of callers mean nothing beyond it.
fn recorder(exchange: &Exchange) -> u64 {
    hash(format!("{:?}@{}", exchange.proxy_epoch_us, exchange.proxy_id).as_bytes())
}

/// The request body where it can be read as it is.
pub(crate) fn plain_body(exchange: &Exchange) -> Option<&[u8]> {
    let encoding = exchange.request_encoding.as_deref().unwrap_or("identity");
    let plain = encoding.is_empty() || encoding.eq_ignore_ascii_case("identity");
    exchange.request_body.as_deref().filter(|_| plain)
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
    match dialect {
        Dialect::OpenaiChat => body
            .get("messages")?
            .is_array()
            .then(|| tokens::render_chat(body)),
        Dialect::OpenaiCompletions => body.get("prompt")?.as_str().map(tokens::render_completion),
        Dialect::Trace | Dialect::Unknown => None,
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
