//! Blocks of tokens from a recorder's hashes of blocks of bytes.
//!
//! Under the content policy `digest` a prompt is known by chained hashes of so many bytes each. A
//! block of tokens ends within one of them, and is known to be shared where that one is: what two
//! prompts share is told as at most what it was, to a block of bytes (64 tokens or so).

use super::super::ingest::Secret;

/// A prompt as hashes.
#[derive(Clone, Debug)]
pub(super) struct Hashes {
    /// Chained hashes of blocks of bytes; the last may be partial.
    pub(super) blocks: Vec<u64>,
    /// Bytes of a block.
    pub(super) block_bytes: u64,
    /// Bytes of the prompt.
    pub(super) bytes: u64,
}

/// The hashes of the blocks of a prompt. Block `i` ends where it does in text: at byte
/// `round((i + 1) * block_tokens * bytes_per_token)`.
pub(super) fn blocks(
    secret: &Secret,
    hashes: &Hashes,
    bytes_per_token: f64,
    block_tokens: u32,
) -> Vec<u64> {
    if hashes.bytes == 0 || hashes.block_bytes == 0 {
        return Vec::new();
    }
    // `max` also turns a NaN into 1.
    let block_bytes = (bytes_per_token * f64::from(block_tokens)).max(1.0);
    let mut start = 0;
    let ends = (1_u64..).map_while(|index| {
        let end = ((index as f64 * block_bytes).round() as u64).min(hashes.bytes);
        let more = start < hashes.bytes;
        start = end;
        more.then_some((index, end))
    });
    ends.map_while(|(index, end)| {
        let within = end.saturating_sub(1) / hashes.block_bytes;
        let hash = hashes.blocks.get(usize::try_from(within).ok()?)?;
        let named = [hash.to_le_bytes(), index.to_le_bytes()];
        Some(secret.hash(named.as_flattened()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{Hashes, Secret, blocks};

    fn of(hashes: &[u64], bytes: u64) -> Vec<u64> {
        let hashes = Hashes {
            blocks: hashes.to_vec(),
            block_bytes: 256,
            bytes,
        };
        blocks(&Secret([7; 32]), &hashes, 4.0, 16)
    }

    #[test]
    fn a_block_is_shared_where_the_bytes_around_its_end_are() {
        let (one, two) = (of(&[1, 2, 3], 700), of(&[1, 2, 4], 700));
        assert_eq!((one.len(), two.len()), (11, 11));
        let shared = one.iter().zip(&two).take_while(|(a, b)| a == b).count();
        assert_eq!(shared, 8, "512 bytes are 8 blocks of 16 tokens");
        assert_eq!(
            one.iter().collect::<std::collections::BTreeSet<_>>().len(),
            11
        );
    }

    #[test]
    fn a_prompt_that_goes_on_keeps_its_whole_blocks() {
        let (short, long) = (of(&[1, 2], 300), of(&[1, 9, 3], 600));
        let shared = short.iter().zip(&long).take_while(|(a, b)| a == b).count();
        assert_eq!(shared, 4, "the second block of bytes was partial");
        assert!(of(&[], 0).is_empty());
        assert!(of(&[], 300).is_empty(), "nobody kept its hashes");
    }
}
