//! Sets replayed against a server whose every answer is known.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod answers;
mod cancels;
mod connected;
mod dialects;
mod faults;
mod flags;
mod metrics;
mod on_disk;
mod scheduled;
mod spoken;
mod stopped;
mod support;

use support::{Mood, Server, args, turn, write_set};
use truetape_replay::cli::FailOn;
use truetape_replay::walk::Halt;
use truetape_replay::{Error, command, load};
use truetape_schemas::blame::{Answer, Blamed as _};
use truetape_schemas::run::{self, Dispatch, Run};
use truetape_schemas::set::Turn;

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
    write_set(scratch.path(), turns);
    replay_set(scratch, url, more, halt).await
}

/// Replays the set that lies in a scratch folder.
async fn replay_set(scratch: tempfile::TempDir, url: &str, more: &[&str], halt: Halt) -> Replayed {
    let (set, out) = (scratch.path().join("set"), scratch.path().join("run"));
    let args = args(&set, url, &out, more);
    let loaded = load::load(&args.set, None).unwrap();
    let result = Box::pin(command::replay(&args, loaded, &out, halt)).await;
    Replayed { result, scratch }
}

fn ms(us: Option<i64>) -> i64 {
    us.unwrap() / 1_000
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
    // The machine may add to any time and take from none.
    for (row, at_least_ms) in rows.iter().zip((0..).step_by(400)) {
        assert!(500 <= ms(row.last_token_us), "{row:?}");
        assert!(at_least_ms <= ms(row.lateness_us), "{row:?}");
    }
    let run = replayed.run();
    assert_eq!(run.summary["schedule_kept"], false);
    let from_due = |of: &str| run.summary["from_due"]["e2el_ms"][of].as_f64().unwrap();
    assert!(1_900.0 <= from_due("p50") && 3_300.0 <= from_due("max"));
    assert_eq!(run.validity, "invalid");
    assert!(run.validity_reasons[0].ends_with("--max-in-flight 1 holds requests back"));
    assert_eq!(replayed.exit_code(), 74);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_cap_both_views_agree() {
    let server = Server::start(Mood::Good, 500).await;
    // Whoever else uses the machine may hold us up; that is not what is asked here.
    let patient = ["--lateness-p99-max", "1h"];
    let replayed = replay(&ten_a_second(), &server.url(), &patient).await;
    let run = replayed.run();
    assert_eq!((run.validity.as_str(), replayed.exit_code()), ("valid", 0));
    for row in replayed.rows() {
        assert_eq!(row.ready_us, Some(row.due_us));
        assert!(row.connect_us <= row.request_end_us && row.connect_us.is_some());
        assert_eq!(
            row.lateness_us,
            row.sent_us.map(|sent_us| sent_us - row.due_us)
        );
    }
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

fn end_us(row: &Dispatch) -> i64 {
    row.sent_us.unwrap() + row.request_end_us.unwrap() + row.end_us.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_waits_for_its_due_time_and_for_its_answers() {
    for (service_ms, answers_decide) in [(100, false), (1_100, true)] {
        let server = Server::start(Mood::Good, service_ms).await;
        let replayed = replay(&session()[..2], &server.url(), &[]).await;
        let rows = replayed.rows();
        let think_us = session()[1].gap_us.unwrap();
        let ready_us = rows[1].ready_us.unwrap();
        assert!(rows[1].due_us.max(end_us(&rows[0]) + think_us) <= ready_us);
        if answers_decide {
            assert!(rows[1].due_us < ready_us);
            assert_eq!(rows[1].session_delay_us, Some(ready_us - rows[1].due_us));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_wait_for_answers_and_think() {
    // What the flags make of the pauses; `None` where only the arrivals count.
    let cases: [(&[&str], Option<f64>); 3] = [
        (&["--pacing", "closed"], Some(1.0)),
        (&["--pacing", "closed", "--think-scale", "0.5"], Some(0.5)),
        (&["--pacing", "open"], None),
    ];
    for (flags, think_scale) in cases {
        let server = Server::start(Mood::Good, 100).await;
        let replayed = replay(&session(), &server.url(), flags).await;
        let rows = replayed.rows();
        for (turn, pair) in session().iter().skip(1).zip(rows.windows(2)) {
            let ready_us = match think_scale {
                Some(scale) => end_us(&pair[0]) + (turn.gap_us.unwrap() as f64 * scale) as i64,
                None => turn.start_us,
            };
            // The end was rounded down when it was written.
            let after_us = pair[1].ready_us.unwrap() - ready_us;
            assert!((0..=3).contains(&after_us), "{after_us} {flags:?}");
            assert!(pair[1].ready_us <= pair[1].sent_us);
        }
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
        (
            Mood::Caching { honours_salt: true },
            "salted",
            Some("honoured"),
            None,
        ),
        (
            Mood::Caching {
                honours_salt: false,
            },
            "as-is",
            None,
            Some("cache: the target ignores"),
        ),
        (
            Mood::Good,
            "salted",
            Some("unverified"),
            Some("cache: the target reports no cached tokens"),
        ),
    ];
    for (mood, cache, verified, finding) in cases {
        let server = Server::start(mood, 0).await;
        let run = replay(&ten_a_second()[..1], &server.url(), &[]).await.run();
        assert_eq!(run.flags["cache"], cache, "{mood:?}");
        assert_eq!(run.flags["cache_verified"].as_str(), verified, "{mood:?}");
        assert_eq!(run.flags["captured_origin"], false);
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
    let mut turns: Vec<Turn> = (0..60).map(|i| turn(i, &format!("s{i}"), i * 20)).collect();
    turns.push(turn(60, "far", 3_600_000));
    let replayed = replay(&turns, &server.url(), &[]).await;
    assert_eq!(replayed.exit_code(), 69);
    let run = replayed.run();
    assert_eq!(run.validity, "stopped");
    assert!(run.account.balances());
    assert_eq!(run.account.due, 61);
    assert!(1 <= run.account.not_sent["error_rate"], "{:?}", run.account);
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
