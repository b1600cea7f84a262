//! Texts that are as many tokens as they should be, as the target's own tokenizer counts them.

use crate::tokenizer::Vocabulary;
use crate::tokenizer::stock::Stock;
use serde_json::{Value, json};
use truetape_schemas::wire::Dialect;

/// A vocabulary, and its words of one token.
#[derive(Debug)]
pub(super) struct Exact<'a> {
    vocabulary: &'a Vocabulary,
    stock: Stock,
}

impl<'a> Exact<'a> {
    /// What a vocabulary allows; the error says why it allows nothing.
    pub(super) fn of(vocabulary: &'a Vocabulary) -> Result<Self, String> {
        let stock = Stock::of(vocabulary).ok_or(
            "the recipe's tokenizer has too few words that are one token each: synthetic text \
             keeps the bytes of the original, not its tokens",
        )?;
        Ok(Self { vocabulary, stock })
    }

    /// Its words.
    pub(super) fn stock(&self) -> &Stock {
        &self.stock
    }

    /// The tokens of a text that stands in a prompt.
    pub(super) fn ids(&self, text: &str) -> Option<Vec<u32>> {
        self.vocabulary.encode(text, false).ok()
    }

    /// Tokens of a prompt; none where the template refuses it.
    pub(super) fn count(&self, dialect: Dialect, body: &Value) -> Option<i64> {
        let ids = self.vocabulary.prompt(dialect, body).ok()?;
        i64::try_from(ids.len()).ok()
    }

    /// Tokens that the tokenizer puts around a prompt that is one text.
    pub(super) fn around_text(&self) -> u64 {
        let ids = self.vocabulary.encode("", true).unwrap_or_default();
        ids.len() as u64
    }

    /// Tokens that the template puts around the one message of a chat.
    pub(super) fn around_chat(&self) -> Result<u64, String> {
        const WORDS: u64 = 2;
        let text = self.stock.text(0, WORDS, true);
        let chat = json!({"messages": [{"role": "user", "content": text}]});
        let ids = self.vocabulary.prompt(Dialect::OpenaiChat, &chat)?;
        Ok((ids.len() as u64).saturating_sub(WORDS))
    }
}
