//! C1 and C2: compiling is a function, and it neither splits sessions nor invents turns.

use crate::fixture::{Talk, hold, options, turns, write};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use truetape_compiler::compile::{Compiled, compile};
use truetape_schemas::capture::Exchange;

fn talks() -> impl Strategy<Value = Vec<Talk>> {
    let talk = (0i64..60_000_000, 1usize..4, any::<bool>());
    proptest::collection::vec(talk, 1..8).prop_map(|talks| {
        let named = talks.into_iter().enumerate();
        named
            .map(|(at, (start_us, turns, keyed))| Talk {
                name: format!("t{at}"),
                start_us,
                turns,
                keyed,
            })
            .collect()
    })
}

/// Writes rows in one order, cut into segments of so many rows.
fn capture(dir: &Path, mut rows: Vec<Exchange>, rotation: usize, cut: usize) -> PathBuf {
    let middle = rotation % rows.len();
    rows.rotate_left(middle);
    for (at, part) in rows.chunks(cut).enumerate() {
        write(&dir.join(format!("{at}.parquet")), part);
    }
    dir.to_owned()
}

fn recipes() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("[select]\ntoken_share = 0.4"),
        Just("[select]\nmethod = \"all\"\n[content]\nkind = \"verbatim\""),
        Just("[select]\nmethod = \"window\"\nwindow = { start = \"0s\", length = \"30s\" }"),
    ]
}

/// By session: the exchanges of a set.
fn sessions(compiled: &Compiled) -> BTreeMap<String, BTreeSet<String>> {
    let mut sessions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for turn in turns(compiled) {
        sessions
            .entry(turn.session)
            .or_default()
            .insert(turn.exchange_id);
    }
    sessions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn compile_is_deterministic(
        talks in talks(), recipe in recipes(), rotation in 0usize..50, cut in 1usize..5,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let rows: Vec<Exchange> = talks.iter().flat_map(hold).collect();
        let whole = capture(&dir.path().join("a"), rows.clone(), 0, usize::MAX);
        let cut = capture(&dir.path().join("b"), rows, rotation, cut);
        let one = compile(&options(&[whole], recipe, &dir.path().join("s1"), 1)).unwrap();
        let many = compile(&options(&[cut], recipe, &dir.path().join("s2"), 8)).unwrap();
        prop_assert_eq!(&one.manifest, &many.manifest);
        prop_assert_eq!(turns(&one), turns(&many));
    }

    #[test]
    fn turns_are_conserved(talks in talks(), recipe in recipes()) {
        let dir = tempfile::tempdir().unwrap();
        let rows: Vec<Exchange> = talks.iter().flat_map(hold).collect();
        let path = capture(&dir.path().join("a"), rows.clone(), 0, usize::MAX);
        let all = "[select]\nmethod = \"all\"";
        let path = std::slice::from_ref(&path);
        let everything = compile(&options(path, all, &dir.path().join("all"), 1)).unwrap();
        let some = compile(&options(path, recipe, &dir.path().join("some"), 1)).unwrap();
        // Every session is found as it was held.
        let held: BTreeSet<BTreeSet<String>> = talks
            .iter()
            .map(|talk| hold(talk).into_iter().map(|exchange| exchange.exchange_id).collect())
            .collect();
        prop_assert_eq!(sessions(&everything).into_values().collect::<BTreeSet<_>>(), held);
        // A session that is taken is taken whole.
        let whole = sessions(&everything);
        for (name, exchanges) in sessions(&some) {
            prop_assert_eq!(&exchanges, &whole[&name]);
        }
        // Every stage accounts for what it was given, and gives it to the next.
        let mut given = rows.len() as u64;
        for stage in &some.manifest.stages {
            prop_assert_eq!(stage.read, given);
            prop_assert_eq!(stage.read, stage.taken + stage.left.values().sum::<u64>());
            given = stage.taken;
        }
        prop_assert_eq!(given, turns(&some).len() as u64);
        // Gaps are the source's own.
        for turn in turns(&some).iter().filter(|turn| turn.turn > 1) {
            prop_assert_eq!(turn.gap_us, Some(5_000_000 - 2_050));
        }
    }
}

#[test]
fn compiling_again_is_a_no_op_and_tags_move() {
    let dir = tempfile::tempdir().unwrap();
    let talk = Talk {
        name: "t".into(),
        start_us: 0,
        turns: 2,
        keyed: true,
    };
    write(&dir.path().join("c/0.parquet"), &hold(&talk));
    let store = dir.path().join("store");
    let mut options = options(&[dir.path().join("c")], "name = \"chat\"", &store, 1);
    let first = compile(&options).unwrap();
    let written = std::fs::metadata(first.dir.join("manifest.json"))
        .unwrap()
        .modified()
        .unwrap();
    options.tags = vec!["v1".into()];
    let second = compile(&options).unwrap();
    assert!(!first.existed && second.existed);
    assert_eq!(
        (&second.manifest, &second.report),
        (&first.manifest, &first.report)
    );
    let rewritten = std::fs::metadata(second.dir.join("manifest.json"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(written, rewritten, "a set is never written twice");
    for reference in ["chat", "chat@v1", "chat@latest"] {
        let found = truetape_schemas::set::store::resolve(reference, Some(&store)).unwrap();
        assert_eq!(found, first.dir, "{reference}");
    }
}

fn two_talks() -> Vec<Exchange> {
    let talk = |(name, start_us): (&str, i64)| Talk {
        name: name.into(),
        start_us,
        turns: 2,
        keyed: false,
    };
    let talks = [("a", 0), ("b", 100_000_000)].map(talk);
    talks.iter().flat_map(hold).collect()
}

#[test]
fn what_is_left_out_changes_no_hash_and_no_word() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows = two_talks();
    let plain = capture(&dir.path().join("a"), rows.clone(), 0, usize::MAX);
    rows.push(Exchange {
        exchange_id: "health".into(),
        arrival: 1,
        method: "GET".into(),
        path: "/health".into(),
        dialect: "unknown".into(),
        ..Exchange::default()
    });
    let probed = capture(&dir.path().join("b"), rows, 0, usize::MAX);
    let all = "[select]\nmethod = \"all\"";
    let compiled = |captures: &[PathBuf], store: &str| {
        compile(&options(captures, all, &dir.path().join(store), 1)).unwrap()
    };
    let once = compiled(std::slice::from_ref(&plain), "s1");
    let twice = compiled(&[plain.clone(), plain], "s2");
    assert_eq!(once.manifest.digest, twice.manifest.digest);
    assert_eq!(twice.manifest.stages[0].left["duplicate"], 4);
    let other = compiled(&[probed], "s3");
    assert_eq!(other.manifest.stages[0].left["not_inference"], 1);
    assert_eq!(turns(&other), turns(&once));
}

#[test]
fn equal_turns_of_another_source_are_another_set_with_a_report_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let trace = |row: Exchange| Exchange {
        dialect: "trace".into(),
        request_body: None,
        response_body: None,
        session_key: Some(row.exchange_id.chars().take(1).collect()),
        ..row
    };
    let both: Vec<Exchange> = two_talks().into_iter().map(trace).collect();
    let a = capture(&dir.path().join("a"), both[..2].to_vec(), 0, usize::MAX);
    let ab = capture(&dir.path().join("b"), both, 0, usize::MAX);
    let early = "[select]\nmethod = \"window\"\nwindow = { start = \"0s\", length = \"9s\" }\n\
        [content]\nkind = \"lengths\"";
    let store = dir.path().join("s");
    let first = compile(&options(&[a], early, &store, 1)).unwrap();
    let second = compile(&options(&[ab], early, &store, 1)).unwrap();
    assert_eq!(turns(&first), turns(&second));
    assert!(!second.existed);
    assert_ne!(first.manifest.digest, second.manifest.digest);
    assert_ne!(first.report.dimensions, second.report.dimensions);
}
