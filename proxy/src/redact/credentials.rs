//! The credentials of a request: who it stands for, and what must not be kept of it.

use super::{SESSION_TOKEN, secret_parameter};
use crate::fields::Fields;
use http::HeaderValue;
use memchr::memmem;
use std::borrow::Cow;
use truetape_schemas::capture::{Header, blob};
use truetape_schemas::ids::{content_id, new_exchange_id};

/// Request headers whose values are credentials: they are looked for in what is kept. Keys come
/// before cookies: the first that is there stands for the caller.
pub(super) const CREDENTIALS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
];

/// A value shorter than this is not looked for: it would be found everywhere.
const CREDENTIAL_CHARS_MIN: usize = 8;

/// Begins credentials that are a name and a password.
const BASIC: &[u8] = b"basic ";

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

    /// What of them is looked for, found once for all the texts of a record.
    pub fn secrets(&self) -> Secrets<'_> {
        let mut secrets = Secrets::default();
        for value in self.headers.iter().chain(&self.session) {
            secrets.0.extend(parts(value.as_bytes()).map(Cow::Borrowed));
            secrets.0.extend(basic(value.as_bytes()).map(Cow::Owned));
        }
        for value in &self.parameters {
            secrets.0.push(Cow::Borrowed(value.as_bytes()));
            if value.contains('%') {
                secrets.0.push(Cow::Owned(decoded(value)));
            }
        }
        secrets
            .0
            .retain(|secret| secret.len() >= CREDENTIAL_CHARS_MIN);
        secrets
    }
}

/// Secrets that what is kept must not hold.
#[derive(Default)]
pub struct Secrets<'a>(Vec<Cow<'a, [u8]>>);

impl std::fmt::Debug for Secrets<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets<'_> {
    /// Replaces every occurrence by asterisks, so that lengths and offsets stay.
    pub fn scrub(&self, body: &mut [u8]) {
        for secret in &self.0 {
            overwrite(body, secret);
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
        let mut secrets = self.0.iter();
        secrets.any(|secret| memmem::find(text.as_bytes(), secret).is_some())
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
fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| matches!(byte, b' ' | b';' | b'=' | b',' | b'"'))
}

/// The name and the password of `Basic` credentials: a server has read them, and may tell them.
fn basic(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let scheme = value.split_at_checked(BASIC.len());
    let coded = scheme.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(BASIC));
    let decoded = coded.and_then(|(_, coded)| blob::decode(coded.trim_ascii()));
    decoded.into_iter().flat_map(|decoded| {
        let halves = decoded.splitn(2, |byte| *byte == b':');
        let mut parts: Vec<Vec<u8>> = halves.map(<[u8]>::to_vec).collect();
        parts.push(decoded);
        parts
    })
}

fn overwrite(body: &mut [u8], secret: &[u8]) {
    let finder = memmem::Finder::new(secret);
    let mut from = 0;
    while let Some(at) = body.get(from..).and_then(|rest| finder.find(rest)) {
        let found = from + at..from + at + secret.len();
        from = found.end;
        if let Some(found) = body.get_mut(found) {
            found.fill(b'*');
        }
    }
}

/// A value of a query without its percent signs: what a server that echoes it has read.
pub(super) fn decoded(value: &str) -> Vec<u8> {
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
