use super::*;
use serde_json::json;
use std::path::Path;
use truetape_schemas::blame::{Blame, Blamed};
use truetape_schemas::capture::Outcome;
use truetape_schemas::file::Writer;
use truetape_schemas::run::Dispatch;

/// Writes a run of 200 sessions whose answers take about so long, in microseconds.
fn written(dir: &Path, name: &str, ttft_us: i64, change: impl Fn(&mut Run)) -> PathBuf {
    let out = dir.join(name);
    std::fs::create_dir_all(&out).unwrap();
    let rows: Vec<Dispatch> = (0..200)
        .map(|turn_id| Dispatch {
            turn_id,
            session: turn_id.to_string(),
            due_us: turn_id * 1_000_000,
            sent_us: Some(turn_id * 1_000_000),
            lateness_us: Some(0),
            first_token_us: Some(ttft_us + turn_id * 500),
            last_token_us: Some(2 * ttft_us + turn_id * 500),
            output_tokens: Some(11),
            outcome: Some(Outcome::Complete),
            ..Dispatch::default()
        })
        .collect();
    let mut writer = Writer::create(&out.join(run::TURNS)).unwrap();
    writer.write(&rows).unwrap();
    writer.finish(&[]).unwrap();
    let mut account = Run {
        format: run::FORMAT.to_string(),
        run_id: name.to_owned(),
        set_digest: "d1".to_owned(),
        validity: VALID.to_owned(),
        flags: [("output".to_owned(), json!("enforce"))].into(),
        ..Run::default()
    };
    change(&mut account);
    std::fs::write(out.join(run::RUN), serde_json::to_vec(&account).unwrap()).unwrap();
    out
}

fn args(runs: Vec<PathBuf>, against: Vec<PathBuf>) -> CompareArgs {
    CompareArgs {
        runs,
        against,
        fail_on: FailOnClaim::Regression,
        allow_different: false,
        format: Format::Text,
    }
}

/// Three of each: the baseline around 100 ms, the others around as long as is said.
fn three(dir: &Path, ttft_us: i64) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let each = |name: &str, ttft_us: i64| -> Vec<PathBuf> {
        (0..3)
            .map(|at| written(dir, &format!("{name}{at}"), ttft_us + at * 100, |_| ()))
            .collect()
    };
    (each("run", ttft_us), each("against", 100_000))
}

#[test]
fn a_regression_is_claimed_and_ends_with_no() {
    let dir = tempfile::tempdir().unwrap();
    let (runs, against) = three(dir.path(), 130_000);
    let comparison = of(&args(runs.clone(), against.clone())).unwrap();
    assert_eq!(comparison.claim, Claim::Slower, "{comparison:?}");
    assert!(
        comparison
            .answer
            .starts_with("slower in 3 pairs of runs: TTFT p50 +"),
        "{}",
        comparison.answer
    );
    assert_eq!(
        answer(comparison.claim, FailOnClaim::Regression),
        Answer::No
    );
    // The other way round it is an improvement.
    let better = of(&args(against, runs)).unwrap();
    assert_eq!(better.claim, Claim::Faster);
    assert_eq!(answer(better.claim, FailOnClaim::Regression), Answer::Yes);
}

#[test]
fn the_answer_is_no_where_the_user_drew_the_line() {
    use {Claim as C, FailOnClaim as On};
    let cases = [
        (
            On::Regression,
            [Answer::No, Answer::Yes, Answer::Yes, Answer::Yes],
        ),
        (
            On::Unknown,
            [Answer::No, Answer::Yes, Answer::Yes, Answer::No],
        ),
        (On::Never, [Answer::Yes; 4]),
    ];
    for (fail_on, wanted) in cases {
        let claims = [C::Slower, C::Faster, C::None, C::Unknown];
        assert_eq!(
            claims.map(|claim| answer(claim, fail_on)),
            wanted,
            "{fail_on:?}"
        );
    }
}

#[test]
fn runs_that_are_not_alike_are_refused_unless_the_user_knows() {
    let dir = tempfile::tempdir().unwrap();
    let one = written(dir.path(), "one", 100_000, |_| ());
    type Change = fn(&mut Run);
    let cases: [(&str, Change, &str); 4] = [
        (
            "set",
            |run| run.set_digest = "d2".to_owned(),
            "different sets (d1, d2)",
        ),
        (
            "late",
            |run| run.validity = "invalid".to_owned(),
            "run late is invalid",
        ),
        (
            "loose",
            |run| drop(run.flags.insert("output".to_owned(), json!("cap"))),
            "different `output`",
        ),
        ("again", |run| run.run_id = "one".to_owned(), "given twice"),
    ];
    for (name, change, said) in cases {
        let other = written(dir.path(), name, 100_000, change);
        let mut args = args(vec![other], vec![one.clone()]);
        let error = of(&args).unwrap_err();
        assert_eq!(error.blame(), Blame::Data);
        assert!(error.to_string().contains(said), "{error}");
        assert!(error.to_string().ends_with("--allow-different"), "{error}");
        args.allow_different = true;
        let comparison = of(&args).unwrap();
        assert!(
            comparison.findings[0].contains(said),
            "{:?}",
            comparison.findings
        );
    }
}

#[test]
fn a_comparison_is_drawn_for_people_for_documents_and_for_programs() {
    let dir = tempfile::tempdir().unwrap();
    let (runs, against) = three(dir.path(), 130_000);
    let comparison = of(&args(runs, against)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&drawn(&comparison, Format::Json)).unwrap();
    assert_eq!(value["claim"], "slower");
    assert_eq!(value["effects"][0]["measure"], "ttft_p50");
    assert!(drawn(&comparison, Format::Text).contains("SLOWER"));
    assert!(drawn(&comparison, Format::Markdown).contains("| TTFT p99 |"));
}
