//! What the proxy costs next to its peers, in one run: requests, events, latency, memory.
//!
//! ```text
//! core 1: load ──▶ core 0: subject ──▶ core 1: upstream
//! ```
//!
//! Read in this order: [`wire`], [`upstream`], [`load`], [`subject`], [`process`], [`figures`].
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot go on ends here, and prints"
)]

mod figures;
mod load;
mod poll;
mod process;
mod subject;
mod upstream;
mod wire;

use clap::Parser;
use figures::{Figures, cpu_us, medians, pair, ratio, show};
use load::{Observer, Span, Streams};
use process::Times;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use subject::{Kind, Subject};
use truetape_testkit::eval::{Eval, Table, figure};
use upstream::Upstream;

/// Connections that are kept busy.
const CONNECTIONS: usize = 32;
/// Requests in a second, where latency is measured.
const RATE_PER_S: u64 = 1000;
/// Streams whose events are timed: each event every 20 ms, a stream in 1.28 s.
const PACED: Streams = Streams {
    count: 50,
    events: 64,
    every_us: 20_000,
};
/// Streams whose memory is measured.
const MANY: Streams = Streams {
    count: 1000,
    events: 32,
    every_us: 250_000,
};

/// Compare the proxy with its peers.
#[derive(Debug, Parser)]
struct Args {
    /// Short windows and one round: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Rounds; the medians are told.
    #[arg(long)]
    rounds: Option<usize>,
    /// Only these subjects.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these loads: requests, rate, events, memory.
    #[arg(long, value_delimiter = ',')]
    load: Vec<String>,
    /// Seconds of each window.
    #[arg(long)]
    seconds: Option<f64>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 2.0 } else { 8.0 })
    }

    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    fn loads(&self, name: &str) -> bool {
        self.load.is_empty() || self.load.iter().any(|only| only == name)
    }
}

/// Reads a subject's account at both ends of a window, and its memory within.
struct Meter {
    id: Option<u32>,
    before: Times,
    spent: Times,
    resident_bytes: u64,
}

impl Meter {
    fn of(subject: &Subject) -> Self {
        Self {
            id: subject.id(),
            before: Times::new(),
            spent: Times::new(),
            resident_bytes: 0,
        }
    }

    fn times(&self) -> Times {
        self.id.map(process::times).unwrap_or_default()
    }
}

impl Observer for Meter {
    fn begin(&mut self) {
        self.before = self.times();
    }

    fn end(&mut self) {
        self.spent = process::spent(&self.before, &self.times());
    }

    fn tick(&mut self) {
        let now = self.id.map_or(0, process::resident_bytes);
        self.resident_bytes = self.resident_bytes.max(now);
    }
}

/// What the rounds of one subject measured.
#[derive(Debug, Default)]
struct Measured {
    rounds: Vec<Figures>,
    /// Microseconds of each thread for a request and for an event, of the latest round.
    threads: BTreeMap<&'static str, BTreeMap<String, f64>>,
    recorded: Vec<Value>,
}

struct Bench<'a> {
    args: &'a Args,
    kind: Kind,
    program: &'a Path,
    measured: &'a mut Measured,
    figures: Figures,
}

impl Bench<'_> {
    fn round(mut self) {
        if self.args.loads("requests") {
            self.requests();
        }
        if self.args.loads("rate") {
            self.rate();
        }
        if self.args.loads("events") {
            self.events();
        }
        if self.args.loads("memory") && self.kind != Kind::Direct {
            self.memory();
        }
        self.measured.rounds.push(self.figures);
    }

    /// Runs a load against a subject that was just started.
    fn against<T>(
        &mut self,
        warm_s: f64,
        load: impl FnOnce(&Subject, Span, &mut Meter) -> T,
    ) -> (T, Meter) {
        let upstream = Upstream::start();
        let subject = Subject::start(self.kind, self.program, upstream.addr);
        let mut meter = Meter::of(&subject);
        let seconds = self.args.seconds();
        let span = Span { warm_s, seconds };
        let seen = load(&subject, span, &mut meter);
        if let Some(counts) = subject.stop() {
            self.measured.recorded.push(counts);
        }
        (seen, meter)
    }

    fn threads(&mut self, load: &'static str, spent: &Times, things: u64) {
        let each = |(name, ns): (&String, &u64)| {
            (name.clone(), *ns as f64 / 1000.0 / things.max(1) as f64)
        };
        self.measured
            .threads
            .insert(load, spent.iter().map(each).collect());
    }

    fn requests(&mut self) {
        let seconds = self.args.seconds();
        let (answered, meter) = self.against(2.0, |subject, span, meter| {
            load::saturate(subject.addr, CONNECTIONS, span, meter)
        });
        self.figures
            .insert("requests_per_s", answered as f64 / seconds);
        if meter.id.is_some() {
            let cpu_us = cpu_us(&meter.spent, answered);
            self.figures.insert("cpu_request_us", cpu_us);
            self.figures
                .insert("cpu_share", cpu_us * answered as f64 / 1e6 / seconds);
            self.threads("request", &meter.spent, answered);
        }
    }

    fn rate(&mut self) {
        let (paced, _) = self.against(1.0, |subject, span, meter| {
            load::pace(subject.addr, RATE_PER_S, span, meter)
        });
        match paced {
            Some(paced) => self.figures.extend(figures::of_paced(paced)),
            None => eprintln!("{} fell behind the rate", self.kind.name()),
        }
    }

    fn events(&mut self) {
        let (seen, meter) = self.against(3.0, |subject, span, meter| {
            load::stream(subject.addr, PACED, span, meter)
        });
        let events = seen.transit_ns.len() as u64;
        if meter.id.is_some() {
            self.figures
                .insert("cpu_event_us", cpu_us(&meter.spent, events));
            self.threads("event", &meter.spent, events);
        }
        self.figures.insert("events", events as f64);
        self.figures.extend(figures::of_seen(seen));
    }

    fn memory(&mut self) {
        let (_, meter) = self.against(1.0, |subject, span, meter| {
            load::stream(subject.addr, MANY, span, meter)
        });
        let mib = meter.resident_bytes as f64 / f64::from(1 << 20);
        self.figures.insert("resident_mib", mib);
    }
}

fn main() {
    let args = Args::parse();
    let eval = Eval::begin("bench-proxy");
    process::raise_open_files();
    process::pin(process::LOAD_CORE);
    poll::exact_wakes();
    let mut subjects: Vec<(Kind, PathBuf, Measured)> = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| args.wants(kind.name())) {
        match kind.program() {
            Ok(program) => subjects.push((kind, program, Measured::default())),
            Err(why) => println!("skipped {}: {why}", kind.name()),
        }
    }
    for round in 1..=args.rounds() {
        for (kind, program, measured) in &mut subjects {
            eprintln!("round {round}: {}", kind.name());
            let (args, kind) = (&args, *kind);
            Bench {
                args,
                kind,
                program,
                measured,
                figures: Figures::new(),
            }
            .round();
        }
    }
    report(&eval, &args, &subjects);
}

fn report(eval: &Eval, args: &Args, subjects: &[(Kind, PathBuf, Measured)]) {
    let found: Vec<(Kind, Figures)> = subjects
        .iter()
        .map(|(kind, _, measured)| (*kind, medians(&measured.rounds)))
        .collect();
    println!("{}", costs(&found).markdown());
    println!("{}", ratios(&found).markdown());
    if let Some((_, _, measured)) = subjects.iter().find(|(kind, ..)| *kind == Kind::Truetape) {
        println!("{}", threads(measured).markdown());
        for counts in &measured.recorded {
            println!("recorded: {counts}");
        }
    }
    let subjects: serde_json::Map<String, Value> = subjects
        .iter()
        .zip(&found)
        .map(|((kind, program, measured), (_, medians))| {
            let value = json!({
                "version": kind.version(program),
                "median": medians,
                "rounds": measured.rounds,
                "threads_us": measured.threads,
                "recorded": measured.recorded,
            });
            (kind.name().to_owned(), value)
        })
        .collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let figures = json!({
        "quick": args.quick,
        "window_s": args.seconds(),
        "connections": CONNECTIONS,
        "rate_per_s": RATE_PER_S,
        "subjects": subjects,
    });
    let written = eval.write(&root, &figures).expect("figures are written");
    eprintln!("figures: {}", written.display());
}

fn costs(found: &[(Kind, Figures)]) -> Table {
    let mut table = Table::new(
        "Costs: one core for the subject, one for load and upstream.",
        &[
            "subject",
            "requests/s",
            "CPU us/request",
            "request at 1,000/s: p50, p99 us",
            "CPU us/event",
            "event transit: p50, p99 us",
            "jitter: p50, p99 us",
            "RSS, 1,000 streams, MiB",
        ],
    );
    for (kind, figures) in found {
        table.row([
            kind.name().to_owned(),
            show(figures, "requests_per_s"),
            show(figures, "cpu_request_us"),
            pair(figures, "latency_p50_us", "latency_p99_us"),
            show(figures, "cpu_event_us"),
            pair(figures, "transit_p50_us", "transit_p99_us"),
            pair(figures, "jitter_p50_us", "jitter_p99_us"),
            show(figures, "resident_mib"),
        ]);
    }
    table
}

/// Ours over each other's: below 1 is better, but for requests/s.
fn ratios(found: &[(Kind, Figures)]) -> Table {
    const NAMES: [&str; 8] = [
        "requests_per_s",
        "cpu_request_us",
        "latency_p50_us",
        "latency_p99_us",
        "cpu_event_us",
        "transit_p50_us",
        "transit_p99_us",
        "resident_mib",
    ];
    let columns = [["truetape-proxy over"].as_slice(), NAMES.as_slice()].concat();
    let mut table = Table::new("Ratios.", &columns);
    let ours = found.iter().find(|(kind, _)| *kind == Kind::Truetape);
    for (kind, theirs) in found.iter().filter(|(kind, _)| *kind != Kind::Truetape) {
        let Some((_, ours)) = ours else { continue };
        let cells = NAMES.iter().map(|name| ratio(ours, theirs, name));
        table.row(std::iter::once(kind.name().to_owned()).chain(cells));
    }
    table
}

fn threads(measured: &Measured) -> Table {
    let mut table = Table::new(
        "Threads of truetape-proxy.",
        &["thread", "us/request", "us/event"],
    );
    let (requests, events) = (
        measured.threads.get("request"),
        measured.threads.get("event"),
    );
    let names: std::collections::BTreeSet<&String> = [requests, events]
        .into_iter()
        .flatten()
        .flat_map(BTreeMap::keys)
        .collect();
    for name in names {
        let of = |threads: Option<&BTreeMap<String, f64>>| {
            threads
                .and_then(|threads| threads.get(name))
                .map(|us| figure(*us))
                .unwrap_or_default()
        };
        table.row([name.clone(), of(requests), of(events)]);
    }
    table
}
