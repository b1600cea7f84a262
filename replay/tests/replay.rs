//! Sets replayed against a server whose every answer is known.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::Path;
use support::{Mood, Server, args, turn, write_set};
use truetape_replay::cli::FailOn;
use truetape_replay::walk::Halt;
use truetape_replay::{Error, command, load, report};
use truetape_schemas::blame::{Answer, Blamed as _};
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::{self, Dispatch, Run};
use truetape_schemas::set::Turn;

/// Times may be this late on a machine that does other things too.
const TOLERANCE_MS: i64 = 40;

struct Replayed {
    result: Result<command::Replayed, Error>,
    scratch: tempfile::TempDir,
}

impl Replayed {
    fn out(&self) -> std::path::PathBuf {
        self.scratch.path().join("run")
    }

    fn run(&self) -> Run {
        run::open(&self.out()).unwrap()
    }

    fn rows(&self) -> Vec<Dispatch> {
        run::dispatches(&self.out()).unwrap()
    }

    fn exit_code(&self) -> u8 {
        let answer = match &self.result {
            Ok(replayed) => replayed.answer(&self.out(), FailOn::Never),
            Err(error) => return error.blame().exit_code(),
        };
        match answer {
            Ok(answer) => answer.exit_code(),
            Err(error) => error.blame().exit_code(),
        }
    }
}

async fn replay(turns: &[Turn], url: &str, more: &[&str]) -> Replayed {
    replay_until(turns, url, more, Halt::default()).await
}

async fn replay_until(turns: &[Turn], url: &str, more: &[&str], halt: Halt) -> Replayed {
    let scratch = tempfile::tempdir().unwrap();
    let set = write_set(scratch.path(), turns);
    let out = scratch.path().join("run");
    let args = args(&set, url, &out, more);
    let loaded = load::load(&args.set, None).unwrap();
    let result = Box::pin(command::replay(&args, loaded, &out, halt)).await;
    Replayed { result, scratch }
}

fn ms(us: Option<i64>) -> i64 {
    us.unwrap() / 1_000
}

fn assert_close(found: &[i64], expected: &[i64]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found_ms, expected_ms) in found.iter().zip(expected) {
        let late_ms = found_ms - expected_ms;
        assert!(
            (-1..=TOLERANCE_MS).contains(&late_ms),
            "{found:?} is not {expected:?}"
        );
    }
}

/// Case o29: eight requests 100 ms apart, 500 ms of service.
fn ten_a_second() -> Vec<Turn> {
    (0..8).map(|i| turn(i, &format!("s{i}"), i * 100)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_is_lateness_and_both_views_are_told() {
    let server = Server::start(Mood::Good, 500).await;
    let replayed = replay(&ten_a_second(), &server.url(), &["--max-in-flight", "1"]).await;
    let rows = replayed.rows();
    let send_ms: Vec<i64> = rows.iter().map(|row| ms(row.last_token_us)).collect();
    assert_close(&send_ms, &[500; 8]);
    let late_ms: Vec<i64> = rows.iter().map(|row| ms(row.lateness_us)).collect();
    for (late_ms, at_least_ms) in late_ms.iter().zip((0..).step_by(400)) {
        assert!(at_least_ms <= *late_ms, "{late_ms} below {at_least_ms}");
    }
    let run = replayed.run();
    assert_eq!(run.summary["schedule_kept"], false);
    let due_p50_ms = run.summary["from_due"]["e2el_ms"]["p50"].as_f64().unwrap();
    assert!((1_900.0..2_100.0).contains(&due_p50_ms), "{due_p50_ms}");
    assert_eq!(run.validity, "invalid");
    assert!(run.validity_reasons[0].ends_with("--max-in-flight 1 holds requests back"));
    assert_eq!(replayed.exit_code(), 74);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_cap_both_views_agree() {
    let server = Server::start(Mood::Good, 500).await;
    let replayed = replay(&ten_a_second(), &server.url(), &[]).await;
    let run = replayed.run();
    assert_eq!((run.validity.as_str(), replayed.exit_code()), ("valid", 0));
    let late_ms: Vec<i64> = replayed
        .rows()
        .iter()
        .map(|row| ms(row.lateness_us))
        .collect();
    assert_close(&late_ms, &[0; 8]);
    assert_eq!((run.account.due, run.account.answered), (8, 8));
    assert!(run.account.balances());
    assert_eq!(run.engine.models, ["lab"]);
    assert_eq!(
        (run.engine.server, run.engine.version),
        (Some("tiny/1".into()), Some("0.9".into()))
    );
}

/// Case o37, ten times as fast: pauses of 200 and 1,200 ms.
fn session() -> Vec<Turn> {
    let later = |turn_id, start_ms, gap_ms: i64| Turn {
        turn: turn_id as i32 + 1,
        depends_on: vec![turn_id - 1],
        parent: Some(turn_id - 1),
        gap_us: Some(gap_ms * 1_000),
        ..turn(turn_id, "s", start_ms)
    };
    vec![
        turn(0, "s", 0),
        later(1, 1_000, 200),
        later(2, 2_500, 1_200),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_wait_for_answers_and_think() {
    let cases: [(&[&str], [i64; 3]); 4] = [
        (&["--pacing", "closed"], [0, 300, 1_600]),
        (
            &["--pacing", "closed", "--think-scale", "0.5"],
            [0, 200, 900],
        ),
        (&["--pacing", "open"], [0, 1_000, 2_500]),
        (&[], [0, 1_000, 2_500]),
    ];
    for (flags, expected_ms) in cases {
        let server = Server::start(Mood::Good, 100).await;
        let replayed = replay(&session(), &server.url(), flags).await;
        let sent_ms: Vec<i64> = replayed.rows().iter().map(|row| ms(row.sent_us)).collect();
        assert_close(&sent_ms, &expected_ms);
        let sessions: Vec<_> = server
            .measured()
            .iter()
            .map(|seen| seen.header("x-session-id").unwrap())
            .collect();
        assert_eq!(sessions, ["s"; 3]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_carry_the_run_and_its_salt_and_repeat_byte_for_byte() {
    let server = Server::start(Mood::Good, 0).await;
    let first = replay(&ten_a_second()[..2], &server.url(), &["--salt", "pepper"]).await;
    let again = replay(&ten_a_second()[..2], &server.url(), &["--salt", "pepper"]).await;
    let other = replay(&ten_a_second()[..2], &server.url(), &[]).await;
    let seen = server.measured();
    assert_eq!(seen.len(), 6);
    assert_eq!(seen[0].header("x-truetape-run"), Some(first.run().run_id));
    assert_eq!(seen[0].header("authorization"), None);
    assert_eq!(seen[0].bytes, seen[2].bytes);
    assert_eq!(seen[0].body["cache_salt"], "pepper");
    assert_eq!(seen[0].body["model"], "lab");
    assert_eq!(seen[4].body["cache_salt"], other.run().run_id.as_str());
    assert_eq!(again.run().flags["salt"], "pepper");
    // What was asked before the run shares no prefix with it.
    let asked = server.seen();
    assert_eq!(asked[0].body["cache_salt"], "probe-pepper");
    let finding = "model: the set asks for `prod`, `lab` is asked for".to_owned();
    assert!(first.run().findings.contains(&finding));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_target_is_found_out_before_the_run() {
    // Case o38, S1.
    let server = Server::start(Mood::Strict, 0).await;
    let replayed = replay(&ten_a_second()[..2], &server.url(), &[]).await;
    let rows = replayed.rows();
    assert!(
        rows.iter()
            .all(|row| row.status == Some(200) && row.enforcement == "cap")
    );
    let findings = replayed.run().findings;
    assert!(
        findings
            .iter()
            .any(|found| found.starts_with("lengths: the target refuses"))
    );
    assert!(
        server
            .measured()
            .iter()
            .all(|seen| seen.body["max_tokens"] == 1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_salt_that_is_taken_and_ignored_is_no_isolation() {
    let cases = [
        (Mood::Caching { honours_salt: true }, "salted", None),
        (
            Mood::Caching {
                honours_salt: false,
            },
            "as-is",
            Some("cache: the target ignores"),
        ),
        (
            Mood::Good,
            "salted",
            Some("cache: the target reports no cached tokens"),
        ),
    ];
    for (mood, cache, finding) in cases {
        let server = Server::start(mood, 0).await;
        let run = replay(&ten_a_second()[..1], &server.url(), &[]).await.run();
        assert_eq!(run.flags["cache"], cache, "{mood:?}");
        let found = run
            .findings
            .iter()
            .find(|found| found.starts_with("cache: "));
        assert_eq!(found.is_some(), finding.is_some(), "{mood:?} {found:?}");
        if let (Some(found), Some(finding)) = (found, finding) {
            assert!(found.starts_with(finding), "{found}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_down_is_told_before_anything_is_written() {
    let server = Server::start(Mood::Good, 0).await;
    let url = server.url();
    drop(server);
    let replayed = replay(&ten_a_second(), &url, &[]).await;
    assert_eq!(replayed.exit_code(), 69);
    let message = replayed.result.as_ref().unwrap_err().to_string();
    assert!(
        message.ends_with("start the server, or name another --target"),
        "{message}"
    );
    assert!(!replayed.out().try_exists().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_cannot_be_flushed_is_told_before_anything_is_written() {
    let server = Server::start(Mood::Good, 0).await;
    let replayed = replay(&ten_a_second(), &server.url(), &["--cache", "flush"]).await;
    assert_eq!(replayed.exit_code(), 69);
    let message = replayed.result.as_ref().unwrap_err().to_string();
    assert!(
        message.contains("POST /reset_prefix_cache was answered 404"),
        "{message}"
    );
    assert!(!replayed.out().try_exists().unwrap());
    assert!(server.measured().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_target_breaks_the_run_off_and_the_account_balances() {
    let server = Server::start(Mood::Failing { after: 2 }, 0).await;
    let turns: Vec<Turn> = (0..200)
        .map(|i| turn(i, &format!("s{i}"), i * 20))
        .collect();
    let replayed = replay(&turns, &server.url(), &[]).await;
    assert_eq!(replayed.exit_code(), 69);
    let run = replayed.run();
    assert_eq!(run.validity, "stopped");
    assert!(run.account.balances());
    assert_eq!(run.account.due, 200);
    assert!(
        150 < run.account.not_sent["error_rate"],
        "{:?}",
        run.account
    );
    assert!(
        20 <= run.account.failed["error"] + run.account.answered,
        "{:?}",
        run.account
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_goes_away_is_a_row_for_every_request() {
    let server = Server::start(Mood::Leaving { after: 3 }, 0).await;
    let turns: Vec<Turn> = (0..8).map(|i| turn(i, &format!("s{i}"), i * 50)).collect();
    let flags = ["--warm-connections", "0", "--error-rate-max", "1"];
    let replayed = replay(&turns, &server.url(), &flags).await;
    let run = replayed.run();
    assert!(run.account.balances());
    assert_eq!((run.account.sent, run.account.answered), (8, 3));
    assert_eq!(run.account.failed["connect"], 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_what_is_in_flight_and_still_writes_a_run() {
    let server = Server::start(Mood::Good, 300).await;
    let far = vec![turn(0, "a", 0), turn(1, "b", 3_600_000)];
    let halt = Halt::default();
    let url = server.url();
    let (replayed, ()) = tokio::join!(replay_until(&far, &url, &[], halt.clone()), async {
        server.has_measured(1).await;
        halt.stop.cancel();
    });
    let run = replayed.run();
    assert_eq!(
        (run.validity.as_str(), replayed.exit_code()),
        ("stopped", 75)
    );
    assert_eq!(
        (run.account.answered, run.account.not_sent["stopped"]),
        (1, 1)
    );
    assert_eq!(replayed.rows()[0].outcome, Some(Outcome::Complete));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_lasts_too_long_cuts_what_is_in_flight() {
    let server = Server::start(Mood::Good, 60_000).await;
    let halt = Halt::default();
    let url = server.url();
    let flags = ["--no-probe", "--grace", "50ms"];
    let turns = [turn(0, "a", 0)];
    let (replayed, ()) = tokio::join!(replay_until(&turns, &url, &flags, halt.clone()), async {
        server.has_measured(1).await;
        halt.stop.cancel();
    });
    assert_eq!(replayed.exit_code(), 75);
    assert_eq!(replayed.run().account.failed["client_aborted"], 1);
}

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
        })
        .unwrap()
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
