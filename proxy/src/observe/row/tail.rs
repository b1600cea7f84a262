//! The end of an answer whose body was given up: its usage and how it finished stand there.

use super::response;
use crate::tape::ResponseHead;
use crate::track::Mark;
use serde::Deserialize;
use serde_json::value::RawValue;
use truetape_schemas::wire::{BodyEnd, Dialect, ResponseFacts, coding};

/// Begins the usage of a document, in every dialect that has it in one.
const USAGE: &[u8] = b"\"usage\":";

/// Reads what an answer's last bytes say. Nothing of a coded one: it is unpacked from its start.
pub(super) fn read(
    dialect: Dialect,
    head: &ResponseHead,
    tail: &[u8],
    end: BodyEnd,
) -> Option<ResponseFacts> {
    if !coding::is_identity(head.content_encoding.as_deref()) {
        return None;
    }
    let events = head.content_type.as_deref().unwrap_or_default();
    let body = if events.to_ascii_lowercase().contains("json") {
        document(tail)?
    } else {
        whole_events(tail)?.to_vec()
    };
    let mark = Mark {
        at_us: 0,
        bytes: body.len() as u64,
    };
    Some(response::read(dialect, head, &[mark], &body, end))
}

/// From the first event that is whole.
fn whole_events(tail: &[u8]) -> Option<&[u8]> {
    let ends = |two: &[u8]| two == b"\n\n" || two == b"\r\r";
    let short = tail.windows(2).position(ends).map(|at| at + 2);
    let long = tail.windows(4).position(|four| four == b"\r\n\r\n");
    let from = [short, long.map(|at| at + 4)].into_iter().flatten().min()?;
    tail.get(from..)
}

/// A document of nothing but the usage.
fn document(tail: &[u8]) -> Option<Vec<u8>> {
    let at = tail.windows(USAGE.len()).rposition(|part| part == USAGE)?;
    let rest = tail.get(at + USAGE.len()..)?;
    let mut values = serde_json::Deserializer::from_slice(rest);
    let usage = <&RawValue>::deserialize(&mut values).ok()?;
    Some(format!("{{\"choices\":[],\"usage\":{usage}}}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::HeaderText;

    fn facts(content_type: &str, coding: Option<&str>, tail: &[u8]) -> Option<ResponseFacts> {
        let head = ResponseHead {
            at_us: 0,
            status: 200,
            headers: HeaderText::default(),
            content_type: Some(content_type.to_owned()),
            content_encoding: coding.map(str::to_owned),
        };
        read(Dialect::OpenaiChat, &head, tail, BodyEnd::Clean)
    }

    const USED: &str = r#""usage":{"prompt_tokens":9,"completion_tokens":4}"#;

    #[test]
    fn usage_is_read_from_the_events_that_are_whole() {
        for end in ["\n\n", "\r\n\r\n", "\r\r"] {
            let tail = format!(
                "ces\":[{{\"delta\"]}}{end}data: {{\"choices\":[],{USED}}}{end}data: [DONE]{end}"
            );
            let facts = facts("text/event-stream", None, tail.as_bytes()).unwrap();
            assert_eq!(
                (facts.input_tokens, facts.output_tokens),
                (Some(9), Some(4))
            );
        }
    }

    #[test]
    fn usage_is_read_from_the_end_of_a_document() {
        let tail = format!("lots of text\"}}}}],\"usage\":1,{USED},\"x\":1}}");
        let facts = facts("application/json", None, tail.as_bytes()).unwrap();
        assert_eq!(
            (facts.input_tokens, facts.output_tokens),
            (Some(9), Some(4))
        );
    }

    #[test]
    fn what_says_nothing_is_nothing() {
        for (content_type, coding, tail) in [
            ("text/event-stream", None, "data: {\"usage\""),
            ("application/json", None, "\"usage\":{\"prompt_tok"),
            ("application/json", None, ""),
            ("application/json", Some("gzip"), USED),
        ] {
            assert_eq!(facts(content_type, coding, tail.as_bytes()), None, "{tail}");
        }
    }
}
