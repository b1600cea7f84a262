//! What blocks of text alone tell: the prototype that the reference figures were measured with.
//!
//! A prompt is cut into blocks of 256 bytes, chained. It continues the request that holds its
//! deepest known block, where at least 90 % of that request's blocks are shared.

use crate::data::Labelled;
use crate::judge::Ties;
use std::collections::{HashMap, HashSet};
use truetape_fidelity::blocks::{BlockKey, chain};

const BLOCK_BYTES: usize = 256;
const COVERED_MIN: f64 = 0.9;

/// The ties that blocks tell.
pub(crate) fn blocks(labelled: &Labelled) -> Ties {
    let key = BlockKey::new(b"baseline");
    let mut latest: HashMap<u64, (usize, usize)> = HashMap::new();
    let mut ties = Ties {
        tied_to: Vec::new(),
        sessions: Vec::new(),
        left: HashSet::new(),
    };
    for (at, prompt) in labelled.prompts.iter().enumerate() {
        let (whole, _) = prompt.as_chunks::<BLOCK_BYTES>();
        let hashes = chain(&key, whole.iter().map(<[u8; BLOCK_BYTES]>::as_slice));
        let deepest = hashes.iter().enumerate().rev();
        let found = deepest
            .into_iter()
            .find_map(|(depth, hash)| Some((depth, *latest.get(hash)?)));
        let parent = found.and_then(|(depth, (row, blocks))| {
            ((depth + 1) as f64 >= COVERED_MIN * blocks as f64).then_some(row)
        });
        ties.tied_to.push(parent);
        let session = parent.and_then(|parent| ties.sessions.get(parent).copied());
        ties.sessions.push(session.unwrap_or(at));
        for hash in &hashes {
            latest.insert(*hash, (at, hashes.len()));
        }
        if labelled.rows[at].max_tokens == Some(1) {
            ties.left.insert(at);
        }
    }
    ties
}
