//! Contents of messages: texts, and parts of them; calls and their results.

use super::super::Notes;
use super::Synthetic;
use super::picture::Picture;
use serde_json::{Map, Value};
use truetape_fidelity::tokens::{BYTES_PER_TOKEN, output_word};

impl Synthetic<'_> {
    /// New content for old.
    pub(super) fn content(&self, chain: &mut u64, content: &Value, notes: &mut Notes) -> Value {
        match content {
            Value::Null => Value::Null,
            Value::String(text) => Value::String(self.words(chain, text)),
            Value::Array(parts) => self.content_parts(chain, parts, notes),
            other => Value::String(self.words(chain, &other.to_string())),
        }
    }

    /// Each part keeps its place and its size. Texts that stand side by side are rendered as one
    /// text, so their words are those of one text, cut where the old ones were.
    fn content_parts(&self, chain: &mut u64, parts: &[Value], notes: &mut Notes) -> Value {
        let mut new = Vec::with_capacity(parts.len());
        for run in parts.chunk_by(|a, b| text_of(a).is_some() == text_of(b).is_some()) {
            let texts: Vec<&str> = run.iter().filter_map(text_of).collect();
            if texts.is_empty() {
                new.extend(run.iter().map(|part| self.other_part(chain, part, notes)));
                continue;
            }
            if self.exact.is_some() {
                // Servers put them into the template one by one.
                for (part, text) in run.iter().zip(&texts) {
                    let words = self.words(chain, text);
                    new.push(self.text_part(part, &words));
                }
                continue;
            }
            let words = self.words(chain, &texts.concat());
            let mut rest = words.as_str();
            for (part, text) in run.iter().zip(texts) {
                let (piece, after) = rest.split_at_checked(text.len()).unwrap_or((rest, ""));
                rest = after;
                new.push(self.text_part(part, piece));
            }
        }
        Value::Array(new)
    }

    /// A part that is not text: a picture stays one that can be decoded.
    fn other_part(&self, chain: &mut u64, part: &Value, notes: &mut Notes) -> Value {
        *chain = self.step(*chain, part.to_string().as_bytes());
        let mut new = self.scrub().value(part);
        match Picture::of(part) {
            Some(picture) => {
                // The same picture is the same again wherever it stands: engines keep it.
                picture.put(&mut new, self.step(0, part.to_string().as_bytes()));
                notes.count(if picture.measured {
                    "images are blank ones of the same width, height and bytes"
                } else {
                    "images were not kept (`truetape record --blobs keep` keeps them): blank ones of \
                     the same bytes stand in their place, 512 pixels wide and high"
                });
            }
            None => {
                notes.count("content that is not text is replaced by nonsense of the same size");
            }
        }
        new
    }

    fn text_part(&self, part: &Value, text: &str) -> Value {
        let Value::Object(fields) = part else {
            return Value::String(text.to_owned());
        };
        // Without its text, which need not be made twice.
        let mut others = fields.clone();
        others.insert("text".to_owned(), Value::Null);
        let mut new = self.scrub().value(&Value::Object(others));
        if let Some(place) = new.get_mut("text") {
            *place = Value::String(text.to_owned());
        }
        new
    }

    /// An item of a Responses request: a call, its result, or a message.
    pub(super) fn item(
        &self,
        chain: &mut u64,
        fields: &Map<String, Value>,
        notes: &mut Notes,
    ) -> Map<String, Value> {
        match fields.get("type").and_then(Value::as_str) {
            Some("function_call") => match self.call(chain, &Value::Object(fields.clone())) {
                Value::Object(call) => call,
                _ => Map::new(),
            },
            Some("function_call_output") => {
                *chain = self.step(*chain, b"tool");
                let output = fields.get("output").cloned().unwrap_or_default();
                let mut new = self.scrub().fields(fields);
                new.insert("output".to_owned(), self.content(chain, &output, notes));
                new
            }
            _ => self.fields(chain, fields, notes),
        }
    }

    /// The new calls of a message.
    pub(super) fn calls(&self, chain: &mut u64, calls: &Value) -> Value {
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

    /// New words for a text: one for each token.
    pub(super) fn words(&self, chain: &mut u64, text: &str) -> String {
        let tokens = self.exact.and_then(|exact| Some((exact, exact.ids(text)?)));
        let Some((exact, ids)) = tokens else {
            return self.words_of_bytes(chain, text);
        };
        let mut words = String::with_capacity(exact.stock().bytes_of(ids.len() as u64));
        for id in ids {
            *chain = self.step(*chain, &id.to_le_bytes());
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(exact.stock().word(*chain));
        }
        words
    }

    /// Words of as many bytes as a text has: a word for each whole token of four bytes, and what
    /// fits of one for the rest.
    fn words_of_bytes(&self, chain: &mut u64, text: &str) -> String {
        let mut words = String::with_capacity(text.len().next_multiple_of(BYTES_PER_TOKEN));
        for token in text.as_bytes().chunks(BYTES_PER_TOKEN) {
            let mut padded = [b' '; BYTES_PER_TOKEN];
            for (to, from) in padded.iter_mut().zip(token) {
                *to = *from;
            }
            *chain = self.step(*chain, &padded);
            words.push_str(output_word(*chain, 0));
        }
        words.truncate(text.len());
        words
    }
}

/// The text of a part that is one.
fn text_of(part: &Value) -> Option<&str> {
    match part {
        Value::String(text) => Some(text),
        _ => part.get("text").and_then(Value::as_str),
    }
}
