//! New words for old, of the same length, in JSON that must keep its shape.
//!
//! A text becomes the same text wherever it stands, so that tools that are equal stay equal, and
//! names still refer to what they name. Words of the protocol stay.

use super::super::ingest::Secret;
use serde_json::{Map, Value};
use truetape_fidelity::tokens::output_word;

/// Names of at most so many bytes are too few for a hash to keep them apart.
const SHORT_BYTES: usize = 3;

/// Letters and digits are exchanged among themselves.
const ALPHABETS: [std::ops::RangeInclusive<u8>; 3] = [b'a'..=b'z', b'A'..=b'Z', b'0'..=b'9'];

/// Keys whose values may be words of the protocol.
#[rustfmt::skip]
const WORD_KEYS: [&str; 9] = [
    "type", "detail", "format", "ttl", "media_type", "status", "effort", "summary", "verbosity",
];

/// Keys of the protocol and of JSON Schema.
#[rustfmt::skip]
const KEYWORDS: [&str; 73] = [
    "type", "function", "name", "description", "parameters", "properties", "required", "enum",
    "items", "additionalProperties", "strict", "anyOf", "oneOf", "allOf", "not", "default",
    "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "title", "const",
    "json_schema", "schema", "examples", "$defs", "definitions", "$ref", "id", "index",
    "arguments", "input", "text", "image_url", "url", "detail", "content", "role", "tool_calls",
    "tool_call_id", "cache_control", "ttl", "input_audio", "data",
    "input_schema", "tool_use_id", "source", "media_type", "is_error", "thinking", "signature",
    "call_id", "output", "summary", "status", "annotations", "file_id", "file_data", "filename",
    "encrypted_content", "refusal", "effort", "budget_tokens", "verbosity", "phase",
];

/// Values of types and of choices that the protocol defines.
#[rustfmt::skip]
const WORDS: [&str; 61] = [
    "object", "string", "number", "integer", "boolean", "array", "null", "function", "text",
    "image_url", "json_schema", "json_object", "auto", "none", "required", "ephemeral",
    "input_audio", "file", "low", "high", "wav", "mp3", "5m", "1h",
    "tool_use", "tool_result", "image", "base64", "url", "document", "thinking",
    "redacted_thinking", "input_text", "output_text", "input_image", "input_file", "message",
    "function_call", "function_call_output", "reasoning", "summary_text", "reasoning_text",
    "item_reference", "refusal", "completed", "incomplete", "in_progress", "any", "tool", "custom",
    "enabled", "disabled", "adaptive", "minimal", "medium", "concise", "detailed", "image/png",
    "image/jpeg", "image/webp", "application/pdf",
];

/// Who can have said something.
const ROLES: [&str; 6] = [
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
];

/// Keys whose value is a map from names to schemas.
const NAME_MAPS: [&str; 3] = ["properties", "$defs", "definitions"];

/// Replaces texts.
pub(super) struct Scrub<'a> {
    pub(super) secret: &'a Secret,
}

impl Scrub<'_> {
    /// Replaces every text inside a value; its compact JSON keeps its length.
    pub(super) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => Value::Object(self.object(fields, false)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Replaces the texts of a message's fields, and the names of those that no protocol has.
    pub(super) fn fields(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        self.object(fields, false)
    }

    fn object(&self, fields: &Map<String, Value>, keys_are_names: bool) -> Map<String, Value> {
        let mut scrubbed = Map::new();
        for (key, value) in fields {
            let keep = !keys_are_names && KEYWORDS.contains(&key.as_str());
            let new_key = if keep {
                key.clone()
            } else {
                self.free_name(key, &scrubbed)
            };
            scrubbed.insert(new_key, self.field(key, value, keys_are_names));
        }
        scrubbed
    }

    fn field(&self, key: &str, value: &Value, keys_are_names: bool) -> Value {
        match value {
            _ if keys_are_names => self.value(value),
            Value::String(text) if WORD_KEYS.contains(&key) => Value::String(self.choice(text)),
            Value::String(text) if key == "$ref" => Value::String(self.reference(text)),
            Value::Object(fields) if NAME_MAPS.contains(&key) => {
                Value::Object(self.object(fields, true))
            }
            _ => self.value(value),
        }
    }

    /// `#/$defs/Name` must still refer to what `Name` has become.
    fn reference(&self, text: &str) -> String {
        match text.rsplit_once('/') {
            Some((path, name)) if path.starts_with('#') => format!("{path}/{}", self.name(name)),
            _ => self.text(text),
        }
    }

    /// Keeps a word of the protocol; anything else is a text.
    pub(super) fn choice(&self, text: &str) -> String {
        if WORDS.contains(&text) {
            return text.to_owned();
        }
        self.text(text)
    }

    /// Keeps a role of the protocol.
    pub(super) fn role(&self, role: &Value) -> Value {
        match role {
            Value::String(text) if ROLES.contains(&text.as_str()) => role.clone(),
            _ => self.value(role),
        }
    }

    /// Replaces a text by words, or by a name where it has no space.
    pub(super) fn text(&self, text: &str) -> String {
        if !text.contains(char::is_whitespace) {
            // What kind of data it is stays; which, goes.
            return match text.split_once(";base64,") {
                Some((kind, data)) if is_data(kind) => {
                    format!("{kind};base64,{}", self.name(data))
                }
                _ => self.name(text),
            };
        }
        let seed = self.secret.hash(text.as_bytes());
        // Once: it reads all of the text.
        let length = escaped_len(text);
        let mut words = String::with_capacity(length);
        for index in 0.. {
            if words.len() >= length {
                break;
            }
            words.push_str(output_word(seed, index));
        }
        words.truncate(length);
        words
    }

    /// Replaces a name by letters: it stays a name to whoever checks names.
    pub(super) fn name(&self, name: &str) -> String {
        self.salted_name(name, 0)
    }

    fn salted_name(&self, name: &str, salt: u8) -> String {
        if name.is_ascii() && name.len() <= SHORT_BYTES {
            return self.short_name(name, salt);
        }
        let mut salted = name.as_bytes().to_vec();
        salted.push(salt);
        let seed = self.secret.hash(&salted);
        // The engine's words without their spaces: three letters each.
        let letters = (0..).flat_map(|index| output_word(seed, index).trim_end().chars());
        letters.take(escaped_len(name)).collect()
    }

    /// Exchanges letters and digits by a secret table for each place: names that were different
    /// stay so.
    fn short_name(&self, name: &str, salt: u8) -> String {
        let exchanged = name.bytes().zip(0_u8..).map(|(byte, place)| {
            let Some(alphabet) = ALPHABETS.iter().find(|bytes| bytes.contains(&byte)) else {
                return char::from(byte);
            };
            let mut shuffled: Vec<u8> = alphabet.clone().collect();
            shuffled.sort_by_key(|other| self.secret.hash(&[b's', salt, place, *other]));
            let index = usize::from(byte - alphabet.start());
            char::from(shuffled.get(index).copied().unwrap_or(byte))
        });
        exchanged.collect()
    }

    /// A name that is not taken yet: two keys of one object must not become one, nor one of the
    /// protocol's.
    fn free_name(&self, name: &str, taken: &Map<String, Value>) -> String {
        let mut names = (0..u8::MAX).map(|salt| self.salted_name(name, salt));
        names
            .find(|name| !taken.contains_key(name) && !KEYWORDS.contains(&name.as_str()))
            .unwrap_or_else(|| name.to_owned())
    }

    /// Replaces the arguments of a call by arguments of the same length.
    pub(super) fn arguments(&self, text: &str) -> String {
        let seed = self.secret.hash(text.as_bytes());
        let frame = r#"{"x":""}"#.len();
        match text.len() {
            0 => String::new(),
            1 => "0".to_owned(),
            len if len < frame => format!("{{}}{}", " ".repeat(len - 2)),
            len => {
                let letters = (0..).flat_map(|index| output_word(seed, index).chars());
                format!(
                    r#"{{"x":"{}"}}"#,
                    letters.take(len - frame).collect::<String>()
                )
            }
        }
    }
}

/// Whether a text begins a `data:` URL of a type that the protocols know.
fn is_data(kind: &str) -> bool {
    let media = kind.strip_prefix("data:");
    media.is_some_and(|media| WORDS.contains(&media))
}

/// Bytes of a text inside compact JSON, without its quotes.
fn escaped_len(text: &str) -> usize {
    Value::from(text).to_string().len() - 2
}

#[cfg(test)]
mod tests {
    use super::{Scrub, Secret};
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    fn tools() -> Value {
        json!([{"type": "function", "function": {
            "name": "find_patient", "description": "Finds a \"patient\" by name.\nÜber alles.",
            "parameters": {"type": "object", "required": ["family_name"], "properties": {
                "family_name": {"type": "string", "enum": ["Canary Smith"]},
                "x": {"$ref": "#/$defs/Canary"}, "description": {"type": "string"},
                "sex": {"enum": ["f", "m", "x", "Li", "李"], "type": "string"}}},
        }}])
    }

    #[test]
    fn the_shape_and_the_length_stay_and_the_words_go() {
        let secret = Secret([7; 32]);
        let scrub = Scrub { secret: &secret };
        let scrubbed = scrub.value(&tools());
        assert_eq!(scrubbed.to_string().len(), tools().to_string().len());
        for gone in [
            "patient",
            "Canary",
            "family",
            "Finds",
            "ber alles",
            "\"sex\"",
            "Li",
            "李",
        ] {
            assert!(!scrubbed.to_string().contains(gone), "{gone}: {scrubbed}");
        }
        let function = &scrubbed[0]["function"];
        let parameters = &function["parameters"];
        let required = parameters["required"][0].as_str().unwrap();
        assert!(
            parameters["properties"].get(required).is_some(),
            "{scrubbed}"
        );
        let properties = parameters["properties"].as_object().unwrap();
        let reference = properties.values().find_map(|schema| schema.get("$ref"));
        assert!(reference.unwrap().as_str().unwrap().starts_with("#/$defs/"));
        let choices = properties
            .values()
            .find_map(|schema| schema["enum"].get(1).and(schema.get("enum")));
        let choices: BTreeSet<&str> = choices
            .unwrap()
            .as_array()
            .unwrap()
            .iter()
            .map(|choice| choice.as_str().unwrap())
            .collect();
        assert_eq!(choices.len(), 5);
        assert_eq!(scrubbed, scrub.value(&tools()));
    }

    #[test]
    fn arguments_keep_their_length_and_stay_json() {
        let secret = Secret([7; 32]);
        let scrub = Scrub { secret: &secret };
        for text in ["", "1", "{}", "{}   ", r#"{"q":1}"#, r#"{"name":"Canary"}"#] {
            let new = scrub.arguments(text);
            assert_eq!(new.len(), text.len(), "{new}");
            assert!(
                text.is_empty() || serde_json::from_str::<Value>(&new).is_ok(),
                "{new}"
            );
            assert!(!new.contains("Canary"));
        }
    }

    #[test]
    fn short_names_are_replaced_and_stay_apart() {
        let secret = Secret([7; 32]);
        let scrub = Scrub { secret: &secret };
        let letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
        let old: Vec<String> = letters
            .iter()
            .flat_map(|a| letters.iter().map(move |b| format!("{a}{b}")))
            .collect();
        let new: BTreeSet<String> = old.iter().map(|name| scrub.name(name)).collect();
        assert_eq!(new.len(), old.len());
        let kept = old.iter().filter(|name| scrub.name(name) == **name).count();
        assert!(kept < old.len() / 50, "{kept}");
        assert_eq!(scrub.choice("low"), "low");
        assert_eq!(scrub.role(&json!("user")), "user");
        assert_ne!(scrub.role(&json!("Canary")), "Canary");
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_length_in_json(text in ".{0,60}") {
            let secret = Secret([7; 32]);
            let scrub = Scrub { secret: &secret };
            let value = json!({"description": text, "properties": {text.clone(): text}});
            prop_assert_eq!(scrub.value(&value).to_string().len(), value.to_string().len());
        }
    }
}
