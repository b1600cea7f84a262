//! Where a body has long base64.

use super::BASE64_BYTES_MIN;
use super::base64;
use memchr::memmem::Finder;
use std::ops::Range;

/// Ends the head of a `data:` URL.
const URL_MARK: &[u8] = b";base64,";

/// A field that may hold base64 by itself: Anthropic's `source.data`, OpenAI's `input_audio.data`.
const FIELD_MARK: &[u8] = b"\"data\"";

/// Longest media type of a `data:` URL: two names of at most 127 characters, and parameters.
const MIME_BYTES_MAX: usize = 255;

/// A blob in a body.
pub(super) struct Found {
    /// Where its base64 stands.
    pub(super) range: Range<usize>,
    pub(super) mime: String,
    /// Its bytes.
    pub(super) data: Vec<u8>,
}

/// All blobs, in order.
pub(super) fn all(body: &[u8]) -> Vec<Found> {
    if body.len() < BASE64_BYTES_MIN {
        return Vec::new();
    }
    let (url, field) = (Finder::new(URL_MARK), Finder::new(FIELD_MARK));
    let mut starts: Vec<(usize, String)> = url
        .find_iter(body)
        .map(|at| (at + URL_MARK.len(), mime_before(body, at)))
        .collect();
    let fields = field.find_iter(body).map(|at| at + FIELD_MARK.len());
    starts.extend(
        fields
            .filter_map(|at| value_after(body, at))
            .map(|at| (at, String::new())),
    );
    starts.sort_unstable();
    let mut found: Vec<Found> = Vec::new();
    for (start, mime) in starts {
        let from = found.last().map_or(0, |last| last.range.end);
        if start >= from {
            found.extend(blob_at(body, start, mime));
        }
    }
    found
}

fn blob_at(body: &[u8], start: usize, mime: String) -> Option<Found> {
    let rest = body.get(start..)?;
    let digits = rest
        .iter()
        .take_while(|byte| base64::is_digit(**byte))
        .count();
    let padding = rest
        .get(digits..)?
        .iter()
        .take(2)
        .take_while(|byte| **byte == b'=')
        .count();
    let length = digits + padding;
    if length < BASE64_BYTES_MIN {
        return None;
    }
    Some(Found {
        range: start..start + length,
        mime,
        data: base64::decode(rest.get(..length)?)?,
    })
}

/// The media type that stands before the mark: `data:image/png`.
fn mime_before(body: &[u8], mark: usize) -> String {
    let head = body
        .get(mark.saturating_sub(MIME_BYTES_MAX + 5)..mark)
        .unwrap_or_default();
    let at = Finder::new(b"data:").find_iter(head).last();
    let mime = at.and_then(|at| head.get(at + 5..)).unwrap_or_default();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/+-.".contains(byte);
    let mime = if mime.iter().all(plain) { mime } else { &[] };
    String::from_utf8_lossy(mime).into_owned()
}

/// Where the text of a field begins, when its value is a text.
fn value_after(body: &[u8], mut at: usize) -> Option<usize> {
    let mut next = || {
        let byte = loop {
            let byte = *body.get(at)?;
            at += 1;
            if !byte.is_ascii_whitespace() {
                break byte;
            }
        };
        Some((byte, at))
    };
    let (colon, _) = next()?;
    let (quote, start) = next()?;
    (colon == b':' && quote == b'"').then_some(start)
}
