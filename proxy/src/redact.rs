//! What may be kept of headers, paths and error bodies. Headers by an allow-list: what nobody
//! thought of is not kept.

use crate::fields::Fields;
use crate::limits;
use truetape_schemas::capture::Header;
use truetape_schemas::wire::session;

mod credentials;
pub mod policy;

use credentials::CREDENTIALS;
pub use credentials::{CallerKey, Credentials, Secrets};

/// Request and response headers that are kept. None of them carries a credential.
const KEPT: &[&str] = &[
    "accept",
    "accept-encoding",
    "anthropic-beta",
    "anthropic-version",
    "baggage",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "helicone-session-id",
    "helicone-session-name",
    "helicone-session-path",
    "litellm_session_id",
    "openai-beta",
    "openai-model",
    "openai-processing-ms",
    "openai-version",
    "retry-after",
    "retry-after-ms",
    "server",
    "session-id",
    "session_id",
    "thread-id",
    "traceparent",
    "transfer-encoding",
    "user-agent",
    "x-agent-session-id",
    "x-claude-code-agent-id",
    "x-claude-code-parent-agent-id",
    "x-claude-code-session-id",
    "x-client-request-id",
    "x-codex-parent-thread-id",
    "x-codex-thread-id",
    "x-dynamo-parent-session-id",
    "x-dynamo-session-final",
    "x-dynamo-session-id",
    "x-litellm-session-id",
    "x-parent-session-id",
    "x-request-id",
    "x-session-affinity",
    "x-session-id",
    "x-should-retry",
    "x-stainless-retry-count",
    "x-stainless-timeout",
    session::RUN_HEADER,
    "x-vllm-request-id",
];

/// Characters of the longest of them, or more.
const KEPT_CHARS_MAX: usize = 32;

/// Headers that carry secrets but do not stand for the caller.
const SECRETS: &[&str] = &[SESSION_TOKEN, "set-cookie"];

/// Names a session, and opens it: what is kept of it is a hash.
const SESSION_TOKEN: &str = "x-session-token";

/// Whether the header carries a secret, so that its value must not be kept.
pub fn is_secret(name: &str) -> bool {
    CREDENTIALS.contains(&name) || SECRETS.contains(&name)
}

/// Query parameters are scrubbed when their name contains one of these.
const SECRET_PARAMETERS: &[&str] = &[
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "sig",
    "credential",
    "auth",
    "code",
];

/// What a secret is replaced by in a path.
const SCRUBBED: &str = "scrubbed";

/// Allow-listed headers of one message, in one allocation: this runs on the serving path.
#[derive(Debug, Default)]
pub struct HeaderText(Vec<u8>);

impl HeaderText {
    /// Copies what may be kept.
    pub fn of(fields: &(impl Fields + ?Sized), also: &[String]) -> Self {
        let kept =
            |name: &str| is_kept(name) || also.iter().any(|other| other.eq_ignore_ascii_case(name));
        let length = |(name, value): (&str, &[u8])| name.len() + value.len() + 2;
        let all: usize = fields.each().map(length).sum();
        let mut text = Vec::with_capacity(all.min(limits::HEADER_TEXT_BYTES_MAX));
        for (name, value) in fields.each().filter(|(name, _)| kept(name)) {
            if text.len() + length((name, value)) > limits::HEADER_TEXT_BYTES_MAX {
                continue;
            }
            let at = text.len();
            text.extend_from_slice(name.as_bytes());
            text.get_mut(at..)
                .unwrap_or_default()
                .make_ascii_lowercase();
            text.push(b':');
            let at = text.len();
            text.extend_from_slice(value);
            one_line(text.get_mut(at..).unwrap_or_default());
            text.push(b'\n');
        }
        Self(text)
    }

    /// Its length in memory.
    pub fn bytes(&self) -> usize {
        self.0.capacity()
    }

    /// The headers; a value cannot hold a line break, or it would not have been parsed.
    pub fn headers(&self) -> Vec<Header> {
        let text = String::from_utf8_lossy(&self.0);
        let split = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some(Header {
                name: name.to_owned(),
                value: value.to_owned(),
            })
        };
        text.lines().filter_map(split).collect()
    }
}

/// A folded value is one line again.
fn one_line(value: &mut [u8]) {
    if memchr::memchr2(b'\r', b'\n', value).is_some() {
        for byte in value
            .iter_mut()
            .filter(|byte| matches!(byte, b'\r' | b'\n'))
        {
            *byte = b' ';
        }
    }
}

/// Whatever case the name has: it is compared as it lies there.
fn is_kept(name: &str) -> bool {
    let mut lower = [0; KEPT_CHARS_MAX];
    let Some(lower) = lower.get_mut(..name.len()) else {
        return false;
    };
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    KEPT.binary_search_by(|known| known.as_bytes().cmp(lower))
        .is_ok()
}

/// A path and query with the values of secret parameters replaced.
pub fn path(path_and_query: &str) -> String {
    let Some((path, query)) = path_and_query.split_once('?') else {
        return path_and_query.to_owned();
    };
    let parts: Vec<String> = query.split('&').map(parameter).collect();
    format!("{path}?{}", parts.join("&"))
}

fn parameter(part: &str) -> String {
    match secret_parameter(part) {
        Some((name, _)) => format!("{name}={SCRUBBED}"),
        None => part.to_owned(),
    }
}

/// The name and value of a parameter that is a secret.
fn secret_parameter(part: &str) -> Option<(&str, &str)> {
    let (name, value) = part.split_once('=')?;
    let lower = name.to_ascii_lowercase();
    let mut secrets = SECRET_PARAMETERS.iter();
    let secret = !value.is_empty() && secrets.any(|secret| lower.contains(secret));
    secret.then_some((name, value))
}

/// The user part of an absolute target, as in `http://user:password@host/`, is never kept.
pub fn target(uri: &http::Uri) -> String {
    match uri.path_and_query() {
        Some(path_and_query) => path(path_and_query.as_str()),
        None => uri.host().unwrap_or_default().to_owned(),
    }
}

/// The same of a target as it was sent, with the query that it has.
pub fn target_as_sent(sent: &str) -> (String, &str) {
    let sent = sent.split('#').next().unwrap_or_default();
    let query = sent.split_once('?').map_or("", |(_, query)| query);
    if sent.starts_with('/') {
        return (path(sent), query);
    }
    // Absolute, or the authority of a CONNECT. What is neither is not kept: nobody knows what it holds.
    let uri = sent.parse().ok();
    (uri.map(|uri| target(&uri)).unwrap_or_default(), query)
}

/// The first value of a header as text.
pub fn text(fields: &(impl Fields + ?Sized), name: &str) -> Option<String> {
    let value = fields.field(name)?;
    let plain = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    let text = std::str::from_utf8(value).ok();
    text.filter(|_| value.iter().all(plain)).map(str::to_owned)
}

/// The media type and the content coding, which say how to read a body.
pub fn coding(fields: &(impl Fields + ?Sized)) -> (Option<String>, Option<String>) {
    (
        text(fields, "content-type"),
        text(fields, "content-encoding"),
    )
}

#[cfg(test)]
mod tests;
