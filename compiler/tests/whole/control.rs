//! Control sets: generated, marked, and told apart from the traffic that they stand for.

use crate::fixture::{Talk, compiled, contents, hold, turns, write};
use std::path::{Path, PathBuf};
use truetape_compiler::compile::Compiled;
use truetape_compiler::verify;
use truetape_fidelity::profile::lengths::interarrival_cv;
use truetape_schemas::report::{Report, Verdict};

fn capture(dir: &Path) -> PathBuf {
    let talk = |at: usize| Talk {
        name: format!("t{at}"),
        start_us: 60_000_000 * (at as i64 / 20) + 1_000 * at as i64,
        turns: 1 + at % 7,
        keyed: at.is_multiple_of(2),
    };
    let rows = (0..200).flat_map(|at| hold(&talk(at)));
    write(&dir.join("c/0.parquet"), &rows.collect::<Vec<_>>());
    dir.join("c")
}

fn control(dir: &Path, lengths: &str, arrivals: &str) -> Compiled {
    let recipe = format!(
        "[select]\nmethod = \"all\"\n[control]\nlengths = \"{lengths}\"\narrivals = \"{arrivals}\""
    );
    compiled(&[capture(dir)], &recipe, &dir.join("store"))
}

fn verdict(report: &Report, id: &str) -> Verdict {
    let found = report
        .dimensions
        .iter()
        .find(|dimension| dimension.id == id);
    found.unwrap_or_else(|| panic!("{id}")).verdict
}

#[test]
fn a_control_set_is_marked_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    let set = control(dir.path(), "gaussian", "poisson");
    let semantics = &set.manifest.semantics;
    assert_eq!(
        semantics.control.as_deref(),
        Some("gaussian lengths, poisson arrivals")
    );
    assert_eq!(semantics.history, "none");
    let says = |finding: &String| finding.starts_with("a control set: ");
    assert!(set.manifest.findings.iter().any(says));
    assert!(set.report.findings.iter().any(says));
    let card = std::fs::read_to_string(set.dir.join("README.md")).unwrap();
    assert!(card.contains("**control set**"));
    let found = verify::of(&set.dir.to_string_lossy(), None).unwrap();
    assert_eq!(found.faults, Vec::<String>::new());
    let again = control(dir.path(), "gaussian", "poisson");
    assert!(again.existed, "the same seed gives the same set");
}

#[test]
fn lengths_are_drawn_as_asked_and_prompts_have_them() {
    let dir = tempfile::tempdir().unwrap();
    let source = compiled(
        &[capture(dir.path())],
        "[select]\nmethod = \"all\"",
        &dir.path().join("store"),
    );
    let known: Vec<i64> = turns(&source)
        .iter()
        .filter_map(|turn| turn.input_tokens)
        .collect();
    let (least, most) = (*known.iter().min().unwrap(), *known.iter().max().unwrap());
    let mean = known.iter().sum::<i64>() as f64 / known.len() as f64;
    for (lengths, distinct) in [
        ("fixed", 1..=1),
        ("gaussian", 30..=1_000),
        ("min-max", 30..=1_000),
    ] {
        let set = control(dir.path(), lengths, "constant");
        let parts = contents(&set);
        let mut drawn: Vec<i64> = Vec::new();
        for turn in turns(&set) {
            let held: i64 = turn
                .content
                .iter()
                .map(|id| parts[id].tokens.unwrap())
                .sum();
            assert_eq!(Some(held), turn.input_tokens, "{lengths}");
            assert_eq!(
                turn.output_tokens,
                Some(7),
                "every answer of the source has 7"
            );
            drawn.push(held);
        }
        assert_eq!(drawn.len(), known.len());
        assert!(drawn.iter().all(|tokens| (least..=most).contains(tokens)));
        let off = drawn.iter().sum::<i64>() as f64 / drawn.len() as f64 / mean - 1.0;
        assert!(lengths == "min-max" || off.abs() < 0.05, "{lengths}: {off}");
        drawn.sort_unstable();
        drawn.dedup();
        assert!(
            distinct.contains(&drawn.len()),
            "{lengths}: {} lengths",
            drawn.len()
        );
    }
}

#[test]
fn arrivals_are_drawn_as_asked_at_the_rate_of_the_source() {
    let dir = tempfile::tempdir().unwrap();
    let cv = |arrivals: &str| {
        let set = control(dir.path(), "fixed", arrivals);
        let starts: Vec<i64> = turns(&set).iter().map(|turn| turn.start_us).collect();
        let span = |key: &str| {
            set.manifest.source_profile["arrivals"][key]
                .as_f64()
                .unwrap()
        };
        let rate = starts.len() as f64 / (*starts.last().unwrap() as f64 / 1e6);
        assert!(
            (rate / span("rate_per_s") - 1.0).abs() < 0.3,
            "{arrivals}: {rate}"
        );
        interarrival_cv(&starts).unwrap()
    };
    assert!(cv("constant") < 0.01);
    assert!((cv("poisson") - 1.0).abs() < 0.15);
    assert!(cv("gamma") > 1.5, "the source's bursts are gamma's");
}

#[test]
fn the_report_says_what_such_load_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let set = control(dir.path(), "fixed", "poisson");
    let report = &set.report;
    assert_eq!(report.verdict, Verdict::Fail);
    // No sessions, no reuse, no bursts, no tail: each by its own dimension.
    for id in [
        "turns_per_session.mean",
        "prefix.infinite_hit_ratio",
        "input_tokens.p90",
    ] {
        assert_eq!(verdict(report, id), Verdict::Fail, "{id}");
    }
}
