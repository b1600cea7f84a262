//! What a client speaks in cleartext, by its first line.

use crate::protocol::Protocol;
use bytes::BytesMut;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What every connection of HTTP/2 begins with. The rest of the preface is left to h2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// A line that is longer, with the empty ones before it, is left to whoever reads heads.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// Read at once: a head with a small body.
const READ_BYTES: usize = 4 * 1024;

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// HTTP.
    Http(Protocol),
    /// Something else.
    Unknown,
}

/// Judges by what has come; `None` until it is enough.
pub fn judge(seen: &[u8]) -> Option<Spoken> {
    let preface = PREFACE.len().min(seen.len());
    if seen.get(..preface) == PREFACE.get(..preface) {
        return (preface == PREFACE.len()).then_some(Spoken::Http(Protocol::Http2));
    }
    let seen = seen.get(..LINE_BYTES_MAX).unwrap_or(seen);
    let empty = seen.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    let line = seen.get(empty.count()..).unwrap_or_default();
    let Some(end) = memchr(line) else {
        return match seen.len() {
            _ if !is_begun(line) => Some(Spoken::Unknown),
            LINE_BYTES_MAX.. => Some(Spoken::Http(Protocol::Http1)),
            _ => None,
        };
    };
    let line = line.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let version = line.rsplit(|byte| *byte == b' ').next();
    let known = version.is_some_and(|version| version.starts_with(b"HTTP/1."));
    Some(if known && is_begun(line) {
        Spoken::Http(Protocol::Http1)
    } else {
        Spoken::Unknown
    })
}

fn memchr(line: &[u8]) -> Option<usize> {
    line.iter().position(|byte| *byte == b'\n')
}

/// Whether a request line may begin so: a method, and what follows it in one line.
fn is_begun(line: &[u8]) -> bool {
    let method = line.iter().take_while(|byte| is_token(**byte)).count();
    match line.get(method) {
        None => true,
        Some(b' ') => method > 0,
        Some(_) => false,
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Reads until it is known what the client speaks. `None`: it went away before.
pub async fn read<I: AsyncRead + Unpin>(
    io: &mut I,
    seen: &mut BytesMut,
) -> io::Result<Option<Spoken>> {
    loop {
        if !seen.is_empty()
            && let Some(spoken) = judge(seen)
        {
            return Ok(Some(spoken));
        }
        seen.reserve(READ_BYTES);
        if io.read_buf(seen).await? == 0 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, PREFACE, Spoken, judge};
    use crate::protocol::Protocol;
    use proptest::prelude::*;

    const HTTP1: Option<Spoken> = Some(Spoken::Http(Protocol::Http1));

    #[test]
    fn a_first_line_is_judged_as_soon_as_it_can_be() {
        let cases: [(&[u8], Option<Spoken>); 16] = [
            (b"G", None),
            (b"GET / HTTP/1.1\r", None),
            (b"GET / HTTP/1.1\r\nHost", HTTP1),
            (b"\r\n\r\nPOST /v1 HTTP/1.0\n", HTTP1),
            (b"M-SEARCH * HTTP/1.1\r\n", HTTP1),
            // The upstream answers what is HTTP/1 but wrong.
            (b"GET  /a b HTTP/1.9\r\n", HTTP1),
            (b"PRI", None),
            (b"PRI * HTTP/2.0\r", None),
            (
                b"PRI * HTTP/2.0\r\n\r\nSM",
                Some(Spoken::Http(Protocol::Http2)),
            ),
            (b"PRINT / HTTP/1.1\r\n", HTTP1),
            (b"\x16\x03\x01", Some(Spoken::Unknown)),
            (b"*1\r\n$4\r\nPING\r\n", Some(Spoken::Unknown)),
            (b" GET / HTTP/1.1\r\n", Some(Spoken::Unknown)),
            (b"EHLO mail\r\n", Some(Spoken::Unknown)),
            (b"GET /\r\n", Some(Spoken::Unknown)),
            (b"GET\0", Some(Spoken::Unknown)),
        ];
        for (seen, spoken) in cases {
            assert_eq!(judge(seen), spoken, "{:?}", String::from_utf8_lossy(seen));
        }
        let long = [b"GET /".to_vec(), vec![b'a'; LINE_BYTES_MAX]].concat();
        assert_eq!(judge(&long), HTTP1);
        // Empty lines without end are no reason to read on.
        let empty = b"\r\n".repeat(LINE_BYTES_MAX / 2);
        assert_eq!(judge(&empty), HTTP1);
        assert_eq!(judge(&empty[1..]), None);
    }

    proptest! {
        #[test]
        fn a_judgement_stands_whatever_follows(seen in proptest::collection::vec(any::<u8>(), 0..64)) {
            for end in 1..=seen.len() {
                if let Some(spoken) = judge(&seen[..end]) {
                    prop_assert_eq!(judge(&seen), Some(spoken));
                }
            }
        }

        #[test]
        fn a_preface_is_known_wherever_it_is_split(end in 1..PREFACE.len()) {
            prop_assert_eq!(judge(&PREFACE[..end]), None);
        }
    }
}
