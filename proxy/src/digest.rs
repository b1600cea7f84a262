//! What stands in for text that is not kept: lengths, and hashes under a key.
//!
//! Without the key nobody can try guesses against a hash. With one key the hashes of a capture
//! compare: who shares a prefix with whom, and who continues whom, can be told without a word.

use crate::disk::FILE_MODE;
use crate::limits;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use truetape_schemas::capture::Segment;
use truetape_schemas::ids::new_exchange_id;
use truetape_schemas::wire::{Message, canonical};

/// Name of the key that a recorder makes for its directory when it is given none.
pub const KEY_FILE: &str = ".truetape-digest.key";

/// Hexadecimal digits of a hash that stands for a name.
const NAME_CHARS: usize = 16;

/// Begins what stands for a name, so that nobody takes it for one.
const NAME_PREFIX: &str = "digest:";

/// Role of the one segment that stands for the tools a request offers: they come before all
/// messages, in what is hashed as in what a server caches.
pub const TOOLS_ROLE: &str = "tools";

/// Roles that are told. Others are words of a client.
const ROLES: [&str; 10] = [
    "assistant",
    "developer",
    "function",
    "input",
    "model",
    "prompt",
    "system",
    "tool",
    TOOLS_ROLE,
    "user",
];

/// What another role is told as.
const OTHER_ROLE: &str = "other";

/// The key, by what it is used for, so that no hash of one use says anything about another.
#[derive(Clone)]
pub struct DigestKey {
    chain: [u8; 32],
    block: [u8; 32],
    identity: [u8; 32],
    name: [u8; 32],
    fingerprint: String,
}

impl std::fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DigestKey({})", self.fingerprint)
    }
}

/// What stands in for the text of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are columns of capture/1")]
pub struct Hashes {
    pub segments: Vec<Segment>,
    pub segment_hashes: Vec<u64>,
    pub text_block_hashes: Vec<u64>,
}

impl DigestKey {
    /// The key of these bytes.
    pub fn of(key: &[u8; 32]) -> Self {
        let derive =
            |purpose: &str| blake3::derive_key(&format!("truetape 2026 digest {purpose} v1"), key);
        let print = blake3::Hash::from(derive("fingerprint")).to_hex();
        Self {
            chain: derive("chain"),
            block: derive("block"),
            identity: derive("identity"),
            name: derive("name"),
            fingerprint: print.chars().take(NAME_CHARS).collect(),
        }
    }

    /// A key that nobody knows.
    pub fn random() -> Self {
        Self::of(&random_key())
    }

    /// Reads the key that an operator gave: 32 bytes in hexadecimal.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut text = String::new();
        let file = std::fs::File::open(path)?;
        file.take(limits::DIGEST_KEY_FILE_BYTES_MAX)
            .read_to_string(&mut text)?;
        let wrong = || {
            let found = text.trim().len();
            io::Error::other(format!(
                "found {found} characters, expected 64 hexadecimal digits, as from: openssl rand \
                 -hex 32"
            ))
        };
        let key = blake3::Hash::from_hex(text.trim()).map_err(|_| wrong())?;
        Ok(Self::of(key.as_bytes()))
    }

    /// The key of a directory, made when it has none yet: the segments of one capture compare.
    pub fn of_directory(directory: &Path) -> io::Result<Self> {
        let path = directory.join(KEY_FILE);
        match Self::read(&path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        let aside = directory.join(format!("{KEY_FILE}.tmp"));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(FILE_MODE)
            .open(&aside)?;
        let text = blake3::Hash::from(random_key()).to_hex();
        file.write_all(format!("{text}\n").as_bytes())?;
        file.sync_all()?;
        // Written aside, so that a crash leaves no key that is cut short.
        std::fs::rename(&aside, &path)?;
        Self::read(&path)
    }

    /// Names the key without telling it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// What stands for a name that somebody else chose: equal names have equal ones.
    pub fn name(&self, text: &str) -> String {
        let hex = blake3::keyed_hash(&self.name, text.as_bytes()).to_hex();
        let digits: String = hex.chars().take(NAME_CHARS).collect();
        format!("{NAME_PREFIX}{digits}")
    }

    /// What stands for a message: equal for messages that are the same, see [`canonical`].
    pub fn identity(&self, canonical: &[u8]) -> u64 {
        first_word(&blake3::keyed_hash(&self.identity, canonical))
    }

    /// What stands in for the text of a request: its tools, as they were sent, and its messages.
    pub fn hashes(&self, tools: Option<&[u8]>, messages: &[Message]) -> Hashes {
        let mut hashes = Hashes::default();
        let mut chain = Chain::new(&self.chain);
        let mut blocks = Blocks::new(&self.block);
        let mut add = |role: &str, raw: &[u8], canonical: &[u8]| {
            hashes.segments.push(Segment {
                role: told_role(role).to_owned(),
                bytes: i64::try_from(raw.len()).unwrap_or(i64::MAX),
                hash: chain.add(raw),
            });
            hashes.segment_hashes.push(self.identity(canonical));
            blocks.add(raw);
        };
        if let Some(tools) = tools {
            add(TOOLS_ROLE, tools, &tools_identity(tools));
        }
        for message in messages {
            add(&message.role, &message.raw, &message.canonical);
        }
        hashes.text_block_hashes = blocks.finish();
        hashes
    }
}

/// Four ids carry 296 random bits.
fn random_key() -> [u8; 32] {
    let seed: String = (0..4).map(|_| new_exchange_id()).collect();
    blake3::derive_key("truetape 2026 digest key v1", seed.as_bytes())
}

fn told_role(role: &str) -> &str {
    if ROLES.contains(&role) {
        role
    } else {
        OTHER_ROLE
    }
}

/// Tools are the same whatever the order of their keys.
fn tools_identity(tools: &[u8]) -> Vec<u8> {
    let mut identity = Vec::new();
    match serde_json::from_slice(tools) {
        Ok(value) => canonical::canonical_json(&value, &mut identity),
        Err(_) => identity.extend_from_slice(tools),
    }
    identity
}

fn first_word(hash: &blake3::Hash) -> u64 {
    let word = hash.as_bytes().first_chunk::<8>();
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

/// Hashes of which each covers all that came before.
struct Chain<'a> {
    key: &'a [u8; 32],
    last: blake3::Hash,
}

impl<'a> Chain<'a> {
    fn new(key: &'a [u8; 32]) -> Self {
        Self {
            key,
            last: blake3::Hash::from([0; 32]),
        }
    }

    fn add(&mut self, bytes: &[u8]) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(self.key);
        hasher.update(self.last.as_bytes());
        hasher.update(bytes);
        self.last = hasher.finalize();
        first_word(&self.last)
    }
}

/// A chain over blocks of bytes, whatever the messages are: what two long prompts share inside a
/// message is told as well.
struct Blocks<'a> {
    chain: Chain<'a>,
    partial: Vec<u8>,
    hashes: Vec<u64>,
}

impl<'a> Blocks<'a> {
    fn new(key: &'a [u8; 32]) -> Self {
        Self {
            chain: Chain::new(key),
            partial: Vec::with_capacity(limits::TEXT_BLOCK_BYTES),
            hashes: Vec::new(),
        }
    }

    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = limits::TEXT_BLOCK_BYTES - self.partial.len();
            let (taken, rest) = bytes.split_at(room.min(bytes.len()));
            self.partial.extend_from_slice(taken);
            bytes = rest;
            if self.partial.len() == limits::TEXT_BLOCK_BYTES {
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        let hash = self.chain.add(&self.partial);
        self.hashes.push(hash);
        self.partial.clear();
    }

    fn finish(mut self) -> Vec<u64> {
        if !self.partial.is_empty() {
            self.end_block();
        }
        self.hashes
    }
}

#[cfg(test)]
mod tests;
