//! The messages of a request, one by one.

use super::Dialect;
use super::canonical::identity_of_json;
use super::limits::MESSAGES_MAX;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One message of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// `user`, `assistant`, ...; [`PROMPT_ROLE`] for the prompt of a completion; empty where the
    /// message does not say.
    pub role: String,
    /// Its identity: see [`super::canonical`]. Equal bytes mean the same message.
    pub canonical: Vec<u8>,
    /// Its JSON as it was sent, byte for byte.
    pub raw: Vec<u8>,
}

/// The role of the one message that stands for the prompt of a completion.
pub const PROMPT_ROLE: &str = "prompt";

/// The values are kept as they were sent, since their bytes are what a server caches by.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Role {
    role: String,
}

/// Reads the messages of a request body: those of a chat, or the prompt of a completion as one.
/// `None` where the dialect has none, the body cannot be read, or there are more than
/// [`MESSAGES_MAX`].
pub fn read_messages(dialect: Dialect, body: &[u8]) -> Option<Vec<Message>> {
    match dialect {
        Dialect::OpenaiChat => {
            let messages = read(body)?.messages?;
            (messages.len() <= MESSAGES_MAX).then(|| {
                messages
                    .iter()
                    .map(|message| message_of(message.get()))
                    .collect()
            })
        }
        Dialect::OpenaiCompletions => Some(vec![prompt_of(read(body)?.prompt?.get())]),
        Dialect::Trace | Dialect::Unknown => None,
    }
}

fn read(body: &[u8]) -> Option<Body<'_>> {
    serde_json::from_slice(body).ok()
}

fn message_of(raw: &str) -> Message {
    let role = serde_json::from_str::<Role>(raw)
        .map(|message| message.role)
        .unwrap_or_default();
    let raw = raw.as_bytes().to_vec();
    Message {
        role,
        canonical: identity_of_json(&raw),
        raw,
    }
}

/// A list of one prompt is that prompt.
fn prompt_of(raw: &str) -> Message {
    let one = serde_json::from_str::<[&RawValue; 1]>(raw).map_or(raw, |[prompt]| prompt.get());
    let message = format!("{{\"role\":\"{PROMPT_ROLE}\",\"content\":{one}}}");
    Message {
        role: PROMPT_ROLE.to_owned(),
        canonical: identity_of_json(message.as_bytes()),
        raw: raw.as_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_are_kept_byte_for_byte() {
        let body = br#"{"model":"m", "messages":[ {"role" : "user","content":"caf\u00e9"} ,
            {"content":null,"role":"assistant"}, 7 ]}"#;
        let messages = read_messages(Dialect::OpenaiChat, body).unwrap();
        let shown: Vec<_> = messages
            .iter()
            .map(|message| {
                (
                    message.role.as_str(),
                    std::str::from_utf8(&message.raw).unwrap(),
                )
            })
            .collect();
        let expected = [
            ("user", r#"{"role" : "user","content":"caf\u00e9"}"#),
            ("assistant", r#"{"content":null,"role":"assistant"}"#),
            ("", "7"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_prompt_is_one_message() {
        let read = |body: &str| read_messages(Dialect::OpenaiCompletions, body.as_bytes());
        let text = read(r#"{"prompt": "a b"}"#).unwrap();
        let list = read(r#"{"prompt": ["a b"]}"#).unwrap();
        let ids = read(r#"{"prompt": [1, 2]}"#).unwrap();
        assert_eq!((text.len(), text[0].role.as_str()), (1, PROMPT_ROLE));
        assert_eq!(text[0].raw, b"\"a b\"");
        assert_eq!(text[0].canonical, list[0].canonical);
        assert_ne!(text[0].canonical, ids[0].canonical);
        assert_ne!(
            read(r#"{"prompt": [2, 1]}"#).unwrap()[0].canonical,
            ids[0].canonical
        );
    }

    #[test]
    fn what_has_no_messages_gives_none() {
        let cases: [(Dialect, &[u8]); 6] = [
            (Dialect::OpenaiChat, b""),
            (Dialect::OpenaiChat, b"{}"),
            (Dialect::OpenaiChat, b"{\"messages\": {}}"),
            (Dialect::OpenaiChat, b"[]"),
            (Dialect::OpenaiCompletions, b"{\"messages\": []}"),
            (Dialect::Unknown, b"{\"messages\": []}"),
        ];
        for (dialect, body) in cases {
            assert_eq!(read_messages(dialect, body), None);
        }
        assert_eq!(
            read_messages(Dialect::OpenaiChat, b"{\"messages\": []}"),
            Some(vec![])
        );
    }

    #[test]
    fn a_list_past_the_bound_is_not_read() {
        let body = |count: usize| format!("{{\"messages\":[{}]}}", vec!["1"; count].join(","));
        let read = |count| read_messages(Dialect::OpenaiChat, body(count).as_bytes());
        assert_eq!(read(MESSAGES_MAX).unwrap().len(), MESSAGES_MAX);
        assert_eq!(read(MESSAGES_MAX + 1), None);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(body: Vec<u8>) {
            read_messages(Dialect::OpenaiChat, &body);
            read_messages(Dialect::OpenaiCompletions, &body);
        }
    }
}
