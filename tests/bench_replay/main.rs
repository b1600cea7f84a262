//! How late requests leave, as the upstream's clock sees it, beside other load generators, in one
//! run; and how many requests one core can send.
//!
//! ```text
//! recorded arrival list ──▶ subject ──▶ upstream: notes when each request came
//! ```
//!
//! Read in this order: [`schedule`], [`upstream`], [`subject`], [`figures`].
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot go on ends here, and prints"
)]

mod figures;
#[path = "../bench/poll.rs"]
mod poll;
#[path = "../bench/process.rs"]
#[expect(
    dead_code,
    reason = "shared with the bench of the proxy, which uses all of it"
)]
mod process;
mod schedule;
mod subject;
mod upstream;

use clap::Parser;
use figures::{Lateness, lateness};
use schedule::Schedule;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use subject::{Job, Kind};
use truetape_testkit::eval::{Eval, Table, figure};
use upstream::Upstream;

/// Dispatches in a second, of 16 tokens that come at once.
const RATES_PER_S: [u64; 3] = [50, 200, 1000];
/// Tokens of those.
const OUTPUT_TOKENS: u32 = 16;
/// The load with live streams: dispatches in a second, tokens, and the time between them.
const LIVE_RATE_PER_S: u64 = 200;
const LIVE_TOKENS: u32 = 100;
const LIVE_EVERY_US: u64 = 20_000;
/// Streams of the ceiling, all due at once.
const CEILING_STREAMS: usize = 20_000;
/// Of them in flight.
const CEILING_IN_FLIGHT: usize = 64;

/// Compare the replayer's lateness with that of other load generators.
#[derive(Debug, Parser)]
struct Args {
    /// Short windows: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Only these subjects.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these loads: 50, 200, 1000, live, ceiling.
    #[arg(long, value_delimiter = ',')]
    load: Vec<String>,
    /// Seconds of each window.
    #[arg(long)]
    seconds: Option<f64>,
    /// Folder of a tokenizer (`tokenizer.json`), for those that make prompts with one.
    #[arg(long, env = "TRUETAPE_BENCH_TOKENIZER")]
    tokenizer: Option<PathBuf>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 4.0 } else { 20.0 })
    }

    fn loads(&self, name: &str) -> bool {
        self.load.is_empty() || self.load.iter().any(|only| only == name)
    }
}

/// One load: its name, its list, and how its answers stream.
struct Load {
    name: String,
    schedule: Schedule,
    every_us: u64,
}

fn loads(args: &Args) -> Vec<Load> {
    let paced = |rate: &u64| Load {
        name: rate.to_string(),
        schedule: Schedule::poisson(*rate, args.seconds(), OUTPUT_TOKENS),
        every_us: 0,
    };
    let live = Load {
        name: "live".to_owned(),
        schedule: Schedule::poisson(LIVE_RATE_PER_S, args.seconds(), LIVE_TOKENS),
        every_us: LIVE_EVERY_US,
    };
    let all = RATES_PER_S.iter().map(paced).chain([live]);
    all.filter(|load| args.loads(&load.name)).collect()
}

fn main() {
    let args = Args::parse();
    let eval = Eval::begin("bench-replay");
    process::raise_open_files();
    let mut subjects: Vec<(Kind, PathBuf)> = Vec::new();
    let wanted =
        |kind: &Kind| args.only.is_empty() || args.only.iter().any(|only| only == kind.name());
    for kind in Kind::ALL.into_iter().filter(wanted) {
        match kind.program() {
            Ok(_) if kind.needs_tokenizer() && args.tokenizer.is_none() => {
                println!("skipped {}: no --tokenizer is given", kind.name());
            }
            Ok(program) => subjects.push((kind, program)),
            Err(why) => println!("skipped {}: {why}", kind.name()),
        }
    }
    let mut table = Table::new(
        "Lateness at the upstream, in milliseconds, from the least late request on; ours also from its own schedule's zero.",
        &[
            "load",
            "subject",
            "requests",
            "p50",
            "p99",
            "max",
            "p50, p99 from zero",
            "own claim: p50, p99",
            "drift",
        ],
    );
    let mut found = Vec::new();
    for load in loads(&args) {
        for (kind, program) in &subjects {
            eprintln!("{}: {}", load.name, kind.name());
            match measure(&args, &load, *kind, program) {
                Ok(seen) => {
                    table.row(row(&load.name, kind.name(), &seen));
                    found
                        .push(json!({"load": load.name, "subject": kind.name(), "lateness": seen}));
                }
                Err(why) => {
                    println!("{} failed at {}: {why}", kind.name(), load.name);
                    found.push(json!({"load": load.name, "subject": kind.name(), "failed": why}));
                }
            }
        }
    }
    println!("{}", table.markdown());
    let ceiling = args
        .loads("ceiling")
        .then(|| ceiling(&args, &subjects))
        .flatten();
    let versions: serde_json::Map<String, Value> = subjects
        .iter()
        .map(|(kind, program)| (kind.name().to_owned(), json!(kind.version(program))))
        .collect();
    let figures = json!({
        "quick": args.quick,
        "seconds": args.seconds(),
        "versions": versions,
        "lateness": found,
        "ceiling": ceiling,
    });
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let written = eval.write(&root, &figures).expect("figures are written");
    eprintln!("figures: {}", written.display());
}

fn measure(args: &Args, load: &Load, kind: Kind, program: &Path) -> Result<Lateness, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let upstream = Upstream::start(load.every_us, None);
    let job = Job {
        kind,
        program,
        tokenizer: args.tokenizer.as_deref(),
        schedule: &load.schedule,
        folder: folder.path(),
        target: upstream.addr,
        in_flight: None,
        core: None,
    };
    let claim = job.run();
    let arrivals = upstream.stop();
    lateness(&load.schedule.due_ns(), arrivals, &claim?)
}

fn row(load: &str, subject: &str, seen: &Lateness) -> Vec<String> {
    let two = |pair: Option<(f64, f64)>| {
        pair.map(|(p50, p99)| format!("{}, {}", figure(p50), figure(p99)))
            .unwrap_or_default()
    };
    vec![
        load.to_owned(),
        subject.to_owned(),
        seen.requests.to_string(),
        figure(seen.p50_ms),
        figure(seen.p99_ms),
        figure(seen.max_ms),
        two(seen.from_zero_ms),
        two(seen.claimed_ms),
        figure(seen.drift_ms),
    ]
}

/// How many streams of 16 events one core sends and reads.
fn ceiling(args: &Args, subjects: &[(Kind, PathBuf)]) -> Option<Value> {
    let (kind, program) = subjects.iter().find(|(kind, _)| *kind == Kind::Truetape)?;
    let count = if args.quick {
        CEILING_STREAMS / 10
    } else {
        CEILING_STREAMS
    };
    let schedule = Schedule::at_once(count, OUTPUT_TOKENS);
    let folder = tempfile::tempdir().expect("a folder");
    let upstream = Upstream::start(0, Some(process::LOAD_CORE));
    let job = Job {
        kind: *kind,
        program,
        tokenizer: None,
        schedule: &schedule,
        folder: folder.path(),
        target: upstream.addr,
        in_flight: Some(CEILING_IN_FLIGHT),
        core: Some(process::SUBJECT_CORE),
    };
    let claim = job.run();
    let answered = upstream.answered();
    let arrivals = upstream.stop();
    if let Err(why) = claim {
        println!("the ceiling was not measured: {why}");
        return None;
    }
    let first = arrivals.first().copied()?;
    let seconds = arrivals.last().copied()?.saturating_sub(first) as f64 / 1e9;
    let streams = answered as f64 / seconds;
    let events = streams * f64::from(OUTPUT_TOKENS + 2);
    println!(
        "Ceiling on one core: {} streams/s, {} events/s ({count} streams, {CEILING_IN_FLIGHT} in flight).\n",
        figure(streams),
        figure(events)
    );
    Some(json!({"streams_per_s": streams, "events_per_s": events, "streams": count}))
}
