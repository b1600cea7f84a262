//! `--find-knee`: the highest rate at which a target keeps its promise.
//!
//! Short replays of the same beginning of the set, one after the other, at rates that rise until the
//! promise breaks and then close in on the knee. Each is a run with a directory and a salt of its own.
//! The search ends where the replayer itself is late: what comes then says nothing of the target.

use crate::cli::{Format, ReplayArgs};
use crate::command::Replayed;
use crate::error::Error;
use crate::host::Host;
use crate::load::{self, Loaded};
use crate::plan::reason;
use crate::verdict;
use search::Search;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use truetape_fidelity::latency::Summary;
use truetape_schemas::blame::Answer;
use truetape_schemas::file::write_atomically;

mod search;
pub mod slo;
mod words;

pub use slo::{Judged, Slo};
use words::{say, sentence, text};

/// What the search came to, beside the directories of its stages.
pub const KNEE: &str = "knee.json";

/// Length of a stage unless `--duration` says otherwise: a p99 of 2 requests a second is the second
/// largest of 120.
const STAGE: Duration = Duration::from_secs(60);

/// Requests that a p99 needs to be more than the largest value.
const REQUESTS_FOR_P99: u64 = 100;

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The knee lies in the interval.
    Found,
    /// The promise was kept up to the highest rate that was tried; the set has no more load, or the
    /// search no more patience.
    NotReached,
    /// It was broken at the lowest rate that was tried.
    NeverHeld,
    /// The replayer, not the target, was late.
    ReplayerLate,
    /// The user or the token budget stopped it.
    Stopped,
    /// A stage could not be run, as when the target is failed; the error says why.
    StageFailed,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// Its directory beside `knee.json`.
    pub dir: String,
    /// Its rate, as a multiple of the set's.
    pub rate_scale: f64,
    /// Whether every bound held.
    pub holds: bool,
    /// `valid`, `invalid` or `stopped`, as in its `run.json`.
    pub validity: String,
    /// Requests sent.
    pub sent: u64,
    /// Mean rate of requests that was planned, per second.
    pub planned_per_s: Option<f64>,
    /// Mean rate of requests that was sent, per second.
    pub achieved_per_s: Option<f64>,
    /// Each bound.
    pub bounds: Vec<Judged>,
    /// Why the search cannot go on after it.
    #[serde(skip)]
    ends: Option<Ended>,
}

/// `knee.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Knee {
    /// The set.
    pub set_name: String,
    /// Its digest.
    pub set_digest: String,
    /// Where it was sent.
    pub target: String,
    /// The promise.
    pub slo: String,
    /// How the search ended.
    pub ended: Ended,
    /// The highest rate that held, as a multiple of the set's.
    pub rate_scale: Option<f64>,
    /// The mean rate of requests at it, per second.
    pub rate_per_s: Option<f64>,
    /// The knee lies between these; null where that side was not reached.
    pub interval: [Option<f64>; 2],
    /// Every stage, in order.
    pub stages: Vec<Stage>,
    /// Things a user should know before trusting it.
    pub findings: Vec<String>,
}

/// Searches, writes `knee.json` and prints what was found.
pub fn run(args: &ReplayArgs, slo: &Slo, set: &Loaded, out: &Path) -> Result<Answer, Error> {
    crate::run_dir::check(out)?;
    let (name, digest) = (set.manifest.name.clone(), set.manifest.digest.clone());
    let last_start_us = set.turns.iter().filter(|turn| turn.depends_on.is_empty());
    let last_start_us = last_start_us.map(|turn| turn.start_us).max().unwrap_or(0);
    let stages = Stages {
        args: args.clone(),
        slo: slo.clone(),
        out: out.to_owned(),
        stage: args.duration.unwrap_or(STAGE),
        last_start_us,
    };
    let first = args.rate_scale;
    let precision = args.schedule.knee_precision;
    let host = Host::start()?;
    let (search, tried, failed) = search(first, precision, |number, rate| {
        stages.replay(&host, number, rate)
    });
    host.end();
    let (low, high) = search.interval();
    let at_knee = tried
        .iter()
        .rev()
        .find(|stage| Some(stage.rate_scale) == low);
    let knee = Knee {
        set_name: name,
        set_digest: digest,
        target: args.target.clone(),
        slo: slo.word().to_owned(),
        ended: ended(&search, tried.last(), failed.as_ref()),
        rate_scale: low,
        rate_per_s: at_knee.and_then(|stage| stage.achieved_per_s),
        interval: [low, high],
        findings: findings(args, &tried),
        stages: tried,
    };
    write(out, &knee)?;
    crate::report::print(&match args.format {
        Format::Json => json(out, &knee)?,
        Format::Text | Format::Markdown => text(&knee, out),
    })?;
    answer(&knee, out, failed)
}

/// Tries one rate after the other.
fn search(
    first: f64,
    precision: f64,
    mut stage: impl FnMut(usize, f64) -> Result<Option<Stage>, Error>,
) -> (Search, Vec<Stage>, Option<Error>) {
    let mut search = Search::new(first, precision);
    let mut tried: Vec<Stage> = Vec::new();
    while let Some(rate) = search.next() {
        let seen = match stage(tried.len() + 1, rate) {
            Ok(Some(seen)) => seen,
            Ok(None) => break,
            Err(error) => return (search, tried, Some(error)),
        };
        let ends = seen.ends;
        if ends.is_none() {
            search.told(rate, seen.holds);
        }
        tried.push(seen);
        if ends.is_some() {
            break;
        }
    }
    (search, tried, None)
}

fn ended(search: &Search, last: Option<&Stage>, failed: Option<&Error>) -> Ended {
    match failed {
        Some(Error::Stopped { .. }) => return Ended::Stopped,
        Some(_) => return Ended::StageFailed,
        None => {}
    }
    match (last.and_then(|stage| stage.ends), search.interval()) {
        (Some(ends), _) => ends,
        (None, (Some(_), Some(_))) => Ended::Found,
        (None, (Some(_), None) | (None, None)) => Ended::NotReached,
        (None, (None, Some(_))) => Ended::NeverHeld,
    }
}

/// What every stage needs.
struct Stages {
    args: ReplayArgs,
    slo: Slo,
    out: PathBuf,
    stage: Duration,
    last_start_us: i64,
}

impl Stages {
    /// Replays one stage; none where the set has too little load left to fill half of it.
    fn replay(&self, host: &Host, number: usize, rate: f64) -> Result<Option<Stage>, Error> {
        let half_us = crate::settings::micros(self.stage) as f64 / 2.0;
        if (self.last_start_us as f64) / rate < half_us {
            return Ok(None);
        }
        let dir = format!("stage-{number:02}");
        let mut args = self.args.clone();
        args.rate_scale = rate;
        args.duration = Some(self.stage);
        // Stages that share a salt would find each other's prompts in the cache.
        args.salt = args.salt.map(|salt| format!("{salt}-{number}"));
        let set = load::load(&args.set, args.store.as_deref())?;
        let out = self.out.join(&dir);
        let replayed = host.replay(&args, set, &out)?;
        let stage = judged(&self.slo, dir, rate, &replayed);
        say(number, &stage);
        Ok(Some(stage))
    }
}

fn judged(slo: &Slo, dir: String, rate_scale: f64, replayed: &Replayed) -> Stage {
    let run = &replayed.run;
    let summary: Summary = serde_json::from_value(run.summary.clone()).unwrap_or_default();
    let bounds = slo.judge(&summary);
    let stopped = replayed.stopped.as_ref().map(|trip| trip.reason);
    let ends = match stopped {
        Some(reason::STOPPED | reason::TOKEN_BUDGET) => Some(Ended::Stopped),
        _ if run.validity == verdict::INVALID => Some(Ended::ReplayerLate),
        _ => None,
    };
    Stage {
        dir,
        rate_scale,
        // A target that failed so often that the stage was broken off keeps no promise.
        holds: stopped.is_none() && bounds.iter().all(|bound| bound.holds),
        validity: run.validity.clone(),
        sent: run.account.sent,
        planned_per_s: summary.planned.mean_per_s,
        achieved_per_s: summary.achieved.mean_per_s,
        bounds,
        ends,
    }
}

fn findings(args: &ReplayArgs, tried: &[Stage]) -> Vec<String> {
    let mut findings = Vec::new();
    if args.cache == crate::cli::Cache::AsIs {
        findings.push(
            "cache: stages find each other's prompts in the cache (optimistic); use salted or flush".to_owned(),
        );
    }
    let fewest = tried.iter().map(|stage| stage.sent).min().unwrap_or(0);
    if fewest < REQUESTS_FOR_P99 {
        findings.push(format!(
            "the smallest stage sent {fewest} requests; a p99 needs {REQUESTS_FOR_P99}: make --duration longer"
        ));
    }
    findings.push(
        "each rate was tried once: a knee near a bound may move when it is tried again".to_owned(),
    );
    findings
}

fn answer(knee: &Knee, out: &Path, failed: Option<Error>) -> Result<Answer, Error> {
    let path = out.to_owned();
    match (failed, knee.ended) {
        (Some(error), _) => Err(error),
        (None, Ended::ReplayerLate) => Err(Error::Invalid {
            path,
            problem: sentence(knee),
        }),
        (None, Ended::Stopped) => Err(Error::Stopped {
            path,
            problem: sentence(knee),
        }),
        (None, Ended::NeverHeld) => Ok(Answer::No),
        (None, Ended::NotReached) if knee.stages.is_empty() => Err(Error::config(
            "--duration",
            "the set does not fill half a stage at --rate-scale; make the stage shorter, or the rate lower",
        )),
        (None, _) => Ok(Answer::Yes),
    }
}

fn json(path: &Path, knee: &Knee) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(knee);
    text.map(|text| text + "\n").map_err(|cause| Error::Bug {
        subject: path.display().to_string(),
        problem: cause.to_string(),
    })
}

fn write(out: &Path, knee: &Knee) -> Result<(), Error> {
    if knee.stages.is_empty() {
        return Ok(());
    }
    let path = out.join(KNEE);
    write_atomically(&path, json(&path, knee)?.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(rate_scale: f64, holds: bool, ends: Option<Ended>) -> Stage {
        Stage {
            dir: "stage".into(),
            rate_scale,
            holds,
            validity: "valid".into(),
            sent: 200,
            planned_per_s: None,
            achieved_per_s: Some(10.0 * rate_scale),
            bounds: vec![],
            ends,
        }
    }

    fn searched(of: impl Fn(f64) -> Option<Stage>) -> (Ended, [Option<f64>; 2], usize) {
        let (search, tried, failed) = search(1.0, 0.1, |_, rate| Ok(of(rate)));
        let (low, high) = search.interval();
        (
            ended(&search, tried.last(), failed.as_ref()),
            [low, high],
            tried.len(),
        )
    }

    #[test]
    fn a_search_says_how_it_ended() {
        let knee = searched(|rate| Some(stage(rate, rate < 3.0, None)));
        assert_eq!(knee.0, Ended::Found);
        let [Some(low), Some(high)] = knee.1 else {
            panic!("{knee:?}")
        };
        assert!(low < 3.0 && 3.0 <= high && high <= 1.1 * low);
        let never = searched(|rate| Some(stage(rate, false, None)));
        assert_eq!((never.0, never.1[0]), (Ended::NeverHeld, None));
        let short = searched(|rate| (rate < 8.0).then(|| stage(rate, true, None)));
        assert_eq!(short, (Ended::NotReached, [Some(4.0), None], 3));
    }

    #[test]
    fn what_the_replayer_was_late_for_is_no_bound_of_the_target() {
        let late = |rate: f64| {
            Some(stage(
                rate,
                4.0 > rate,
                (rate >= 4.0).then_some(Ended::ReplayerLate),
            ))
        };
        assert_eq!(searched(late), (Ended::ReplayerLate, [Some(2.0), None], 3));
    }

    #[test]
    fn the_exit_code_says_whose_it_was() {
        use truetape_schemas::blame::Blamed as _;
        let knee = |ended, low| Knee {
            set_name: "s".into(),
            set_digest: "d".into(),
            target: "t".into(),
            slo: "x".into(),
            ended,
            rate_scale: low,
            rate_per_s: low,
            interval: [low, None],
            stages: vec![stage(1.0, true, None)],
            findings: vec![],
        };
        let code = |ended, low| match answer(&knee(ended, low), Path::new("o"), None) {
            Ok(answer) => answer.exit_code(),
            Err(error) => error.blame().exit_code(),
        };
        let cases = [
            (Ended::Found, Some(2.0), 0),
            (Ended::NotReached, Some(2.0), 0),
            (Ended::NeverHeld, None, 1),
            (Ended::ReplayerLate, Some(2.0), 74),
            (Ended::Stopped, None, 75),
        ];
        for (ended, low, expected) in cases {
            assert_eq!(code(ended, low), expected, "{ended:?}");
        }
    }
}
