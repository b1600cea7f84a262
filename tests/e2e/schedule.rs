//! What the schedule promises, with real processes: a knee, shards of one run, turns that are skipped.

use crate::server::{self, Target};
use crate::support::{Set, compile, engine, truetape};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use truetape_replay::shard::Shard;
use truetape_schemas::run;
use truetape_schemas::time::{format_utc, wall_now_us};
use truetape_testkit::process::{Ended, Process, RUN_WITHIN};
use truetape_testkit::tempdir::TempDir;

/// Requests of 20 tokens that share nothing, one session each, at a steady rate.
fn set(dir: &TempDir, requests: u64, gap_ms: u64) -> Set {
    let rows: String = (0..requests)
        .map(|i| {
            let at = i * gap_ms;
            format!("{{\"timestamp\": {at}, \"input_length\": 64, \"output_length\": 20, \"hash_ids\": [{i}]}}\n")
        })
        .collect();
    let file = dir.join("mooncake.jsonl");
    std::fs::write(&file, rows).unwrap();
    let capture = dir.join("capture");
    let args: [&OsStr; 5] = [
        "import".as_ref(),
        "mooncake".as_ref(),
        file.as_os_str(),
        "--out".as_ref(),
        capture.as_os_str(),
    ];
    truetape(&args).expect_code(0);
    compile(dir, &capture, "steady", "synthetic")
}

fn replay_args(set: &Set, target: &str, out: &Path, more: &[&str]) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["replay".into(), set.dir.as_os_str().to_owned()];
    args.extend(["--target".into(), target.into()]);
    args.extend(["--out".into(), out.as_os_str().to_owned()]);
    args.extend(["--fail-on", "never"].map(OsString::from));
    args.extend(more.iter().map(OsString::from));
    args
}

/// One request at a time, 20 steps of 8 ms each: about six a second. At one a second from the set, 4
/// times its rate is easy and 16 times is far too much, on any machine.
#[test]
fn the_knee_of_the_stub_lies_between_a_rate_that_held_and_one_that_did_not() {
    let dir = TempDir::new("knee");
    let set = set(&dir, 60, 1_000);
    let (engine, addr) = engine(&["--max-seqs", "1", "--block-tokens", "16"]);
    let out = dir.join("knee");
    let more = [
        "--find-knee",
        "ttft-p50=1500ms,errors=0%",
        "--duration",
        "3s",
        "--rate-scale",
        "4",
        "--knee-precision",
        "1",
        "--lateness-p99-max",
        "1m",
    ];
    let target = format!("http://{addr}");
    let ended = truetape(&replay_args(&set, &target, &out, &more));
    engine.stop().expect_code(0);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let knee: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("knee.json")).unwrap()).unwrap();
    assert_eq!(knee["ended"], "found", "{knee:#}");
    let [low, high] = [0, 1].map(|side| knee["interval"][side].as_f64().unwrap());
    assert!(4.0 <= low && low < high && high <= 16.0, "{knee:#}");
    let stages = knee["stages"].as_array().unwrap();
    let mut salts = std::collections::BTreeSet::new();
    for stage in stages {
        let place = out.join(stage["dir"].as_str().unwrap());
        let run = run::open(&place).unwrap();
        assert!(run.account.balances());
        assert_eq!(run.flags["rate_scale"], stage["rate_scale"]);
        assert_eq!(stage["holds"], stage["rate_scale"].as_f64() <= Some(low));
        salts.insert(run.flags["salt"].as_str().unwrap().to_owned());
    }
    assert_eq!(salts.len(), stages.len());
    assert!(
        ended.stdout.contains("times the set's rate held"),
        "{ended:?}"
    );
}

/// No replayer is never late at all: what it measured then is no bound of the target.
#[test]
fn a_search_ends_where_the_replayer_is_late() {
    let dir = TempDir::new("late");
    let set = set(&dir, 20, 100);
    let upstream = server::start(Target::default());
    let out = dir.join("knee");
    let more = [
        "--find-knee",
        "errors=0%",
        "--duration",
        "1s",
        "--lateness-p99-max",
        "0s",
    ];
    let ended = truetape(&replay_args(&set, &upstream.url(), &out, &more));
    assert_eq!(ended.code, Some(74), "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("the replayer, not the target, was late"),
        "{ended:?}"
    );
    let knee: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("knee.json")).unwrap()).unwrap();
    assert_eq!(knee["ended"], "replayer_late", "{knee:#}");
    assert_eq!(knee["stages"].as_array().map(Vec::len), Some(1));
    assert_eq!(knee["interval"], serde_json::json!([null, null]));
}

fn report(runs: &[&Path], set: &Path) -> Ended {
    let mut args: Vec<OsString> = vec!["report".into()];
    args.extend(runs.iter().map(|run| run.as_os_str().to_owned()));
    args.extend(["--set".into(), set.as_os_str().to_owned()]);
    args.extend(["--format", "json"].map(OsString::from));
    truetape(&args)
}

#[test]
fn shards_of_one_run_start_together_and_are_reported_as_one() {
    let dir = TempDir::new("shards");
    let set = set(&dir, 40, 25);
    let (engine, addr) = engine(&["--speed", "20", "--block-tokens", "16"]);
    let target = format!("http://{addr}");
    // Late enough for both to be ready, on a machine with other things to do.
    let start_at = format_utc(wall_now_us() + 8_000_000);
    let runs = [1, 2].map(|index| dir.join(&format!("run-{index}")));
    let processes = [1, 2].map(|index: usize| {
        let shard = format!("{index}/2");
        let more = [
            "--shard",
            &shard,
            "--start-at",
            &start_at,
            "--lateness-p99-max",
            "1m",
        ];
        let args = replay_args(&set, &target, &runs[index - 1], &more);
        Process::start(crate::support::TRUETAPE.as_ref(), args, &[])
    });
    for process in processes {
        process.wait(RUN_WITHIN).expect_code(0);
    }
    engine.stop().expect_code(0);
    for (run, index) in runs.iter().zip(1..) {
        let shard = Shard { index, count: 2 };
        let rows = run::dispatches(run).unwrap();
        assert!(!rows.is_empty() && rows.iter().all(|row| shard.has(&row.session)));
    }
    let merged = report(&[&runs[1], &runs[0]], &set.dir).expect_code(0);
    let merged: serde_json::Value = serde_json::from_str(&merged.stdout).unwrap();
    let account = &merged["run"]["account"];
    assert_eq!(
        (&account["due"], &account["answered"]),
        (&40.into(), &40.into())
    );
    let ids = runs.each_ref().map(|run| run::open(run).unwrap().run_id);
    assert_eq!(ids[0], ids[1]);
    let shards = merged["run"]["flags"]["shards"].as_array().unwrap();
    assert!(
        shards
            .iter()
            .all(|shard| shard["lateness_ms"]["p99"].is_f64()),
        "{shards:?}"
    );
    let completed = merged["report"]["dimensions"].as_array().unwrap();
    let completed = completed
        .iter()
        .find(|found| found["id"] == "run.completed");
    assert_eq!(completed.unwrap()["value"], 1.0);
    // One alone is not the run, and two at once are not two runs.
    assert_eq!(report(&[&runs[0]], &set.dir).code, Some(65));
    let apart = [
        OsStr::new("report"),
        runs[0].as_os_str(),
        runs[1].as_os_str(),
    ];
    assert_eq!(truetape(&apart).code, Some(78));
}

#[test]
fn a_start_that_has_passed_is_refused_and_leaves_nothing_behind() {
    let dir = TempDir::new("passed");
    let set = set(&dir, 2, 10);
    let upstream = server::start(Target::default());
    let out = dir.join("run");
    let more = ["--start-at", "2026-01-01T00:00:00Z"];
    let ended = truetape(&replay_args(&set, &upstream.url(), &out, &more));
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.stderr.contains("name a later time"), "{ended:?}");
    assert!(!out.join("run.json").try_exists().unwrap());
}
