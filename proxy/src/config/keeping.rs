//! What is kept of what passes: content, names, sessions.

use super::Content;
use super::settings::Settings;
use crate::error::Error;
use crate::redact;
use std::path::PathBuf;

/// A share of the sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// The share, above 0 and below 1.
    pub rate: f64,
    /// Salts the hash that decides: recorders with one salt choose the same sessions.
    pub salt: String,
}

/// What is kept besides bodies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keeping {
    /// The key of hashes that stand for text; without, one of the directory.
    pub digest_key_file: Option<PathBuf>,
    /// Whether the bytes of long base64 are kept, each once.
    pub blobs: bool,
    /// Models that are named although text is not kept.
    pub models: Vec<String>,
    /// Headers that are kept beside those of the list, in lower case.
    pub headers: Vec<String>,
    /// The share of sessions that is recorded; all where there is none.
    pub sampling: Option<Sampling>,
}

/// The content policy.
pub(super) fn content(text: &str) -> Result<Content, Error> {
    match text {
        "full" => Ok(Content::Full),
        "digest" => Ok(Content::Digest),
        "none" => Ok(Content::None),
        other => Err(Error::config(
            "content",
            format!("found {other:?}, expected full, digest or none"),
        )),
    }
}

/// All of it.
pub(super) fn keeping(settings: &Settings) -> Result<Keeping, Error> {
    let key_file = settings.text("digest_key_file");
    Ok(Keeping {
        digest_key_file: (!key_file.is_empty()).then(|| PathBuf::from(key_file)),
        blobs: blobs(settings.text("blobs"))?,
        models: settings.list("keep_model").to_vec(),
        headers: headers("keep_header", settings.list("keep_header"))?,
        sampling: sampling(settings)?,
    })
}

fn blobs(text: &str) -> Result<bool, Error> {
    match text {
        "keep" => Ok(true),
        "refer" => Ok(false),
        other => Err(Error::config(
            "blobs",
            format!("found {other:?}, expected keep or refer"),
        )),
    }
}

fn sampling(settings: &Settings) -> Result<Option<Sampling>, Error> {
    let (text, salt) = (settings.text("sample"), settings.text("sample_salt"));
    let rate = match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => rate,
        _ => {
            return Err(Error::config(
                "sample",
                format!("found {text:?}, expected a share of the sessions: above 0, at most 1"),
            ));
        }
    };
    let salt = salt.to_owned();
    Ok((rate < 1.0).then_some(Sampling { rate, salt }))
}

/// Names of headers that may be written, in lower case.
pub(super) fn headers(setting: &str, names: &[String]) -> Result<Vec<String>, Error> {
    for name in names {
        if redact::is_secret(&name.to_ascii_lowercase()) {
            return Err(Error::config(
                setting,
                format!(
                    "found {name:?}, which carries a secret, and is never written; name another, or \
                     use the column client_key, which stands for the caller"
                ),
            ));
        }
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            return Err(Error::config(
                setting,
                format!("found {name:?}, expected the name of a header"),
            ));
        }
    }
    Ok(names.iter().map(|name| name.to_ascii_lowercase()).collect())
}
