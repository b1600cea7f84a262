//! Stages 2 and 3: what a token is, and the chained block hashes of every prompt.
//!
//! Read in this order: [`ratios`] (bytes of a token, told by reported usage), [`fill`] (the blocks
//! of every prompt), [`hashed`] (the same where only a recorder's hashes are there).

use super::account::Account;
use super::ingest::Ingested;
use super::row::Row;
use crate::error::Error;
use crate::recipe::{AUTO, BYTES_4, Recipe};
use crate::tokenizer::Vocabulary;
use fill::{Filled, Meter};
use ratios::{Ratios, mean, relative, reported};
use std::collections::BTreeSet;
use truetape_fidelity::tokens::BYTES_PER_TOKEN;
use truetape_schemas::set::manifest::{Stage, Tokenizer};

mod fill;
mod hashed;
mod ratios;

/// Share of the rows whose reported length must be the reference engine's own count.
const EXACT_SHARE_MIN: f64 = 0.99;

/// Error of a vocabulary against reported usage that is not worth a word: special tokens at the
/// ends of a prompt.
const VOCABULARY_ERROR_MAX: f64 = 0.01;

/// The name of four bytes a token where nothing says how long a token is.
const ASSUMED: &str = "assumed";

/// What a token is.
#[derive(Debug)]
pub(crate) struct Tokenized {
    /// What goes into the manifest.
    pub(crate) tokenizer: Tokenizer,
    /// Whether lengths of text are counts, not estimates.
    pub(crate) exact: bool,
    /// Tokens in a block; none when no row has blocks.
    pub(crate) block_tokens: Option<u32>,
    /// The vocabulary that the recipe names.
    pub(crate) vocabulary: Option<Vocabulary>,
    /// The account of this stage.
    pub(crate) stage: Stage,
    /// Things a user should know.
    pub(crate) findings: Vec<String>,
}

/// Decides what a token is, and fills the block hashes of rows with text.
pub(crate) fn tokenize(
    ingested: &mut Ingested,
    recipe: &Recipe,
    threads: usize,
) -> Result<Tokenized, Error> {
    let rows = &mut ingested.rows;
    let mut account = Account::new("tokenize", rows.len());
    mark(rows, &mut account);
    let traced = traced_block_tokens(rows)?;
    if rows.iter().all(|row| row.text.is_none()) {
        let vocabulary = Vocabulary::of(&recipe.tokens)?;
        return Ok(of_traces(vocabulary, traced, account.close(rows.len())));
    }
    let mut findings = findings_about(rows);
    let vocabulary = Vocabulary::of(&recipe.tokens)?;
    let (mut tokenizer, ratios) = match &vocabulary {
        Some(vocabulary) => (vocabulary.described(), Ratios::calibrated(rows)),
        None => choose(rows, &recipe.tokens.tokenizer, &mut findings),
    };
    if recipe.tokens.tokenizer == BYTES_4 {
        account.mark("length_counted", count_unreported(rows));
    }
    let block_tokens = traced.unwrap_or(recipe.tokens.block_tokens);
    if block_tokens != recipe.tokens.block_tokens {
        findings.push(format!(
            "text is hashed in blocks of {block_tokens} tokens, as the trace beside it"
        ));
    }
    let meter = Meter {
        secret: ingested.secret,
        seed: recipe.seed,
        block_tokens,
        ratios: &ratios,
        vocabulary: vocabulary.as_ref(),
    };
    let filled = fill::fill(ingested, threads, &meter)?;
    account.mark("cache_salt", filled.salted);
    if filled.salted > 0 {
        findings.push(format!(
            "{} requests carry a cache_salt: prompts of different salts share no prefix, as in \
             production's cache",
            filled.salted
        ));
    }
    if vocabulary.is_some() {
        let counted = judge(&mut ingested.rows, &filled, &mut tokenizer, &mut findings);
        account.mark("length_counted", counted);
    }
    let exact = tokenizer.name == BYTES_4;
    Ok(Tokenized {
        tokenizer,
        exact,
        block_tokens: Some(block_tokens),
        vocabulary,
        stage: account.close(ingested.rows.len()),
        findings,
    })
}

/// Traces bring their lengths; a vocabulary is for the words that are made up for them.
fn of_traces(vocabulary: Option<Vocabulary>, block_tokens: Option<u32>, stage: Stage) -> Tokenized {
    let described = vocabulary.as_ref().map(Vocabulary::described);
    Tokenized {
        tokenizer: Tokenizer {
            name: "trace".to_owned(),
            ..described.unwrap_or_default()
        },
        exact: false,
        block_tokens,
        vocabulary,
        stage,
        findings: Vec::new(),
    }
}

fn mark(rows: &[Row], account: &mut Account) {
    let of = |holds: fn(&Row) -> bool| rows.iter().filter(|row| holds(row)).count();
    let text =
        |row: &Row, holds: fn(&super::row::Text) -> bool| row.text.as_deref().is_some_and(holds);
    account.mark(
        "text",
        rows.iter().filter(|row| text(row, |t| !t.hashed)).count(),
    );
    account.mark(
        "hashed_text",
        rows.iter().filter(|row| text(row, |t| t.hashed)).count(),
    );
    account.mark(
        "multimodal",
        rows.iter().filter(|row| text(row, |t| t.media)).count(),
    );
    account.mark("trace_blocks", of(|row| !row.blocks.is_empty()));
    account.mark("refused", of(Row::refused));
}

/// What prompts are that text does not say.
fn findings_about(rows: &[Row]) -> Vec<String> {
    let texts = || rows.iter().filter_map(|row| row.text.as_deref());
    let hashed = texts().filter(|text| text.hashed).count();
    let media = texts().filter(|text| text.media).count();
    let mut findings = Vec::new();
    if hashed > 0 {
        findings.push(format!(
            "{hashed} requests are known by a recorder's hashes: their blocks are shared as far as \
             whole blocks of bytes are, which is at most what the engine shared"
        ));
    }
    if media > 0 {
        findings.push(format!(
            "{media} requests have images, sounds or files: their lengths are the server's, and \
             their blocks cover the text only"
        ));
    }
    findings
}

/// The block size that traces bring along: one for all, or their hashes do not compare.
fn traced_block_tokens(rows: &[Row]) -> Result<Option<u32>, Error> {
    let traced = rows.iter().filter(|row| !row.blocks.is_empty());
    let sizes: BTreeSet<u32> = traced.filter_map(|row| row.block_tokens).collect();
    if sizes.len() > 1 {
        let sizes: Vec<String> = sizes.iter().map(u32::to_string).collect();
        return Err(Error::data(
            "captures",
            format!(
                "blocks of {} tokens, wanted one size; compile them apart",
                sizes.join(" and ")
            ),
        ));
    }
    Ok(sizes.first().copied())
}

fn choose(rows: &[Row], wanted: &str, findings: &mut Vec<String>) -> (Tokenizer, Ratios) {
    let known = reported(rows).count();
    let counted = |bytes: f64| (bytes / BYTES_PER_TOKEN as f64).ceil();
    let exact = reported(rows)
        .filter(|reported| counted(reported.bytes) == reported.tokens)
        .count();
    let is_exact = known > 0 && exact as f64 >= EXACT_SHARE_MIN * known as f64;
    if known == 0 {
        return (unreported(wanted, findings), Ratios::four_bytes());
    }
    if wanted == BYTES_4 && !is_exact {
        findings.push(format!(
            "the tokenizer {BYTES_4} agrees with reported usage in {exact} of {known} prompts \
             only; is it the server's?"
        ));
    }
    if wanted != AUTO || is_exact {
        let ratios = Ratios::four_bytes();
        let error = ratios.error(rows);
        return (tokenizer(BYTES_4, BYTES_PER_TOKEN as f64, error), ratios);
    }
    let ratios = Ratios::calibrated(rows);
    let error = ratios.error(rows);
    findings.push(format!(
        "no tokenizer: token positions are estimated at {:.3} bytes a token (mean error {:.1} %), \
         so block hashes approximate the engine's",
        ratios.overall(),
        100.0 * error.unwrap_or(0.0)
    ));
    let mut calibrated = tokenizer("calibrated", ratios.overall(), error);
    calibrated.by_model = ratios.by_model();
    (calibrated, ratios)
}

/// Without any reported length there is nothing to calibrate with: the recipe says what a token
/// is, or nobody does.
fn unreported(wanted: &str, findings: &mut Vec<String>) -> Tokenizer {
    let (name, what) = if wanted == BYTES_4 {
        (
            BYTES_4,
            "prompts are counted as the recipe's tokenizer does, unchecked",
        )
    } else {
        (
            ASSUMED,
            "lengths are unknown, and blocks are cut at four bytes a token",
        )
    };
    findings.push(format!("no server reported a prompt length: {what}"));
    tokenizer(name, BYTES_PER_TOKEN as f64, None)
}

fn tokenizer(name: &str, bytes_per_token: f64, calibration_error: Option<f64>) -> Tokenizer {
    Tokenizer {
        name: name.to_owned(),
        bytes_per_token: Some(bytes_per_token),
        calibration_error,
        ..Tokenizer::default()
    }
}

/// Lengths that no server reported, where the recipe says what a token is.
fn count_unreported(rows: &mut [Row]) -> usize {
    let mut filled = 0;
    for row in rows.iter_mut().filter(|row| row.input_tokens.is_none()) {
        if let Some(text) = row.text.as_ref().filter(|text| !text.hashed) {
            let tokens = text.rendered_bytes.div_ceil(BYTES_PER_TOKEN as u64);
            row.input_tokens = i64::try_from(tokens).ok();
            filled += 1;
        }
    }
    filled
}

/// Compares what a vocabulary counts with what servers reported, and fills in what none did.
fn judge(
    rows: &mut [Row],
    filled: &Filled,
    tokenizer: &mut Tokenizer,
    findings: &mut Vec<String>,
) -> usize {
    let errors = filled.counted.iter().filter_map(|(at, tokens)| {
        let row = rows.get(*at)?;
        let comparable = !row.text.as_ref().is_some_and(|text| text.media);
        let reported = row
            .input_tokens
            .filter(|reported| *reported > 0 && comparable)?;
        Some(relative(*tokens as f64, reported as f64))
    });
    tokenizer.calibration_error = mean(errors);
    match tokenizer.calibration_error {
        None => findings.push(
            "no server reported a prompt length: prompts are counted with the recipe's tokenizer, \
             unchecked"
                .to_owned(),
        ),
        Some(error) if error > VOCABULARY_ERROR_MAX => findings.push(format!(
            "the recipe's tokenizer and reported usage differ by {:.1} % in the mean; are \
             tokenizer and chat template the server's?",
            100.0 * error
        )),
        Some(_) => {}
    }
    if let Some(why) = &filled.why {
        findings.push(format!(
            "{} prompts could not be read with the recipe's tokenizer and template, and are cut at \
             calibrated bytes: {why}",
            filled.unread
        ));
    }
    let mut counted = 0;
    for (at, tokens) in &filled.counted {
        if let Some(row) = rows
            .get_mut(*at)
            .filter(|row| row.input_tokens.is_none() && !row.refused())
        {
            row.input_tokens = i64::try_from(*tokens).ok();
            counted += 1;
        }
    }
    counted
}
