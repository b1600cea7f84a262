//! Other people's bugs as tests for us: a folder is a case, and its files say how it is run.
//!
//! Read in this order:
//!
//! 1. [`case`]: a folder as a case;
//! 2. [`check`] and [`must_not`]: what was seen against what must be, over JSON;
//! 3. [`times`] and [`meter`]: what a busy machine adds to a time, and how it is taken off again;
//! 4. [`proxied`], [`replayed`] and [`compiled`]: the product, as its users run it;
//! 5. `run_*`: one way of running for each kind of folder.
//!
//! `TRUETAPE_CASES` names the folder of cases; `TRUETAPE_CASE` runs those whose name holds it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails"
)]

mod case;
mod check;
mod compiled;
mod killed;
mod meter;
mod must_not;
mod proxied;
mod replayed;
mod replays;
mod results;
mod run_captures;
mod run_raw;
mod run_replay;
mod run_schedule;
mod run_script;
mod run_set;
mod run_stream;
mod run_trace;
mod server;
mod stream;
mod times;

use case::{Case, Kind};
use check::{Findings, Seen};
use meter::Meter;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The variable that names the folder of cases.
const CASES: &str = "TRUETAPE_CASES";

/// The variable that picks cases by a part of their name.
const ONLY: &str = "TRUETAPE_CASE";

/// Where cases are when nobody says: beside the repository.
const CASES_DEFAULT: &str = "../shared/cases";

/// Cases at a time: most of them wait, but they measure while they wait.
const AT_A_TIME: usize = 4;

/// Noise of the machine that a line tells.
const NOISE_SHOWN_MS: f64 = 5.0;

/// The whole run must stay below this.
const RUN_WITHIN: Duration = Duration::from_secs(120);

/// What came of a case.
#[derive(Debug)]
enum Came {
    Ok(Findings),
    Fail(Vec<String>),
    CannotYet(String),
}

#[test]
fn every_case_holds() {
    let dir = std::env::var_os(CASES).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join(CASES_DEFAULT),
        PathBuf::from,
    );
    let Some(cases) = cases(&dir) else {
        println!("no cases in {}: nothing to run", dir.display());
        return;
    };
    let started = Instant::now();
    let failed = run_all(cases);
    assert!(
        failed.is_empty(),
        "{} cases failed: {}",
        failed.len(),
        failed.join(", ")
    );
    assert!(
        started.elapsed() < RUN_WITHIN,
        "the run took {:?}",
        started.elapsed()
    );
}

#[test]
fn our_own_cases_hold() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/own");
    let failed = run_all(cases(&dir).unwrap());
    assert!(
        failed.is_empty(),
        "{} cases failed: {}",
        failed.len(),
        failed.join(", ")
    );
}

/// The cases of a folder, by name; `None` when there is no such folder.
fn cases(dir: &Path) -> Option<Vec<PathBuf>> {
    let only = std::env::var(ONLY).unwrap_or_default();
    let entries = std::fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let picked = |path: &PathBuf| path.to_string_lossy().contains(&only);
    let mut cases: Vec<PathBuf> = entries
        .filter(|path| path.is_dir())
        .filter(picked)
        .collect();
    cases.sort();
    (!cases.is_empty()).then_some(cases)
}

/// Runs cases a few at a time, a line a case, and names those that failed.
fn run_all(cases: Vec<PathBuf>) -> Vec<String> {
    let started = Instant::now();
    let queue = Mutex::new(cases.into_iter());
    let meter = Meter::start();
    let came = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((name, result)) =
                    next(&queue).and_then(|dir| run_guarded(&dir, &meter))
                {
                    println!("{}", line(&name, &result));
                    came.lock().unwrap().push((name, result));
                }
            });
        }
    });
    let came = came.into_inner().unwrap();
    let count = |wanted: fn(&Came) -> bool| came.iter().filter(|(_, came)| wanted(came)).count();
    println!(
        "{} cases: {} ok, {} failed, {} cannot run yet; {:.1} s",
        came.len(),
        count(|came| matches!(came, Came::Ok(_))),
        count(|came| matches!(came, Came::Fail(_))),
        count(|came| matches!(came, Came::CannotYet(_))),
        started.elapsed().as_secs_f64(),
    );
    let failed = |(name, came): (String, Came)| matches!(came, Came::Fail(_)).then_some(name);
    came.into_iter().filter_map(failed).collect()
}

fn next(queue: &Mutex<std::vec::IntoIter<PathBuf>>) -> Option<PathBuf> {
    queue.lock().unwrap().next()
}

fn line(name: &str, came: &Came) -> String {
    match came {
        Came::Ok(findings) => {
            let sentences = match findings.sentences {
                0 => String::new(),
                n => format!(", {n} of must_not"),
            };
            let noise = match findings.noise_ms {
                noise if noise < NOISE_SHOWN_MS => String::new(),
                noise => format!(" (a busy machine: up to {noise:.0} ms allowed for)"),
            };
            format!("ok {name} {} keys{sentences}{noise}", findings.keys)
        }
        Came::Fail(wrong) => format!("FAIL {name}\n    {}", wrong.join("\n    ")),
        Came::CannotYet(why) => format!("cannot run yet: {name}: {why}"),
    }
}

/// A panic while a case runs is a failure of that case, not the end of the others.
fn run_guarded(dir: &Path, meter: &Meter) -> Option<(String, Came)> {
    let name = dir
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let ran = std::panic::catch_unwind(AssertUnwindSafe(|| run(dir, meter)));
    let came = ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Some(Came::Fail(vec![
            text.unwrap_or_else(|| "a panic".to_owned()),
        ]))
    });
    Some((
        name,
        came.unwrap_or_else(|| Came::CannotYet("no expected.json".to_owned())),
    ))
}

fn run(dir: &Path, meter: &Meter) -> Option<Came> {
    let started = Instant::now();
    let case = match Case::read(dir)? {
        Ok(case) => case,
        Err(wrong) => return Some(Came::Fail(vec![wrong])),
    };
    let Some(kind) = case.kind() else {
        return Some(Came::CannotYet(
            "no file that says how to run it".to_owned(),
        ));
    };
    Some(match run_kind(&case, kind) {
        Ok(seen) => {
            let machine_ms = meter.worst_ms_since(started);
            let findings = check::check(&case, &seen, machine_ms);
            if findings.wrong.is_empty() {
                Came::Ok(findings)
            } else {
                judge(&case, findings)
            }
        }
        Err(Stop::CannotYet(why)) => Came::CannotYet(why),
        Err(Stop::Broken(why)) => judge(
            &case,
            Findings {
                wrong: vec![why],
                ..Findings::default()
            },
        ),
    })
}

/// Why a case was not run to its end.
#[derive(Debug)]
enum Stop {
    /// The product lacks what it is about.
    CannotYet(String),
    /// The folder, or the run, is broken.
    Broken(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

fn run_kind(case: &Case, kind: Kind) -> Result<Vec<Seen>, Stop> {
    Ok(match kind {
        Kind::Stream => run_stream::run(case)?,
        Kind::Json => run_stream::run_json(case)?,
        Kind::Raw => run_raw::run(case)?,
        Kind::Script => run_script::run(case)?,
        Kind::Captures => run_captures::run(case)?,
        Kind::Trace => run_trace::run(case)?,
        Kind::Set => run_set::run_set(case)?,
        Kind::Tokens => run_set::run_tokens(case)?,
        Kind::Values => run_set::run_values(case)?,
        Kind::Targets => run_set::run_targets(case)?,
        Kind::Schedule => run_schedule::run_schedule(case)?,
        Kind::Session => run_replay::run_session(case)?,
        Kind::Results => results::run(case)?,
        Kind::Plan => killed::run(case)?,
    })
}

/// What this build is known to lack, by what a case's own files ask for. A case that needs it is
/// reported by name; it stops being excused the day it passes.
fn judge(case: &Case, findings: Findings) -> Came {
    match lacks(case) {
        Some(what) => {
            let first = findings.wrong.first().cloned().unwrap_or_default();
            Came::CannotYet(format!("{what} ({first})"))
        }
        None => Came::Fail(findings.wrong),
    }
}

fn lacks(case: &Case) -> Option<&'static str> {
    let mut text = String::new();
    for file in case.files().filter(|file| *file != case::EXPECTED) {
        text += &String::from_utf8_lossy(&case.bytes(file).unwrap_or_default());
        text.push('\n');
    }
    let kind = case.kind()?;
    let lacking = LACKING.iter().filter(|(_, _, kinds)| kinds.contains(&kind));
    let mut asked = lacking.filter(|(sign, _, _)| text.contains(sign));
    asked.next().map(|(_, what, _)| *what)
}

/// Kinds that read answers off the wire.
const LIVE: &[Kind] = &[Kind::Stream, Kind::Json, Kind::Raw, Kind::Script];

/// The same, and captures that hold them.
const LIVE_OR_CAPTURED: &[Kind] = &[
    Kind::Stream,
    Kind::Json,
    Kind::Raw,
    Kind::Script,
    Kind::Captures,
];

/// A sign in a case's files, what of the product it needs, and the kinds that it is lacking for.
const LACKING: &[(&str, &str, &[Kind])] = &[
    (
        "\"content-encoding\"",
        "compressed answers are not decoded yet",
        LIVE,
    ),
    ("/v1/messages", "the Anthropic dialect", LIVE_OR_CAPTURED),
    ("/v1/responses", "the Responses dialect", LIVE),
    ("/api/chat", "the Ollama dialect", LIVE_OR_CAPTURED),
    ("/v1/embeddings", "embeddings", LIVE_OR_CAPTURED),
    (
        "\"image_url\"",
        "content that is not text",
        LIVE_OR_CAPTURED,
    ),
];
