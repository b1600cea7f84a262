//! Captures that are not as they should be: each has its answer, and nothing is lost in silence.

use crate::fixture::{Talk, compiled, hold, options, turns, write};
use std::path::{Path, PathBuf};
use truetape_compiler::Error;
use truetape_compiler::compile::{Compiled, compile};
use truetape_schemas::blame::{Blame, Blamed as _};
use truetape_schemas::capture::Exchange;

const RECIPE: &str = "[select]\nmethod = \"all\"\n[content]\nkind = \"lengths\"";

fn talk(name: &str) -> Vec<Exchange> {
    hold(&Talk {
        name: name.into(),
        start_us: 0,
        turns: 4,
        keyed: false,
    })
}

fn refused(captures: &[PathBuf], dir: &Path) -> Error {
    compile(&options(captures, RECIPE, &dir.join("refused"), 1)).unwrap_err()
}

fn left(set: &Compiled, reason: &str) -> Option<u64> {
    set.manifest.stages[0].left.get(reason).copied()
}

/// Every stage passes on what it does not leave, and the next one is given that.
fn assert_nothing_is_lost(set: &Compiled, rows: u64) {
    let mut given = rows;
    for stage in &set.manifest.stages {
        assert_eq!(stage.read, given, "{}", stage.name);
        assert_eq!(stage.read, stage.taken + stage.left.values().sum::<u64>());
        given = stage.taken;
    }
}

#[test]
fn rows_in_any_order_are_the_same_capture() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows = [talk("a"), talk("b")].concat();
    write(&dir.path().join("sorted/0.parquet"), &rows);
    rows.reverse();
    rows.swap(1, 5);
    write(&dir.path().join("unsorted/0.parquet"), &rows);
    let set = |name: &str| compiled(&[dir.path().join(name)], RECIPE, &dir.path().join("s"));
    let (sorted, unsorted) = (set("sorted"), set("unsorted"));
    assert_eq!(sorted.manifest.digest, unsorted.manifest.digest);
    assert!(unsorted.existed);
}

#[test]
fn rows_that_came_twice_are_counted_once_and_said_to_be_left() {
    let dir = tempfile::tempdir().unwrap();
    let rows = talk("a");
    let mut again = rows.clone();
    for row in &mut again {
        row.exchange_id.push_str("-again");
    }
    write(&dir.path().join("c/0.parquet"), &rows);
    write(&dir.path().join("c/1.parquet"), &again);
    let capture = dir.path().join("c");
    let set = compiled(&[capture.clone(), capture], RECIPE, &dir.path().join("s"));
    assert_eq!(set.manifest.counts.turns, 4);
    assert_eq!(left(&set, "duplicate"), Some(12));
    assert_nothing_is_lost(&set, 16);
}

#[test]
fn a_torn_segment_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c/0.parquet");
    write(&path, &talk("a"));
    write(&dir.path().join("c/1.parquet"), &talk("b"));
    let bytes = std::fs::read(&path).unwrap();
    for kept in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..kept]).unwrap();
        let error = refused(&[dir.path().join("c")], dir.path());
        assert!(error.to_string().contains("0.parquet"), "{kept}: {error}");
        assert_eq!(error.blame(), Blame::Data, "{kept}: {error}");
    }
    let left_behind = dir.path().join("refused").try_exists().unwrap();
    assert!(!left_behind);
}

#[test]
fn traces_of_two_block_sizes_are_not_compiled_together() {
    let dir = tempfile::tempdir().unwrap();
    let traced = |id: &str, block_tokens| Exchange {
        exchange_id: id.into(),
        proxy_id: "import:mooncake".into(),
        dialect: "trace".into(),
        input_tokens: Some(512),
        block_tokens: Some(block_tokens),
        block_hashes: Some(vec![1; 512 / block_tokens as usize]),
        ..Exchange::default()
    };
    write(&dir.path().join("a/0.parquet"), &[traced("1", 512)]);
    write(&dir.path().join("b/0.parquet"), &[traced("2", 16)]);
    let error = refused(&[dir.path().join("a"), dir.path().join("b")], dir.path());
    assert_eq!(error.blame(), Blame::Data);
    let said = "captures: blocks of 16 and 512 tokens, wanted one size; compile them apart";
    assert_eq!(error.to_string(), said);
}

/// One talk at two recorders, turn by turn; the clock of the second is off by so much.
fn at_two_recorders(dir: &Path, ahead_us: i64) -> Compiled {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for talk in ["a", "b", "c"].map(talk) {
        for (turn, mut row) in talk.into_iter().enumerate() {
            if turn % 2 == 0 {
                first.push(row);
            } else {
                row.proxy_id = "q".into();
                row.arrival += ahead_us;
                second.push(row);
            }
        }
    }
    // The first has more rows, and keeps its time.
    first.extend(talk("d"));
    write(&dir.join("p/0.parquet"), &first);
    write(&dir.join("q/0.parquet"), &second);
    compiled(&[dir.join("p"), dir.join("q")], RECIPE, &dir.join("s"))
}

#[test]
fn a_clock_that_is_off_is_moved_by_what_its_sessions_tell() {
    // Turns are 5 s apart and answers take 2 ms: 60 s behind, a child comes long before its parent.
    for ahead_us in [-60_000_000, 60_000_000] {
        let dir = tempfile::tempdir().unwrap();
        let set = at_two_recorders(dir.path(), ahead_us);
        assert_eq!(
            set.manifest.counts.sessions, 4,
            "{:?}",
            set.manifest.findings
        );
        let turns = turns(&set);
        assert!(
            turns
                .iter()
                .filter(|turn| turn.turn > 1)
                .all(|turn| turn.parent.is_some())
        );
        assert!(
            turns
                .iter()
                .filter_map(|turn| turn.gap_us)
                .all(|gap| gap >= 0)
        );
        let findings = set.manifest.findings.join(" ");
        let way = if ahead_us < 0 {
            " s behind the one of p"
        } else {
            " s ahead of the one of p"
        };
        assert!(
            findings.contains("the clock of q was") && findings.contains(way),
            "{findings}"
        );
        assert_eq!(set.manifest.stages[0].marked.get("clock_moved"), Some(&6));
        assert_nothing_is_lost(&set, 16);
    }
}

#[test]
fn clocks_that_agree_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let set = at_two_recorders(dir.path(), 200);
    assert_eq!(set.manifest.stages[0].marked.get("clock_moved"), None);
    assert!(!set.manifest.findings.join(" ").contains("the clock of"));
    assert_eq!(set.manifest.counts.sessions, 4);
}

#[test]
fn what_two_recorders_saw_is_one_request_and_ties_their_clocks() {
    let dir = tempfile::tempdir().unwrap();
    let named = |mut rows: Vec<Exchange>| {
        for row in &mut rows {
            row.response_id = Some(format!("r-{}", row.exchange_id));
        }
        rows
    };
    let seen = named(talk("a"));
    let mut again = seen.clone();
    for row in &mut again {
        row.exchange_id.push_str("-q");
        row.proxy_id = "q".into();
        row.arrival += 7_000_000;
    }
    let lone = named(talk("b")).into_iter().map(|row| Exchange {
        proxy_id: "q".into(),
        arrival: row.arrival + 7_000_000,
        ..row
    });
    write(
        &dir.path().join("p/0.parquet"),
        &[seen, named(talk("c")), named(talk("d"))].concat(),
    );
    write(
        &dir.path().join("q/0.parquet"),
        &again.into_iter().chain(lone).collect::<Vec<_>>(),
    );
    let captures = [dir.path().join("p"), dir.path().join("q")];
    let set = compiled(&captures, RECIPE, &dir.path().join("s"));
    assert_eq!(left(&set, "seen_by_two"), Some(4));
    assert_eq!(
        (set.manifest.counts.turns, set.manifest.counts.sessions),
        (16, 4)
    );
    let starts: Vec<i64> = turns(&set).iter().map(|turn| turn.start_us).collect();
    assert_eq!(starts[..4], [0; 4], "b began when the others did");
    assert_nothing_is_lost(&set, 20);
}
