//! The heads of messages of HTTP/1, read where they lie: what they say about the connection and the
//! body, and which of their bytes do not pass.

use crate::fields::{Fields as _, tokens};
use crate::limits;
use crate::relay::framing::Framing;
use httparse::{Header, ParserConfig, Status};
use std::mem::MaybeUninit;
use std::ops::Range;

/// What was found at the start of the bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// A head.
    Head(T),
    /// The beginning of one.
    Part,
    /// Something else, or a head that does not say where its message ends.
    Foreign,
}

/// What is the same in the heads of requests and responses.
#[derive(Debug)]
pub struct Head<'b> {
    /// Its bytes, the empty line included.
    pub bytes: &'b [u8],
    /// Its fields.
    pub fields: &'b [Header<'b>],
    /// The part of the version after the dot.
    pub minor: u8,
}

/// The head of a request.
#[derive(Debug)]
pub struct Request<'b> {
    /// Its method.
    pub method: &'b str,
    /// What it asks for, as it was sent.
    pub target: &'b str,
    /// The rest.
    pub head: Head<'b>,
    /// What ends its body.
    pub framing: Framing,
}

/// The head of a response.
#[derive(Debug)]
pub struct Response<'b> {
    /// Its status.
    pub status: u16,
    /// The rest.
    pub head: Head<'b>,
}

/// Room for the fields of most messages. A message with more is read again, with more room.
const FIELDS_USUAL: usize = 48;

/// Reads the head of a request, and hands it to `read`.
pub fn request<T>(bytes: &[u8], read: impl FnOnce(Request<'_>) -> T) -> Found<T> {
    let mut few = [const { MaybeUninit::uninit() }; FIELDS_USUAL];
    let mut many = [const { MaybeUninit::uninit() }; limits::HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let mut parsed = request.parse_with_uninit_headers(bytes, &mut few);
    if parsed == Err(httparse::Error::TooManyHeaders) {
        request = httparse::Request::new(&mut []);
        parsed = request.parse_with_uninit_headers(bytes, &mut many);
    }
    let length = match parsed {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Found::Part,
        Err(_) => return Found::Foreign,
    };
    let (Some(method), Some(target), Some(minor), Some(head)) = (
        request.method,
        request.path,
        request.version,
        bytes.get(..length),
    ) else {
        return Found::Foreign;
    };
    let fields: &[Header<'_>] = request.headers;
    let Some(framing) = framing_of_request(fields) else {
        return Found::Foreign;
    };
    let head = Head {
        bytes: head,
        fields,
        minor,
    };
    Found::Head(read(Request {
        method,
        target,
        head,
        framing,
    }))
}

/// Reads the head of a response, and hands it to `read`.
pub fn response<T>(bytes: &[u8], read: impl FnOnce(Response<'_>) -> T) -> Found<T> {
    let mut few = [const { MaybeUninit::uninit() }; FIELDS_USUAL];
    let mut many = [const { MaybeUninit::uninit() }; limits::HEADERS_MAX];
    // It passes as it is: what clients may be lax about, we are.
    let mut lax = ParserConfig::default();
    lax.allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .ignore_invalid_headers_in_responses(true);
    let mut response = httparse::Response::new(&mut []);
    let mut parsed = lax.parse_response_with_uninit_headers(&mut response, bytes, &mut few);
    if parsed == Err(httparse::Error::TooManyHeaders) {
        response = httparse::Response::new(&mut []);
        parsed = lax.parse_response_with_uninit_headers(&mut response, bytes, &mut many);
    }
    let length = match parsed {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Found::Part,
        Err(_) => return Found::Foreign,
    };
    let (Some(status), Some(minor), Some(head)) =
        (response.code, response.version, bytes.get(..length))
    else {
        return Found::Foreign;
    };
    let head = Head {
        bytes: head,
        fields: response.headers,
        minor,
    };
    Found::Head(read(Response { status, head }))
}

/// A head up to this length is read with each piece that comes; a longer one once it is whole, so
/// that one which comes byte by byte is not read as often.
const EAGER_BYTES: usize = 16 * 1024;

/// Whether the bytes begin with the head of a request. The first `looked` of them were seen before,
/// and held a part of one.
pub fn is_request(bytes: &[u8], looked: usize) -> Found<()> {
    when_whole(bytes, looked, |bytes| request(bytes, |_| ()))
}

/// Reads a head, unless it is plain that it is not whole yet, or longer than any.
pub fn when_whole<T>(
    bytes: &[u8],
    looked: usize,
    read: impl FnOnce(&[u8]) -> Found<T>,
) -> Found<T> {
    if looked <= EAGER_BYTES {
        return read(bytes);
    }
    if bytes.len() > limits::HEAD_BYTES_MAX {
        return Found::Foreign;
    }
    if !has_empty_line(bytes, looked) {
        return Found::Part;
    }
    match read(bytes) {
        // It has an empty line and is no head yet: empty lines before one, without end.
        Found::Part => Found::Foreign,
        found => found,
    }
}

/// Whether an empty line ends among the bytes from there on.
fn has_empty_line(bytes: &[u8], from: usize) -> bool {
    let from = from.saturating_sub(b"\n\r".len());
    let rest = bytes.get(from..).unwrap_or_default();
    let two = rest.windows(2).any(|pair| pair == b"\n\n");
    two || rest.windows(3).any(|three| three == b"\n\r\n")
}

/// By RFC 9112, 6.3. None: it is not known where the body ends.
fn framing_of_request(fields: &[Header<'_>]) -> Option<Framing> {
    match (is_chunked(fields), length(fields)) {
        (Some(true), _) => Some(Framing::chunked()),
        (Some(false), _) | (None, Some(Err(Differs))) => None,
        (None, Some(Ok(length))) => Some(Framing::Length(length)),
        (None, None) => Some(Framing::NONE),
    }
}

/// What ends the body of a response to a request with this method. By RFC 9112, 6.3.
pub fn framing_of_response(status: u16, fields: &[Header<'_>], to_head: bool) -> Framing {
    if to_head || matches!(status, 100..=199 | 204 | 304) {
        return Framing::NONE;
    }
    match (is_chunked(fields), length(fields)) {
        (Some(true), _) => Framing::chunked(),
        (None, Some(Ok(length))) => Framing::Length(length),
        (Some(false), _) | (None, Some(Err(Differs)) | None) => Framing::UntilClose,
    }
}

/// Whether chunks are the last coding of the transfer; none, where no coding is said.
fn is_chunked(fields: &[Header<'_>]) -> Option<bool> {
    let codings = tokens(fields, "transfer-encoding");
    let last = codings.filter(|coding| !coding.is_empty()).last()?;
    Some(last.eq_ignore_ascii_case("chunked"))
}

/// Several lengths that are not the same, or none of them a number.
struct Differs;

fn length(fields: &[Header<'_>]) -> Option<Result<u64, Differs>> {
    let mut all = tokens(fields, "content-length").map(|text| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits)
    });
    let first: Option<u64> = all.next()?;
    let same = all.all(|other| other == first);
    Some(first.filter(|_| same).ok_or(Differs))
}

impl Head<'_> {
    /// Whether it asks for, or is, an upgrade of the connection.
    pub fn is_upgrade(&self) -> bool {
        let said = self.fields.field("upgrade").is_some();
        said && tokens(self.fields, "connection").any(|token| token.eq_ignore_ascii_case("upgrade"))
    }

    /// Its bytes on the other side, where they are not the same: without the fields that
    /// `Connection` nominates for this hop, and with the connection's end where `last` announces it.
    ///
    /// Both connections end together, so what a field says of its own is as true on the other side.
    pub fn edited(&self, last: bool) -> Option<Vec<u8>> {
        let hop: Vec<&str> = tokens(self.fields, "connection")
            .filter(|token| !self.is_upgrade() && is_for_this_hop(token))
            .collect();
        if hop.is_empty() && !last {
            return None;
        }
        let is_out = |name: &str| {
            name.eq_ignore_ascii_case("connection")
                || hop.iter().any(|hop| name.eq_ignore_ascii_case(hop))
        };
        let mut bytes = Vec::with_capacity(self.bytes.len() + CLOSE.len());
        let mut from = 0;
        for (field, line) in self.fields.iter().zip(self.lines()) {
            bytes.extend_from_slice(self.bytes.get(from..line.start)?);
            from = line.end;
            if !is_out(field.name) {
                bytes.extend_from_slice(self.bytes.get(line)?);
            }
        }
        if last {
            bytes.extend_from_slice(CLOSE);
        } else {
            let kept = tokens(self.fields, "connection");
            let kept: Vec<&str> = kept.filter(|token| !hop.contains(token)).collect();
            if !kept.is_empty() {
                bytes.extend_from_slice(format!("Connection: {}\r\n", kept.join(", ")).as_bytes());
            }
        }
        bytes.extend_from_slice(self.bytes.get(from..)?);
        Some(bytes)
    }

    /// The lines of the fields: each from its name up to the line's end.
    fn lines(&self) -> impl Iterator<Item = Range<usize>> {
        let start = self.bytes.as_ptr() as usize;
        self.fields.iter().map(move |field| {
            let from = (field.name.as_ptr() as usize).saturating_sub(start);
            let after = from + field.name.len();
            let value = (field.value.as_ptr() as usize).saturating_sub(start) + field.value.len();
            // A value that is empty may lie anywhere.
            let value = if (after..=self.bytes.len()).contains(&value) {
                value
            } else {
                after
            };
            let rest = self.bytes.get(value..).unwrap_or_default();
            let end = rest.iter().position(|byte| *byte == b'\n');
            from..end.map_or(self.bytes.len(), |end| value + end + 1)
        })
    }
}

/// Words of `Connection` that name no field, and fields that a message must not be able to make us
/// forget, because they say where it goes, where it ends, or what it upgrades to.
const NOT_NOMINATED: &[&str] = &[
    "",
    "close",
    "connection",
    "content-length",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn is_for_this_hop(token: &str) -> bool {
    !NOT_NOMINATED
        .iter()
        .any(|known| token.eq_ignore_ascii_case(known))
}

/// Tells a client that its connection ends.
const CLOSE: &[u8] = b"Connection: close\r\n";

#[cfg(test)]
mod tests;
