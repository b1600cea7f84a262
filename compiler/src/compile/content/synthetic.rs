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
use serde_json::{Map, Value};
use truetape_fidelity::tokens::{BYTES_PER_TOKEN, output_word};
use truetape_schemas::set::ContentKind;
use truetape_schemas::wire::Dialect;

/// Fields that are carried over as they are: they shape the answer, and name nobody.
#[rustfmt::skip]
const KEPT: [&str; 21] = [
    "model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "min_tokens",
    "temperature", "top_p", "top_k", "min_p", "n", "best_of", "seed", "ignore_eos",
    "frequency_penalty", "presence_penalty", "repetition_penalty", "logprobs", "top_logprobs",
    "parallel_tool_calls", "echo",
];

/// Fields that are carried over with their texts replaced.
const SCRUBBED: [&str; 3] = ["tools", "functions", "response_format"];

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

    /// Makes the new prompt of a body.
    pub(super) fn prompt(
        &self,
        dialect: Dialect,
        body: &Map<String, Value>,
        notes: &mut Notes,
    ) -> Option<Prompt> {
        let template = self.template(body, notes);
        let tools = body.get("tools").map(Value::to_string).unwrap_or_default();
        let mut chain = self.step(0, tools.as_bytes());
        let pieces = match dialect {
            Dialect::OpenaiChat => {
                let messages = body.get("messages")?.as_array()?;
                messages
                    .iter()
                    .map(|message| self.message(&mut chain, message, notes))
                    .collect()
            }
            Dialect::OpenaiCompletions => {
                let text = self.words(&mut chain, body.get("prompt")?.as_str()?);
                vec![Piece {
                    kind: ContentKind::Text,
                    tokens: None,
                    body: text.into_bytes(),
                }]
            }
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

    fn template(&self, body: &Map<String, Value>, notes: &mut Notes) -> Map<String, Value> {
        let mut template = Map::new();
        for (key, value) in body {
            match key.as_str() {
                "messages" | "prompt" => {}
                kept if KEPT.contains(&kept) => {
                    template.insert(key.clone(), value.clone());
                }
                scrubbed if SCRUBBED.contains(&scrubbed) => {
                    template.insert(key.clone(), self.scrub().value(value));
                }
                "tool_choice" => {
                    template.insert(key.clone(), self.tool_choice(value));
                }
                "cache_salt" => {
                    template.extend(self.cache_salt(value).map(|salt| (key.clone(), salt)));
                }
                "stop" => notes.count("stop strings are left out: synthetic text cannot meet them"),
                other => notes.count(format!("the field `{other}` is left out")),
            }
        }
        template
    }

    /// Who was kept apart stays apart; by what, nobody can tell or test.
    fn cache_salt(&self, value: &Value) -> Option<Value> {
        let salt = value.as_str().filter(|salt| !salt.is_empty())?;
        let secret = self.secret.derive("truetape 2026 cache salt v1", 0);
        Some(format!("{:016x}", secret.hash(salt.as_bytes())).into())
    }

    fn tool_choice(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.scrub().choice(text)),
            _ => self.scrub().value(value),
        }
    }

    fn message(&self, chain: &mut u64, message: &Value, notes: &mut Notes) -> Piece {
        let new = match message {
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
        // In the order in which a prompt is rendered, whatever the order of the fields.
        let content = fields
            .get("content")
            .map(|content| self.content(chain, content, notes));
        let calls = fields
            .get("tool_calls")
            .map(|calls| self.calls(chain, calls));
        let mut new = Map::new();
        for (key, value) in fields {
            let value = match key.as_str() {
                "role" => self.scrub().role(value),
                "content" => content.clone().unwrap_or_default(),
                "tool_calls" => calls.clone().unwrap_or_default(),
                _ => self.scrub().value(value),
            };
            new.insert(key.clone(), value);
        }
        new
    }

    fn content(&self, chain: &mut u64, content: &Value, notes: &mut Notes) -> Value {
        match content {
            Value::Null => Value::Null,
            Value::String(text) => Value::String(self.words(chain, text)),
            Value::Array(parts) => self.content_parts(chain, parts, notes),
            other => Value::String(self.words(chain, &other.to_string())),
        }
    }

    /// Text parts are rendered as one text, so they become one; other parts keep their size.
    fn content_parts(&self, chain: &mut u64, parts: &[Value], notes: &mut Notes) -> Value {
        let text_of = |part: &Value| match part {
            Value::String(text) => Some(text.clone()),
            _ => part.get("text").and_then(Value::as_str).map(str::to_owned),
        };
        let text: String = parts.iter().filter_map(text_of).collect();
        let mut new = Vec::new();
        if parts.iter().any(|part| text_of(part).is_some()) {
            new.push(serde_json::json!({"type": "text", "text": self.words(chain, &text)}));
        }
        for part in parts.iter().filter(|part| text_of(part).is_none()) {
            notes.count("content that is not text is replaced by nonsense of the same size");
            *chain = self.step(*chain, part.to_string().as_bytes());
            new.push(self.scrub().value(part));
        }
        Value::Array(new)
    }

    fn calls(&self, chain: &mut u64, calls: &Value) -> Value {
        let Some(calls) = calls.as_array() else {
            return self.scrub().value(calls);
        };
        calls.iter().map(|call| self.call(chain, call)).collect()
    }

    fn call(&self, chain: &mut u64, call: &Value) -> Value {
        *chain = self.step(
            *chain,
            call.get("function").unwrap_or(call).to_string().as_bytes(),
        );
        let mut new = self.scrub().value(call);
        let arguments = call
            .pointer("/function/arguments")
            .or_else(|| call.get("arguments"));
        let replaced = match arguments {
            Some(Value::String(text)) => Value::String(self.scrub().arguments(text)),
            Some(other) => {
                let text = self.scrub().arguments(&other.to_string());
                serde_json::from_str(&text).unwrap_or_default()
            }
            None => return new,
        };
        let place = if call.pointer("/function/arguments").is_some() {
            new.pointer_mut("/function/arguments")
        } else {
            new.get_mut("arguments")
        };
        if let Some(place) = place {
            *place = replaced;
        }
        new
    }

    /// One word for each token of a text.
    fn words(&self, chain: &mut u64, text: &str) -> String {
        let mut words = String::with_capacity(text.len().next_multiple_of(BYTES_PER_TOKEN));
        for token in text.as_bytes().chunks(BYTES_PER_TOKEN) {
            let mut padded = [b' '; BYTES_PER_TOKEN];
            for (to, from) in padded.iter_mut().zip(token) {
                *to = *from;
            }
            *chain = self.step(*chain, &padded);
            words.push_str(output_word(*chain, 0));
        }
        words
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

#[cfg(test)]
mod tests;
