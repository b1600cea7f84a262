//! What lies on disk, before and after.

use super::*;
use std::path::Path;
use truetape_replay::{dry_run, report};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_drawn_again_from_its_directory_and_never_overwritten() {
    let server = Server::start(Mood::Good, 0).await;
    let turns = &ten_a_second()[..1];
    let replayed = replay(turns, &server.url(), &[]).await;
    let out = replayed.out();
    let drawn = |format: &str| {
        let format = clap::ValueEnum::from_str(format, false).unwrap();
        report::draw(&truetape_replay::cli::ReportArgs {
            runs: vec![out.clone()],
            format,
            ..Default::default()
        })
        .unwrap()
        .text
    };
    assert!(drawn("text").contains("valid: 1 due, 1 sent, 1 answered"));
    let json: serde_json::Value = serde_json::from_str(&drawn("json")).unwrap();
    assert_eq!(json["run"], serde_json::to_value(replayed.run()).unwrap());
    assert_eq!(json["report"]["set_name"], "tiny");
    let markdown = std::fs::read_to_string(out.join(run::REPORT)).unwrap();
    assert_eq!(drawn("markdown"), markdown);
    let before = server.seen().len();
    let set = replayed.scratch.path().join("set");
    let again = args(&set, &server.url(), &out, &["--no-probe"]);
    let loaded = load::load(&again.set, None).unwrap();
    let result = Box::pin(command::replay(&again, loaded, &out, Halt::default())).await;
    assert_eq!(result.unwrap_err().blame().exit_code(), 78);
    assert_eq!(server.seen().len(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_of_one_run_and_of_the_set_that_it_is_of() {
    let server = Server::start(Mood::Good, 0).await;
    let replayed = replay(&ten_a_second()[..2], &server.url(), &[]).await;
    let (out, set) = (replayed.out(), replayed.scratch.path().join("set"));
    let drawn = |runs: usize, set: Option<&Path>| {
        report::draw(&truetape_replay::cli::ReportArgs {
            runs: vec![out.clone(); runs],
            set: set.map(|set| set.display().to_string()),
            format: truetape_replay::cli::ReportFormat::Html,
            ..Default::default()
        })
    };
    let own = std::fs::read_to_string(out.join(run::PAGE)).unwrap();
    assert_eq!(drawn(1, Some(&set)).unwrap().text, own);
    let alone = drawn(1, None).unwrap().text;
    assert!(
        alone.contains("name the set with --set or --store"),
        "{alone}"
    );
    let several = drawn(2, None).unwrap_err();
    assert_eq!(several.blame().exit_code(), 78, "{several}");
    let other = write_set(&replayed.scratch.path().join("other"), &ten_a_second());
    let wrong = drawn(1, Some(&other)).unwrap_err();
    assert_eq!(wrong.blame().exit_code(), 65, "{wrong}");
    assert!(wrong.to_string().contains("and the run is of"), "{wrong}");
}

#[test]
fn a_set_that_was_changed_is_not_replayed() {
    let scratch = tempfile::tempdir().unwrap();
    let set = write_set(scratch.path(), &ten_a_second());
    let path = set.join("manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let recipe = text.replace("\"recipe\":{}", "\"recipe\":{\"seed\":2}");
    assert_ne!(text, recipe);
    std::fs::write(&path, recipe).unwrap();
    let error = load::load(set.to_str().unwrap(), None).unwrap_err();
    assert_eq!(error.blame().exit_code(), 65);
    assert!(
        error.to_string().contains("its rows have the digest"),
        "{error}"
    );
}

#[test]
fn a_plan_is_shown_without_a_target() {
    let scratch = tempfile::tempdir().unwrap();
    let set = write_set(scratch.path(), &ten_a_second());
    let nowhere = "http://192.0.2.1:9";
    let args = args(
        &set,
        nowhere,
        Path::new("unused"),
        &["--dry-run", "--duration", "450ms"],
    );
    assert_eq!(truetape_replay::run(args).unwrap(), Answer::Yes);
}

#[test]
fn a_plan_leaves_out_what_could_not_be_sent() {
    let scratch = tempfile::tempdir().unwrap();
    let turns = vec![
        turn(0, "a", 0),
        Turn {
            content: vec![],
            ..turn(1, "b", 10)
        },
        Turn {
            dialect: "unknown".into(),
            ..turn(2, "c", 20)
        },
    ];
    let set = write_set(scratch.path(), &turns);
    let args = args(&set, "http://127.0.0.1:9", scratch.path(), &["--dry-run"]);
    let mut loaded = load::load(&args.set, None).unwrap();
    let plan = dry_run::plan(&args, &mut loaded).unwrap();
    let reasons: Vec<&str> = plan.unsent.iter().map(|unsent| unsent.reason).collect();
    assert_eq!(
        (plan.dispatches.len(), reasons),
        (1, vec!["no_content", "unsupported_dialect"])
    );
    let mut loaded = load::load(&args.set, None).unwrap();
    loaded.manifest.semantics.content = "lengths".into();
    let plan = dry_run::plan(&args, &mut loaded).unwrap();
    assert_eq!((plan.dispatches.len(), plan.unsent.len()), (3, 0));
}
