//! W3C trace context and baggage.

/// Names under which a baggage names the session, the more specific first.
const BAGGAGE_NAMES: [&str; 2] = ["session.id", "gen_ai.conversation.id"];

/// The trace id of a `traceparent`; `None` where it is not well formed.
pub(super) fn trace_id(traceparent: &str) -> Option<String> {
    let mut parts = traceparent.split('-');
    let [version, trace_id, span_id, flags] =
        [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_set = |text: &str| text.bytes().any(|byte| byte != b'0');
    let is_valid = is_hex(version, 2)
        && version != "ff"
        && is_hex(trace_id, 32)
        && is_set(trace_id)
        && is_hex(span_id, 16)
        && is_set(span_id)
        && is_hex(flags, 2)
        // Later versions may have more parts; the first has not.
        && (version != "00" || parts.next().is_none());
    is_valid.then(|| trace_id.to_owned())
}

/// The session that a `baggage` names.
pub(super) fn baggage_session(baggage: &str) -> Option<String> {
    BAGGAGE_NAMES
        .into_iter()
        .find_map(|name| baggage_value(baggage, name))
}

fn baggage_value(baggage: &str, name: &str) -> Option<String> {
    let mut members = baggage.split(',').filter_map(|member| {
        // Properties follow the value after a semicolon.
        member.split(';').next()?.split_once('=')
    });
    let (_, value) = members.find(|(key, _)| key.trim() == name)?;
    Some(percent_decoded(value.trim())).filter(|value| !value.is_empty())
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..2).filter(|_| first == b'%').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        match code {
            Some(code) => {
                bytes.push(code);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
