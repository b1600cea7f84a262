//! Keys of encrypted files: read from a file, named by a fingerprint, never written.

use super::Error;
use parquet::encryption::decrypt::{FileDecryptionProperties, KeyRetriever};
use parquet::encryption::encrypt::FileEncryptionProperties;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Names the variable that stands for `--key-file` of every verb that reads.
pub const KEY_FILE_ENV: &str = "TRUETAPE_KEY_FILE";

/// Longest key file: 1,000 keys of 64 digits.
const KEY_FILE_BYTES_MAX: u64 = 65_000;

/// Bytes of a key's fingerprint that name it.
const ID_BYTES: usize = 8;

/// One key, of AES-128 or AES-256 by its length.
#[derive(Clone)]
pub struct Key {
    bytes: Vec<u8>,
    id: String,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Key {
    /// A key of 16 or 32 bytes.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        let id = blake3::derive_key("truetape 2026 id of a capture key", &bytes);
        let id = id.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}"));
        matches!(bytes.len(), 16 | 32).then(|| Self {
            id: id.collect(),
            bytes,
        })
    }

    /// Its fingerprint: it names the key and does not tell it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Another key for another use, as good as this one and telling nothing about it.
    pub fn derive(&self, context: &str, salt: &[u8]) -> [u8; 32] {
        let mut material = self.bytes.clone();
        material.extend_from_slice(salt);
        blake3::derive_key(context, &material)
    }

    /// What the Parquet writer needs: footer and columns under this one key, named in the file.
    pub(super) fn encryption(&self) -> Result<Arc<FileEncryptionProperties>, String> {
        FileEncryptionProperties::builder(self.bytes.clone())
            .with_footer_key_metadata(self.id.clone().into_bytes())
            .build()
            .map_err(|cause| cause.to_string())
    }
}

/// Keys by their names. The first one is for writing; the others read what was written before.
#[derive(Clone, Debug, Default)]
pub struct Keyring(Vec<Key>);

impl Keyring {
    /// Reads a key file: a key a line, in hexadecimal (32 digits for AES-128, 64 for AES-256);
    /// empty lines and lines that start with `#` are skipped.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let refuse = |problem: String| Error::KeyFile {
            subject: path.display().to_string(),
            problem,
        };
        let size = std::fs::metadata(path).map_err(|cause| refuse(cause.to_string()))?;
        if size.len() > KEY_FILE_BYTES_MAX {
            return Err(refuse(format!(
                "is {} bytes long, a key file has at most {KEY_FILE_BYTES_MAX}",
                size.len()
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|cause| refuse(cause.to_string()))?;
        let lines = (1..).zip(text.lines().map(str::trim));
        let mut keys = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            // The line itself is a secret, or nearly one: it is not shown.
            let key = hexadecimal(line).and_then(Key::new).ok_or_else(|| {
                refuse(format!(
                    "line {number} has {} characters, expected a key of 32 or 64 hexadecimal digits, as from `openssl rand -hex 32`",
                    line.chars().count()
                ))
            })?;
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(refuse(
                "holds no key, expected one of 32 or 64 hexadecimal digits".to_owned(),
            ));
        }
        Ok(Self(keys))
    }

    /// A ring of one key.
    pub fn of(key: Key) -> Self {
        Self(vec![key])
    }

    /// The key for writing.
    pub fn writing(&self) -> Option<&Key> {
        self.0.first()
    }

    /// The key of that name.
    pub fn find(&self, id: &str) -> Option<&Key> {
        self.0.iter().find(|key| key.id == id)
    }
}

/// The keys that this process reads with, where a reader is not handed its own.
static INSTALLED: OnceLock<Keyring> = OnceLock::new();

/// Sets the keys that this process reads with. Verbs that read do it once, before they open a file;
/// a second call changes nothing.
pub fn install(keys: Keyring) {
    drop(INSTALLED.set(keys));
}

/// The keys that this process reads with; none when nobody set them.
pub fn installed() -> &'static Keyring {
    INSTALLED.get_or_init(Keyring::default)
}

/// Finds the key of a file by its name, and remembers what was asked for.
#[derive(Debug)]
pub(super) struct Lookup {
    keys: Keyring,
    asked: Mutex<Option<String>>,
}

impl Lookup {
    pub(super) fn new(keys: &Keyring) -> Arc<Self> {
        Arc::new(Self {
            keys: keys.clone(),
            asked: Mutex::new(None),
        })
    }

    /// The name of the key that is not there.
    pub(super) fn missing(&self) -> Option<String> {
        self.asked().filter(|id| self.keys.find(id).is_none())
    }

    /// The name of the key that is there.
    pub(super) fn found(&self) -> Option<String> {
        self.asked().filter(|id| self.keys.find(id).is_some())
    }

    fn asked(&self) -> Option<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.clone()
    }

    pub(super) fn decryption(self: &Arc<Self>) -> Result<Arc<FileDecryptionProperties>, String> {
        let retriever: Arc<dyn KeyRetriever> = Arc::<Self>::clone(self);
        FileDecryptionProperties::with_key_retriever(retriever)
            .build()
            .map_err(|cause| cause.to_string())
    }
}

impl KeyRetriever for Lookup {
    fn retrieve_key(&self, name: &[u8]) -> parquet::errors::Result<Vec<u8>> {
        let id = String::from_utf8_lossy(name).into_owned();
        let key = self.keys.find(&id).map(|key| key.bytes.clone());
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
        key.ok_or_else(|| parquet::errors::ParquetError::General("no such key".to_owned()))
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    let byte = |pair: &[u8]| pair.iter().fold(0, |byte, digit| byte << 4 | digit);
    Some(digits.chunks_exact(2).map(byte).collect())
}

#[cfg(test)]
mod tests;
