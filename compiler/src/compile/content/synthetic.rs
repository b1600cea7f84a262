//! New prompts for old: the same tokens in number, other tokens in kind, shared where the old
//! ones were.
//!
//! Each token of a content becomes a word that depends on a secret and on everything before that
//! token, so two new prompts agree exactly as far as the old ones did, token by token. Texts
//! inside tools, which stand before all messages, are replaced one by one: tools that were equal
//! stay equal, tools that were not share less than they did.

use super::super::ingest::Secret;
use super::Notes;
use super::rebuild::{Piece, Prompt};
use super::scrub::Scrub;
use places::Fate;
use serde_json::{Map, Value};
use truetape_schemas::set::ContentKind;
use truetape_schemas::wire::Dialect;

mod contents;
mod places;

/// Makes synthetic prompts.
pub(super) struct Synthetic {
    secret: Secret,
}

impl Synthetic {
    /// Prepares for the captures whose secret this is.
    pub(super) fn new(secret: &Secret, seed: u64) -> Self {
        Self {
            secret: secret.derive("truetape 2026 synthetic words v1", seed),
        }
    }

    /// Makes the new prompt of a body; none for a dialect whose prompts nobody takes apart.
    pub(super) fn prompt(
        &self,
        dialect: Dialect,
        body: &Map<String, Value>,
        notes: &mut Notes,
    ) -> Option<Prompt> {
        let said = body.get(places::prompt_field(dialect)?)?;
        let tools = body.get("tools").map(Value::to_string).unwrap_or_default();
        let mut chain = self.step(0, tools.as_bytes());
        let template = self.template(dialect, body, &mut chain, notes);
        let pieces = match said {
            Value::Array(messages) => messages
                .iter()
                .map(|message| self.message(&mut chain, dialect, message, notes))
                .collect(),
            // A text alone is what the user says.
            Value::String(text) if dialect == Dialect::OpenaiResponses => {
                let message = serde_json::json!({"role": "user", "content": text});
                vec![self.message(&mut chain, dialect, &message, notes)]
            }
            Value::String(text) => vec![Piece {
                kind: ContentKind::Text,
                tokens: None,
                body: self.words(&mut chain, text).into_bytes(),
            }],
            _ => return None,
        };
        let template = Value::Object(template).to_string().into_bytes();
        Some(Prompt { template, pieces })
    }

    fn scrub(&self) -> Scrub<'_> {
        Scrub {
            secret: &self.secret,
        }
    }

    fn template(
        &self,
        dialect: Dialect,
        body: &Map<String, Value>,
        chain: &mut u64,
        notes: &mut Notes,
    ) -> Map<String, Value> {
        let mut template = Map::new();
        for (key, value) in body {
            let new = match places::fate(dialect, key) {
                Fate::Prompt => None,
                Fate::System if value.is_null() => Some(Value::Null),
                Fate::System => {
                    *chain = self.step(*chain, b"system");
                    Some(self.content(chain, value, notes))
                }
                Fate::Kept => Some(value.clone()),
                Fate::Scrubbed => Some(self.scrub().value(value)),
                Fate::Choice => Some(self.choice(value)),
                Fate::Settings => Some(settings(value)),
                Fate::Salt => self.cache_salt(value),
                Fate::Stop => {
                    notes.count("stop strings are left out: synthetic text cannot meet them");
                    None
                }
                Fate::Dropped => {
                    notes.count(format!("the field `{key}` is left out"));
                    None
                }
            };
            template.extend(new.map(|new| (key.clone(), new)));
        }
        template
    }

    /// Who was kept apart stays apart; by what, nobody can tell or test.
    fn cache_salt(&self, value: &Value) -> Option<Value> {
        let salt = value.as_str().filter(|salt| !salt.is_empty())?;
        let secret = self.secret.derive("truetape 2026 cache salt v1", 0);
        Some(format!("{:016x}", secret.hash(salt.as_bytes())).into())
    }

    fn choice(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.scrub().choice(text)),
            _ => self.scrub().value(value),
        }
    }

    fn message(
        &self,
        chain: &mut u64,
        dialect: Dialect,
        message: &Value,
        notes: &mut Notes,
    ) -> Piece {
        let new = match message {
            Value::Object(fields) if dialect == Dialect::OpenaiResponses => {
                Value::Object(self.item(chain, fields, notes))
            }
            Value::Object(fields) => Value::Object(self.fields(chain, fields, notes)),
            other => self.scrub().value(other),
        };
        let body = new.to_string().into_bytes();
        Piece {
            kind: ContentKind::Message,
            tokens: None,
            body,
        }
    }

    fn fields(
        &self,
        chain: &mut u64,
        fields: &Map<String, Value>,
        notes: &mut Notes,
    ) -> Map<String, Value> {
        let role = fields.get("role").and_then(Value::as_str).unwrap_or("user");
        *chain = self.step(*chain, role.as_bytes());
        let mut new = self.scrub().fields(fields);
        // In the order in which a prompt is rendered, whatever the order of the fields.
        if let Some(role) = fields.get("role") {
            new.insert("role".to_owned(), self.scrub().role(role));
        }
        if let Some(content) = fields.get("content") {
            new.insert("content".to_owned(), self.content(chain, content, notes));
        }
        if let Some(calls) = fields.get("tool_calls") {
            new.insert("tool_calls".to_owned(), self.calls(chain, calls));
        }
        new
    }

    fn step(&self, chain: u64, bytes: &[u8]) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret.0);
        hasher.update(&chain.to_le_bytes());
        hasher.update(bytes);
        let digest = hasher.finalize();
        let (first, _) = digest.as_bytes().split_at(8);
        first.try_into().map_or(0, u64::from_le_bytes)
    }
}

/// The numbers and switches of an object.
fn settings(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    let plain = fields.filter(|(_, value)| value.is_number() || value.is_boolean());
    plain
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
