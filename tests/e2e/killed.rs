//! A replayer that is killed leaves nothing that pretends to be a run.

use crate::round_trip::{SHAPE, set_of};
use crate::support::{TRUETAPE, WITHIN, engine, truetape};
use std::ffi::OsString;
use std::time::{Duration, Instant};
use truetape_schemas::run;
use truetape_testkit::process::Process;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::trace::{Shape, Trace};

#[test]
fn a_replayer_that_is_killed_leaves_no_run() {
    let dir = TempDir::new("killed-replay");
    let shape = Shape {
        start_gap_ms: 60_000,
        ..SHAPE
    };
    let set = set_of(&dir, &Trace::seeded(7, shape));
    let (_engine, address) = engine(&["--speed", "20"]);
    let out = dir.join("run");
    let mut args: Vec<OsString> = vec!["replay".into(), set.dir.into_os_string()];
    args.extend(["--target".into(), format!("http://{address}").into()]);
    args.extend(["--out".into(), out.clone().into_os_string()]);
    let replayer = Process::start(TRUETAPE.as_ref(), args, &[]);
    let begun = out.join(format!("{}.tmp", run::TURNS));
    let deadline = Instant::now() + WITHIN;
    while !begun.try_exists().unwrap() {
        assert!(Instant::now() < deadline, "{}", replayer.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    replayer.kill();
    for entry in std::fs::read_dir(&out).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name.ends_with(".tmp"), "{name}");
    }
    truetape(&["report".as_ref(), out.as_os_str()]).expect_code(65);
}
