//! Captures and a recipe become a set: the stages, one after the other.
//!
//! 1. [`ingest`]: captures to rows, duplicates and replayed traffic out;
//! 2. [`tokenize`]: what a token is; block hashes of text;
//! 3. [`sessionize`]: rows to turns of sessions;
//! 4. [`population`] and `fidelity::profile`: what the source is made of;
//! 5. [`select`]: which sessions are taken;
//! 6. [`arrange`]: when they start ([`control`]: what is generated in their place);
//! 7. [`content`]: what their prompts hold;
//! 8. [`finish`]: its digest, its report and its manifest;
//! 9. [`emit`]: the set on disk.
//!
//! Rows travel without their bodies, which are read again where they are needed. Every stage
//! keeps an [`account`]: read = taken + left, by reason.

use crate::cli::CompileArgs;
use crate::error::Error;
use crate::recipe::Recipe;
use crate::source::Segments;
use crate::talk::OutputFormat;
use crate::{parallel, source, talk};
use arrange::Arranged;
use finish::Made;
use ingest::Ingested;
use select::Selected;
use sessionize::Sessions;
use std::path::PathBuf;
use tokenize::Tokenized;
use truetape_fidelity::population::Population;
use truetape_fidelity::{profile, render};
use truetape_schemas::blame::Answer;
use truetape_schemas::report::Report;
use truetape_schemas::set::manifest::Manifest;

pub(crate) use reading::chat_of;

mod account;
mod arrange;
mod content;
mod control;
pub(crate) mod emit;
mod finish;
mod ingest;
mod population;
mod reading;
mod row;
mod select;
mod sessionize;
mod tokenize;

/// What to compile, and how.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Captures: directories of Parquet segments, single segments, or URLs of either.
    pub captures: Vec<PathBuf>,
    /// What to make of them.
    pub recipe: Recipe,
    /// Directory of sets.
    pub store: PathBuf,
    /// Tags to point at the set, besides `latest`.
    pub tags: Vec<String>,
    /// Threads; they never change the set.
    pub threads: usize,
}

/// A set that was compiled, or was there already.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Its directory.
    pub dir: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// The level 1 report.
    pub report: Report,
    /// Whether the store held this very set before.
    pub existed: bool,
}

/// The source of a set: its rows as turns of sessions, and as a population.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) ingested: Ingested,
    pub(crate) tokenized: Tokenized,
    pub(crate) sessions: Sessions,
    pub(crate) population: Population,
}

impl Prepared {
    /// The block hashes of a row; none where it has none.
    pub(crate) fn blocks(&self, at: usize) -> Option<Vec<u64>> {
        let blocks = &self.population.turns.get(at)?.blocks;
        (!blocks.is_empty()).then(|| blocks.clone())
    }

    /// Things a user of the source should know.
    pub(crate) fn findings(&self) -> Vec<String> {
        let lists = [
            &self.ingested.findings,
            &self.tokenized.findings,
            &self.sessions.findings,
        ];
        lists.into_iter().flatten().cloned().collect()
    }
}

/// Runs the stages that do not depend on a choice.
pub(crate) fn prepare(
    captures: &[Segments],
    recipe: &Recipe,
    threads: usize,
) -> Result<Prepared, Error> {
    let mut ingested = ingest::ingest(captures, threads)?;
    let tokenized = tokenize::tokenize(&mut ingested, recipe, threads)?;
    let sessions = sessionize::sessionize(&ingested.rows, &ingested.secret);
    let population = population::of_rows(
        &mut ingested.rows,
        &sessions,
        tokenized.block_tokens,
        ingested.footers.clock_resolution_us,
    );
    Ok(Prepared {
        ingested,
        tokenized,
        sessions,
        population,
    })
}

/// Compiles captures into a set.
pub fn compile(options: &CompileOptions) -> Result<Compiled, Error> {
    let recipe = &options.recipe;
    recipe
        .check()
        .map_err(|problem| Error::config("recipe", problem))?;
    check_tags(&options.tags)?;
    let captures: Vec<_> = options
        .captures
        .iter()
        .map(|path| source::capture(path))
        .collect::<Result<_, _>>()?;
    let prepared = prepare(&captures, recipe, options.threads)?;
    prepared.ingested.require_traffic()?;
    // What the source is does not depend on what is chosen of it.
    let profiled = || profile::profile(&prepared.population, &profile::Options::default());
    let chosen = || choose(&prepared, recipe, options.threads);
    let (source_profile, chosen) = parallel::both(options.threads, profiled, chosen)?;
    let (selected, arranged, content) = chosen?;
    let made = Made {
        recipe,
        prepared: &prepared,
        source_profile,
        selected,
        arranged,
        content,
    };
    made.finish(options)
}

/// Runs the stages that depend on a choice.
fn choose(
    prepared: &Prepared,
    recipe: &Recipe,
    threads: usize,
) -> Result<(Selected, Arranged, content::Made), Error> {
    let (selected, mut arranged) = match &recipe.control {
        Some(control) => control::generate(prepared, recipe, control)?,
        None => {
            let selected = select::select(prepared, recipe)?;
            let arranged = arrange::arrange(prepared, &selected, &recipe.arrange)?;
            (selected, arranged)
        }
    };
    let Prepared {
        ingested,
        tokenized,
        ..
    } = prepared;
    let content = content::make(&mut arranged, ingested, tokenized, recipe, threads)?;
    Ok((selected, arranged, content))
}

/// Tags share their names with references such as `chat@v3`.
fn check_tags(tags: &[String]) -> Result<(), Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match tags
        .iter()
        .find(|tag| tag.is_empty() || !tag.chars().all(allowed))
    {
        None => Ok(()),
        Some(tag) => Err(Error::usage(
            "--tag",
            format!("`{tag}`, allowed are letters, digits, `-`, `_` and `.`"),
        )),
    }
}

/// Carries out `truetape compile`.
pub fn run(args: CompileArgs) -> Result<Answer, Error> {
    let options = CompileOptions {
        recipe: Recipe::read(&args.recipe)?,
        captures: args.captures,
        store: args.store,
        tags: args.tags,
        threads: args.threads.unwrap_or_else(parallel::default_threads),
    };
    let compiled = compile(&options)?;
    let counts = &compiled.manifest.counts;
    let short: String = compiled.manifest.digest.chars().take(12).collect();
    talk::say(&format!(
        "{} {}@sha256:{short}: {} turns in {} sessions, {} prompt tokens",
        if compiled.existed {
            "nothing to do, the store holds"
        } else {
            "compiled"
        },
        compiled.manifest.name,
        counts.turns,
        counts.sessions,
        counts.input_tokens
    ));
    print(&compiled, args.format)?;
    Ok(Answer::Yes)
}

fn print(compiled: &Compiled, format: OutputFormat) -> Result<(), Error> {
    let Compiled {
        dir,
        manifest,
        report,
        existed,
    } = compiled;
    match format {
        OutputFormat::Json => talk::json(&serde_json::json!({
            "path": dir,
            "name": manifest.name,
            "digest": manifest.digest,
            "existed": existed,
            "counts": manifest.counts,
            "findings": manifest.findings,
            "report": report,
        })),
        OutputFormat::Text => {
            let set = format!("set {} (sha256:{})\n\n", dir.display(), manifest.digest);
            talk::data(&(set + &render::terminal(report, talk::in_color())))
        }
    }
}
