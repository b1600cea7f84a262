//! P1 as a measurement: every exchange is played twice, without the proxy and through it, and what
//! both sides saw must be the same.
//!
//! The exchanges are data: `corpus/*.txt` (other people's bugs, as scripts for both sides), and the
//! acceptance cases beside the repository, where they are at hand. Each is played over HTTP/1.1, as
//! bytes on sockets, and over HTTP/2, as frames.
//!
//! Read in this order:
//!
//! 1. [`corpus`] and [`text`]: a file as entries; [`open`] and [`folders`]: cases as entries;
//! 2. [`stage`]: a proxy between two servers, and one play without it and through it;
//! 3. [`compare`] and [`verdict`]: what differs, which nothing may;
//! 4. [`rows`]: what the capture says of the exchanges.
//!
//! `TRUETAPE_ENTRY` runs the entries whose name holds it; `TRUETAPE_PROXY` names another binary of
//! the proxy to put between.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails"
)]

#[path = "../cases/case.rs"]
#[expect(dead_code, reason = "it serves the driver of the cases too")]
mod case;
mod compare;
mod corpus;
mod folders;
mod open;
mod rows;
mod stage;
#[path = "../cases/stream.rs"]
#[expect(dead_code, reason = "it serves the driver of the cases too")]
mod stream;
mod text;
mod verdict;

use corpus::Entry;
use stage::{Between, Came, Stage};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use truetape_testkit::talk::Protocol;
use verdict::Verdict;

/// The variable that picks entries by a part of their name.
const ONLY: &str = "TRUETAPE_ENTRY";

/// Exchanges at a time, besides those that mostly wait.
const AT_A_TIME: usize = 4;

/// The whole run must stay below this, on a machine with nothing else to do below half of it.
const RUN_WITHIN: Duration = Duration::from_secs(180);

/// An entry on one protocol.
type Play = (Arc<Entry>, Protocol);

#[test]
fn every_exchange_is_the_same_with_the_proxy_and_without() {
    let mut entries = corpus::all();
    entries.extend(open::all());
    none_differ(&run(entries, Between::Proxy));
}

#[test]
fn exchanges_are_the_same_with_tls_on_both_sides() {
    let over_tls = corpus::all().into_iter().filter(|entry| entry.tls);
    none_differ(&run(over_tls.collect(), Between::ProxyWithTls));
}

/// The control: what two plays differ by with nothing between is the harness's own.
#[test]
fn two_plays_without_the_proxy_are_the_same() {
    let quick = corpus::all().into_iter().filter(|entry| !entry.slow);
    let bare = |entry| Entry { row: None, ..entry };
    none_differ(&run(quick.map(bare).collect(), Between::Nothing));
}

#[track_caller]
fn none_differ(failed: &[String]) {
    assert!(
        failed.is_empty(),
        "{} exchanges differ: {}",
        failed.len(),
        failed.join(", ")
    );
}

/// Plays entries, a line an entry and protocol, and names those that differ.
fn run(entries: Vec<Entry>, between: Between) -> Vec<String> {
    let only = std::env::var(ONLY).unwrap_or_default();
    let picked = entries
        .into_iter()
        .filter(|entry| entry.name.contains(&only));
    let plays = picked.flat_map(|entry| {
        let entry = Arc::new(entry);
        let protocols = entry.protocols.clone();
        protocols
            .into_iter()
            .map(move |protocol| (Arc::clone(&entry), protocol))
    });
    let (slow, quick): (Vec<Play>, Vec<Play>) = plays.partition(|(entry, _)| entry.slow);
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(AT_A_TIME)
        .enable_all()
        .build()
        .unwrap();
    let verdicts = runtime.block_on(play_all(slow, quick, between));
    // A play that hung is not waited for.
    runtime.shutdown_background();
    let took = started.elapsed();
    let count = |wanted: fn(&Verdict) -> bool| verdicts.iter().filter(|(_, v)| wanted(v)).count();
    println!(
        "{} exchanges: {} the same, {} differ; {:.1} s",
        verdicts.len(),
        count(|verdict| matches!(verdict, Verdict::Same)),
        count(|verdict| matches!(verdict, Verdict::Differs(_))),
        took.as_secs_f64(),
    );
    assert!(took < RUN_WITHIN, "the run took {took:?}");
    let differs =
        |(name, verdict): (String, Verdict)| matches!(verdict, Verdict::Differs(_)).then_some(name);
    verdicts.into_iter().filter_map(differs).collect()
}

async fn play_all(slow: Vec<Play>, quick: Vec<Play>, between: Between) -> Vec<(String, Verdict)> {
    let mut lanes = JoinSet::new();
    for play in slow {
        lanes.spawn(lane(Arc::new(Mutex::new(vec![play].into_iter())), between));
    }
    let queue = Arc::new(Mutex::new(quick.into_iter()));
    for _ in 0..AT_A_TIME {
        lanes.spawn(lane(Arc::clone(&queue), between));
    }
    let mut verdicts = Vec::new();
    while let Some(joined) = lanes.join_next().await {
        verdicts.extend(joined.unwrap());
    }
    verdicts
}

/// A proxy of its own, and one exchange after the other through it.
async fn lane(
    queue: Arc<Mutex<std::vec::IntoIter<Play>>>,
    between: Between,
) -> Vec<(String, Verdict)> {
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let Some(mut play) = next() else {
        return Vec::new();
    };
    let stage = Stage::start(between).await;
    let mut came: Vec<Came> = Vec::new();
    loop {
        came.push(stage.play(&play.0, play.1).await);
        match next() {
            Some(another) => play = another,
            None => break,
        }
    }
    let recorded = stage.stop();
    let mut verdicts = Vec::new();
    for mut one in came {
        if let Some(recorded) = &recorded {
            one.differences.extend(rows::check(&one, recorded));
        }
        let verdict = verdict::judge(&one);
        let name = format!("{} {}", one.protocol.name(), one.entry.name);
        println!("{}", line(&name, &one, &verdict));
        verdicts.push((name, verdict));
    }
    verdicts
}

fn line(name: &str, came: &Came, verdict: &Verdict) -> String {
    let gone = came.gone.map_or(String::new(), |(direct, proxied)| {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        format!(
            " (the upstream knew after {:.1} ms, without the proxy after {:.1} ms)",
            ms(proxied),
            ms(direct)
        )
    });
    match verdict {
        Verdict::Same => format!("ok {name}{gone}"),
        Verdict::Differs(lines) => format!("FAIL {name}{gone}\n    {}", lines.join("\n    ")),
    }
}
