//! The verb `compare`: runs of one set against other runs of it.
//!
//! Only runs of the same set with the same settings can be told apart by what they ran on; others
//! are refused, unless the user says that he knows.

use crate::cli::{CompareArgs, FailOnClaim, Format};
use crate::error::Error;
use crate::report::print;
use crate::verdict::VALID;
use std::collections::BTreeSet;
use std::path::PathBuf;
use truetape_fidelity::compare::{Claim, Comparison, Sample, compare, sample, words};
use truetape_schemas::blame::Answer;
use truetape_schemas::run::{self, Run};

/// Flags that shape the load; others name a run, or where it went.
const SHAPING: &[&str] = &[
    "duration",
    "rate_scale",
    "rate_mode",
    "arrivals",
    "arrivals_seed",
    "ramp",
    "steps",
    "on_failed_turn",
    "shard",
    "pacing",
    "think_scale",
    "max_in_flight",
    "output",
    "cache",
    "token_budget",
    "history",
    "timeout",
];

/// Compares runs on disk, and prints what can be claimed.
pub fn run(args: CompareArgs) -> Result<Answer, Error> {
    let comparison = of(&args)?;
    print(&drawn(&comparison, args.format))?;
    Ok(answer(comparison.claim, args.fail_on))
}

/// Compares runs on disk.
pub fn of(args: &CompareArgs) -> Result<Comparison, Error> {
    let (mut runs, mut against) = (read(&args.runs)?, read(&args.against)?);
    let mut findings = Vec::new();
    for problem in problems(&runs, &against) {
        if !args.allow_different {
            return Err(Error::Set {
                subject: "compare".to_owned(),
                problem: format!(
                    "{problem}; replay one set with the same flags, or say --allow-different"
                ),
            });
        }
        findings.push(problem);
    }
    let take = |runs: &mut Vec<(Run, Sample)>| -> Vec<Sample> {
        runs.drain(..).map(|(_, sample)| sample).collect()
    };
    let (mut runs, mut against) = (take(&mut runs), take(&mut against));
    findings.extend(sample::steady(&mut runs, &mut against));
    let mut comparison = compare(&runs, &against);
    comparison.findings.splice(0..0, findings);
    Ok(comparison)
}

fn read(dirs: &[PathBuf]) -> Result<Vec<(Run, Sample)>, Error> {
    let one = |dir: &PathBuf| {
        let account = run::open(dir)?;
        let sample = Sample::of(&account, &run::dispatches(dir)?);
        Ok((account, sample))
    };
    dirs.iter().map(one).collect()
}

/// Why these runs cannot be compared.
fn problems(runs: &[(Run, Sample)], against: &[(Run, Sample)]) -> Vec<String> {
    let all = || runs.iter().chain(against).map(|(run, _)| run);
    let mut problems = Vec::new();
    let digests: BTreeSet<&str> = all().map(|run| run.set_digest.as_str()).collect();
    if digests.len() > 1 {
        let short = |digest: &&str| digest.chars().take(12).collect::<String>();
        let named: Vec<String> = digests.iter().map(short).collect();
        problems.push(format!("runs of different sets ({})", named.join(", ")));
    }
    let ids: BTreeSet<&str> = all().map(|run| run.run_id.as_str()).collect();
    if ids.len() < all().count() {
        problems.push("a run is given twice: it is no repeat of itself".to_owned());
    }
    for run in all().filter(|run| run.validity != VALID) {
        problems.push(format!(
            "run {} is {}, wanted {VALID}",
            run.run_id, run.validity
        ));
    }
    for name in SHAPING {
        let value = |run: &Run| {
            run.flags
                .get(*name)
                .map_or("null".to_owned(), ToString::to_string)
        };
        let values: BTreeSet<String> = all().map(value).collect();
        if values.len() > 1 {
            let values: Vec<String> = values.into_iter().collect();
            problems.push(format!(
                "runs with different `{name}` ({})",
                values.join(", ")
            ));
        }
    }
    problems
}

fn drawn(comparison: &Comparison, format: Format) -> String {
    match format {
        Format::Json => {
            let value = serde_json::to_value(comparison).unwrap_or_default();
            format!("{value:#}\n")
        }
        Format::Text => words::table(comparison, false),
        Format::Markdown => words::table(comparison, true),
    }
}

/// What a comparison answers.
pub fn answer(claim: Claim, fail_on: FailOnClaim) -> Answer {
    match (fail_on, claim) {
        (FailOnClaim::Regression | FailOnClaim::Unknown, Claim::Slower)
        | (FailOnClaim::Unknown, Claim::Unknown) => Answer::No,
        _ => Answer::Yes,
    }
}

#[cfg(test)]
mod tests;
