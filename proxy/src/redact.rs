//! What may be kept of headers, paths and error bodies. Headers by an allow-list: what nobody
//! thought of is not kept.

use crate::fields::Fields;
use crate::limits;
use http::HeaderValue;
use truetape_schemas::capture::{Header, blob};
use truetape_schemas::ids::{content_id, new_exchange_id};
use truetape_schemas::wire::session;

pub mod policy;

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

/// Request headers whose values are credentials: they are looked for in what is kept. Keys come
/// before cookies: the first that is there stands for the caller.
const CREDENTIALS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
];

/// Headers that carry secrets but do not stand for the caller.
const SECRETS: &[&str] = &[SESSION_TOKEN, "set-cookie"];

/// Names a session, and opens it: what is kept of it is a hash.
const SESSION_TOKEN: &str = "x-session-token";

/// Whether the header carries a secret, so that its value must not be kept.
pub fn is_secret(name: &str) -> bool {
    CREDENTIALS.contains(&name) || SECRETS.contains(&name)
}

/// A value shorter than this is not looked for: it would be found everywhere.
const CREDENTIAL_CHARS_MIN: usize = 8;

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

/// Begins credentials that are a name and a password.
const BASIC: &[u8] = b"basic ";

/// What a secret is replaced by in a path.
const SCRUBBED: &str = "scrubbed";

/// Allow-listed headers of one message, in one allocation: this runs on the serving path.
#[derive(Debug, Default)]
pub struct HeaderText(Vec<u8>);

impl HeaderText {
    /// Copies what may be kept.
    pub fn of(fields: &(impl Fields + ?Sized), also: &[String]) -> Self {
        let mut text = Vec::new();
        for (name, value) in fields.each() {
            let added = also.iter().any(|other| other.eq_ignore_ascii_case(name));
            let length = name.len() + value.len() + 2;
            if (added || is_kept(name)) && text.len() + length <= limits::HEADER_TEXT_BYTES_MAX {
                text.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
                text.push(b':');
                // A folded value is one line again.
                text.extend(value.iter().map(|byte| {
                    if matches!(byte, b'\r' | b'\n') {
                        b' '
                    } else {
                        *byte
                    }
                }));
                text.push(b'\n');
            }
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

/// Whatever case the name has: it is compared as it lies there.
fn is_kept(name: &str) -> bool {
    let lower = |byte: u8| byte.to_ascii_lowercase();
    let compared = |known: &&str| known.bytes().cmp(name.bytes().map(lower));
    KEPT.binary_search_by(compared).is_ok()
}

/// Hexadecimal digits that stand for a caller: 64 bits tell apart more callers than there are.
const CALLER_CHARS: usize = 16;

/// The credentials a request came with. They are held to be looked for, and never written.
#[derive(Default)]
pub struct Credentials {
    headers: Vec<HeaderValue>,
    session: Option<HeaderValue>,
    /// Values of secret parameters, as they were sent.
    parameters: Vec<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = self.headers.len() + self.parameters.len() + usize::from(self.session.is_some());
        write!(f, "Credentials({all})")
    }
}

impl Credentials {
    /// Finds them in headers and in the query.
    pub fn of(fields: &(impl Fields + ?Sized), query: &str) -> Self {
        // A value is a slice of the read buffer: a copy does not pin it.
        let copy = |value: &[u8]| HeaderValue::from_bytes(value).ok();
        // One look at each field: a look-up of each name would hash it for every request.
        let is = |name: &str, known: &&str| known.eq_ignore_ascii_case(name);
        let rank = |name: &str| CREDENTIALS.iter().position(|known| is(name, known));
        let found = |(name, value)| Some((rank(name)?, copy(value)?));
        let mut values: Vec<(usize, HeaderValue)> = fields.each().filter_map(found).collect();
        values.sort_by_key(|(rank, _)| *rank);
        let parameters = query.split('&');
        Self {
            headers: values.into_iter().map(|(_, value)| value).collect(),
            session: fields.field(SESSION_TOKEN).and_then(copy),
            parameters: parameters
                .filter_map(secret_parameter)
                .map(|(_, value)| value.to_owned())
                .collect(),
        }
    }

    /// What stands for the session token among the headers: its hash, equal wherever it was seen.
    pub fn session_header(&self) -> Option<Header> {
        let token = self.session.as_ref()?;
        Some(Header {
            name: SESSION_TOKEN.to_owned(),
            value: content_id(token.as_bytes().trim_ascii()),
        })
    }

    /// Replaces every occurrence by asterisks, so that lengths and offsets stay.
    pub fn scrub(&self, body: &mut [u8]) {
        self.each(|secret| overwrite(body, secret));
    }

    fn each(&self, mut act: impl FnMut(&[u8])) {
        for value in self.headers.iter().chain(&self.session) {
            for secret in secrets(value.as_bytes()) {
                act(secret);
            }
            for secret in basic(value.as_bytes()) {
                act(&secret);
            }
        }
        for value in &self.parameters {
            for secret in [value.as_bytes(), &decoded(value)] {
                if secret.len() >= CREDENTIAL_CHARS_MIN {
                    act(secret);
                }
            }
        }
    }

    /// The same for a text.
    pub fn scrub_text(&self, text: &mut String) {
        if !self.are_in(text) {
            return;
        }
        let mut bytes = std::mem::take(text).into_bytes();
        self.scrub(&mut bytes);
        *text = String::from_utf8_lossy(&bytes).into_owned();
    }

    /// Whether one of them is in a text.
    pub fn are_in(&self, text: &str) -> bool {
        let mut found = false;
        self.each(|secret| found |= position(text.as_bytes(), secret).is_some());
        found
    }
}

/// Keys the hashes that stand for callers. It lives as long as the process and is never written, so
/// that a captured hash cannot be tried against guessed credentials.
#[derive(Clone, Copy)]
pub struct CallerKey([u8; 32]);

impl std::fmt::Debug for CallerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallerKey(..)")
    }
}

impl CallerKey {
    /// A key of this process: two ids carry 148 random bits.
    pub fn random() -> Self {
        let seed = format!("{}{}", new_exchange_id(), new_exchange_id());
        Self(blake3::derive_key(
            "truetape 2026 caller key v1",
            seed.as_bytes(),
        ))
    }

    /// What stands for the caller with these credentials; unknown for a caller without any.
    pub fn name(&self, credentials: &Credentials) -> Option<String> {
        // The first: keys come before cookies, which may change with every answer.
        let value = credentials.headers.first()?;
        let hex = blake3::keyed_hash(&self.0, value.as_bytes()).to_hex();
        Some(hex.chars().take(CALLER_CHARS).collect())
    }
}

/// `Bearer abc` is looked for as `abc`; cookies as each value.
fn secrets(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| matches!(byte, b' ' | b';' | b'=' | b',' | b'"'))
        .filter(|part| part.len() >= CREDENTIAL_CHARS_MIN)
}

/// The name and the password of `Basic` credentials: a server has read them, and may tell them.
fn basic(value: &[u8]) -> Vec<Vec<u8>> {
    let Some((scheme, coded)) = value.split_at_checked(BASIC.len()) else {
        return Vec::new();
    };
    if !scheme.eq_ignore_ascii_case(BASIC) {
        return Vec::new();
    }
    let decoded = blob::decode(coded.trim_ascii()).unwrap_or_default();
    let mut parts: Vec<Vec<u8>> = decoded
        .splitn(2, |byte| *byte == b':')
        .map(<[u8]>::to_vec)
        .collect();
    parts.push(decoded);
    parts.retain(|part| part.len() >= CREDENTIAL_CHARS_MIN);
    parts
}

fn position(body: &[u8], secret: &[u8]) -> Option<usize> {
    body.windows(secret.len())
        .position(|window| window == secret)
}

fn overwrite(body: &mut [u8], secret: &[u8]) {
    let mut from = 0;
    while let Some(rest) = body.get_mut(from..) {
        let Some(at) = position(rest, secret) else {
            return;
        };
        if let Some(found) = rest.get_mut(at..at + secret.len()) {
            found.fill(b'*');
        }
        from += at + secret.len();
    }
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

/// A value of a query without its percent signs: what a server that echoes it has read.
fn decoded(value: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<2>().filter(|_| *first == b'%');
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = match byte {
            Some(_) => after.get(2..).unwrap_or_default(),
            None => after,
        };
    }
    bytes
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
