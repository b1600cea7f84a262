//! What production sent, in parts.

use super::rebuild::{Piece, Prompt};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use truetape_schemas::set::ContentKind;
use truetape_schemas::wire::{self, Dialect};

/// Takes a body apart. Everything keeps the bytes it was sent with.
pub(super) fn prompt(dialect: Dialect, body: &[u8]) -> Option<Prompt> {
    let fields: Fields<'_> = serde_json::from_slice(body).ok()?;
    let (moved, pieces) = match dialect {
        Dialect::OpenaiChat | Dialect::OllamaChat | Dialect::AnthropicMessages => {
            let mut messages = wire::read_messages(dialect, body)?;
            if dialect == Dialect::AnthropicMessages {
                // The system prompt stands beside the messages, and stays in the template.
                messages.retain(|message| message.role != "system");
            }
            let piece = |raw| Piece {
                kind: ContentKind::Message,
                tokens: None,
                body: raw,
            };
            (
                "messages",
                messages
                    .into_iter()
                    .map(|message| piece(message.raw))
                    .collect(),
            )
        }
        Dialect::OpenaiCompletions => {
            let raw = fields.0.iter().find(|(key, _)| key == "prompt")?.1;
            let text: String = serde_json::from_str(raw.get()).ok()?;
            (
                "prompt",
                vec![Piece {
                    kind: ContentKind::Text,
                    tokens: None,
                    body: text.into_bytes(),
                }],
            )
        }
        _ => return None,
    };
    Some(Prompt {
        template: fields.without(moved),
        pieces,
    })
}

/// A whole body as a template: for prompts that are not text.
pub(super) fn whole(body: &[u8]) -> Option<Vec<u8>> {
    let fields: Fields<'_> = serde_json::from_slice(body).ok()?;
    Some(fields.without(""))
}

/// The fields of an object in order, each value with the bytes it was sent with: numbers that a
/// double cannot hold survive.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl Fields<'_> {
    fn without(&self, moved: &str) -> Vec<u8> {
        let kept = self.0.iter().filter(|(key, _)| key != moved);
        let fields: Vec<String> = kept
            .map(|(key, value)| {
                format!("{}:{}", serde_json::Value::from(key.as_str()), value.get())
            })
            .collect();
        format!("{{{}}}", fields.join(",")).into_bytes()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::{prompt, whole};
    use truetape_schemas::wire::Dialect;

    #[test]
    fn a_template_is_the_body_without_its_messages_byte_for_byte() {
        let body = br#"{"model":"m", "seed": 18446744073709551616, "messages":[{"role":"user","content":"a\u0062"}],"t":1.0}"#;
        let prompt = prompt(Dialect::OpenaiChat, body).unwrap();
        let template = String::from_utf8(prompt.template).unwrap();
        assert_eq!(
            template,
            r#"{"model":"m","seed":18446744073709551616,"t":1.0}"#
        );
        let message = String::from_utf8(prompt.pieces[0].body.clone()).unwrap();
        assert_eq!(message, r#"{"role":"user","content":"a\u0062"}"#);
    }

    #[test]
    fn a_completion_has_its_prompt_as_text() {
        let made = prompt(Dialect::OpenaiCompletions, br#"{"prompt":"a\nb","n":1}"#).unwrap();
        assert_eq!(made.pieces[0].body, b"a\nb");
        assert_eq!(made.template, br#"{"n":1}"#);
        assert_eq!(
            prompt(Dialect::OpenaiCompletions, br#"{"prompt":[1,2]}"#),
            None
        );
        assert_eq!(
            whole(br#"{"prompt": [1,2]}"#).unwrap(),
            br#"{"prompt":[1,2]}"#
        );
    }
}
