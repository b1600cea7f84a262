//! Keyed, chained hashes of prompt blocks.
//!
//! A block's hash covers its content and, through its parent, everything before it: two prompts
//! share a hash exactly where they share the whole prefix up to that block. The key keeps hashes
//! of different salts, and so of different captures or runs, apart.
//!
//! Specified as: key `K = BLAKE3-derive-key("truetape 2026 block chain v1", salt)`; hash
//! `h_i = BLAKE3-keyed(K, h_{i-1} as 8 bytes little-endian || bytes of block i)`, first 8 bytes
//! read little-endian, `h_{-1} = 0`. Token ids are 4 bytes each, little-endian.

/// Bytes of a hash.
const HASH_BYTES: usize = 8;

/// What separates our keys from every other use of BLAKE3.
const CONTEXT: &str = "truetape 2026 block chain v1";

/// The key that a salt gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BlockKey([u8; 32]);

impl BlockKey {
    /// Derives the key from a salt of any length.
    pub fn new(salt: &[u8]) -> Self {
        Self(blake3::derive_key(CONTEXT, salt))
    }
}

impl std::fmt::Debug for BlockKey {
    /// Shows nothing of the key: whoever has it can test a guess of a prompt.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlockKey(..)")
    }
}

/// Hashes blocks of bytes, each chained to the one before it.
pub fn chain<'a>(key: &BlockKey, blocks: impl Iterator<Item = &'a [u8]>) -> Vec<u64> {
    let mut parent = 0_u64;
    blocks
        .map(|block| {
            parent = child(key, parent, block);
            parent
        })
        .collect()
}

/// Hashes rendered bytes in blocks of `block_tokens` tokens of `bytes_per_token` bytes.
///
/// Block `i` ends at byte `round((i + 1) * block_tokens * bytes_per_token)`, so that a fractional
/// calibration does not drift. The last block may be partial. A calibration that is not a positive
/// number, or a block of no tokens, is taken as one byte a block.
pub fn of_rendered(
    key: &BlockKey,
    rendered: &[u8],
    bytes_per_token: f64,
    block_tokens: u32,
) -> Vec<u64> {
    // `max` also turns a NaN into 1.
    let block_bytes = (bytes_per_token * f64::from(block_tokens)).max(1.0);
    let ends = (1_u64..).map(|index| (index as f64 * block_bytes).round() as usize);
    let mut rest = rendered;
    let mut start = 0;
    let blocks = ends.map_while(|end| {
        let taken = (end - start).min(rest.len());
        let (block, later) = rest.split_at(taken);
        (start, rest) = (end, later);
        (!block.is_empty()).then_some(block)
    });
    chain(key, blocks)
}

/// Hashes token ids in blocks; `keep_partial` decides about a last block that is not full.
pub fn of_tokens(
    key: &BlockKey,
    tokens: &[u32],
    block_tokens: u32,
    keep_partial: bool,
) -> Vec<u64> {
    let block_tokens = block_tokens.max(1) as usize;
    let mut bytes = Vec::with_capacity(block_tokens * size_of::<u32>());
    let mut parent = 0_u64;
    tokens
        .chunks(block_tokens)
        .filter(|block| keep_partial || block.len() == block_tokens)
        .map(|block| {
            bytes.clear();
            bytes.extend(block.iter().flat_map(|token| token.to_le_bytes()));
            parent = child(key, parent, &bytes);
            parent
        })
        .collect()
}

fn child(key: &BlockKey, parent: u64, block: &[u8]) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(&parent.to_le_bytes());
    hasher.update(block);
    let mut first = [0; HASH_BYTES];
    hasher.finalize_xof().fill(&mut first);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests;
