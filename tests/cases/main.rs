//! Other people's bugs as tests for us: a folder is a case, and its files say how it is run.
//!
//! Read in this order:
//!
//! 1. [`case`]: a folder as a case;
//! 2. [`check`], [`must_not`] and [`findings`]: what was seen against what must be, over JSON;
//! 3. [`times`], [`meter`] and [`spacing`]: what a busy machine adds to a time, how it is taken off
//!    again, and how much of it a case can bear; [`lacking`]: what this build cannot do yet;
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
mod findings;
mod killed;
mod lacking;
mod meter;
mod must_not;
mod proxied;
mod replayed;
mod replays;
mod results;
mod run_captures;
mod run_messages;
mod run_raw;
mod run_replay;
mod run_schedule;
mod run_script;
mod run_set;
mod run_stream;
mod run_table;
mod run_targets;
mod run_trace;
mod server;
mod spacing;
mod stream;
mod times;

use case::{Case, Kind};
use check::Seen;
use findings::{Findings, Wrong};
use meter::Meter;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The variable that names the folder of cases.
const CASES: &str = "TRUETAPE_CASES";

/// The variable that picks cases by a part of their name.
const ONLY: &str = "TRUETAPE_CASE";

/// Where cases are when nobody says: beside the repository.
const CASES_DEFAULT: &str = "../shared/cases";

/// Cases at a time, of those that measure no times.
const AT_A_TIME: usize = 4;

/// Cases that measure times do so alone: this test is no reason for a machine to be busy.
static ALONE: Mutex<()> = Mutex::new(());

/// Noise of the machine that a line tells.
const NOISE_SHOWN_MS: f64 = 5.0;

/// The whole run must stay below this.
const RUN_WITHIN: Duration = Duration::from_secs(180);

/// What came of a case.
#[derive(Debug)]
enum Came {
    Ok(Findings),
    Fail(Vec<String>),
    CannotYet(String),
}

#[test]
fn every_case_holds() {
    let named = std::env::var_os(CASES);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join(CASES_DEFAULT);
    let dir = named.as_ref().map_or_else(beside, PathBuf::from);
    let all = match (cases(&dir), &named) {
        (Some(all), _) => all,
        (None, None) => {
            println!("no cases in {}: nothing to run", dir.display());
            return;
        }
        (None, Some(_)) => panic!("{CASES} names {}, which holds no case", dir.display()),
    };
    let started = Instant::now();
    let picked = picked(all.clone());
    let elsewhere = || picked_of_our_own().is_empty();
    if picked.is_empty() && (named.is_some() || elsewhere()) {
        let (only, all) = (only(), all.len());
        panic!(
            "{ONLY}={only} names none of {all} cases in {}",
            dir.display()
        );
    }
    none_failed(&run_all(picked));
    let took = started.elapsed();
    assert!(took < RUN_WITHIN, "the run took {took:?}");
}

#[test]
fn our_own_cases_hold() {
    none_failed(&run_all(picked_of_our_own()));
}

fn picked_of_our_own() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/own");
    picked(cases(&dir).unwrap())
}

#[track_caller]
fn none_failed(failed: &[String]) {
    let (count, names) = (failed.len(), failed.join(", "));
    assert!(failed.is_empty(), "{count} cases failed: {names}");
}

/// The folders of a folder, by name; `None` when there are none.
fn cases(dir: &Path) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let paths = entries.map(|entry| entry.path());
    let mut cases: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    cases.sort();
    (!cases.is_empty()).then_some(cases)
}

fn only() -> String {
    std::env::var(ONLY).unwrap_or_default()
}

/// Those whose own name, not whose path, holds what is asked for.
fn picked(mut cases: Vec<PathBuf>) -> Vec<PathBuf> {
    let only = only();
    cases.retain(|path| name(path).contains(&only));
    cases
}

fn name(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Runs cases, a line a case, and names those that failed.
fn run_all(cases: Vec<PathBuf>) -> Vec<String> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let started = Instant::now();
    let (timed, untimed): (Vec<PathBuf>, Vec<PathBuf>) =
        cases.into_iter().partition(|dir| measures_times(dir));
    let meter = Meter::start();
    let mut came = run_some(timed, 1, &meter);
    came.extend(run_some(untimed, AT_A_TIME, &meter));
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

fn measures_times(dir: &Path) -> bool {
    matches!(Case::read(dir), Some(Ok(case)) if case.tolerance_ms > 0.0)
}

/// Runs so many cases at a time.
fn run_some(cases: Vec<PathBuf>, at_a_time: usize, meter: &Meter) -> Vec<(String, Came)> {
    let queue = Mutex::new(cases.into_iter());
    let came = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some((name, result)) = next(&queue).map(|dir| run_guarded(&dir, meter)) {
                    println!("{}", line(&name, &result));
                    came.lock().unwrap().push((name, result));
                }
            });
        }
    });
    came.into_inner().unwrap()
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
fn run_guarded(dir: &Path, meter: &Meter) -> (String, Came) {
    let ran = std::panic::catch_unwind(AssertUnwindSafe(|| run(dir, meter)));
    let came = ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let text = text.unwrap_or_else(|| "a panic".to_owned());
        Some(Came::Fail(vec![text]))
    });
    let none = || Came::CannotYet("no expected.json".to_owned());
    (name(dir), came.unwrap_or_else(none))
}

fn run(dir: &Path, meter: &Meter) -> Option<Came> {
    let started = Instant::now();
    let case = match Case::read(dir)? {
        Ok(case) => case,
        Err(wrong) => return Some(Came::Fail(vec![wrong])),
    };
    let Some(kind) = case.kind() else {
        let why = "no file that says how to run it";
        return Some(Came::Fail(vec![why.to_owned()]));
    };
    let findings = match run_kind(&case, kind) {
        Ok(seen) => check::check(&case, &seen, meter.worst_ms_since(started)),
        Err(Stop(why)) => Findings {
            wrong: vec![Wrong::fault(why)],
            ..Findings::default()
        },
    };
    Some(judge(&case, findings))
}

fn judge(case: &Case, findings: Findings) -> Came {
    if findings.wrong.is_empty() {
        return Came::Ok(findings);
    }
    let lacking = lacking::lacking(case);
    let text = |wrong: &Wrong| wrong.text.clone();
    let unexcused = findings
        .wrong
        .iter()
        .filter(|wrong| !lacking.iter().any(|lacking| lacking.excuses(wrong)));
    let unexcused: Vec<String> = unexcused.map(text).collect();
    match (lacking.first(), findings.wrong.first()) {
        (Some(lacking), Some(first)) if unexcused.is_empty() => {
            let (what, keys) = (lacking.what, findings.wrong.len());
            Came::CannotYet(format!("{what} ({keys} wrong; {})", first.text))
        }
        _ => Came::Fail(unexcused),
    }
}

/// Why a case was not run to its end: the folder, or the run, is broken.
#[derive(Debug)]
struct Stop(String);

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self(why)
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
        Kind::Targets => run_targets::run(case)?,
        Kind::Schedule => run_schedule::run_schedule(case)?,
        Kind::Session => run_replay::run_session(case)?,
        Kind::Results => results::run(case)?,
        Kind::Plan => killed::run(case)?,
    })
}
