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
use super::exact::Exact;
use super::parts::{Parts, Prompts, Words};
use crate::error::Error;
use crate::recipe::{ContentKind, PromptForm, Recipe};
use truetape_schemas::set::Turn;
use truetape_schemas::wire::Dialect;

/// What separates words for ids from other hashes.
const CONTEXT: &str = "truetape 2026 words of blocks v1";

/// Tokens of a prompt at most: beyond any context there is, and 64 MiB of words.
const PROMPT_TOKENS_MAX: u64 = 16 << 20;

/// Fills the turns that have no content yet.
pub(super) fn fill(
    arranged: &mut Arranged,
    recipe: &Recipe,
    exact: Option<&Exact<'_>>,
    parts: &mut Parts,
    prompts: &mut Prompts,
    notes: &mut Notes,
) -> Result<(), Error> {
    let seeds = Seeds {
        key: blake3::derive_key(CONTEXT, &recipe.seed.to_le_bytes()),
    };
    let form = Form::of(recipe, exact)?;
    // Only prompts that are known by their length ask what their parent's held.
    let asked = arranged
        .turns
        .iter()
        .any(|turn| turn.block_hashes.is_none());
    let mut history: Vec<Vec<Words>> = Vec::new();
    for at in 0..arranged.turns.len() {
        let bare = prompts.is_bare(at);
        let pieces = match arranged.turns.get(at).filter(|_| bare) {
            Some(turn) => seeds.prompt(turn, arranged, &history, notes),
            None => Vec::new(),
        };
        if let Some(turn) = arranged.turns.get_mut(at).filter(|_| bare) {
            let content = finish(turn, &pieces, recipe.content.kind, form, parts, notes);
            prompts.put(at, None, content);
        }
        if asked {
            history.push(pieces);
        }
    }
    Ok(())
}

/// How a prompt of words is sent.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// As one text, around which the target's tokenizer puts so many tokens.
    Text { around: u64 },
    /// As the one message of a chat, around which the template puts so many.
    Chat { around: u64 },
}

impl Form {
    fn of(recipe: &Recipe, exact: Option<&Exact<'_>>) -> Result<Self, Error> {
        match (recipe.content.prompt, exact) {
            (PromptForm::Completions, exact) => Ok(Self::Text {
                around: exact.map_or(0, Exact::around_text),
            }),
            (PromptForm::Chat, Some(exact)) => match exact.around_chat() {
                Ok(around) => Ok(Self::Chat { around }),
                Err(why) => Err(Error::config(
                    "recipe",
                    format!("content.prompt: `chat`, but {why}"),
                )),
            },
            // Nothing is made up, or there are no words to make it of.
            (PromptForm::Chat, None) if recipe.content.kind == ContentKind::Synthetic => {
                let problem =
                    "content.prompt: `chat` needs a tokenizer with words of one token each";
                Err(Error::config("recipe", problem))
            }
            (PromptForm::Chat, None) => Ok(Self::Text { around: 0 }),
        }
    }
}

fn finish(
    turn: &mut Turn,
    pieces: &[Words],
    kind: ContentKind,
    form: Form,
    parts: &mut Parts,
    notes: &mut Notes,
) -> Vec<u32> {
    let traced = turn.dialect == "trace";
    let mut content = Vec::new();
    if kind == ContentKind::Verbatim {
        notes.count("no text was captured; they have lengths only");
    } else if kind == ContentKind::Synthetic && !pieces.is_empty() {
        if !traced {
            notes.count("no text was captured; their prompts are words of the same length");
        }
        content = said(pieces, form, parts, notes);
    }
    if traced || !content.is_empty() {
        let (dialect, path) = match form {
            Form::Text { .. } => (Dialect::OpenaiCompletions, "/v1/completions"),
            Form::Chat { .. } => (Dialect::OpenaiChat, "/v1/chat/completions"),
        };
        dialect.name().clone_into(&mut turn.dialect);
        path.clone_into(&mut turn.path);
    }
    content
}

/// The parts of a prompt that says words.
fn said(pieces: &[Words], form: Form, parts: &mut Parts, notes: &mut Notes) -> Vec<u32> {
    match form {
        Form::Text { around } => {
            if around > 0 {
                notes.count(format!(
                    "the target counts {around} more than the trace says, which its tokenizer puts \
                     around every prompt"
                ));
            }
            pieces.iter().map(|piece| parts.add_words(*piece)).collect()
        }
        Form::Chat { around } => {
            let tokens: u64 = pieces.iter().map(|piece| piece.tokens).sum();
            if tokens <= around {
                notes.count(format!(
                    "the prompt is shorter than the {around} tokens that the template adds; it is as \
                     short as it can be"
                ));
            }
            let words = first(pieces, tokens.saturating_sub(around).max(1));
            vec![parts.add_chat(words)]
        }
    }
}

/// The first so many words of a prompt.
fn first(pieces: &[Words], mut tokens: u64) -> Vec<Words> {
    let mut kept = Vec::new();
    for piece in pieces {
        let taken = piece.tokens.min(tokens);
        tokens -= taken;
        if taken > 0 {
            kept.push(Words {
                tokens: taken,
                ..*piece
            });
        }
    }
    kept
}

/// Seeds for ids.
struct Seeds {
    key: [u8; 32],
}

impl Seeds {
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
        prompts: &[Vec<Words>],
        notes: &mut Notes,
    ) -> Vec<Words> {
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

    fn of_blocks(&self, turn: &Turn, ids: &[u64], tokens: u64, block: u64) -> Vec<Words> {
        let mut left = tokens;
        let pieces = ids.iter().map(|id| {
            let piece = Words {
                seed: self.seed(b"block", &id.to_le_bytes()),
                tokens: block.min(left),
                begins: left == tokens,
            };
            left -= piece.tokens;
            piece
        });
        let mut pieces: Vec<Words> = pieces.filter(|piece| piece.tokens > 0).collect();
        // Hashes of full blocks only: the tail is nobody else's.
        self.push_own(&mut pieces, turn.exchange_id.as_bytes(), left);
        pieces
    }

    fn of_lengths(
        &self,
        turn: &Turn,
        tokens: u64,
        arranged: &Arranged,
        prompts: &[Vec<Words>],
    ) -> Vec<Words> {
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
                    pieces.push(Words {
                        seed,
                        tokens: answer,
                        begins: pieces.is_empty(),
                    });
                }
                left -= answer;
            }
        }
        self.push_own(&mut pieces, turn.exchange_id.as_bytes(), left);
        pieces
    }

    fn push_own(&self, pieces: &mut Vec<Words>, name: &[u8], tokens: u64) {
        if tokens > 0 {
            pieces.push(Words {
                seed: self.seed(b"own", name),
                tokens,
                begins: pieces.is_empty(),
            });
        }
    }
}
