//! What may be kept of headers, paths and error bodies. Headers by an allow-list: what nobody
//! thought of is not kept.

use crate::limits;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use truetape_schemas::capture::Header;
use truetape_schemas::ids::new_exchange_id;
use truetape_schemas::wire::session;

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
    "x-session-token",
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

/// What a secret is replaced by in a path.
const SCRUBBED: &str = "scrubbed";

/// Allow-listed headers of one message, in one allocation: this runs on the serving path.
#[derive(Debug, Default)]
pub struct HeaderText(Vec<u8>);

impl HeaderText {
    /// Copies what may be kept.
    pub fn of(headers: &HeaderMap, also: &[String]) -> Self {
        let mut text = Vec::new();
        for (name, value) in headers {
            let kept = is_kept(name) || also.iter().any(|other| other == name.as_str());
            let length = name.as_str().len() + value.len() + 2;
            if kept && text.len() + length <= limits::HEADER_TEXT_BYTES_MAX {
                text.extend_from_slice(name.as_str().as_bytes());
                text.push(b':');
                text.extend_from_slice(value.as_bytes());
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

fn is_kept(name: &HeaderName) -> bool {
    KEPT.binary_search(&name.as_str()).is_ok()
}

/// Hexadecimal digits that stand for a caller: 64 bits tell apart more callers than there are.
const CALLER_CHARS: usize = 16;

/// The credentials a request came with. They are held to be looked for, and never written.
#[derive(Default)]
pub struct Credentials(Vec<HeaderValue>);

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({})", self.0.len())
    }
}

impl Credentials {
    /// Finds them.
    pub fn of(headers: &HeaderMap) -> Self {
        let named = |name: &&str| headers.get_all(*name);
        let values = CREDENTIALS.iter().flat_map(named);
        // A header value is a slice of the read buffer: a copy does not pin it.
        Self(
            values
                .filter_map(|value| HeaderValue::from_bytes(value.as_bytes()).ok())
                .collect(),
        )
    }

    /// Replaces every occurrence by asterisks, so that lengths and offsets stay.
    pub fn scrub(&self, body: &mut [u8]) {
        for value in &self.0 {
            for secret in secrets(value.as_bytes()) {
                overwrite(body, secret);
            }
        }
    }

    /// The same for a text.
    pub fn scrub_text(&self, text: &mut String) {
        let mut bytes = std::mem::take(text).into_bytes();
        self.scrub(&mut bytes);
        *text = String::from_utf8_lossy(&bytes).into_owned();
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
        let value = credentials.0.first()?;
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

fn overwrite(body: &mut [u8], secret: &[u8]) {
    let mut from = 0;
    while let Some(rest) = body.get_mut(from..) {
        let Some(at) = rest
            .windows(secret.len())
            .position(|window| window == secret)
        else {
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
    let Some((name, value)) = part.split_once('=') else {
        return part.to_owned();
    };
    let lower = name.to_ascii_lowercase();
    if !value.is_empty()
        && SECRET_PARAMETERS
            .iter()
            .any(|secret| lower.contains(secret))
    {
        return format!("{name}={SCRUBBED}");
    }
    part.to_owned()
}

/// The user part of an absolute target, as in `http://user:password@host/`, is never kept.
pub fn target(uri: &http::Uri) -> String {
    match uri.path_and_query() {
        Some(path_and_query) => path(path_and_query.as_str()),
        None => uri.host().unwrap_or_default().to_owned(),
    }
}

/// The first value of a header as text.
pub fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned)
}

/// The media type and the content coding, which say how to read a body.
pub fn coding(headers: &HeaderMap) -> (Option<String>, Option<String>) {
    (
        text(headers, header::CONTENT_TYPE),
        text(headers, header::CONTENT_ENCODING),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allow_list_is_sorted_and_holds_no_credential() {
        assert!(KEPT.is_sorted());
        for credential in CREDENTIALS
            .iter()
            .chain(&["set-cookie", "openai-organization"])
        {
            assert!(!KEPT.contains(credential));
        }
    }

    #[test]
    fn only_allowed_headers_are_kept_in_order() {
        let mut headers = HeaderMap::new();
        headers.append("x-session-id", HeaderValue::from_static("s1"));
        headers.append(
            "authorization",
            HeaderValue::from_static("Bearer sk-123456789"),
        );
        headers.append("x-mine", HeaderValue::from_static("m:1"));
        headers.append("accept", HeaderValue::from_static("a"));
        headers.append("accept", HeaderValue::from_static("b"));
        let kept = HeaderText::of(&headers, &["x-mine".to_owned()]).headers();
        let pairs: Vec<(&str, &str)> = kept
            .iter()
            .map(|h| (h.name.as_str(), h.value.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("x-session-id", "s1"),
                ("x-mine", "m:1"),
                ("accept", "a"),
                ("accept", "b")
            ]
        );
    }

    #[test]
    fn secret_parameters_are_scrubbed_and_others_are_not() {
        let cases = [
            ("/v1/x", "/v1/x"),
            ("/v1/x?key=AIza&n=1", "/v1/x?key=scrubbed&n=1"),
            (
                "/v1/x?Api-Key=a&access_token=b",
                "/v1/x?Api-Key=scrubbed&access_token=scrubbed",
            ),
            (
                "/v1/x?X-Amz-Signature=a&client_secret=&v",
                "/v1/x?X-Amz-Signature=scrubbed&client_secret=&v",
            ),
            ("/v1/x?a=b=c&a", "/v1/x?a=b=c&a"),
        ];
        for (given, kept) in cases {
            assert_eq!(path(given), kept);
        }
    }

    #[test]
    fn credentials_are_overwritten_wherever_they_are_echoed() {
        let mut headers = HeaderMap::new();
        headers.append(
            "authorization",
            HeaderValue::from_static("Bearer sk-123456789"),
        );
        headers.append("cookie", HeaderValue::from_static("a=1; session=abcdefgh"));
        let credentials = Credentials::of(&headers);
        let mut body = b"bad key sk-123456789, sk-123456789; abcdefgh, a=1, Bearer".to_vec();
        let length = body.len();
        credentials.scrub(&mut body);
        assert_eq!(body.len(), length);
        assert_eq!(
            String::from_utf8(body).unwrap(),
            "bad key ************, ************; ********, a=1, Bearer"
        );
        assert_eq!(format!("{credentials:?}"), "Credentials(2)");
    }

    #[test]
    fn a_caller_has_one_name_for_each_process_and_keeps_its_secret() {
        let caller = |key: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", HeaderValue::from_str(key).unwrap());
            Credentials::of(&headers)
        };
        let key = CallerKey::random();
        let one = key.name(&caller("Bearer sk-1"));
        assert_eq!(one, key.name(&caller("Bearer sk-1")));
        assert_ne!(one, key.name(&caller("Bearer sk-2")));
        assert_ne!(one, CallerKey::random().name(&caller("Bearer sk-1")));
        assert_eq!(key.name(&Credentials::default()), None);
    }
}
