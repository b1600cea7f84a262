//! The blocks of every prompt: bodies are read once more, since the key of the hashes follows from
//! all of them.

use super::super::ingest::{Ingested, Secret};
use super::super::reading;
use super::super::row::Row;
use super::hashed::{self, Hashes};
use super::ratios::Ratios;
use crate::error::Error;
use crate::talk::Progress;
use crate::tokenizer::Vocabulary;
use crate::{parallel, source};
use std::collections::{BTreeSet, HashMap};
use truetape_fidelity::blocks::{BlockKey, of_rendered, of_tokens};
use truetape_schemas::capture::Exchange;
use truetape_schemas::wire::Dialect;

/// What turns prompts into blocks.
pub(super) struct Meter<'a> {
    pub(super) secret: Secret,
    pub(super) seed: u64,
    pub(super) block_tokens: u32,
    pub(super) ratios: &'a Ratios,
    pub(super) vocabulary: Option<&'a Vocabulary>,
}

/// What came of all prompts.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// Prompts that carry a salt of their own.
    pub(super) salted: usize,
    /// Prompts that the vocabulary or its template could not read, and the first reason.
    pub(super) unread: usize,
    pub(super) why: Option<String>,
    /// Tokens that the vocabulary counts in each prompt, by row.
    pub(super) counted: Vec<(usize, u64)>,
}

/// The blocks of a prompt.
#[derive(Debug, Default)]
struct Blocks {
    blocks: Vec<u64>,
    /// Those that are full.
    full: usize,
    salted: bool,
    counted: Option<u64>,
    unread: Option<String>,
}

/// Fills the block hashes of rows with text.
pub(super) fn fill(
    ingested: &mut Ingested,
    threads: usize,
    meter: &Meter<'_>,
) -> Result<Filled, Error> {
    let index = text_index(&ingested.rows);
    let rows = &ingested.rows;
    let with_text: BTreeSet<u32> = rows
        .iter()
        .filter(|row| row.text.is_some())
        .map(|row| row.segment)
        .collect();
    let mut all: Vec<(usize, Blocks)> = Vec::with_capacity(index.len());
    let mut progress = Progress::new();
    for position in with_text {
        let Some(path) = ingested.segments.get(position as usize) else {
            continue;
        };
        progress.show(&format!("{}: hashing", path.display()));
        for batch in source::open(path)?.0 {
            let hashed = parallel::map(&mut batch?, threads, |exchange| {
                let at = *index.get(exchange.exchange_id.as_str())?;
                let row = rows.get(at).filter(|row| row.segment == position)?;
                Some((at, meter.blocks(row, exchange)?))
            })?;
            all.extend(hashed.into_iter().flatten());
        }
    }
    progress.clear();
    drop(index);
    let mut filled = Filled::default();
    for (at, blocks) in all {
        if let Some(row) = ingested.rows.get_mut(at) {
            filled.put(at, row, blocks, meter.block_tokens);
        }
    }
    Ok(filled)
}

impl Filled {
    fn put(&mut self, at: usize, row: &mut Row, blocks: Blocks, block_tokens: u32) {
        row.full_blocks = blocks.full.min(blocks.blocks.len());
        row.blocks = blocks.blocks;
        row.block_tokens = Some(block_tokens);
        self.salted += usize::from(blocks.salted);
        self.unread += usize::from(blocks.unread.is_some());
        self.why = self.why.take().or(blocks.unread);
        self.counted
            .extend(blocks.counted.map(|tokens| (at, tokens)));
    }
}

impl Meter<'_> {
    fn blocks(&self, row: &Row, exchange: &Exchange) -> Option<Blocks> {
        if row.text.as_ref()?.hashed {
            return self.of_hashes(row, exchange);
        }
        let body = serde_json::from_slice(&reading::plain_body(exchange)?).ok()?;
        let dialect = Dialect::from_name(&exchange.dialect);
        let salt = reading::cache_salt(&body);
        let key = self.key(salt);
        let salted = salt.is_some();
        let mut unread = None;
        if let Some(vocabulary) = self.vocabulary {
            match vocabulary.prompt(dialect, &body) {
                Ok(tokens) => {
                    return Some(Blocks {
                        blocks: of_tokens(&key, &tokens, self.block_tokens, true),
                        full: tokens.len() / self.block_tokens.max(1) as usize,
                        salted,
                        counted: Some(tokens.len() as u64),
                        unread: None,
                    });
                }
                Err(why) => unread = Some(why),
            }
        }
        let rendered = reading::render(dialect, &body)?;
        let ratio = self.ratios.of(row);
        let full = rendered.len() as f64 / (ratio * f64::from(self.block_tokens));
        Some(Blocks {
            blocks: of_rendered(&key, &rendered, ratio, self.block_tokens),
            full: full.floor() as usize,
            salted,
            counted: None,
            unread,
        })
    }

    fn of_hashes(&self, row: &Row, exchange: &Exchange) -> Option<Blocks> {
        let hashes = Hashes {
            blocks: exchange.text_block_hashes.clone()?,
            block_bytes: u64::try_from(exchange.text_block_bytes?).ok()?,
            bytes: row.text.as_ref()?.rendered_bytes,
        };
        let ratio = self.ratios.of(row);
        let full = hashes.bytes as f64 / (ratio * f64::from(self.block_tokens));
        Some(Blocks {
            blocks: hashed::blocks(&self.secret, &hashes, ratio, self.block_tokens),
            full: full.floor() as usize,
            ..Blocks::default()
        })
    }

    /// Production's own salt goes into the key: its cache kept such prompts apart from their first
    /// block on.
    fn key(&self, cache_salt: Option<&str>) -> BlockKey {
        let mut salt = self.secret.0.to_vec();
        salt.extend(self.seed.to_le_bytes());
        salt.extend(cache_salt.unwrap_or_default().as_bytes());
        BlockKey::new(&salt)
    }
}

fn text_index(rows: &[Row]) -> HashMap<&str, usize> {
    let with_text = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.text.is_some());
    with_text
        .map(|(at, row)| (row.exchange_id.as_str(), at))
        .collect()
}
