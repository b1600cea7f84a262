//! What a body is, by its first bytes.

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An event stream.
    Events,
    /// A JSON document.
    Json,
    /// Lines of JSON.
    Lines,
    /// Something else.
    Other,
}

/// How the lines of an event stream can begin.
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Tells what a body is.
///
/// The content type decides only where the bytes do not: gateways send event streams as
/// `text/plain` or without a type, and plain JSON errors as `text/event-stream`.
#[derive(Debug)]
pub(super) struct Sniffer {
    is_events_by_type: bool,
    /// The dialect streams lines of JSON, and no one said that this is one document.
    is_lines: bool,
    /// Its byte order mark was passed over: a second one is not another.
    is_past_bom: bool,
    /// The body so far, from its first byte that is neither white space nor byte order mark.
    start: Vec<u8>,
}

impl Sniffer {
    pub(super) fn new(content_type: Option<&str>, streams_lines: bool) -> Self {
        let media_type = content_type
            .and_then(|value| value.split(';').next())
            .unwrap_or_default();
        let is = |kind: &str| media_type.trim().eq_ignore_ascii_case(kind);
        Self {
            is_events_by_type: is("text/event-stream"),
            is_lines: streams_lines && !is("application/json"),
            is_past_bom: false,
            start: Vec::new(),
        }
    }

    /// Takes bytes. Once it can tell, returns what the body is and the body so far.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<(Kind, Vec<u8>)> {
        self.start.extend_from_slice(bytes);
        // Keep-alive blanks may go on for long, and mean nothing in either kind of body.
        let mut start = self.start.trim_ascii_start();
        // Once for the body and not once for each push, or how it was cut would tell.
        if !self.is_past_bom
            && let Some(rest) = start.strip_prefix(BOM)
        {
            self.is_past_bom = true;
            start = rest.trim_ascii_start();
        }
        self.start = start.to_vec();
        let kind = self.kind()?;
        Some((kind, std::mem::take(&mut self.start)))
    }

    /// Whether nothing but white space came.
    pub(super) fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    fn kind(&self) -> Option<Kind> {
        let start = &self.start[..];
        let is_begun = |what: &[u8]| what.starts_with(start) && what != start;
        match start.first()? {
            b'{' if self.is_lines => Some(Kind::Lines),
            b'{' | b'[' => Some(Kind::Json),
            _ if !self.is_past_bom && is_begun(BOM) => None,
            _ if self.is_events_by_type => Some(Kind::Events),
            _ if FIELDS.iter().any(|field| start.starts_with(field)) => Some(Kind::Events),
            _ if FIELDS.iter().any(|field| is_begun(field)) => None,
            _ => Some(Kind::Other),
        }
    }
}
