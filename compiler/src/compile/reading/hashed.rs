//! What a recorder's hashes say where the words were not kept.
//!
//! Under the content policy `digest` each message has a role, a length and a keyed hash of its
//! identity, and so has the answer. Hashes of one key compare as messages do, so sessions are
//! found by the same rules; what needs words (summaries, sub-agents without an id, ids that
//! change) is not.

use super::super::row::{AnswerHash, MessageHash, Role, Text};
use truetape_schemas::capture::Exchange;

/// The text of an exchange, from its hashes; none where it has none.
pub(super) fn text(exchange: &Exchange) -> Option<Text> {
    let segments = exchange.segments.as_deref()?;
    let hashes = exchange.segment_hashes.as_deref()?;
    let messages = segments
        .iter()
        .zip(hashes)
        .map(|(segment, hash)| MessageHash {
            hash: *hash,
            loose: *hash,
            bytes: u32::try_from(segment.bytes).unwrap_or(u32::MAX),
            role: Role::of(&segment.role),
        });
    let messages: Box<[MessageHash]> = messages.collect();
    let bytes = messages.iter().map(|message| u64::from(message.bytes));
    let answer = exchange.answer_hash.map(|hash| AnswerHash {
        hash,
        loose: hash,
        bytes: answer_bytes(exchange),
        first: None,
    });
    Some(Text {
        rendered_bytes: bytes.sum(),
        answer: answer.filter(|_| exchange.status.is_none_or(|status| status < 400)),
        probe: is_probe(exchange, &messages),
        messages,
        hashed: true,
        ..Text::default()
    })
}

/// Nobody kept the length of an answer's text, so its tokens tell: about four bytes each.
fn answer_bytes(exchange: &Exchange) -> u32 {
    let tokens = exchange.output_tokens.unwrap_or(0).saturating_mul(4);
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

/// One short message, and one token asked for.
fn is_probe(exchange: &Exchange, messages: &[MessageHash]) -> bool {
    let short = |message: &MessageHash| message.bytes as usize <= super::PROBE_JSON_BYTES_MAX;
    exchange.max_tokens == Some(1) && messages.len() == 1 && messages.iter().all(short)
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::compile::row::Role;
    use truetape_schemas::capture::{Exchange, Segment};

    fn hashed(roles: &[&str]) -> Exchange {
        let segment = |role: &&str| Segment {
            role: (*role).to_owned(),
            bytes: 100,
            hash: 1,
        };
        Exchange {
            segments: Some(roles.iter().map(segment).collect()),
            segment_hashes: Some((1..=roles.len() as u64).collect()),
            answer_hash: Some(9),
            output_tokens: Some(30),
            ..Exchange::default()
        }
    }

    #[test]
    fn hashes_stand_in_for_messages_and_the_answer() {
        let text = text(&hashed(&["tools", "system", "user"])).unwrap();
        let roles: Vec<Role> = text.messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::System, Role::System, Role::User]);
        assert_eq!(text.rendered_bytes, 300);
        let answer = text.answer.unwrap();
        assert_eq!((answer.hash, answer.bytes), (9, 120));
        assert!(text.hashed);
    }

    #[test]
    fn a_refused_request_has_no_answer_and_a_row_without_hashes_no_text() {
        let refused = Exchange {
            status: Some(429),
            ..hashed(&["user"])
        };
        assert_eq!(text(&refused).unwrap().answer, None);
        assert_eq!(text(&Exchange::default()), None);
    }
}
