//! `capture(replay(set)) = set`: nothing that a set promises is lost on the wire.

use crate::server::{self, Target, generations};
use crate::support::{Recorder, Set, compile, engine, truetape};
use std::collections::BTreeMap;
use std::path::Path;
use truetape_schemas::report::{Report, Verdict};
use truetape_schemas::run;
use truetape_schemas::set::Turn;
use truetape_testkit::capture;
use truetape_testkit::process::Ended;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::trace::{Shape, Trace, canonical};
use truetape_testkit::upstream::{Record, Upstream};

/// A small workload: sessions that share a system prompt, and turns that extend each other.
pub(crate) const SHAPE: Shape = Shape {
    sessions: 8,
    turns_max: 3,
    block_tokens: 16,
    shared_blocks: 2,
    start_gap_ms: 120,
    turn_gap_ms: 300,
};

/// Imports a trace and compiles it with new text.
pub(crate) fn set_of(dir: &TempDir, trace: &Trace) -> Set {
    let file = dir.join("trace.jsonl");
    std::fs::write(&file, trace.bailian()).unwrap();
    let captured = dir.join("imported");
    let args: [&std::ffi::OsStr; 5] = [
        "import".as_ref(),
        "bailian".as_ref(),
        file.as_os_str(),
        "--out".as_ref(),
        captured.as_os_str(),
    ];
    truetape(&args).expect_code(0);
    compile(dir, &captured, "first", "synthetic")
}

fn replay(set: &Path, target: &str, out: &Path, more: &[&str]) -> Ended {
    let mut args: Vec<&std::ffi::OsStr> = vec!["replay".as_ref(), set.as_os_str()];
    args.extend([
        "--target".as_ref(),
        target.as_ref(),
        "--out".as_ref(),
        out.as_os_str(),
    ]);
    args.extend(more.iter().map(|arg| arg.as_ref() as &std::ffi::OsStr));
    truetape(&args)
}

fn report(out: &Path) -> Report {
    let bytes = std::fs::read(out.join(run::FIDELITY)).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Turns in the order of their sessions and depths, with sessions as `name` has them.
fn in_order(turns: &[Turn], name: impl Fn(&Turn) -> String) -> Vec<(String, &Turn)> {
    let mut named: Vec<(String, &Turn)> = turns.iter().map(|turn| (name(turn), turn)).collect();
    named.sort_by(|a, b| (&a.0, a.1.turn, a.1.start_us).cmp(&(&b.0, b.1.turn, b.1.start_us)));
    named
}

fn sharing(turns: &[(String, &Turn)]) -> Vec<Vec<usize>> {
    canonical(
        turns
            .iter()
            .map(|(_, turn)| turn.block_hashes.as_deref().unwrap_or_default()),
    )
}

#[test]
fn what_is_captured_of_a_replay_is_the_set() {
    let dir = TempDir::new("round-trip");
    let trace = Trace::seeded(20_26, SHAPE);
    let first = set_of(&dir, &trace);
    assert_eq!(first.turns.len(), trace.rows.len());
    let sharing_of_trace = canonical(trace.rows.iter().map(|row| row.blocks.as_slice()));
    let in_start_order: Vec<(String, &Turn)> = first
        .turns
        .iter()
        .map(|turn| (String::new(), turn))
        .collect();
    assert_eq!(
        sharing(&in_start_order),
        sharing_of_trace,
        "the compiler changed the sharing"
    );

    let (engine, addr) = engine(&["--speed", "20", "--block-tokens", "16"]);
    let captured = dir.join("captured");
    let recorder = Recorder::start(&format!("http://{addr}"), &captured, &[]);
    let out = dir.join("run");
    let ended = replay(&first.dir, &recorder.url(), &out, &["--fail-on", "never"]);
    assert!(matches!(ended.code, Some(0 | 74)), "{ended:?}");
    recorder.process.stop().expect_code(0);
    engine.stop().expect_code(0);

    let dispatches = run::dispatches(&out).unwrap();
    assert_eq!(dispatches.len(), first.turns.len());
    for dispatch in &dispatches {
        assert_eq!(
            dispatch.output_tokens, dispatch.output_tokens_asked,
            "{dispatch:?}"
        );
        assert_eq!(
            dispatch.input_tokens, dispatch.input_tokens_asked,
            "{dispatch:?}"
        );
        assert_eq!(dispatch.enforcement, "enforce");
    }

    let rows = capture::rows(&captured);
    assert!(
        rows.iter().all(|row| row.replay_run.is_some()),
        "a replay is marked as one"
    );
    let second = compile(&dir, &captured, "second", "verbatim");
    assert!(second.manifest.sources.iter().all(|source| source.replay));
    let told: BTreeMap<&str, String> = rows
        .iter()
        .map(|row| {
            (
                row.exchange_id.as_str(),
                row.session_key.clone().unwrap_or_default(),
            )
        })
        .collect();
    let name = |turn: &Turn| {
        told.get(turn.exchange_id.as_str())
            .cloned()
            .unwrap_or_default()
    };
    // Nothing else was captured: what the replayer asks before the run is no part of it.
    assert_eq!(second.turns.len(), first.turns.len());
    let (before, after) = (
        in_order(&first.turns, |turn| turn.session.clone()),
        in_order(&second.turns, name),
    );
    let numbers = |turns: &[(String, &Turn)]| -> Vec<_> {
        let row = |(session, turn): &(String, &Turn)| {
            (
                session.clone(),
                turn.turn,
                turn.input_tokens,
                turn.output_tokens,
            )
        };
        turns.iter().map(row).collect()
    };
    assert_eq!(numbers(&before), numbers(&after));
    assert_eq!(
        sessions(&before),
        sessions(&after),
        "sessions were split or joined"
    );
    assert_eq!(
        sharing(&before),
        sharing(&after),
        "prefix sharing changed on the wire"
    );
}

/// For each turn, the number of its session by first appearance, and whether it has a parent.
fn sessions(turns: &[(String, &Turn)]) -> Vec<(usize, bool)> {
    let mut names = BTreeMap::new();
    let mut row = |(_, turn): &(String, &Turn)| {
        let next = names.len();
        (
            *names.entry(turn.session.clone()).or_insert(next),
            turn.parent.is_some(),
        )
    };
    turns.iter().map(&mut row).collect()
}

/// A target that takes every field and then stops half way.
fn half_as_long() -> Upstream {
    server::start(Target {
        answers_share: 0.5,
        ..Target::default()
    })
}

#[test]
fn answers_half_as_long_make_the_run_unfaithful() {
    let dir = TempDir::new("half");
    let set = set_of(&dir, &Trace::seeded(7, SHAPE));
    let upstream = half_as_long();
    let out = dir.join("run");
    let ended = replay(&set.dir, &upstream.url(), &out, &[]);
    let (report, run) = (report(&out), run::open(&out).unwrap());
    assert_eq!(report.verdict, Verdict::Fail, "{}", report.sentence);
    // A run that was too late for its own schedule is invalid before it is unfaithful.
    let wanted = if run.validity == "valid" { 1 } else { 74 };
    ended.expect_code(wanted);
    let failed = report
        .dimensions
        .iter()
        .filter(|dimension| dimension.verdict == Verdict::Fail);
    let failed: Vec<&str> = failed.map(|dimension| dimension.id.as_str()).collect();
    assert!(failed.iter().any(|id| id.contains("output")), "{failed:?}");
    let in_session = |(record, _): &(Record, _)| record.head.value("x-session-id").is_some();
    let sent = generations(&upstream)
        .into_iter()
        .filter(in_session)
        .count();
    assert_eq!(sent, set.turns.len());
    assert!(run.account.balances(), "{:?}", run.account);
}

#[test]
fn a_salted_run_finds_nothing_of_the_run_before_it() {
    let dir = TempDir::new("salted");
    let set = set_of(&dir, &Trace::seeded(3, SHAPE));
    let (_engine, addr) = engine(&["--speed", "20", "--block-tokens", "16"]);
    let target = format!("http://{addr}");
    let cached = |name: &str| {
        let out = dir.join(name);
        let ended = replay(&set.dir, &target, &out, &["--fail-on", "never"]);
        assert!(matches!(ended.code, Some(0 | 74)), "{ended:?}");
        let dispatches = run::dispatches(&out).unwrap();
        let first = dispatches
            .iter()
            .min_by_key(|dispatch| dispatch.sent_us)
            .unwrap();
        let sum: i64 = dispatches
            .iter()
            .filter_map(|dispatch| dispatch.cached_tokens)
            .sum();
        (first.cached_tokens, sum)
    };
    let (first, sum) = cached("one");
    assert_eq!(first, Some(0));
    assert!(sum > 0, "sharing inside a run must survive the salt");
    let (first, _) = cached("two");
    assert_eq!(
        first,
        Some(0),
        "the second run found prompts of the first in the cache"
    );
}
