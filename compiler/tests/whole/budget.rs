//! What is asked for, where it is more than there is, or where nobody knows how much there is.

use crate::fixture::{Talk, compiled, contents, hold, options, turns, write};
use std::path::{Path, PathBuf};
use truetape_compiler::compile::{Compiled, compile};
use truetape_schemas::blame::{Blame, Blamed as _};
use truetape_schemas::capture::{Exchange, LengthSource};
use truetape_schemas::report::{Report, Verdict};

/// Forty conversations, a second apart.
fn rows() -> Vec<Exchange> {
    let talk = |at: i64| Talk {
        name: format!("t{at}"),
        start_us: at * 1_000_000,
        turns: 1 + at as usize % 3,
        keyed: true,
    };
    (0..40).flat_map(|at| hold(&talk(at))).collect()
}

fn capture(dir: &Path, rows: &[Exchange]) -> PathBuf {
    write(&dir.join("c/0.parquet"), rows);
    dir.join("c")
}

/// As a recorder sees streams whose client did not ask for usage.
fn without_usage(rows: Vec<Exchange>) -> Vec<Exchange> {
    let forget = |row: Exchange| Exchange {
        input_tokens: None,
        input_tokens_source: LengthSource::Absent,
        output_tokens: None,
        output_tokens_source: LengthSource::Absent,
        ..row
    };
    rows.into_iter().map(forget).collect()
}

fn verdict(report: &Report, id: &str) -> Verdict {
    let dimension = report
        .dimensions
        .iter()
        .find(|dimension| dimension.id == id);
    dimension.unwrap().verdict
}

fn says(set: &Compiled, what: &str) -> bool {
    let findings = &set.manifest.findings;
    findings.iter().any(|finding| finding.contains(what))
}

#[test]
fn a_budget_of_more_than_there_is_takes_everything_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let capture = capture(dir.path(), &rows());
    let set = compiled(&[capture], "[select]\ntokens = 100000000", dir.path());
    assert_eq!(turns(&set).len(), rows().len());
    assert!(
        says(&set, "is more than the"),
        "{:?}",
        set.manifest.findings
    );
    assert_eq!(verdict(&set.report, "tokens.input"), Verdict::Pass);
    assert_eq!(verdict(&set.report, "arrivals.rate"), Verdict::Pass);
}

#[test]
fn where_no_length_is_known_a_share_is_one_of_turns_and_no_count_is_made_up() {
    let dir = tempfile::tempdir().unwrap();
    let capture = [capture(dir.path(), &without_usage(rows()))];
    let set = compiled(&capture, "[select]\ntoken_share = 0.25", dir.path());
    let share = turns(&set).len() as f64 / rows().len() as f64;
    assert!((share - 0.25).abs() < 0.05, "{share}");
    assert!(says(&set, "by their turns"), "{:?}", set.manifest.findings);
    assert_eq!(set.manifest.tokenizer.name, "assumed");
    assert!(turns(&set).iter().all(|turn| turn.input_tokens.is_none()));
    assert!(contents(&set).values().all(|part| part.tokens.is_none()));
    let tokens = options(&capture, "[select]\ntokens = 1000", dir.path(), 1);
    let refused = compile(&tokens).unwrap_err();
    assert_eq!(refused.blame(), Blame::Config);
    assert!(refused.to_string().contains("token_share"), "{refused}");
}

#[test]
fn lengths_are_counted_where_the_recipe_says_what_a_token_is() {
    let dir = tempfile::tempdir().unwrap();
    let capture = [capture(dir.path(), &without_usage(rows()))];
    let recipe = "[tokens]\ntokenizer = \"bytes:4\"\n[select]\nmethod = \"all\"";
    let set = compiled(&capture, recipe, dir.path());
    let known: i64 = rows().iter().filter_map(|row| row.input_tokens).sum();
    assert_eq!(i64::try_from(set.manifest.counts.input_tokens), Ok(known));
    assert!(says(&set, "unchecked"), "{:?}", set.manifest.findings);
}

#[test]
fn a_window_that_holds_less_than_its_part_is_not_called_true() {
    let dir = tempfile::tempdir().unwrap();
    // Nearly all of the load comes in the second half.
    let late = (0..40_i64).map(|at| Talk {
        name: format!("t{at}"),
        start_us: if at < 2 {
            at * 1_000_000
        } else {
            (60 + at) * 1_000_000
        },
        turns: 1,
        keyed: true,
    });
    let rows: Vec<Exchange> = late.flat_map(|talk| hold(&talk)).collect();
    let capture = capture(dir.path(), &rows);
    let recipe = "[select]\nmethod = \"window\"\nwindow = { start = \"0s\", length = \"50s\" }";
    let set = compiled(&[capture], recipe, dir.path());
    assert_eq!(turns(&set).len(), 2);
    assert_ne!(verdict(&set.report, "tokens.input"), Verdict::Pass);
}

#[test]
fn turns_of_unknown_length_are_said_to_weigh_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (some, others) = (rows().split_off(30), rows()[..30].to_vec());
    let capture = [capture(
        dir.path(),
        &[others, without_usage(some.clone())].concat(),
    )];
    let set = compiled(&capture, "", dir.path());
    let wanted = format!(
        "{} of {} turns have prompts of unknown",
        some.len(),
        rows().len()
    );
    assert!(says(&set, &wanted), "{:?}", set.manifest.findings);
    assert_eq!(set.manifest.tokenizer.name, "bytes:4");
}
