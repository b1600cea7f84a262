//! The verb `verify`: whether a capture, a set or a run is whole and true to itself.

use crate::cli::VerifyArgs;
use crate::error::Error;
use crate::source::{Subject, subject};
use crate::talk::{self, OutputFormat};
use std::path::Path;
use truetape_fidelity::latency;
use truetape_schemas::blame::Answer;
use truetape_schemas::capture::Outcome;
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

impl Findings {
    /// Adds the faults that were found elsewhere.
    fn take(&mut self, other: Self) {
        let room = FAULTS_SHOWN_MAX.saturating_sub(self.faults.len());
        self.more_faults += other.more_faults + other.faults.len().saturating_sub(room) as u64;
        self.faults.extend(other.faults.into_iter().take(room));
    }
}

/// Checks what a path names. An input that cannot be read at all is an error.
pub fn of(reference: &str, in_store: Option<&Path>) -> Result<Findings, Error> {
    match subject(reference, in_store)? {
        Subject::Capture(segments) => capture::verify(&segments),
        Subject::Set(dir) => {
            let mut findings = set::verify(&dir)?;
            set::check_dir(&dir, &mut findings)?;
            Ok(findings)
        }
        Subject::Run(dir) => verify_run(&dir),
    }
}

/// Checks a set that has no place in a store yet.
pub(crate) fn of_unpacked(dir: &Path) -> Result<Findings, Error> {
    set::verify(dir)
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
    let answered = dispatches
        .iter()
        .filter(|dispatch| dispatch.outcome == Some(Outcome::Complete))
        .count() as u64;
    if opened.account.answered != answered {
        let problem = format!(
            "{} were answered, {} has {answered}",
            opened.account.answered,
            run::TURNS
        );
        findings.fault(run::RUN, problem);
    }
    if summary(&dispatches) != opened.summary {
        let problem = format!("the summary is not what {} comes to", run::TURNS);
        findings.fault(run::RUN, problem);
    }
    for dispatch in &dispatches {
        if dispatch.lateness_us.is_some_and(|late| late < 0) {
            findings.fault(format!("turn {}", dispatch.turn_id), "was sent early");
        }
        let late = dispatch
            .sent_us
            .zip(dispatch.ready_us)
            .map(|(sent, ready)| sent - ready);
        if dispatch.lateness_us != late {
            findings.fault(
                format!("turn {}", dispatch.turn_id),
                "its lateness is not the time from ready to sent",
            );
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

/// The summary that dispatches come to, as it is written.
fn summary(dispatches: &[run::Dispatch]) -> serde_json::Value {
    serde_json::to_value(latency::summarize(dispatches)).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;
    use truetape_schemas::file::{Writer, write_atomically};
    use truetape_schemas::run::{Account, Dispatch, Run};

    fn dispatch(turn_id: i64) -> Dispatch {
        Dispatch {
            turn_id,
            due_us: 1_000 * turn_id,
            ready_us: Some(1_000 * turn_id),
            sent_us: Some(1_000 * turn_id + 7),
            lateness_us: Some(7),
            output_tokens: Some(4),
            outcome: Some(Outcome::Complete),
            ..Dispatch::default()
        }
    }

    /// Writes a run that is true to itself, and then other dispatches in its place.
    fn faults(dispatches: &[Dispatch]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let told: Vec<Dispatch> = (0..3).map(dispatch).collect();
        let whole = Run {
            format: run::FORMAT.to_string(),
            account: Account {
                due: 3,
                sent: 3,
                answered: 3,
                ..Account::default()
            },
            summary: summary(&told),
            ..Run::default()
        };
        let bytes = serde_json::to_vec(&whole).unwrap();
        write_atomically(&dir.path().join(run::RUN), &bytes).unwrap();
        let mut writer = Writer::<Dispatch>::create(&dir.path().join(run::TURNS)).unwrap();
        writer.write(dispatches).unwrap();
        writer.finish(&[]).unwrap();
        verify_run(dir.path()).unwrap().faults
    }

    #[test]
    fn a_run_is_held_to_its_own_rows() {
        let rows: Vec<Dispatch> = (0..3).map(dispatch).collect();
        assert_eq!(faults(&rows), Vec::<String>::new());
        let changed = |change: fn(&mut Dispatch)| {
            let mut rows = rows.clone();
            rows.iter_mut().for_each(change);
            faults(&rows).join("; ")
        };
        assert!(changed(|row| row.lateness_us = Some(5)).contains("lateness"));
        assert!(changed(|row| row.output_tokens = Some(9)).contains("summary"));
        assert!(changed(|row| row.outcome = Some(Outcome::Error)).contains("answered"));
        assert!(changed(|row| row.sent_us = None).contains("for no reason"));
    }
}
