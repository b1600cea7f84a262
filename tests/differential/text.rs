//! Texts of the corpus: bytes that a line can hold.

use bytes::Bytes;

/// Bytes of a text with `\r`, `\n`, `\t`, `\0`, `\\`, `\xNN`, and `{N*TEXT}` for N times a text.
pub(crate) fn bytes(text: &str) -> Result<Bytes, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '{']) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        rest = match special.strip_prefix('\\') {
            Some(escape) => escaped(escape, &mut out)?,
            None => repeated(special, &mut out)?,
        };
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out.into())
}

fn escaped<'a>(text: &'a str, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let mut chars = text.chars();
    let byte = match chars.next() {
        Some('n') => b'\n',
        Some('r') => b'\r',
        Some('t') => b'\t',
        Some('0') => 0,
        Some('\\') => b'\\',
        Some('x') => {
            let digits: String = chars.by_ref().take(2).collect();
            u8::from_str_radix(&digits, 16).map_err(|_| format!("\\x{digits}: not hex"))?
        }
        other => return Err(format!("an escape that is none: {other:?}")),
    };
    out.push(byte);
    Ok(chars.as_str())
}

/// `{N*TEXT}`; a brace that begins anything else is a brace.
fn repeated<'a>(text: &'a str, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let brace = text.strip_prefix('{').unwrap_or_default();
    let parts = brace
        .split_once('*')
        .and_then(|(count, rest)| Some((count.parse::<usize>().ok()?, rest.split_once('}')?)));
    let Some((count, (piece, rest))) = parts else {
        out.push(b'{');
        return Ok(brace);
    };
    let piece = bytes(piece)?;
    out.extend(piece.iter().copied().cycle().take(piece.len() * count));
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn a_text_stands_for_bytes() {
        assert_eq!(
            &bytes(r"a\r\n\x00\xffé").unwrap()[..],
            b"a\r\n\x00\xff\xc3\xa9"
        );
        assert_eq!(&bytes(r#"{"a":{3*xy}}"#).unwrap()[..], br#"{"a":xyxyxy}"#);
        assert!(bytes(r"\q").is_err());
    }
}
