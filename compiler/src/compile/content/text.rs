//! Prompts for turns with text: their bodies are read once more, and only theirs.

use super::super::arrange::Arranged;
use super::super::ingest::Ingested;
use super::super::reading;
use super::super::tokenize::Tokenized;
use super::Notes;
use super::exact::Exact;
use super::parts::{Parts, Prompts};
use super::rebuild::{self, Piece, Prompt};
use super::synthetic::Synthetic;
use super::verbatim;
use crate::error::Error;
use crate::recipe::{ContentKind, Recipe};
use crate::talk::Progress;
use crate::{parallel, source};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use truetape_fidelity::tokens;
use truetape_schemas::capture::Exchange;
use truetape_schemas::capture::blob::Blobs;
use truetape_schemas::set::{ContentKind as PartKind, Turn};
use truetape_schemas::wire::Dialect;

/// Makes prompts from bodies.
pub(super) struct Maker<'a> {
    ingested: &'a Ingested,
    synthetic: Option<Synthetic<'a>>,
    /// How synthetic prompts are counted, where the recipe names a tokenizer.
    vocabulary: Option<&'a Exact<'a>>,
    /// Whether the rendered prompt can be counted.
    exact: bool,
}

/// What became of one body.
struct Made {
    turn: usize,
    prompt: Prompt,
    notes: Notes,
}

impl<'a> Maker<'a> {
    /// Prepares for a recipe.
    pub(super) fn new(
        ingested: &'a Ingested,
        vocabulary: Option<&'a Exact<'a>>,
        tokenized: &Tokenized,
        recipe: &Recipe,
    ) -> Self {
        let synthetic = (recipe.content.kind == ContentKind::Synthetic)
            .then(|| Synthetic::new(&ingested.secret, recipe.seed, vocabulary));
        Self {
            ingested,
            synthetic,
            vocabulary,
            exact: tokenized.exact,
        }
    }

    /// Fills the content of every turn whose body holds a prompt.
    pub(super) fn fill(
        &self,
        arranged: &Arranged,
        parts: &mut Parts,
        prompts: &mut Prompts,
        notes: &mut Notes,
        threads: usize,
    ) -> Result<(), Error> {
        let index = index(arranged);
        let mut progress = Progress::new();
        for position in self.segments_of(arranged) {
            let Some(path) = self.ingested.segments.get(position as usize) else {
                continue;
            };
            progress.show(&format!("{}: content", path.display()));
            let mut blobs = Blobs::default();
            for batch in parallel::ahead(source::open(path)?.0)? {
                let mut batch = batch??;
                // Each is kept in one row of its segment, the first that has it.
                batch.iter().for_each(|exchange| blobs.remember(exchange));
                let place = Place {
                    position,
                    blobs: &blobs,
                };
                let made = self.batch(arranged, &index, &place, &mut batch, threads)?;
                for made in made.into_iter().flatten() {
                    notes.merge(made.notes);
                    put(made.turn, made.prompt, parts, prompts);
                }
            }
        }
        progress.clear();
        Ok(())
    }

    /// The segments that hold bodies of chosen turns.
    fn segments_of(&self, arranged: &Arranged) -> BTreeSet<u32> {
        let rows = arranged
            .rows
            .iter()
            .filter_map(|at| self.ingested.rows.get(*at));
        rows.filter(|row| row.dialect != Dialect::Trace)
            .map(|row| row.segment)
            .collect()
    }

    fn batch(
        &self,
        arranged: &Arranged,
        index: &HashMap<String, usize>,
        place: &Place<'_>,
        batch: &mut [Exchange],
        threads: usize,
    ) -> Result<Vec<Option<Made>>, Error> {
        parallel::map(batch, threads, |exchange| {
            let at = *index.get(exchange.exchange_id.as_str())?;
            let turn = arranged.turns.get(at)?;
            let row = self.ingested.rows.get(*arranged.rows.get(at)?)?;
            (row.segment == place.position)
                .then(|| self.make(at, turn, exchange, place.blobs))
                .flatten()
        })
    }

    fn make(&self, at: usize, turn: &Turn, exchange: &Exchange, blobs: &Blobs) -> Option<Made> {
        let mut notes = Notes::default();
        let body = match &self.synthetic {
            // A blank picture needs the sides of the old one.
            Some(_) => match blobs.request_body(exchange) {
                Some(body) if exchange.request_blobs.is_some() => body,
                _ => reading::plain_body(exchange)?,
            },
            None => whole_body(exchange, blobs, &mut notes)?,
        };
        let body = body.as_ref();
        let dialect = Dialect::from_name(&exchange.dialect);
        let mut prompt = match &self.synthetic {
            Some(synthetic) => {
                let body: Map<String, Value> = serde_json::from_slice(body).ok()?;
                let prompt = synthetic.prompt(dialect, &body, &mut notes)?;
                if let Some(exact) = self.vocabulary {
                    compare(exact, dialect, body, &prompt, &mut notes);
                }
                prompt
            }
            None => match verbatim::prompt(dialect, body) {
                Some(prompt) => prompt,
                None => {
                    notes.count("the prompt is not text; the body is kept whole");
                    Prompt {
                        template: verbatim::whole(body)?,
                        ..Prompt::default()
                    }
                }
            },
        };
        if self.exact && !prompt.pieces.is_empty() {
            count_pieces(dialect, &mut prompt.pieces);
            check(dialect, &prompt, turn, &mut notes);
        }
        Some(Made {
            turn: at,
            prompt,
            notes,
        })
    }
}

/// Where a batch is from.
struct Place<'a> {
    position: u32,
    blobs: &'a Blobs,
}

/// The body as production sent it, with the images in it.
fn whole_body<'a>(
    exchange: &'a Exchange,
    blobs: &Blobs,
    notes: &mut Notes,
) -> Option<Cow<'a, [u8]>> {
    if exchange.request_blobs.is_none() {
        return reading::plain_body(exchange);
    }
    let whole = blobs.request_body(exchange);
    if whole.is_none() {
        notes.count(
            "images or sounds were not kept (`truetape record --blobs keep` keeps them): references \
             stand in their place, which the target may refuse",
        );
    }
    whole.or_else(|| reading::plain_body(exchange))
}

fn index(arranged: &Arranged) -> HashMap<String, usize> {
    let turns = arranged.turns.iter().enumerate();
    turns
        .map(|(at, turn)| (turn.exchange_id.clone(), at))
        .collect()
}

/// What the set plans is what its content holds, or it is said.
fn check(dialect: Dialect, prompt: &Prompt, turn: &Turn, notes: &mut Notes) {
    let rendered = rebuild::body(dialect, prompt).and_then(|body| reading::render(dialect, &body));
    let counted = rendered.and_then(|rendered| i64::try_from(tokens::count(&rendered)).ok());
    if turn.input_tokens.is_some() && counted != turn.input_tokens {
        notes.count("the content does not render to as many tokens as production counted");
    }
}

/// A template may treat a message by what stands behind it: then counts differ, and it is said.
fn compare(
    exact: &Exact<'_>,
    dialect: Dialect,
    old: Map<String, Value>,
    prompt: &Prompt,
    notes: &mut Notes,
) {
    let wanted = exact.count(dialect, &Value::Object(old));
    let found = rebuild::body(dialect, prompt).and_then(|new| exact.count(dialect, &new));
    if wanted.is_none() || found != wanted {
        notes.count(
            "the synthetic prompt is of another number of tokens than the original, by the recipe's \
             tokenizer and template",
        );
    }
}

/// Tokens of each piece, alone.
fn count_pieces(dialect: Dialect, pieces: &mut [Piece]) {
    let list = rebuild::list_field(dialect).unwrap_or("messages");
    let answer_header = tokens::count(&tokens::render_chat(&Value::Null));
    for piece in pieces {
        let rendered = match piece.kind {
            PartKind::Message => {
                let message: Value = serde_json::from_slice(&piece.body).unwrap_or_default();
                let rendered = reading::render(dialect, &serde_json::json!({list: [message]}));
                tokens::count(&rendered.unwrap_or_default()).saturating_sub(answer_header)
            }
            PartKind::Text | PartKind::Template => tokens::count(&piece.body),
        };
        piece.tokens = i64::try_from(rendered).ok();
    }
}

fn put(turn: usize, prompt: Prompt, parts: &mut Parts, prompts: &mut Prompts) {
    let template = parts.add(PartKind::Template, None, prompt.template);
    let pieces = prompt.pieces.into_iter();
    let content = pieces.map(|piece| parts.add(piece.kind, piece.tokens, piece.body));
    prompts.put(turn, Some(template), content.collect());
}
