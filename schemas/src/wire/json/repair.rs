//! JSON that is nearly JSON.

/// Rewrites what servers are known to get wrong, so that the rest of a document can be read:
/// `NaN` and `Infinity` (as Python writes probabilities) and numbers beyond a float become
/// `null`; halves of a surrogate pair and bytes that are not UTF-8 become U+FFFD; control
/// characters in texts are escaped.
///
/// It is only called on what was refused before, so it need not be fast.
pub(in crate::wire) fn repair(document: &[u8]) -> Vec<u8> {
    let document = String::from_utf8_lossy(document);
    let mut rest = document.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some((&first, tail)) = rest.split_first() {
        rest = match first {
            b'"' => text(tail, &mut out),
            b'+' | b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => word(rest, &mut out),
            other => {
                out.push(other);
                tail
            }
        };
    }
    out
}

/// Copies a number or a bare word.
fn word<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let end = rest
        .iter()
        .position(|byte| !belongs(byte))
        .unwrap_or(rest.len());
    let (word, rest) = rest.split_at_checked(end).unwrap_or((rest, &[]));
    // Rust's float parser takes every spelling of infinity and of not-a-number.
    let value = std::str::from_utf8(word)
        .ok()
        .and_then(|word| word.parse::<f64>().ok());
    match value {
        Some(value) if !value.is_finite() => out.extend_from_slice(b"null"),
        _ => out.extend_from_slice(word),
    }
    rest
}

/// Copies a text; `rest` begins after its first quote.
fn text<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    out.push(b'"');
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'"' => {
                out.push(b'"');
                return rest;
            }
            b'\\' => rest = escape(rest, out),
            0..=0x1f => out.extend_from_slice(format!("\\u{first:04x}").as_bytes()),
            other => out.push(other),
        }
    }
    rest
}

/// Copies an escape; `rest` begins after its backslash.
fn escape<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let unit = |rest: &[u8]| {
        let digits = rest.strip_prefix(b"u")?.get(..4)?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let second = |rest: &[u8]| unit(rest.get(5..)?.strip_prefix(b"\\")?);
    let length = match unit(rest) {
        Some(0xd800..=0xdbff) if matches!(second(rest), Some(0xdc00..=0xdfff)) => 11,
        Some(0xd800..=0xdfff) => {
            out.extend_from_slice(b"\\ufffd");
            return rest.get(5..).unwrap_or_default();
        }
        Some(_) => 5,
        None => 1,
    };
    let (escape, rest) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    out.push(b'\\');
    out.extend_from_slice(escape);
    rest
}
