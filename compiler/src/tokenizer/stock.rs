//! Words that are one token each wherever they stand, so that a text of n of them is n tokens.
//!
//! Token ids that are drawn and decoded make a text that encodes to another number of ids: two
//! tokens that meet can be one. Whole words behind single spaces cannot, in any vocabulary that
//! splits text at spaces, and that this vocabulary does is tried before it is believed.

use super::Vocabulary;
use std::collections::BTreeSet;

/// Ids that are looked at: vocabularies have their commonest words first.
const IDS: u32 = 1 << 16;

/// Words in a stock at most.
const WORDS_MAX: usize = 1_024;

/// Words in a stock at least: with 32, two blocks of 16 tokens agree by chance once in 2^80.
const WORDS_MIN: usize = 32;

/// Letters of a word at least: a lone letter is part of many things.
const LETTERS_MIN: usize = 2;

/// Letters of a word at most: long ones cost bytes on the wire, and say nothing more.
const LETTERS_MAX: usize = 8;

/// Words of a text that is tried, and texts.
const TRIED_WORDS: u64 = 512;
const TRIED_TEXTS: u64 = 32;

/// A stock of words.
#[derive(Clone, Debug)]
pub struct Stock {
    words: Vec<String>,
}

impl Stock {
    /// The words of a vocabulary; none where it has too few, or does not split text at spaces.
    pub fn of(vocabulary: &Vocabulary) -> Option<Self> {
        let mut found = BTreeSet::new();
        let mut words = Vec::new();
        for id in 0..IDS {
            let Some(word) = word_of(vocabulary, id) else {
                continue;
            };
            if words.len() < WORDS_MAX && found.insert(word.clone()) {
                words.push(word);
            }
        }
        let stock = Self { words };
        (stock.words.len() >= WORDS_MIN && stock.holds(vocabulary)).then_some(stock)
    }

    /// Whether texts of any words are as many tokens as words.
    fn holds(&self, vocabulary: &Vocabulary) -> bool {
        (0..TRIED_TEXTS).all(|seed| {
            let text = self.text(seed, TRIED_WORDS, true);
            tokens(vocabulary, &text) == Some(TRIED_WORDS)
        })
    }

    /// The word that a number picks.
    pub fn word(&self, number: u64) -> &str {
        let words = self.words.len() as u64;
        let at = usize::try_from(number % words.max(1)).unwrap_or(0);
        self.words.get(at).map_or("", String::as_str)
    }

    /// Text of exactly so many tokens, of the words of a seed. One that begins a text has no space
    /// before it; one that goes on has.
    pub fn text(&self, seed: u64, tokens: u64, begins: bool) -> String {
        let mut text = String::with_capacity(self.bytes_of(tokens));
        for index in 0..tokens {
            if index > 0 || !begins {
                text.push(' ');
            }
            text.push_str(self.word(mix(seed ^ mix(index))));
        }
        text
    }

    /// Bytes of so many words at most.
    pub fn bytes_of(&self, tokens: u64) -> usize {
        let words = usize::try_from(tokens).unwrap_or(usize::MAX);
        words.saturating_mul(LETTERS_MAX + 1)
    }
}

/// The word that a token is, where it is one alone and behind another.
fn word_of(vocabulary: &Vocabulary, id: u32) -> Option<String> {
    let decoded = vocabulary.decode(&[id]).ok()?;
    let word = decoded.trim_start();
    let is_word = (LETTERS_MIN..=LETTERS_MAX).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let holds = is_word
        && tokens(vocabulary, word) == Some(1)
        && tokens(vocabulary, &format!("{word} {word}")) == Some(2);
    holds.then(|| word.to_owned())
}

fn tokens(vocabulary: &Vocabulary, text: &str) -> Option<u64> {
    let ids = vocabulary.encode(text, false).ok()?;
    u64::try_from(ids.len()).ok()
}

/// The finaliser of SplitMix64: neighbours become strangers.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
