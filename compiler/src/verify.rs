//! The verb `verify`: whether a capture, a set or a run is whole and true to itself.

use crate::cli::VerifyArgs;
use crate::error::Error;
use crate::source::{Subject, subject};
use crate::talk::{self, OutputFormat};
use std::path::Path;
use truetape_schemas::blame::Answer;
use truetape_schemas::run;

mod capture;
mod set;

/// Faults of one kind that are named; the others are counted.
const FAULTS_SHOWN_MAX: usize = 10;

/// What was checked, and what was found wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Findings {
    /// What was looked at: `capture`, `set` or `run`.
    pub kind: String,
    /// Rows that were read.
    pub rows: u64,
    /// What is wrong, each as subject and problem; empty when nothing is.
    pub faults: Vec<String>,
    /// Faults that are not named.
    pub more_faults: u64,
}

impl Findings {
    fn of(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            ..Self::default()
        }
    }

    fn fault(&mut self, subject: impl std::fmt::Display, problem: impl std::fmt::Display) {
        if self.faults.len() < FAULTS_SHOWN_MAX {
            self.faults.push(format!("{subject}: {problem}"));
        } else {
            self.more_faults += 1;
        }
    }
}

/// Checks what a path names. An input that cannot be read at all is an error.
pub fn of(reference: &str, in_store: Option<&Path>) -> Result<Findings, Error> {
    match subject(reference, in_store)? {
        Subject::Capture(segments) => capture::verify(&segments),
        Subject::Set(dir) => set::verify(&dir),
        Subject::Run(dir) => verify_run(&dir),
    }
}

fn verify_run(dir: &Path) -> Result<Findings, Error> {
    let mut findings = Findings::of("run");
    let opened = run::open(dir)?;
    let dispatches = run::dispatches(dir)?;
    findings.rows = dispatches.len() as u64;
    if !opened.account.balances() {
        findings.fault(
            run::RUN,
            "the account does not balance: due = sent + not sent, sent = answered + failed",
        );
    }
    if opened.account.due != findings.rows {
        let problem = format!(
            "{} dispatches are due, {} has {}",
            opened.account.due,
            run::TURNS,
            findings.rows
        );
        findings.fault(run::RUN, problem);
    }
    let sent = dispatches
        .iter()
        .filter(|dispatch| dispatch.sent_us.is_some())
        .count() as u64;
    if opened.account.sent != sent {
        let problem = format!(
            "{} were sent, {} has {sent}",
            opened.account.sent,
            run::TURNS
        );
        findings.fault(run::RUN, problem);
    }
    for dispatch in &dispatches {
        if dispatch.lateness_us.is_some_and(|late| late < 0) {
            findings.fault(format!("turn {}", dispatch.turn_id), "was sent early");
        }
        if dispatch.sent_us.is_none() && dispatch.not_sent_reason.is_none() {
            findings.fault(
                format!("turn {}", dispatch.turn_id),
                "was not sent, for no reason",
            );
        }
    }
    Ok(findings)
}

/// Carries out `truetape verify`.
pub fn run(args: VerifyArgs) -> Result<Answer, Error> {
    let findings = of(&args.path, args.store.as_deref())?;
    match args.format {
        OutputFormat::Json => talk::json(&findings)?,
        OutputFormat::Text => talk::data(&text(&args.path, &findings))?,
    }
    Ok(if findings.faults.is_empty() {
        Answer::Yes
    } else {
        Answer::No
    })
}

fn text(path: &str, findings: &Findings) -> String {
    let Findings {
        kind,
        rows,
        faults,
        more_faults,
    } = findings;
    let mut text: String = faults
        .iter()
        .map(|fault| format!("fault: {fault}\n"))
        .collect();
    if *more_faults > 0 {
        text.push_str(&format!("fault: {more_faults} more\n"));
    }
    let verdict = if faults.is_empty() {
        "is whole"
    } else {
        "is not what it should be"
    };
    format!("{text}{path}: {kind} of {rows} rows {verdict}\n")
}
