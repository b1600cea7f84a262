//! A message without what changes when it is sent again.
//!
//! Clients write dates, request ids and headers of their own into prompts, and make new ids for
//! calls. Words with digits in them and lines that look like a header are left out here, and ids
//! of calls too. Two messages that are equal then may still be two: a tie over them needs more.

use super::hash;

/// The hash of an identity without what changes. See `schemas::wire::canonical` for its lines.
pub(super) fn hash_of(identity: &[u8]) -> u64 {
    let mut kept = Vec::with_capacity(identity.len());
    for line in identity.split(|byte| *byte == b'\n') {
        if line.starts_with(b"tool_call_id ") {
            continue;
        }
        match line.strip_prefix(b"call [") {
            Some(call) => {
                kept.extend_from_slice(b"call ");
                words(after_id(call), &mut kept);
            }
            None => words(line, &mut kept),
        }
        kept.push(b'\n');
    }
    hash(&kept)
}

/// What follows the id of a call: a JSON text, or null.
fn after_id(call: &[u8]) -> &[u8] {
    let mut escaped = false;
    let mut inside = false;
    let end = call.iter().position(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => inside = !inside,
            b',' if !inside => return true,
            _ => {}
        }
        false
    });
    call.get(end.unwrap_or(0)..).unwrap_or_default()
}

/// Appends the words of a line that hold no digit, without lines that look like a header.
fn words(line: &[u8], kept: &mut Vec<u8>) {
    let mut rest = line;
    // Ends of lines are escaped in JSON texts: `\n` is two bytes here.
    while !rest.is_empty() {
        let end = find(rest, b"\\n").unwrap_or(rest.len());
        let (inner, after) = rest.split_at(end);
        rest = after.get(2..).unwrap_or_default();
        if !is_header(inner) {
            inner
                .split(|byte| !is_of_word(*byte))
                .filter(|word| !word.is_empty() && !word.iter().any(u8::is_ascii_digit))
                .for_each(|word| {
                    kept.extend_from_slice(word);
                    kept.push(b' ');
                });
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// `x-something: value`, as clients put before a system prompt.
fn is_header(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"text \"").unwrap_or(line);
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    name.len() < line.len() && name.starts_with(b"x-") && name.iter().all(plain)
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':') || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::hash_of;
    use serde_json::{Value, json};
    use truetape_schemas::wire::canonical::identity;

    fn loose(message: &Value) -> u64 {
        hash_of(&identity(message))
    }

    #[test]
    fn dates_ids_and_headers_are_left_out_and_words_are_not() {
        let of = |text: &str| loose(&json!({"role": "user", "content": text}));
        let one = of("x-billing: cch=abc\nToday is 2026-11-30, request 5f2e-11. Go on.");
        assert_eq!(
            one,
            of("x-billing: cch=xyz\nToday is 2026-12-01, request 77aa-12. Go on.")
        );
        assert_ne!(one, of("x-billing: cch=abc\nToday is 2026-11-30. Stop."));
    }

    #[test]
    fn calls_are_the_same_under_new_ids() {
        let call = |id: &str, path: &str| {
            let arguments = json!({"path": path}).to_string();
            loose(&json!({"role": "assistant", "tool_calls": [
                {"id": id, "function": {"name": "read", "arguments": arguments}}]}))
        };
        assert_eq!(call("a,\"b", "src"), call("c", "src"));
        assert_ne!(call("a", "src"), call("a", "tests"));
        let result = |id: &str| loose(&json!({"role": "tool", "tool_call_id": id, "content": "x"}));
        assert_eq!(result("a"), result("b"));
    }
}
