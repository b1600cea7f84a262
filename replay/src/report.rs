//! Draws the report of a run, fresh or from its directory: on a terminal, as JSON, Markdown, a page
//! and JUnit XML, and through a gate.

use crate::cli::{FailOn, Format, ReportArgs, ReportFormat};
use crate::error::Error;
use crate::load;
use crate::shard::merge::{self, Part};
use measured::measured;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use truetape_fidelity::gate::{Gate, Outcome};
use truetape_fidelity::render;
use truetape_schemas::blame::Answer;
use truetape_schemas::file::write_atomically;
use truetape_schemas::report::{Report, Verdict};
use truetape_schemas::run::{self, Run};

mod gate;
mod measured;
mod page;

/// Reports that were drawn, and what the gate said.
#[derive(Debug)]
pub struct Drawn {
    /// What is printed.
    pub text: String,
    /// The page, where one is to be written.
    pub html: Option<String>,
    /// JUnit XML, where it is to be written.
    pub junit: Option<String>,
    /// No where a gate is shut.
    pub answer: Answer,
}

/// One report.
struct Subject<'a> {
    dir: &'a Path,
    run: Run,
    report: Report,
    outcome: Option<Outcome>,
}

/// Prints the reports of runs that are on disk.
pub fn run(args: ReportArgs) -> Result<Answer, Error> {
    let drawn = draw(&args)?;
    for (path, text) in [(&args.html, &drawn.html), (&args.junit, &drawn.junit)] {
        if let (Some(path), Some(text)) = (path, text) {
            write_atomically(path, text.as_bytes())?;
        }
    }
    print(&drawn.text)?;
    Ok(drawn.answer)
}

/// Draws the reports of runs that are on disk.
pub fn draw(args: &ReportArgs) -> Result<Drawn, Error> {
    let gate = args.gate.as_deref().map(gate::read).transpose()?;
    let mut subjects = subjects(args)?;
    for subject in &mut subjects {
        subject.outcome = gate
            .as_ref()
            .map(|gate| gate.judge(&subject.report, &subject.run));
    }
    let html = page_of(args, &subjects)?;
    let open = |subject: &Subject<'_>| subject.outcome.as_ref().is_none_or(Outcome::is_open);
    Ok(Drawn {
        text: text(args.format, &subjects, html.as_deref()),
        junit: args
            .junit
            .is_some()
            .then(|| junit(gate.as_ref(), &subjects)),
        html,
        answer: if subjects.iter().all(open) {
            Answer::Yes
        } else {
            Answer::No
        },
    })
}

/// What is to be reported: one merged run, or each as it is.
fn subjects(args: &ReportArgs) -> Result<Vec<Subject<'_>>, Error> {
    let mut subjects = Vec::with_capacity(args.runs.len());
    for dir in &args.runs {
        let run = run::open(dir)?;
        let report = load::report(&dir.join(run::FIDELITY))?;
        subjects.push(Subject {
            dir,
            run,
            report,
            outcome: None,
        });
    }
    let several = subjects.len() > 1;
    let is_shard = |subject: &Subject<'_>| merge::shard(&subject.run).is_some();
    match &args.set {
        Some(set) if several || subjects.iter().any(is_shard) => Ok(vec![merged(args, set)?]),
        Some(_) => Ok(subjects),
        None => {
            if let Some(subject) = subjects.iter().find(|s| several && is_shard(s)) {
                let shard = merge::shard(&subject.run).unwrap_or_default();
                let problem = format!(
                    "missing: {} is shard {shard} of a run, and shards are judged together, against the set",
                    subject.dir.display()
                );
                return Err(Error::config("--set", problem));
            }
            Ok(subjects)
        }
    }
}

/// One report of all the shards of a run.
fn merged<'a>(args: &'a ReportArgs, set: &str) -> Result<Subject<'a>, Error> {
    let set = load::load(set, args.store.as_deref())?;
    let parts: Result<Vec<Part>, Error> = args.runs.iter().map(|dir| Part::open(dir)).collect();
    let (run, report) = merge::merge(parts?, &set)?;
    let dir = args.runs.first().map_or(Path::new(""), PathBuf::as_path);
    Ok(Subject {
        dir,
        run,
        report,
        outcome: None,
    })
}

fn page_of(args: &ReportArgs, subjects: &[Subject<'_>]) -> Result<Option<String>, Error> {
    let printed = args.format == ReportFormat::Html;
    if args.html.is_none() && !printed {
        return Ok(None);
    }
    let [subject] = subjects else {
        let flag = if printed { "--format html" } else { "--html" };
        let problem = format!(
            "a page is of one run, and {} are given; draw each by itself, or merge shards with --set",
            subjects.len()
        );
        return Err(Error::config(flag, problem));
    };
    page::draw(
        args,
        &subject.run,
        &subject.report,
        subject.outcome.as_ref(),
    )
    .map(Some)
}

fn text(format: ReportFormat, subjects: &[Subject<'_>], html: Option<&str>) -> String {
    let of = |subject: &Subject<'_>| json(&subject.run, &subject.report, subject.outcome.as_ref());
    match (format, subjects) {
        (ReportFormat::Html, _) => html.unwrap_or_default().to_owned(),
        (ReportFormat::Json, [one]) => pretty(&of(one)),
        (ReportFormat::Json, several) => {
            pretty(&serde_json::Value::Array(several.iter().map(of).collect()))
        }
        (format, several) => {
            let each = several.iter().map(|subject| {
                let drawn = drawn(format, subject.dir, &subject.run, &subject.report);
                gated(format, subject.outcome.as_ref()) + &drawn
            });
            each.collect::<Vec<String>>().join("\n")
        }
    }
}

/// The gate stands first: it is what the reader of a failed pipeline looks for.
fn gated(format: ReportFormat, outcome: Option<&Outcome>) -> String {
    match (format, outcome) {
        (_, None) => String::new(),
        (ReportFormat::Markdown, Some(outcome)) => render::gate_markdown(outcome) + "\n",
        (_, Some(outcome)) => render::gate_terminal(outcome) + "\n",
    }
}

fn junit(gate: Option<&Gate>, subjects: &[Subject<'_>]) -> String {
    let judged = |subject: &'_ Subject<'_>| gate.zip(subject.outcome.clone());
    let outcomes: Vec<Option<(&Gate, Outcome)>> = subjects.iter().map(judged).collect();
    let all: Vec<render::Judged<'_>> = subjects
        .iter()
        .zip(&outcomes)
        .map(|(subject, judged)| render::Judged {
            report: &subject.report,
            gate: judged.as_ref().map(|(gate, outcome)| (*gate, outcome)),
        })
        .collect();
    render::junit(&all)
}

/// Prints the report of a run that has just ended.
pub fn show(format: Format, dir: &Path, run: &Run, report: &Report) -> Result<(), Error> {
    match format {
        Format::Json => print(&pretty(&json(run, report, None))),
        format => print(&drawn(format.into(), dir, run, report)),
    }
}

fn json(run: &Run, report: &Report, outcome: Option<&Outcome>) -> serde_json::Value {
    let mut value = serde_json::json!({"run": run, "report": report});
    if let Some(outcome) = outcome {
        value["gate"] = serde_json::json!({"open": outcome.is_open(), "rules": outcome.rules});
    }
    value
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

fn drawn(format: ReportFormat, dir: &Path, run: &Run, report: &Report) -> String {
    if format == ReportFormat::Markdown {
        return render::markdown(report);
    }
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let ended = |text: String| {
        if text.ends_with('\n') {
            text
        } else {
            text + "\n"
        }
    };
    format!(
        "{}\n{}",
        ended(render::terminal(report, color)),
        measured(dir, run)
    ) + &last_word(report)
}

/// The verdict once more: on a terminal the first line has scrolled away.
fn last_word(report: &Report) -> String {
    let (verdict, direction) = (report.verdict.name(), report.direction.name());
    format!("\n{verdict} {direction}: {}\n", report.sentence)
}

/// What the verdict of a run answers.
pub fn answer(verdict: Verdict, fail_on: FailOn) -> Answer {
    match (fail_on, verdict) {
        (FailOn::Never, _) | (_, Verdict::Pass) | (FailOn::Fail, Verdict::Unknown) => Answer::Yes,
        (FailOn::Unknown, Verdict::Unknown) | (_, Verdict::Fail) => Answer::No,
    }
}

/// Writes data to stdout. A reader that has gone away, as `head` does, is not an error.
pub fn print(text: &str) -> Result<(), Error> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::Host {
            what: "stdout".to_owned(),
            cause,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_no_where_the_user_drew_the_line() {
        use {FailOn as On, Verdict as V};
        let cases = [
            (On::Fail, [Answer::Yes, Answer::Yes, Answer::No]),
            (On::Unknown, [Answer::Yes, Answer::No, Answer::No]),
            (On::Never, [Answer::Yes, Answer::Yes, Answer::Yes]),
        ];
        for (fail_on, answers) in cases {
            let verdicts = [V::Pass, V::Unknown, V::Fail];
            assert_eq!(
                verdicts.map(|verdict| answer(verdict, fail_on)),
                answers,
                "{fail_on:?}"
            );
        }
    }
}
