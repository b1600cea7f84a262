//! Prompts for turns without text: from block ids, or from lengths alone.
//!
//! Each block id becomes one part of exactly a block's tokens, so equal ids are equal bytes: the
//! sharing is the trace's own at its block size. At a smaller block size of the target, a shared
//! partial last block is shared too, as far as it goes; nothing else is added.
//!
//! A session without block ids has lengths that include the history: a prompt is its parent's
//! prompt, the parent's answer, and what is new.

use super::super::arrange::Arranged;
use super::Notes;
use super::parts::{Parts, Prompts};
use crate::recipe::{ContentKind, Recipe};
use truetape_schemas::set::Turn;

/// What separates words for ids from other hashes.
const CONTEXT: &str = "truetape 2026 words of blocks v1";

/// Where a prompt of words is sent.
const PATH: &str = "/v1/completions";

/// Tokens of a prompt at most: beyond any context there is, and 64 MiB of words.
const PROMPT_TOKENS_MAX: u64 = 16 << 20;

/// So many tokens of the words of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    seed: u64,
    tokens: u64,
}

/// Fills the turns that have no content yet.
pub(super) fn fill(
    arranged: &mut Arranged,
    recipe: &Recipe,
    parts: &mut Parts,
    prompts: &mut Prompts,
    notes: &mut Notes,
) {
    let words = Words {
        key: blake3::derive_key(CONTEXT, &recipe.seed.to_le_bytes()),
    };
    // Only prompts that are known by their length ask what their parent's held.
    let asked = arranged
        .turns
        .iter()
        .any(|turn| turn.block_hashes.is_none());
    let mut history: Vec<Vec<Piece>> = Vec::new();
    for at in 0..arranged.turns.len() {
        let bare = prompts.is_bare(at);
        let pieces = match arranged.turns.get(at).filter(|_| bare) {
            Some(turn) => words.prompt(turn, arranged, &history, notes),
            None => Vec::new(),
        };
        if let Some(turn) = arranged.turns.get_mut(at).filter(|_| bare) {
            let content = finish(turn, &pieces, recipe.content.kind, parts, notes);
            prompts.put(at, None, content);
        }
        if asked {
            history.push(pieces);
        }
    }
}

fn finish(
    turn: &mut Turn,
    pieces: &[Piece],
    kind: ContentKind,
    parts: &mut Parts,
    notes: &mut Notes,
) -> Vec<u32> {
    let traced = turn.dialect == "trace";
    let mut content = Vec::new();
    if kind == ContentKind::Verbatim {
        notes.count("no text was captured; they have lengths only");
    } else if kind == ContentKind::Synthetic {
        if !traced {
            notes.count("no text was captured; their prompts are words of the same length");
        }
        let numbers = pieces
            .iter()
            .map(|piece| parts.add_words(piece.seed, piece.tokens));
        content.extend(numbers);
    }
    if traced || !content.is_empty() {
        "openai_completions".clone_into(&mut turn.dialect);
        PATH.clone_into(&mut turn.path);
    }
    content
}

/// Words for ids.
struct Words {
    key: [u8; 32],
}

impl Words {
    fn seed(&self, kind: &[u8], name: &[u8]) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(kind);
        hasher.update(name);
        let digest = hasher.finalize();
        let (first, _) = digest.as_bytes().split_at(8);
        first.try_into().map_or(0, u64::from_le_bytes)
    }

    fn prompt(
        &self,
        turn: &Turn,
        arranged: &Arranged,
        prompts: &[Vec<Piece>],
        notes: &mut Notes,
    ) -> Vec<Piece> {
        let Some(tokens) = turn
            .input_tokens
            .and_then(|tokens| u64::try_from(tokens).ok())
        else {
            notes.count("the prompt length is unknown; they have no content");
            return Vec::new();
        };
        if tokens > PROMPT_TOKENS_MAX {
            notes.count("the prompt length is beyond any context; they have no content");
            return Vec::new();
        }
        match (turn.block_tokens, &turn.block_hashes) {
            (Some(block), Some(ids)) if block > 0 => {
                self.of_blocks(turn, ids, tokens, u64::from(block.cast_unsigned()))
            }
            _ => self.of_lengths(turn, tokens, arranged, prompts),
        }
    }

    fn of_blocks(&self, turn: &Turn, ids: &[u64], tokens: u64, block: u64) -> Vec<Piece> {
        let mut left = tokens;
        let pieces = ids.iter().map(|id| {
            let piece = Piece {
                seed: self.seed(b"block", &id.to_le_bytes()),
                tokens: block.min(left),
            };
            left -= piece.tokens;
            piece
        });
        let mut pieces: Vec<Piece> = pieces.filter(|piece| piece.tokens > 0).collect();
        // Hashes of full blocks only: the tail is nobody else's.
        self.push_own(&mut pieces, turn.exchange_id.as_bytes(), left);
        pieces
    }

    fn of_lengths(
        &self,
        turn: &Turn,
        tokens: u64,
        arranged: &Arranged,
        prompts: &[Vec<Piece>],
    ) -> Vec<Piece> {
        let parent = turn
            .retry_of
            .or(turn.parent)
            .and_then(|id| usize::try_from(id).ok());
        let parent = parent.and_then(|at| Some((arranged.turns.get(at)?, prompts.get(at)?)));
        let mut pieces = Vec::new();
        let mut left = tokens;
        if let Some((parent, history)) = parent {
            let sum: u64 = history.iter().map(|piece| piece.tokens).sum();
            // A prompt shorter than its parent's was compacted: what it kept, nobody knows.
            if sum <= tokens {
                pieces.extend(history);
                left -= sum;
                let answer = parent
                    .output_tokens
                    .and_then(|n| u64::try_from(n).ok())
                    .unwrap_or(0);
                let answer = if turn.retry_of.is_some() {
                    0
                } else {
                    answer.min(left)
                };
                let seed = self.seed(b"answer", parent.exchange_id.as_bytes());
                if answer > 0 {
                    pieces.push(Piece {
                        seed,
                        tokens: answer,
                    });
                }
                left -= answer;
            }
        }
        self.push_own(&mut pieces, turn.exchange_id.as_bytes(), left);
        pieces
    }

    fn push_own(&self, pieces: &mut Vec<Piece>, name: &[u8], tokens: u64) {
        if tokens > 0 {
            pieces.push(Piece {
                seed: self.seed(b"own", name),
                tokens,
            });
        }
    }
}
