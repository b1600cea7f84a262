//! The files of a tokenizer.

use crate::error::Error;
use serde_json::Value;
use std::path::Path;

/// Bytes of a vocabulary at most: the largest public ones have 256,000 entries and 34 MB.
const VOCABULARY_BYTES_MAX: u64 = 256 << 20;

/// A chat template, and the words that it takes from the tokenizer.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    pub(super) text: String,
    pub(super) bos: String,
    pub(super) eos: String,
}

/// Reads a file that the recipe names.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let wrong = |cause: &dyn std::fmt::Display| {
        let problem = format!("tokens: cannot be read: {cause}");
        Error::config(path.display(), problem)
    };
    let metadata = std::fs::metadata(path).map_err(|cause| wrong(&cause))?;
    if metadata.len() > VOCABULARY_BYTES_MAX {
        let problem = format!(
            "tokens: {} bytes, allowed are {VOCABULARY_BYTES_MAX}; is this a tokenizer?",
            metadata.len()
        );
        return Err(Error::config(path.display(), problem));
    }
    std::fs::read(path).map_err(|cause| wrong(&cause))
}

/// The template that the recipe names, or the one beside the vocabulary.
pub(super) fn template(vocabulary: &Path, named: Option<&Path>) -> Result<Option<Source>, Error> {
    let config_path = vocabulary.with_file_name("tokenizer_config.json");
    let config = if is_there(&config_path)? {
        parsed(&config_path)?
    } else {
        Value::Null
    };
    let text = match named {
        Some(path)
            if path
                .extension()
                .is_some_and(|extension| extension == "json") =>
        {
            let found = in_config(&parsed(path)?);
            let problem = "tokens.chat_template: no `chat_template` in it";
            Some(found.ok_or_else(|| Error::config(path.display(), problem))?)
        }
        Some(path) => Some(as_text(path)?),
        None => {
            let beside = vocabulary.with_file_name("chat_template.jinja");
            if is_there(&beside)? {
                Some(as_text(&beside)?)
            } else {
                in_config(&config)
            }
        }
    };
    Ok(text.map(|text| Source {
        text,
        bos: token(&config, "bos_token"),
        eos: token(&config, "eos_token"),
    }))
}

fn is_there(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(|cause| Error::io(path, cause))
}

fn as_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read(path)?)
        .map_err(|_| Error::config(path.display(), "tokens.chat_template: not UTF-8 text"))
}

fn parsed(path: &Path) -> Result<Value, Error> {
    serde_json::from_slice(&read(path)?)
        .map_err(|cause| Error::config(path.display(), format!("tokens: not JSON: {cause}")))
}

/// One template, or the default one of several.
fn in_config(config: &Value) -> Option<String> {
    match config.get("chat_template")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(named) => {
            let is_default =
                |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some("default");
            let entry = named.iter().find(is_default)?;
            Some(entry.get("template")?.as_str()?.to_owned())
        }
        _ => None,
    }
}

/// A token is a text, or an object that has one.
fn token(config: &Value, name: &str) -> String {
    let token = config.get(name);
    let text = token.and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
    text.unwrap_or_default().to_owned()
}
