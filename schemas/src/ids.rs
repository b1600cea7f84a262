//! Names: of exchanges, of sets, of content.

/// Makes a new exchange id: a UUIDv7, ours, never a provider's.
pub fn new_exchange_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Names bytes by their digest: 32 hexadecimal digits of BLAKE3.
///
/// 128 bits: among 10^10 parts a collision has a chance of about 10^-19.
pub fn content_id(bytes: &[u8]) -> String {
    let hex = blake3::hash(bytes).to_hex();
    hex.chars().take(CONTENT_ID_CHARS).collect()
}

/// Length of a [`content_id`].
pub const CONTENT_ID_CHARS: usize = 32;

/// Length of the short form of a set's digest, as used in paths.
pub const DIGEST_SHORT_CHARS: usize = 12;

/// A running digest over canonical values: each is framed by its length, so that no two lists of
/// values are the same bytes.
#[derive(Debug, Default)]
pub struct Digester(blake3::Hasher);

impl Digester {
    /// Starts an empty digest.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one value.
    pub fn add(&mut self, value: &[u8]) {
        self.0.update(&(value.len() as u64).to_le_bytes());
        self.0.update(value);
    }

    /// Ends the digest: 64 hexadecimal digits.
    pub fn finish(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}
