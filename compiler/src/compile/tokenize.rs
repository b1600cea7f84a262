//! Stages 2 and 3: what a token is, and the chained block hashes of every prompt.

use super::account::Account;
use super::ingest::{Ingested, Secret};
use super::reading;
use super::row::{Name, Row};
use crate::error::Error;
use crate::recipe::{AUTO, BYTES_4, Recipe};
use crate::talk::Progress;
use crate::{parallel, source};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use truetape_fidelity::blocks::{BlockKey, of_rendered};
use truetape_fidelity::tokens::BYTES_PER_TOKEN;
use truetape_schemas::capture::Exchange;
use truetape_schemas::set::manifest::{Stage, Tokenizer};
use truetape_schemas::wire::Dialect;

/// Share of the rows whose reported length must be the reference engine's own count.
const EXACT_SHARE_MIN: f64 = 0.99;

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
    /// The account of this stage.
    pub(crate) stage: Stage,
    /// Things a user should know.
    pub(crate) findings: Vec<String>,
}

/// Bytes of a token, by model.
struct Ratios {
    by_model: HashMap<Option<Name>, f64>,
    overall: f64,
}

impl Ratios {
    fn of(&self, model: Option<&Name>) -> f64 {
        self.by_model
            .get(&model.cloned())
            .copied()
            .unwrap_or(self.overall)
    }
}

/// Decides what a token is, and fills the block hashes of rows with text.
pub(crate) fn tokenize(
    ingested: &mut Ingested,
    recipe: &Recipe,
    threads: usize,
) -> Result<Tokenized, Error> {
    let rows = &mut ingested.rows;
    let mut account = Account::new("tokenize", rows.len());
    let text_rows = rows.iter().filter(|row| row.text.is_some()).count();
    account.mark("text", text_rows);
    account.mark(
        "trace_blocks",
        rows.iter().filter(|row| !row.blocks.is_empty()).count(),
    );
    let mut findings = Vec::new();
    let traced = traced_block_tokens(rows)?;
    if text_rows == 0 {
        let tokenizer = Tokenizer {
            name: "trace".to_owned(),
            ..Tokenizer::default()
        };
        let stage = account.close(rows.len());
        return Ok(Tokenized {
            tokenizer,
            exact: false,
            block_tokens: traced,
            stage,
            findings,
        });
    }
    let (tokenizer, ratios) = choose(rows, &recipe.tokens.tokenizer, &mut findings);
    let exact = tokenizer.name == BYTES_4;
    if recipe.tokens.tokenizer == BYTES_4 {
        account.mark("length_counted", count_unreported(rows));
    }
    let block_tokens = traced.unwrap_or(recipe.tokens.block_tokens);
    if block_tokens != recipe.tokens.block_tokens {
        findings.push(format!(
            "text is hashed in blocks of {block_tokens} tokens, as the trace beside it"
        ));
    }
    let secret = ingested.secret;
    let hash = |row: &Row, prompt: &Prompt| {
        let ratio = ratios.of(row.model.as_ref());
        let full = prompt.rendered.len() as f64 / (ratio * f64::from(block_tokens));
        let key = block_key(&secret, recipe.seed, prompt.cache_salt.as_deref());
        let blocks = of_rendered(&key, &prompt.rendered, ratio, block_tokens);
        Hashed {
            blocks,
            full: full.floor() as usize,
            salted: prompt.cache_salt.is_some(),
        }
    };
    let salted = fill_blocks(ingested, threads, block_tokens, hash)?;
    account.mark("cache_salt", salted);
    if salted > 0 {
        findings.push(format!(
            "{salted} requests carry a cache_salt: prompts of different salts share no prefix, as \
             in production's cache"
        ));
    }
    let stage = account.close(ingested.rows.len());
    Ok(Tokenized {
        tokenizer,
        exact,
        block_tokens: Some(block_tokens),
        stage,
        findings,
    })
}

/// Production's own salt goes into the key: its cache kept such prompts apart from their first
/// block on.
fn block_key(secret: &Secret, seed: u64, cache_salt: Option<&str>) -> BlockKey {
    let mut salt = secret.0.to_vec();
    salt.extend(seed.to_le_bytes());
    salt.extend(cache_salt.unwrap_or_default().as_bytes());
    BlockKey::new(&salt)
}

/// What the cache of an engine sees of a request.
struct Prompt {
    rendered: Vec<u8>,
    cache_salt: Option<String>,
}

/// The blocks of a prompt.
struct Hashed {
    blocks: Vec<u64>,
    /// Those that are full.
    full: usize,
    salted: bool,
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

/// Text rows whose length the server reported: rendered bytes, and tokens.
fn reported(rows: &[Row]) -> impl Iterator<Item = (&Row, f64, f64)> {
    rows.iter().filter_map(|row| {
        let tokens = row.input_tokens.filter(|tokens| *tokens > 0)?;
        Some((row, row.text.as_ref()?.rendered_bytes as f64, tokens as f64))
    })
}

fn choose(rows: &[Row], wanted: &str, findings: &mut Vec<String>) -> (Tokenizer, Ratios) {
    let known = reported(rows).count();
    let counted = |bytes: f64| (bytes / BYTES_PER_TOKEN as f64).ceil();
    let exact = reported(rows)
        .filter(|(_, bytes, tokens)| counted(*bytes) == *tokens)
        .count();
    let is_exact = known > 0 && exact as f64 >= EXACT_SHARE_MIN * known as f64;
    if known == 0 {
        return (unreported(wanted, findings), four_bytes());
    }
    if wanted == BYTES_4 && !is_exact {
        findings.push(format!(
            "the tokenizer {BYTES_4} agrees with reported usage in {exact} of {known} prompts \
             only; is it the server's?"
        ));
    }
    if wanted != AUTO || is_exact {
        let ratios = four_bytes();
        let error = error(rows, &ratios);
        return (tokenizer(BYTES_4, BYTES_PER_TOKEN as f64, error), ratios);
    }
    let ratios = calibrate(rows);
    let error = error(rows, &ratios);
    findings.push(format!(
        "no tokenizer: token positions are estimated at {:.3} bytes a token (mean error {:.1} %), \
         so block hashes approximate the engine's",
        ratios.overall,
        100.0 * error.unwrap_or(0.0)
    ));
    let overall = ratios.overall;
    (tokenizer("calibrated", overall, error), ratios)
}

fn four_bytes() -> Ratios {
    Ratios {
        by_model: HashMap::new(),
        overall: BYTES_PER_TOKEN as f64,
    }
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
    let bytes_per_token = Some(bytes_per_token);
    Tokenizer {
        name: name.to_owned(),
        bytes_per_token,
        calibration_error,
    }
}

/// Bytes over tokens, for each model and for all.
fn calibrate(rows: &[Row]) -> Ratios {
    let mut sums: BTreeMap<Option<Name>, (f64, f64)> = BTreeMap::new();
    for (row, bytes, tokens) in reported(rows) {
        let sum = sums.entry(row.model.clone()).or_default();
        *sum = (sum.0 + bytes, sum.1 + tokens);
    }
    let (bytes, tokens) = sums
        .values()
        .fold((0.0, 0.0), |all, sum| (all.0 + sum.0, all.1 + sum.1));
    let by_model = sums
        .into_iter()
        .map(|(model, sum)| (model, sum.0 / sum.1))
        .collect();
    Ratios {
        by_model,
        overall: bytes / tokens,
    }
}

/// Mean absolute relative error against reported usage.
fn error(rows: &[Row], ratios: &Ratios) -> Option<f64> {
    let errors = reported(rows).map(|(row, bytes, tokens)| {
        let estimate = (bytes / ratios.of(row.model.as_ref())).ceil();
        (estimate - tokens).abs() / tokens
    });
    let (n, sum) = errors.fold((0_u32, 0.0), |(n, sum), error| (n + 1, sum + error));
    (n > 0).then(|| sum / f64::from(n))
}

/// Lengths that no server reported, where the recipe says what a token is.
fn count_unreported(rows: &mut [Row]) -> usize {
    let mut filled = 0;
    for row in rows.iter_mut().filter(|row| row.input_tokens.is_none()) {
        if let Some(text) = &row.text {
            let tokens = text.rendered_bytes.div_ceil(BYTES_PER_TOKEN as u64);
            row.input_tokens = i64::try_from(tokens).ok();
            filled += 1;
        }
    }
    filled
}

/// Reads the bodies once more: the key of the hashes follows from all of them. Returns how many
/// carry a salt of their own.
fn fill_blocks(
    ingested: &mut Ingested,
    threads: usize,
    block_tokens: u32,
    hash: impl Fn(&Row, &Prompt) -> Hashed + Sync,
) -> Result<usize, Error> {
    let rows = &ingested.rows;
    let index = text_index(rows);
    let with_text: BTreeSet<u32> = rows
        .iter()
        .filter(|row| row.text.is_some())
        .map(|row| row.segment)
        .collect();
    let mut filled: Vec<(usize, Hashed)> = Vec::with_capacity(index.len());
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
                Some((at, hash(row, &prompt(exchange)?)))
            })?;
            filled.extend(hashed.into_iter().flatten());
        }
    }
    progress.clear();
    drop(index);
    let mut salted = 0;
    for (at, hashed) in filled {
        if let Some(row) = ingested.rows.get_mut(at) {
            row.full_blocks = hashed.full.min(hashed.blocks.len());
            row.blocks = hashed.blocks;
            row.block_tokens = Some(block_tokens);
            salted += usize::from(hashed.salted);
        }
    }
    Ok(salted)
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

fn prompt(exchange: &Exchange) -> Option<Prompt> {
    let body = serde_json::from_slice(&reading::plain_body(exchange)?).ok()?;
    Some(Prompt {
        rendered: reading::render(Dialect::from_name(&exchange.dialect), &body)?,
        cache_salt: reading::cache_salt(&body).map(str::to_owned),
    })
}
