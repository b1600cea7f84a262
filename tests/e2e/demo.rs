//! `truetape demo`: the whole product in under a minute, in one directory and nowhere else.

use crate::support::{TRUETAPE, truetape};
use std::ffi::OsStr;
use std::time::{Duration, Instant};
use truetape_schemas::report::Report;
use truetape_schemas::run;
use truetape_schemas::set::store;
use truetape_testkit::capture;
use truetape_testkit::process::{Process, RUN_WITHIN};
use truetape_testkit::tempdir::TempDir;

/// What the demo says of itself.
const UNDER: Duration = Duration::from_secs(60);

#[test]
fn the_demo_shows_a_verdict_in_a_minute_and_leaves_one_directory() {
    let dir = TempDir::new("demo");
    let (work, home) = (dir.join("work"), dir.join("home"));
    std::fs::create_dir(&work).unwrap();
    std::fs::create_dir(&home).unwrap();
    let home_text = home.to_str().unwrap();
    let env = ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"].map(|key| (key, home_text));
    let started = Instant::now();
    let args = ["demo", "--out", "shown"];
    let process = Process::start_in(&work, TRUETAPE.as_ref(), args, &env);
    let ended = process.wait(RUN_WITHIN).expect_code(0);
    let took = started.elapsed();
    assert!(took < UNDER, "the demo took {took:?}");

    let out = work.join("shown");
    let report = std::fs::read(out.join("run").join(run::FIDELITY)).unwrap();
    let report: Report = serde_json::from_slice(&report).unwrap();
    let verdict = report.verdict.name();
    let mut lines = ended.stdout.lines();
    assert!(
        lines.any(|line| line.starts_with(verdict)),
        "no line begins with {verdict}:\n{}",
        ended.stdout
    );

    let set_dir = store::resolve("demo@latest", Some(&out.join("sets"))).unwrap();
    let turns = store::turns(&set_dir).unwrap().len();
    assert!(turns > 0, "a demo without traffic shows nothing");
    assert_eq!(turns, run::dispatches(&out.join("run")).unwrap().len());
    for whole in [out.join("capture"), set_dir.clone(), out.join("run")] {
        let args: [&OsStr; 2] = ["verify".as_ref(), whole.as_os_str()];
        let said = truetape(&args).expect_code(0).stdout;
        assert!(said.contains("is whole"), "{said}");
    }

    let (run_dir, sets) = (out.join("run"), out.join("sets"));
    crate::page::follows_the_schema(&set_dir.join(store::FIDELITY));
    crate::page::check(&run_dir, &sets, dir.path());

    let left = std::fs::read_dir(&work).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["shown"]);
    assert!(capture::files(&home).is_empty(), "files outside --out");
}
