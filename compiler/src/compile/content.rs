//! Stage 8: what prompts hold.
//!
//! `verbatim` keeps the messages that production sent. `synthetic` makes new text of the same
//! lengths with the same sharing. `lengths` makes none. Read in this order: [`parts`] (content by
//! its name), [`exact`] (words that a tokenizer counts), [`trace`] (prompts from block ids), [`text`]
//! (prompts from bodies), [`synthetic`] and [`scrub`] (new words for old).

use super::arrange::Arranged;
use super::ingest::Ingested;
use super::tokenize::Tokenized;
use crate::error::Error;
use crate::recipe::{ContentKind, Recipe};
use exact::Exact;
use parts::{Named, Parts, Prompts};
use std::collections::BTreeMap;

mod exact;
pub(crate) mod parts;
mod rebuild;
mod scrub;
mod synthetic;
mod text;
mod trace;
mod verbatim;

/// Things that were met on the way, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes(BTreeMap<String, u64>);

impl Notes {
    fn count(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    fn merge(&mut self, other: Self) {
        for (what, n) in other.0 {
            *self.0.entry(what).or_default() += n;
        }
    }

    fn findings(self) -> Vec<String> {
        self.0
            .into_iter()
            .map(|(what, n)| format!("{n} turns: {what}"))
            .collect()
    }
}

/// What a set holds beside its turns.
#[derive(Debug)]
pub(crate) struct Made {
    /// The parts, with their names.
    pub(crate) parts: Named,
    /// What the prompt of each turn holds.
    pub(crate) prompts: Prompts,
    /// Things a user should know.
    pub(crate) findings: Vec<String>,
}

/// Makes the content of turns.
pub(crate) fn make(
    arranged: &mut Arranged,
    ingested: &Ingested,
    tokenized: &Tokenized,
    recipe: &Recipe,
    threads: usize,
) -> Result<Made, Error> {
    let mut prompts = Prompts::none_of(arranged.turns.len());
    let mut notes = Notes::default();
    let kind = recipe.content.kind;
    let vocabulary = tokenized.vocabulary.as_ref();
    let vocabulary = vocabulary.filter(|_| kind == ContentKind::Synthetic);
    let (exact, why_not) = match vocabulary.map(Exact::of).transpose() {
        Ok(exact) => (exact, None),
        Err(why) => (None, Some(why)),
    };
    let mut parts = Parts::new(exact.as_ref().map(|exact| exact.stock().clone()));
    if kind != ContentKind::Verbatim {
        // They are text that production sent, and made-up answers do not meet them.
        arranged.turns.iter_mut().for_each(|turn| turn.stop = None);
    }
    if kind != ContentKind::Lengths {
        let maker = text::Maker::new(ingested, exact.as_ref(), tokenized, recipe);
        maker.fill(arranged, &mut parts, &mut prompts, &mut notes, threads)?;
    }
    trace::fill(
        arranged,
        recipe,
        exact.as_ref(),
        &mut parts,
        &mut prompts,
        &mut notes,
    )?;
    if kind == ContentKind::Verbatim && parts.is_empty() {
        return Err(Error::config(
            "recipe",
            "content.kind: `verbatim`, but the captures hold no text; allowed here are \
             `synthetic` and `lengths`",
        ));
    }
    let mut findings = notes.findings();
    findings.extend(why_not);
    let by_bytes = exact.is_none() && !tokenized.exact && tokenized.tokenizer.name != "trace";
    if kind == ContentKind::Synthetic && by_bytes {
        findings.push(
            "synthetic text keeps the bytes of the original, not its tokens: the target will count \
             other lengths than production did"
                .to_owned(),
        );
    }
    Ok(Made {
        parts: parts.named(threads)?,
        prompts,
        findings,
    })
}
