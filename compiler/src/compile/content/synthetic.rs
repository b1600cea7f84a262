//! New prompts for old: the same tokens in number, other tokens in kind, shared where the old
//! ones were.
//!
//! Each token of a content becomes a word that depends on a secret and on everything before that
//! token, so two new prompts agree exactly as far as the old ones did, token by token. A token is
//! what the recipe's tokenizer says, and then [`settle`] makes the count exact in the whole prompt;
//! without one it is four bytes. Texts
//! inside tools, which stand before all messages, are replaced one by one: tools that were equal
//! stay equal, tools that were not share less than they did.

use super::super::ingest::Secret;
use super::Notes;
use super::exact::Exact;
use super::rebuild::{Piece, Prompt, list_field};
use super::scrub::Scrub;
use places::Fate;
use serde_json::{Map, Value};
use settle::{Done, Fields, Memory, Walk};
use truetape_schemas::set::ContentKind;
use truetape_schemas::wire::Dialect;

mod contents;
mod picture;
mod places;
mod settle;

/// Makes synthetic prompts.
pub(super) struct Synthetic<'a> {
    secret: Secret,
    exact: Option<&'a Exact<'a>>,
    memory: Memory,
}

impl<'a> Synthetic<'a> {
    /// Prepares for the captures whose secret this is.
    pub(super) fn new(secret: &Secret, seed: u64, exact: Option<&'a Exact<'a>>) -> Self {
        Self {
            secret: secret.derive("truetape 2026 synthetic words v1", seed),
            exact,
            memory: Memory::default(),
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
        let mut walk = Walk {
            chain: self.step(0, tools.as_bytes()),
            debt: 0,
        };
        let template = self.template(dialect, body, &mut walk.chain, notes);
        let before = Fields {
            old: body,
            new: &template,
        };
        let spoken = match said {
            Value::Array(messages) => messages.clone(),
            // A text alone is what the user says.
            Value::String(text) if dialect == Dialect::OpenaiResponses => {
                vec![serde_json::json!({"role": "user", "content": text})]
            }
            Value::String(_) => vec![said.clone()],
            _ => return None,
        };
        let mut pieces = Vec::with_capacity(spoken.len());
        for (at, old) in spoken.iter().enumerate() {
            let fields = (at == 0).then_some(before);
            let done = self.said(dialect, fields, old, walk);
            walk = done.walk;
            notes.merge(done.notes);
            pieces.push(Piece {
                kind: done.kind,
                tokens: None,
                body: done.body,
            });
        }
        let template = Value::Object(template).to_string().into_bytes();
        Some(Prompt { template, pieces })
    }

    /// Makes a message, or the text that a prompt is.
    fn said(
        &self,
        dialect: Dialect,
        fields: Option<Fields<'_>>,
        old: &Value,
        before: Walk,
    ) -> Done {
        let make = || {
            let mut walk = before;
            let mut notes = Notes::default();
            let is_text = old.is_string() && list_field(dialect).is_none();
            let mut new = match old {
                Value::String(text) if is_text => Value::String(self.words(&mut walk.chain, text)),
                message => self.message(&mut walk.chain, dialect, message, &mut notes),
            };
            if let Some(exact) = self.exact {
                walk.debt = exact.settled(dialect, fields, old, &mut new, before);
            }
            let (kind, body) = match new {
                Value::String(text) if is_text => (ContentKind::Text, text.into_bytes()),
                message => (ContentKind::Message, message.to_string().into_bytes()),
            };
            Done {
                kind,
                body,
                walk,
                notes,
            }
        };
        match self.exact {
            // What stands around the first message is not in its key.
            Some(_) if fields.is_none() => {
                let key = (before, self.step(0, old.to_string().as_bytes()));
                self.memory.or_make(key, make)
            }
            _ => make(),
        }
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
    ) -> Value {
        match message {
            Value::Object(fields) if dialect == Dialect::OpenaiResponses => {
                Value::Object(self.item(chain, fields, notes))
            }
            Value::Object(fields) => Value::Object(self.fields(chain, fields, notes)),
            other => self.scrub().value(other),
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
