//! What is left out of a set, and said.

use crate::fixture::{Talk, compiled, hold, options, write};
use truetape_compiler::compile::compile;
use truetape_schemas::blame::{Blame, Blamed as _};
use truetape_schemas::capture::Exchange;

const ALL: &str = "[select]\nmethod = \"all\"";

fn talk() -> Vec<Exchange> {
    hold(&Talk {
        name: "t".into(),
        start_us: 0,
        turns: 2,
        keyed: true,
    })
}

fn replayed() -> Vec<Exchange> {
    let mut rows = hold(&Talk {
        name: "r".into(),
        start_us: 9,
        turns: 2,
        keyed: true,
    });
    rows.iter_mut()
        .for_each(|row| row.replay_run = Some("run-7".into()));
    rows
}

#[test]
fn duplicates_replays_and_other_traffic_are_left_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let health = Exchange {
        exchange_id: "h".into(),
        method: "GET".into(),
        path: "/health".into(),
        dialect: "unknown".into(),
        ..Exchange::default()
    };
    write(
        &dir.path().join("c/0.parquet"),
        &[talk(), replayed(), vec![health]].concat(),
    );
    write(&dir.path().join("c/1.parquet"), &talk());
    let set = compiled(&[dir.path().join("c")], ALL, &dir.path().join("s"));
    let ingest = &set.manifest.stages[0];
    assert_eq!((ingest.read, ingest.taken), (7, 2));
    for (reason, n) in [
        ("duplicate", 2),
        ("replayed_traffic", 2),
        ("not_inference", 1),
    ] {
        assert_eq!(ingest.left.get(reason), Some(&n), "{reason}");
    }
}

#[test]
fn a_capture_of_replayed_traffic_alone_is_compiled_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("c/0.parquet"), &replayed());
    let set = compiled(&[dir.path().join("c")], ALL, &dir.path().join("s"));
    assert!(set.manifest.sources[0].replay);
    let said = "captured from replayed traffic, run run-7";
    assert!(set.manifest.findings.iter().any(|finding| finding == said));
    let card = std::fs::read_to_string(set.dir.join("README.md")).unwrap();
    assert!(card.contains(said), "{card}");
}

#[test]
fn a_capture_without_inference_is_refused_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("c/0.parquet"), &[]);
    let store = dir.path().join("s");
    let error = compile(&options(&[dir.path().join("c")], ALL, &store, 1)).unwrap_err();
    assert_eq!(error.blame(), Blame::Data);
    assert!(!store.try_exists().unwrap());
    let missing = compile(&options(&[dir.path().join("none")], ALL, &store, 1)).unwrap_err();
    assert_eq!(missing.blame(), Blame::Data);
}
