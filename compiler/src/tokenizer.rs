//! The model's own tokenizer and chat template, from files that the recipe names.
//!
//! `tokenizer.json` is Hugging Face's format, `*.tiktoken` OpenAI's. Byte-pair vocabularies are read
//! by a fast encoder; it is checked against the reference encoder on a fixed text when it is
//! opened, and where the two differ, or it cannot read the file, the reference is used.
//!
//! Read in this order: [`files`] (what lies where), [`encoder`] (text to token ids and back),
//! [`template`] (a chat to text), [`stock`] (words of one token each).

use crate::compile::chat_of;
use crate::error::Error;
use crate::recipe::{AUTO, BYTES_4, Tokens};
use encoder::Encoder;
use serde_json::Value;
use std::path::Path;
use template::Template;
use truetape_schemas::set::manifest::Tokenizer;
use truetape_schemas::wire::Dialect;

mod encoder;
mod files;
pub mod stock;
mod template;

/// A vocabulary, and how chats are put into words for it.
#[derive(Debug)]
pub struct Vocabulary {
    encoder: Encoder,
    template: Option<Template>,
    described: Tokenizer,
}

impl Vocabulary {
    /// The vocabulary that a recipe names; none where it leaves tokens to reported usage, or to
    /// the reference engine.
    pub fn of(tokens: &Tokens) -> Result<Option<Self>, Error> {
        if tokens.tokenizer == AUTO || tokens.tokenizer == BYTES_4 {
            return Ok(None);
        }
        let template = tokens.chat_template.as_deref().map(Path::new);
        let encoding = tokens.encoding.as_deref();
        Self::open(Path::new(&tokens.tokenizer), template, encoding).map(Some)
    }

    /// Opens a vocabulary. Without a template of its own, the one beside it is taken where there is
    /// one (`chat_template.jinja`, or `chat_template` in `tokenizer_config.json`).
    pub fn open(
        path: &Path,
        template: Option<&Path>,
        encoding: Option<&str>,
    ) -> Result<Self, Error> {
        let bytes = files::read(path)?;
        let encoder = Encoder::of(path, &bytes, encoding)?;
        let source = files::template(path, template)?;
        let template = match &source {
            Some(source) => Some(Template::of(source)?),
            None => None,
        };
        let digest = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
        let described = Tokenizer {
            name: encoder.format().to_owned(),
            digest: Some(digest(&bytes)),
            template_digest: source.map(|source| digest(source.text.as_bytes())),
            ..Tokenizer::default()
        };
        Ok(Self {
            encoder,
            template,
            described,
        })
    }

    /// What a manifest says about it.
    pub fn described(&self) -> Tokenizer {
        self.described.clone()
    }

    /// Whether chats are put into words as the model's own server does.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// Token ids of a text. `special` adds what the vocabulary puts around a whole prompt.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, String> {
        self.encoder.encode(text, special)
    }

    /// The text of token ids, special ones included.
    pub fn decode(&self, ids: &[u32]) -> Result<String, String> {
        self.encoder.decode(ids)
    }

    /// A chat as the text that the model reads, the header of the answer to come included.
    pub fn chat(&self, chat: &Value) -> Result<String, String> {
        match &self.template {
            Some(template) => template.render(chat),
            None => Ok(template::plain(chat)),
        }
    }

    /// Token ids of the prompt of a request body.
    pub fn prompt(&self, dialect: Dialect, body: &Value) -> Result<Vec<u32>, String> {
        let field = match dialect {
            Dialect::OpenaiCompletions | Dialect::OllamaGenerate | Dialect::LlamacppCompletion => {
                "prompt"
            }
            Dialect::TgiGenerate => "inputs",
            Dialect::SglangGenerate => "text",
            _ => {
                let chat = chat_of(dialect, body).ok_or("no messages")?;
                return self.encode(&self.chat(&chat)?, false);
            }
        };
        let text = body.get(field).and_then(Value::as_str);
        self.encode(text.ok_or("the prompt is not one text")?, true)
    }
}

#[cfg(test)]
mod tests;
