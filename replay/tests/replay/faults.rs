//! Targets that fail in every way leave a valid run directory whose numbers add up.

use super::support::{Mood, Server, turn};
use super::{Replayed, replay, replay_until};
use truetape_replay::row;
use truetape_replay::walk::Halt;
use truetape_schemas::capture::Outcome;
use truetape_schemas::run;
use truetape_schemas::set::Turn;

const TURNS: i64 = 40;

fn turns() -> Vec<Turn> {
    (0..TURNS)
        .map(|i| turn(i, &format!("s{i}"), i * 10))
        .collect()
}

/// R4, and that every number of the run is one of its rows.
fn adds_up(replayed: &Replayed, case: &str) {
    let (run, rows) = (replayed.run(), replayed.rows());
    let account = &run.account;
    assert!(account.balances(), "{case}: {account:?}");
    assert_eq!(account.due, TURNS as u64, "{case}");
    assert_eq!(*account, row::account(&rows), "{case}");
    let requests = &run.summary["requests"];
    assert_eq!(requests["due"], account.due, "{case}");
    assert_eq!(requests["sent"], account.sent, "{case}");
    assert_eq!(requests["answered"], account.answered, "{case}");
    let summary = truetape_fidelity::latency::summarize(&rows);
    assert_eq!(
        run.summary,
        serde_json::to_value(summary).unwrap(),
        "{case}"
    );
    let sent: Vec<_> = rows.iter().filter(|row| row.sent_us.is_some()).collect();
    assert_eq!(sent.len() as u64, account.sent, "{case}");
    for row in sent {
        assert!(
            row.outcome.is_some() && row.end_us.is_some(),
            "{case}: {row:?}"
        );
        assert!(row.ready_us <= row.sent_us, "{case}: {row:?}");
        // What was cut is no length that was kept.
        let whole = row.outcome == Some(Outcome::Complete);
        assert_eq!(row.length_miss.is_none(), whole, "{case}: {row:?}");
    }
    for entry in std::fs::read_dir(replayed.out()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = [run::TURNS, run::FIDELITY, run::REPORT, run::PAGE, run::RUN];
        assert!(known.contains(&name.as_str()), "{case}: {name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_whole_whatever_its_target_does() {
    let cases = [
        (Mood::Storm(429), "error"),
        (Mood::Storm(500), "error"),
        (Mood::Garbage, "truncated"),
        (Mood::Halves, "truncated"),
        (Mood::HalfChunks, "truncated"),
        (Mood::Page("<html>not here</html>"), "error"),
        (Mood::BrokenEvents, "error"),
        (Mood::Silent, "timeout"),
        (Mood::Vanishing, "timeout"),
    ];
    for (mood, outcome) in cases {
        for breaks_off in [false, true] {
            let case = format!("{mood:?}, breaks off: {breaks_off}");
            let server = Server::start(mood, 0).await;
            let rate = if breaks_off { "0.5" } else { "1" };
            let flags = [
                "--no-probe",
                "--idle-timeout",
                "300ms",
                "--grace",
                "100ms",
                "--lateness-p99-max",
                "1h",
                "--error-rate-max",
                rate,
            ];
            let replayed = replay(&turns(), &server.url(), &flags).await;
            adds_up(&replayed, &case);
            let run = replayed.run();
            assert_eq!(run.account.answered, 0, "{case}");
            assert!(
                1 <= run.account.failed[outcome],
                "{case}: {:?}",
                run.account
            );
            let expected = if breaks_off {
                (69, "stopped")
            } else {
                (0, "valid")
            };
            assert_eq!(
                (replayed.exit_code(), run.validity.as_str()),
                expected,
                "{case}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_and_a_long_exchange_are_told_apart() {
    let turns = [turn(0, "a", 0)];
    let always = ["--no-probe", "--lateness-p99-max", "1h"];
    let cases: [(Mood, &[&str], &str); 4] = [
        (Mood::Silent, &["--idle-timeout", "300ms"], "idle_timeout"),
        (
            Mood::Vanishing,
            &["--idle-timeout", "300ms"],
            "idle_timeout",
        ),
        (Mood::Silent, &["--timeout", "300ms"], "timeout"),
        (
            Mood::Silent,
            &["--timeout", "300ms", "--idle-timeout", "0s"],
            "timeout",
        ),
    ];
    for (mood, flags, code) in cases {
        let server = Server::start(mood, 0).await;
        let flags: Vec<&str> = always.iter().chain(flags).copied().collect();
        let replayed = replay(&turns, &server.url(), &flags).await;
        let row = &replayed.rows()[0];
        assert_eq!(row.error_code.as_deref(), Some(code), "{mood:?}");
        assert_eq!(row.outcome, Some(Outcome::Timeout), "{mood:?}");
        assert_eq!(replayed.run().account.failed["timeout"], 1);
        // What had come is kept.
        assert_eq!(row.first_token_us.is_some(), mood == Mood::Vanishing);
    }
}

/// Twelve pieces and more, 200 ms apart: far longer than the bound in all, never as long without a
/// byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_answer_that_goes_on_is_not_cut() {
    let server = Server::start(Mood::Slow, 200).await;
    let flags = [
        "--no-probe",
        "--idle-timeout",
        "2s",
        "--lateness-p99-max",
        "1h",
    ];
    let replayed = replay(&[turn(0, "a", 0)], &server.url(), &flags).await;
    let row = &replayed.rows()[0];
    assert_eq!(row.outcome, Some(Outcome::Complete), "{row:?}");
    assert!(2_000_000 < row.end_us.unwrap(), "{row:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_accepts_and_says_nothing_is_told_before_the_run() {
    let server = Server::start(Mood::Mute, 0).await;
    let replayed = replay(&turns(), &server.url(), &[]).await;
    assert_eq!(replayed.exit_code(), 69);
    let message = replayed.result.as_ref().unwrap_err().to_string();
    assert!(message.contains("timed out"), "{message}");
    assert!(!replayed.out().try_exists().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_interrupted_over_a_silent_target_adds_up() {
    let server = Server::start(Mood::Silent, 0).await;
    let halt = Halt::default();
    let (turns, url) = (turns(), server.url());
    let flags = ["--no-probe", "--lateness-p99-max", "1h"];
    let cut = async {
        server.has_measured(3).await;
        halt.stop.cancel();
        halt.cut.cancel();
    };
    let (replayed, ()) = tokio::join!(replay_until(&turns, &url, &flags, halt.clone()), cut);
    adds_up(&replayed, "interrupted");
    let run = replayed.run();
    assert_eq!(
        (run.validity.as_str(), replayed.exit_code()),
        ("stopped", 75)
    );
    let sent = run.account.failed["client_aborted"];
    let left = run.account.not_sent.get("stopped").copied().unwrap_or(0);
    assert_eq!(sent + left, TURNS as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_dies_leaves_a_run_that_adds_up() {
    let server = Server::start(Mood::Leaving { after: 3 }, 0).await;
    let flags = ["--warm-connections", "0", "--error-rate-max", "1"];
    let replayed = replay(&turns(), &server.url(), &flags).await;
    adds_up(&replayed, "death");
    assert_eq!(replayed.run().account.answered, 3);
}
