//! The verb `profile`: what a population of turns is made of, on a terminal, as JSON, as a page.

use crate::cli::ProfileArgs;
use crate::error::Error;
use crate::recipe::Recipe;
use crate::source::{Segments, Subject, subject};
use crate::talk::{self, OutputFormat};
use crate::{compile, parallel};
use std::path::Path;
use truetape_fidelity::latency::instant_us;
use truetape_fidelity::population::{Population, PopulationTurn};
use truetape_fidelity::profile::portrait::{Mix, Portrait, Shape};
use truetape_fidelity::profile::{Options, Profile, profile};
use truetape_fidelity::render;
use truetape_schemas::blame::Answer;
use truetape_schemas::capture::Outcome;
use truetape_schemas::file::write_atomically;
use truetape_schemas::run::{self, Dispatch};
use truetape_schemas::set::manifest::Stage;
use truetape_schemas::set::store;

mod mix;

/// Points of the hit curve when nobody says where: powers of two over what the source holds.
const CURVE_POINTS: u32 = 8;

/// How a population is read and measured.
#[derive(Clone, Debug)]
pub struct ProfileOptions {
    /// Cache sizes of the hit curve; empty for a spread over what there is.
    pub capacities_blocks: Vec<usize>,
    /// Windows of the burst measures, in seconds; empty for a report's.
    pub windows_s: Vec<u32>,
    /// Tokens in a block, for traffic with text.
    pub block_tokens: Option<u32>,
    /// Threads that read text.
    pub threads: usize,
}

/// A population with what no measure says about it.
pub(crate) struct Seen {
    pub(crate) population: Population,
    pub(crate) mix: Mix,
    pub(crate) findings: Vec<String>,
}

/// Profiles captures (several are one population), a set, or a run.
pub fn of(
    references: &[String],
    in_store: Option<&Path>,
    options: &ProfileOptions,
) -> Result<(Profile, Vec<String>), Error> {
    let seen = population(references, in_store, options)?;
    Ok((measured(&seen.population, options), seen.findings))
}

/// The same with the shape of its distributions and its mix.
pub fn portrait(
    references: &[String],
    in_store: Option<&Path>,
    options: &ProfileOptions,
) -> Result<Portrait, Error> {
    let seen = population(references, in_store, options)?;
    Ok(Portrait {
        profile: measured(&seen.population, options),
        shape: Shape::of(&seen.population),
        mix: seen.mix,
        findings: seen.findings,
    })
}

fn measured(population: &Population, options: &ProfileOptions) -> Profile {
    let defaults = Options::default();
    let windows_s = match options.windows_s.as_slice() {
        [] => defaults.windows_s,
        windows => windows.to_vec(),
    };
    let options = Options {
        capacities_blocks: options.capacities_blocks.clone(),
        curve_points: CURVE_POINTS,
        windows_s,
    };
    profile(population, &options)
}

/// Reads what references name as one population, with what a user should know about it.
pub(crate) fn population(
    references: &[String],
    in_store: Option<&Path>,
    options: &ProfileOptions,
) -> Result<Seen, Error> {
    let mut captures: Vec<Segments> = Vec::new();
    let alone = references.len() == 1;
    for reference in references {
        match subject(reference, in_store)? {
            Subject::Capture(segments) => captures.push(segments),
            Subject::Set(dir) if alone => return of_set(&dir),
            Subject::Run(dir) if alone => return of_run(&dir),
            Subject::Set(_) | Subject::Run(_) => {
                let problem = "several paths are one population of captures; profile it alone";
                return Err(Error::usage(reference, problem));
            }
        }
    }
    let mut recipe = Recipe::default();
    if let Some(block_tokens) = options.block_tokens {
        recipe.tokens.block_tokens = block_tokens;
    }
    let prepared = compile::prepare(&captures, &recipe, options.threads)?;
    let mut findings = prepared.findings();
    findings.extend(left_out(&prepared.ingested.stage));
    Ok(Seen {
        mix: mix::of_rows(&prepared),
        population: prepared.population,
        findings,
    })
}

/// What a capture holds and a profile does not count.
fn left_out(stage: &Stage) -> Option<String> {
    let reasons: Vec<String> = stage
        .left
        .iter()
        .map(|(reason, rows)| format!("{reason} {rows}"))
        .collect();
    let left = stage.read - stage.taken;
    (left > 0).then(|| {
        format!(
            "{left} of {} rows left out: {}",
            stage.read,
            reasons.join(", ")
        )
    })
}

fn of_set(dir: &Path) -> Result<Seen, Error> {
    let manifest = store::manifest(dir)?;
    let turns = store::turns(dir)?;
    let clock = manifest.semantics.clock_resolution_us;
    Ok(Seen {
        population: Population::of_turns(&turns, manifest.block_tokens, clock),
        mix: mix::of_turns(&turns),
        findings: manifest.findings,
    })
}

/// A run knows when and how long; what the prompts shared is in its set.
fn of_run(dir: &Path) -> Result<Seen, Error> {
    let account = run::open(dir)?;
    let dispatches = run::dispatches(dir)?;
    let mut sessions: std::collections::HashMap<&str, u32> = std::collections::HashMap::new();
    let mut turns = Vec::new();
    for dispatch in &dispatches {
        let next = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
        let session = *sessions.entry(&dispatch.session).or_insert(next);
        turns.extend(turn(dispatch, session));
    }
    turns.sort_by_key(|turn| turn.arrival_us);
    let sessions = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
    let population = Population {
        turns,
        sessions,
        ..Population::default()
    };
    Ok(Seen {
        population,
        mix: mix::of_dispatches(&dispatches),
        findings: account.findings,
    })
}

fn turn(dispatch: &Dispatch, session: u32) -> Option<PopulationTurn> {
    let sent = dispatch.sent_us?;
    let count = |tokens: Option<i64>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    let complete = dispatch.outcome == Some(Outcome::Complete);
    Some(PopulationTurn {
        session,
        arrival_us: sent,
        end_us: dispatch.end_us.and_then(|end| instant_us(dispatch, end)),
        input_tokens: count(dispatch.input_tokens),
        output_tokens: count(dispatch.output_tokens).filter(|_| complete),
        cached_tokens: count(dispatch.cached_tokens),
        ..PopulationTurn::default()
    })
}

/// Carries out `truetape profile`.
pub fn run(args: ProfileArgs) -> Result<Answer, Error> {
    let options = ProfileOptions {
        capacities_blocks: args.capacity_blocks,
        windows_s: args.windows_s,
        block_tokens: args.block_tokens,
        threads: args.threads.unwrap_or_else(parallel::default_threads),
    };
    let portrait = portrait(&args.paths, args.store.as_deref(), &options)?;
    if let Some(path) = &args.html {
        let page = render::portrait_html(&args.paths.join(", "), &portrait);
        write_atomically(path, page.as_bytes())?;
        talk::say(&format!("page: {}", path.display()));
    }
    match args.format {
        OutputFormat::Json => talk::json(&portrait)?,
        OutputFormat::Text => talk::data(&render::portrait_terminal(&portrait))?,
    }
    for finding in &portrait.findings {
        talk::say(&format!("note: {finding}"));
    }
    Ok(Answer::Yes)
}

#[cfg(test)]
mod tests {
    use super::{Stage, left_out, turn};
    use truetape_schemas::run::Dispatch;

    #[test]
    fn an_answer_ends_after_the_upload_and_its_own_time() {
        let dispatch = Dispatch {
            sent_us: Some(1_000),
            request_end_us: Some(400),
            end_us: Some(50),
            ..Dispatch::default()
        };
        let turn = turn(&dispatch, 0).unwrap();
        assert_eq!((turn.arrival_us, turn.end_us), (1_000, Some(1_450)));
    }

    #[test]
    fn rows_that_are_not_counted_are_named() {
        let mut stage = Stage {
            read: 16,
            taken: 13,
            ..Stage::default()
        };
        stage.left.insert("not_inference".to_owned(), 1);
        stage.left.insert("replayed_traffic".to_owned(), 2);
        let said = left_out(&stage).unwrap();
        assert_eq!(
            said,
            "3 of 16 rows left out: not_inference 1, replayed_traffic 2"
        );
        assert_eq!(left_out(&Stage::default()), None);
    }
}
