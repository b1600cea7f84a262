//! Captures and a recipe become a set: the stages, one after the other.
//!
//! 1. [`ingest`]: captures to rows, duplicates and replayed traffic out;
//! 2. [`tokenize`]: what a token is; block hashes of text;
//! 3. [`sessionize`]: rows to turns of sessions;
//! 4. [`population`] and `fidelity::profile`: what the source is made of;
//! 5. [`select`]: which sessions are taken;
//! 6. [`arrange`]: when they start ([`control`]: what is generated in their place);
//! 7. [`content`]: what their prompts hold;
//! 8. [`emit`]: the set, its report and its card.
//!
//! Rows travel without their bodies, which are read again where they are needed. Every stage
//! keeps an [`account`]: read = taken + left, by reason.

use crate::cli::CompileArgs;
use crate::error::Error;
use crate::recipe::{self, RATE_RECORDED, RATE_STRESS, Recipe};
use crate::source::Segments;
use crate::talk::OutputFormat;
use crate::{parallel, source, talk};
use arrange::Arranged;
use ingest::Ingested;
use select::Selected;
use sessionize::Sessions;
use std::path::PathBuf;
use tokenize::Tokenized;
use truetape_fidelity::population::Population;
use truetape_fidelity::{grade, profile, render};
use truetape_schemas::blame::Answer;
use truetape_schemas::file;
use truetape_schemas::report::{self, Report};
use truetape_schemas::set::manifest::{Counts, Manifest, Semantics};
use truetape_schemas::set::{FORMAT, Turn, store};

pub(crate) use reading::chat_of;

mod account;
mod arrange;
mod content;
mod control;
pub(crate) mod emit;
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
    let Prepared {
        ingested,
        tokenized,
        ..
    } = &prepared;
    let (selected, mut arranged) = match &recipe.control {
        Some(control) => control::generate(&prepared, recipe, control)?,
        None => {
            let selected = select::select(&prepared, recipe)?;
            let arranged = arrange::arrange(&prepared, &selected, &recipe.arrange)?;
            (selected, arranged)
        }
    };
    let content = content::make(&mut arranged, ingested, tokenized, recipe, options.threads)?;
    let made = Made {
        recipe,
        prepared: &prepared,
        selected,
        arranged,
        content,
    };
    made.finish(options)
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

/// Everything that goes into a set.
struct Made<'a> {
    recipe: &'a Recipe,
    prepared: &'a Prepared,
    selected: Selected,
    arranged: Arranged,
    content: content::Made,
}

impl Made<'_> {
    fn finish(self, options: &CompileOptions) -> Result<Compiled, Error> {
        let recipe = self.recipe.to_json(&self.prepared.tokenized.tokenizer)?;
        let sources = &self.prepared.ingested.sources;
        let parts = &self.content.parts;
        let turns = self.content.prompts.fill(&self.arranged.turns, parts);
        let digest = store::digest_of(&recipe, sources, turns, parts.names());
        let name = &self.recipe.name;
        if let Some(manifest) = emit::existing(&options.store, name, &digest)? {
            emit::tag(&options.store, name, &digest, &options.tags)?;
            let dir = store::set_dir(&options.store, name, &digest);
            let report = read_report(&dir)?;
            return Ok(Compiled {
                dir,
                manifest,
                report,
                existed: true,
            });
        }
        let population = self.population();
        let report = grade::set_against_source(
            &self.prepared.population,
            &population,
            &self.context(&digest),
        );
        let manifest = self.manifest(recipe, digest, &population)?;
        let set = emit::Set {
            manifest: &manifest,
            report: &report,
            turns: &self.arranged.turns,
            content: &self.content,
        };
        let dir = emit::emit(&options.store, &set, options.threads)?;
        emit::tag(&options.store, name, &manifest.digest, &options.tags)?;
        Ok(Compiled {
            dir,
            manifest,
            report,
            existed: false,
        })
    }

    fn population(&self) -> Population {
        Population::of_turns(
            &self.arranged.turns,
            self.prepared.tokenized.block_tokens,
            self.prepared.ingested.footers.clock_resolution_us,
        )
    }

    fn context(&self, digest: &str) -> grade::SetContext {
        grade::SetContext {
            set_name: self.recipe.name.clone(),
            set_digest: digest.to_owned(),
            view: self.recipe.view.name().to_owned(),
            // Several samples at once, where they were, are one larger sample.
            rate: match self.recipe.arrange.rate.as_str() {
                RATE_STRESS => RATE_RECORDED.to_owned(),
                rate => rate.to_owned(),
            },
            share: self.selected.share,
            rate_share: self.selected.rate_share,
            unlinked_share: self.prepared.sessions.unlinked_share,
            findings: self.all_findings(),
            ..grade::SetContext::default()
        }
    }

    fn all_findings(&self) -> Vec<String> {
        let mut findings = self.prepared.findings();
        findings.extend(self.selected.findings.iter().cloned());
        findings.extend(self.arranged.findings.iter().cloned());
        findings.extend(self.content.findings.iter().cloned());
        findings
    }

    fn manifest(
        &self,
        recipe: serde_json::Value,
        digest: String,
        population: &Population,
    ) -> Result<Manifest, Error> {
        let Prepared {
            ingested,
            tokenized,
            sessions,
            ..
        } = self.prepared;
        let is_selected = self.recipe.control.is_none();
        let options = profile::Options::default();
        let json = |population| {
            serde_json::to_value(profile::profile(population, &options))
                .map_err(|cause| Error::bug("profile", format!("could not encode JSON: {cause}")))
        };
        Ok(Manifest {
            format: FORMAT.to_string(),
            name: self.recipe.name.clone(),
            digest,
            recipe,
            sources: ingested.sources.clone(),
            counts: counts(&self.arranged.turns, self.content.parts.len()),
            stages: vec![
                ingested.stage.clone(),
                tokenized.stage.clone(),
                sessions.stage.clone(),
                self.selected.stage.clone(),
            ],
            chains: sessions.chains.clone(),
            tokenizer: tokenized.tokenizer.clone(),
            block_tokens: tokenized.block_tokens,
            seed: self.recipe.seed,
            source_profile: json(&self.prepared.population)?,
            profile: json(population)?,
            semantics: Semantics {
                input: "cumulative".to_owned(),
                history: match &self.recipe.control {
                    Some(_) => "none".to_owned(),
                    None => "recorded".to_owned(),
                },
                rate: self.recipe.arrange.rate.clone(),
                view: self.recipe.view.name().to_owned(),
                content: self.recipe.content.kind.name().to_owned(),
                clock_resolution_us: ingested.footers.clock_resolution_us,
                control: self.recipe.control.as_ref().map(recipe::Control::name),
            },
            // What was generated was neither selected nor moved.
            selection: is_selected.then(|| self.selected.told.clone()),
            arrangement: is_selected.then(|| self.arranged.told.clone()),
            findings: self.all_findings(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}

fn counts(turns: &[Turn], parts: usize) -> Counts {
    let sum = |tokens: fn(&Turn) -> Option<i64>| {
        turns
            .iter()
            .filter_map(tokens)
            .filter_map(|tokens| u64::try_from(tokens).ok())
            .fold(0, u64::saturating_add)
    };
    let mut sessions: Vec<&str> = turns.iter().map(|turn| turn.session.as_str()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    Counts {
        turns: turns.len() as u64,
        sessions: sessions.len() as u64,
        input_tokens: sum(|turn| turn.input_tokens),
        output_tokens: sum(|turn| turn.output_tokens),
        content_parts: parts as u64,
    }
}

fn read_report(dir: &std::path::Path) -> Result<Report, Error> {
    let path = dir.join(store::FIDELITY);
    Ok(file::read_json(&path, report::FORMAT)?)
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
