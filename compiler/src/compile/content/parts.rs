//! Content by its name: shared history is stored once.
//!
//! While prompts are made, a part is a number: a whole trace has millions of parts, each in many
//! prompts, and their names would be most of what a set takes in memory. Names come when all parts
//! are known, and turns get theirs when they are written.

use crate::error::Error;
use crate::parallel;
use crate::tokenizer::stock::Stock;
use std::borrow::Cow;
use std::collections::HashMap;
use truetape_fidelity::tokens::{BYTES_PER_TOKEN, output_word};
use truetape_schemas::ids::CONTENT_ID_CHARS;
use truetape_schemas::set::{Content, ContentKind, Turn};

/// Bytes of a name.
const ID_BYTES: usize = CONTENT_ID_CHARS / 2;

/// A name, as bytes.
type Id = [u8; ID_BYTES];

/// Bytes of made-up text at once, for each thread.
const WORDS_BATCH_BYTES: usize = 1 << 20;

/// The parts of a set, by number.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    parts: Vec<Part>,
    by_bytes: HashMap<Id, u32>,
    by_words: HashMap<Words, u32>,
    stock: Option<Stock>,
}

/// So many tokens of the words of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Words {
    pub(crate) seed: u64,
    pub(crate) tokens: u64,
    /// Whether a prompt begins with them.
    pub(crate) begins: bool,
}

#[derive(Clone, Debug)]
struct Part {
    kind: ContentKind,
    tokens: Option<i64>,
    body: Body,
}

/// Words can be made again, so only their seed is kept: a whole trace is gigabytes of them.
#[derive(Clone, Debug)]
enum Body {
    Bytes(Box<[u8]>),
    Words(Words),
    /// A message of a user that says them.
    Chat(Box<[Words]>),
}

impl Parts {
    /// None yet. Words are those of a vocabulary, or of the reference engine.
    pub(crate) fn new(stock: Option<Stock>) -> Self {
        Self {
            stock,
            ..Self::default()
        }
    }

    /// Adds bytes, and returns their number.
    pub(crate) fn add(&mut self, kind: ContentKind, tokens: Option<i64>, bytes: Vec<u8>) -> u32 {
        let next = self.next();
        let number = *self.by_bytes.entry(id(&bytes)).or_insert(next);
        if number == next {
            self.parts.push(Part {
                kind,
                tokens,
                body: Body::Bytes(bytes.into_boxed_slice()),
            });
        }
        number
    }

    /// Adds a text of so many words of one token each, and returns its number.
    pub(crate) fn add_words(&mut self, words: Words) -> u32 {
        let next = self.next();
        let number = *self.by_words.entry(words).or_insert(next);
        if number == next {
            self.parts.push(Part {
                kind: ContentKind::Text,
                tokens: i64::try_from(words.tokens).ok(),
                body: Body::Words(words),
            });
        }
        number
    }

    /// Adds a message of a user that says words, and returns its number.
    pub(crate) fn add_chat(&mut self, words: Vec<Words>) -> u32 {
        let number = self.next();
        self.parts.push(Part {
            kind: ContentKind::Message,
            tokens: None,
            body: Body::Chat(words.into_boxed_slice()),
        });
        number
    }

    fn next(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Gives every part its name.
    pub(crate) fn named(mut self, threads: usize) -> Result<Named, Error> {
        let stock = self.stock;
        let ids = parallel::map(&mut self.parts, threads, |part| {
            id(&part.body.bytes(stock.as_ref()))
        })?;
        let count = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        let mut order: Vec<u32> = (0..count).collect();
        let name = |number: &u32| ids.get(*number as usize).copied().unwrap_or_default();
        order.sort_by_key(name);
        // The same bytes can have been made in two ways.
        order.dedup_by_key(|number| name(number));
        Ok(Named {
            parts: self.parts,
            ids,
            order,
            stock,
        })
    }
}

/// The parts of a set that is ready to be written.
#[derive(Debug)]
pub(crate) struct Named {
    parts: Vec<Part>,
    ids: Vec<Id>,
    /// Numbers in the order of their names, each name once.
    order: Vec<u32>,
    stock: Option<Stock>,
}

impl Named {
    /// Number of parts.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The name of a part.
    pub(crate) fn name(&self, number: u32) -> String {
        hex(&self.ids.get(number as usize).copied().unwrap_or_default())
    }

    /// The names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.order.iter().map(|number| self.name(*number))
    }

    /// The rows of `content.parquet` in order, as batches that are made over threads.
    pub(crate) fn batches(
        &self,
        threads: usize,
        bytes_max: usize,
    ) -> impl Iterator<Item = Result<Vec<Content>, Error>> {
        let mut rest = self.order.as_slice();
        std::iter::from_fn(move || {
            let mut bytes = 0;
            let fits = |number: &&u32| {
                let before = bytes;
                bytes += self.bytes_of(**number);
                before < bytes_max
            };
            let n = rest.iter().take_while(fits).count();
            let (batch, others) = rest.split_at(n);
            rest = others;
            let mut batch = batch.to_vec();
            (!batch.is_empty()).then(|| parallel::map(&mut batch, threads, |n| self.row(*n)))
        })
    }

    /// Bytes that a batch may hold: each thread makes its share of it.
    pub(crate) fn batch_bytes(threads: usize) -> usize {
        WORDS_BATCH_BYTES * threads.clamp(1, 16)
    }

    fn bytes_of(&self, number: u32) -> usize {
        let words = |words: &Words| match &self.stock {
            Some(stock) => stock.bytes_of(words.tokens),
            None => usize::try_from(words.tokens)
                .unwrap_or(usize::MAX)
                .saturating_mul(BYTES_PER_TOKEN),
        };
        match self.parts.get(number as usize).map(|part| &part.body) {
            Some(Body::Bytes(bytes)) => bytes.len(),
            Some(Body::Words(one)) => words(one),
            Some(Body::Chat(all)) => all.iter().map(words).fold(0, usize::saturating_add),
            None => 0,
        }
    }

    fn row(&self, number: u32) -> Content {
        let Some(part) = self.parts.get(number as usize) else {
            return Content::default();
        };
        Content {
            content_id: self.name(number),
            kind: part.kind,
            tokens: part.tokens,
            body: part.body.bytes(self.stock.as_ref()).into_owned(),
        }
    }
}

/// What the prompts of turns hold, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prompts(Vec<Prompt>);

/// What one prompt holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Prompt {
    template: Option<u32>,
    content: Box<[u32]>,
}

impl Prompts {
    /// So many prompts that hold nothing.
    pub(crate) fn none_of(turns: usize) -> Self {
        Self(vec![Prompt::default(); turns])
    }

    /// Fills the prompt of a turn.
    pub(crate) fn put(&mut self, turn: usize, template: Option<u32>, content: Vec<u32>) {
        if let Some(prompt) = self.0.get_mut(turn) {
            *prompt = Prompt {
                template,
                content: content.into_boxed_slice(),
            };
        }
    }

    /// Whether a turn has neither a template nor content.
    pub(crate) fn is_bare(&self, turn: usize) -> bool {
        let prompt = self.0.get(turn);
        prompt.is_none_or(|prompt| prompt.template.is_none() && prompt.content.is_empty())
    }

    /// The turns with the names of their content, as they are written.
    pub(crate) fn fill<'a>(
        &'a self,
        turns: &'a [Turn],
        parts: &'a Named,
    ) -> impl Iterator<Item = Turn> + 'a {
        turns.iter().zip(&self.0).map(|(turn, prompt)| Turn {
            template: prompt.template.map(|number| parts.name(number)),
            content: prompt
                .content
                .iter()
                .map(|number| parts.name(*number))
                .collect(),
            ..turn.clone()
        })
    }
}

/// The first bytes of the digest that names a part.
fn id(bytes: &[u8]) -> Id {
    let digest = blake3::hash(bytes);
    let (first, _) = digest.as_bytes().split_at(ID_BYTES);
    first.try_into().unwrap_or_default()
}

fn hex(id: &Id) -> String {
    let mut text = String::with_capacity(CONTENT_ID_CHARS);
    for byte in id {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    text
}

impl Body {
    fn bytes(&self, stock: Option<&Stock>) -> Cow<'_, [u8]> {
        let text = |of: &Words| match stock {
            Some(stock) => stock.text(of.seed, of.tokens, of.begins),
            None => words(of.seed, of.tokens),
        };
        match self {
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            Self::Words(one) => Cow::Owned(text(one).into_bytes()),
            Self::Chat(all) => {
                let said: String = all.iter().map(text).collect();
                let message = serde_json::json!({"role": "user", "content": said});
                Cow::Owned(message.to_string().into_bytes())
            }
        }
    }
}

/// Text of exactly so many tokens. Different seeds share no whole block of 16 tokens but by
/// chance: each token is one word of many, chosen by the seed.
pub(crate) fn words(seed: u64, tokens: u64) -> String {
    let capacity = usize::try_from(tokens)
        .unwrap_or(0)
        .saturating_mul(BYTES_PER_TOKEN);
    let mut text = String::with_capacity(capacity);
    for index in 0..tokens {
        text.push_str(output_word(seed, index));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Parts, Prompts, Words, words};
    use truetape_fidelity::tokens::{count, render_completion};
    use truetape_schemas::ids::content_id;
    use truetape_schemas::set::{Content, ContentKind, Turn};

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
        let nine = Words {
            seed: 3,
            tokens: 9,
            begins: false,
        };
        let w = parts.add_words(nine);
        assert_eq!(w, parts.add_words(nine));
        // The same bytes, made in another way.
        let same = parts.add(ContentKind::Text, Some(9), words(3, 9).into_bytes());
        let mut prompts = Prompts::none_of(2);
        prompts.put(1, Some(a), vec![w, same]);
        assert!(prompts.is_bare(0) && !prompts.is_bare(1));
        let parts = parts.named(2).unwrap();
        assert_eq!(parts.len(), 2);
        let batches: Vec<Vec<Content>> = parts.batches(2, 1).collect::<Result<_, _>>().unwrap();
        assert_eq!(batches.len(), 2, "a part each, where two are too much");
        let rows: Vec<Content> = batches.concat();
        let ids: Vec<String> = rows.iter().map(|row| content_id(&row.body)).collect();
        assert!(ids.is_sorted());
        assert_eq!(ids, parts.names().collect::<Vec<_>>());
        assert_eq!(
            ids,
            rows.iter()
                .map(|row| row.content_id.clone())
                .collect::<Vec<_>>()
        );
        let turns = vec![Turn::default(); 2];
        let filled: Vec<Turn> = prompts.fill(&turns, &parts).collect();
        assert_eq!(filled[0], turns[0]);
        assert_eq!(filled[1].content, [parts.name(w), parts.name(w)]);
        assert_eq!(filled[1].template, Some(content_id(b"x")));
    }
}
