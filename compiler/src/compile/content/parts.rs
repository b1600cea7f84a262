//! Content by its name: shared history is stored once.

use std::collections::{BTreeMap, HashMap};
use truetape_fidelity::tokens::{BYTES_PER_TOKEN, output_word};
use truetape_schemas::ids::content_id;
use truetape_schemas::set::{Content, ContentKind};

/// The parts of a set, ordered by name.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    by_id: BTreeMap<String, Part>,
    /// Names of words that were made already.
    words: HashMap<(u64, u64), String>,
}

#[derive(Debug)]
struct Part {
    kind: ContentKind,
    tokens: Option<i64>,
    body: Body,
}

/// Words can be made again, so only their seed is kept: a whole trace is gigabytes of them.
#[derive(Debug)]
enum Body {
    Bytes(Vec<u8>),
    Words { seed: u64, tokens: u64 },
}

impl Parts {
    /// Adds bytes, and returns their name.
    pub(crate) fn add(&mut self, kind: ContentKind, tokens: Option<i64>, bytes: Vec<u8>) -> String {
        let id = content_id(&bytes);
        let part = || Part {
            kind,
            tokens,
            body: Body::Bytes(bytes),
        };
        self.by_id.entry(id.clone()).or_insert_with(part);
        id
    }

    /// Adds a text of so many words of one token each, and returns its name.
    pub(crate) fn add_words(&mut self, seed: u64, tokens: u64) -> String {
        if let Some(id) = self.words.get(&(seed, tokens)) {
            return id.clone();
        }
        let id = content_id(words(seed, tokens).as_bytes());
        let part = Part {
            kind: ContentKind::Text,
            tokens: i64::try_from(tokens).ok(),
            body: Body::Words { seed, tokens },
        };
        self.by_id.entry(id.clone()).or_insert(part);
        self.words.insert((seed, tokens), id.clone());
        id
    }

    /// Number of parts.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The names, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.by_id.keys().map(String::as_str)
    }

    /// The rows of `content.parquet`, in order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Content> {
        self.by_id.iter().map(|(id, part)| Content {
            content_id: id.clone(),
            kind: part.kind,
            tokens: part.tokens,
            body: match &part.body {
                Body::Bytes(bytes) => bytes.clone(),
                Body::Words { seed, tokens } => words(*seed, *tokens).into_bytes(),
            },
        })
    }
}

/// Text of exactly so many tokens. Different seeds share no whole block of 16 tokens but by
/// chance: each token is one word of many, chosen by the seed.
pub(crate) fn words(seed: u64, tokens: u64) -> String {
    let capacity = usize::try_from(tokens)
        .unwrap_or(0)
        .saturating_mul(BYTES_PER_TOKEN);
    let mut text = String::with_capacity(capacity);
    text.extend((0..tokens).map(|index| output_word(seed, index)));
    text
}

#[cfg(test)]
mod tests {
    use super::{Parts, words};
    use truetape_fidelity::tokens::{count, render_completion};
    use truetape_schemas::ids::content_id;
    use truetape_schemas::set::ContentKind;

    #[test]
    fn words_have_the_length_asked_for_and_depend_on_the_seed() {
        for tokens in [0, 1, 16, 513] {
            assert_eq!(count(&render_completion(&words(7, tokens))), tokens);
        }
        assert!(words(7, 100).starts_with(&words(7, 40)));
        let block = |seed| words(seed, 16);
        let distinct: std::collections::BTreeSet<String> = (0..10_000).map(block).collect();
        assert_eq!(distinct.len(), 10_000);
    }

    #[test]
    fn equal_parts_are_stored_once_under_the_name_of_their_bytes() {
        let mut parts = Parts::default();
        let a = parts.add(ContentKind::Message, None, b"x".to_vec());
        assert_eq!(a, parts.add(ContentKind::Message, None, b"x".to_vec()));
        let w = parts.add_words(3, 9);
        assert_eq!(w, parts.add_words(3, 9));
        assert_eq!(parts.len(), 2);
        for row in parts.rows() {
            assert_eq!(row.content_id, content_id(&row.body));
        }
    }
}
