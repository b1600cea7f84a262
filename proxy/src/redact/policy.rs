//! The content policies `digest` and `none`: no word that a client or a server chose stays. What
//! our own readers made (numbers, times, words of a fixed list) does.
//!
//! It works by allowance: every text column is named here, and is kept, checked against a list,
//! replaced by a keyed hash, or dropped.

use crate::digest::DigestKey;
use truetape_schemas::capture::{Exchange, Header};

/// Parts of paths that APIs define; they tell the endpoint.
const PATH_PARTS: &[&str] = &[
    "anthropic",
    "api",
    "audio",
    "batches",
    "chat",
    "classify",
    "compact",
    "completions",
    "count_tokens",
    "detokenize",
    "edits",
    "embed",
    "embeddings",
    "engines",
    "generate",
    "generate_stream",
    "images",
    "infill",
    "inference",
    "input_tokens",
    "invocations",
    "messages",
    "models",
    "moderations",
    "openai",
    "pooling",
    "rerank",
    "responses",
    "score",
    "speech",
    "tokenize",
    "transcriptions",
    "translations",
    "v1",
    "v1beta",
    "v2",
    "v3",
];

/// Response formats that APIs define.
const FORMATS: &[&str] = &[
    "grammar",
    "json",
    "json_object",
    "json_schema",
    "regex",
    "structural_tag",
    "text",
];

/// Reasons of the end that APIs define.
const REASONS: &[&str] = &[
    "",
    "abort",
    "completed",
    "content_filter",
    "cancelled",
    "end_turn",
    "eos",
    "eos_token",
    "error",
    "failed",
    "function_call",
    "incomplete",
    "length",
    "load",
    "max_output_tokens",
    "max_tokens",
    "model_context_window_exceeded",
    "pause_turn",
    "refusal",
    "stop",
    "stop_sequence",
    "tool_calls",
    "tool_use",
    "unload",
];

/// Codes and types of errors that APIs, engines and this proxy define.
const ERRORS: &[&str] = &[
    "APIError",
    "AuthenticationError",
    "BadRequestError",
    "InternalServerError",
    "NotFoundError",
    "PermissionDeniedError",
    "RateLimitError",
    "UnprocessableEntityError",
    "api_error",
    "authentication_error",
    "billing_error",
    "content_filter",
    "content_policy_violation",
    "context_length_exceeded",
    "error",
    "exceed_context_size_error",
    "generation",
    "incomplete_generation",
    "insufficient_quota",
    "internal_error",
    "internal_server_error",
    "invalid_api_key",
    "invalid_prompt",
    "invalid_request_error",
    "model_not_found",
    "not_found_error",
    "not_supported_error",
    "overloaded",
    "overloaded_error",
    "permission_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "request_too_large",
    "requests",
    "server_error",
    "timeout",
    "timeout_error",
    "tokens",
    "truetape_upstream_connect",
    "unavailable_error",
    "validation",
];

/// Content codings.
const CODINGS: &[&str] = &["", "br", "deflate", "gzip", "identity", "x-gzip", "zstd"];

/// Headers that a compiler needs and that hold words of a fixed list.
const HEADER_WORDS: &[(&str, &[&str])] = &[
    (
        "content-type",
        &[
            "application/json",
            "application/x-ndjson",
            "application/octet-stream",
            "multipart/form-data",
            "text/event-stream",
            "text/html",
            "text/plain",
        ],
    ),
    ("content-encoding", CODINGS),
    ("transfer-encoding", &["chunked"]),
    ("x-should-retry", &["true", "false"]),
];

/// Headers that are kept where they hold a number or a date of digits, and nothing else.
const HEADER_NUMBERS: &[&str] = &[
    "anthropic-version",
    "content-length",
    "openai-processing-ms",
    "openai-version",
    "retry-after",
    "retry-after-ms",
    "x-stainless-retry-count",
    "x-stainless-timeout",
];

/// Characters of such a number at most.
const NUMBER_CHARS_MAX: usize = 20;

/// Stands for a word of a fixed list that is on none.
const OTHER: &str = "other";

/// What a policy lets pass by name.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Models that may be named.
    pub models: Vec<String>,
    /// Headers whose values may be told apart, by a hash.
    pub headers: Vec<String>,
}

/// Takes every free text out of a row.
pub fn withhold(exchange: &mut Exchange, key: &DigestKey, kept: &Kept) {
    exchange.request_body = None;
    exchange.request_blobs = None;
    exchange.response_body = None;
    // Their number is of no use without them.
    exchange.stop = None;
    exchange.path = path(&exchange.path, key);
    word(&mut exchange.method, &["POST"]);
    for headers in [
        &mut exchange.request_headers,
        &mut exchange.response_headers,
    ] {
        let passed = headers
            .drain(..)
            .filter_map(|field| header(field, key, kept));
        *headers = passed.collect();
    }
    let model = |name: &String| kept.models.contains(name);
    exchange.model = exchange
        .model
        .take()
        .map(|name| if model(&name) { name } else { key.name(&name) });
    for coding in [
        &mut exchange.request_encoding,
        &mut exchange.response_encoding,
    ]
    .into_iter()
    .flatten()
    {
        list(coding, CODINGS);
    }
    if let Some(format) = &mut exchange.response_format {
        word(format, FORMATS);
    }
    for reason in exchange.finish_reasons.iter_mut().flatten() {
        word(reason, REASONS);
    }
    for error in [&mut exchange.error_code, &mut exchange.error_type]
        .into_iter()
        .flatten()
    {
        if !ERRORS.contains(&error.as_str()) && !is_status(error) {
            *error = key.name(error);
        }
    }
    for name in [
        &mut exchange.session_key,
        &mut exchange.parent_session_key,
        &mut exchange.previous_response_id,
        &mut exchange.response_id,
        &mut exchange.trace_id,
        &mut exchange.replay_run,
    ]
    .into_iter()
    .flatten()
    {
        *name = key.name(name);
    }
}

fn word(text: &mut String, allowed: &[&str]) {
    if !allowed.contains(&text.as_str()) {
        OTHER.clone_into(text);
    }
}

fn list(text: &mut String, allowed: &[&str]) {
    let sound = |name: &str| allowed.contains(&name.trim().to_ascii_lowercase().as_str());
    if !text.split(',').all(sound) {
        OTHER.clone_into(text);
    }
}

/// A code that is an HTTP status, or another small number.
fn is_status(text: &str) -> bool {
    (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The endpoint; its query is dropped, and a part that no API defines is hashed.
fn path(text: &str, key: &DigestKey) -> String {
    let (path, _) = text.split_once('?').unwrap_or((text, ""));
    let part = |part: &str| {
        if part.is_empty() || PATH_PARTS.contains(&part) {
            part.to_owned()
        } else {
            key.name(part)
        }
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn header(mut field: Header, key: &DigestKey, kept: &Kept) -> Option<Header> {
    if kept.headers.contains(&field.name) {
        field.value = key.name(&field.value);
        return Some(field);
    }
    let words = HEADER_WORDS.iter().find(|(name, _)| *name == field.name);
    if let Some((_, words)) = words {
        // What follows a semicolon is free: a boundary, a charset.
        let value = field.value.split(';').next().unwrap_or_default().trim();
        let value = value.to_ascii_lowercase();
        let sound = value.split(',').all(|one| words.contains(&one.trim()));
        field.value = value;
        return sound.then_some(field);
    }
    let digits = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    let number = field.value.len() <= NUMBER_CHARS_MAX && field.value.bytes().all(digits);
    (HEADER_NUMBERS.contains(&field.name.as_str()) && number).then_some(field)
}

#[cfg(test)]
mod tests;
