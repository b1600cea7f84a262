//! Targets that fail in every way leave a valid run directory whose numbers add up.

use super::support::{Mood, Server, turn};
use super::{Replayed, replay};
use truetape_replay::row;
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
        let known = [run::TURNS, run::FIDELITY, run::REPORT, run::RUN];
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
        (Mood::Silent, "timeout"),
    ];
    for (mood, outcome) in cases {
        for breaks_off in [false, true] {
            let case = format!("{mood:?}, breaks off: {breaks_off}");
            let server = Server::start(mood, 0).await;
            let rate = if breaks_off { "0.5" } else { "1" };
            let flags = [
                "--no-probe",
                "--timeout",
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
async fn a_target_that_dies_leaves_a_run_that_adds_up() {
    let server = Server::start(Mood::Leaving { after: 3 }, 0).await;
    let flags = ["--warm-connections", "0", "--error-rate-max", "1"];
    let replayed = replay(&turns(), &server.url(), &flags).await;
    adds_up(&replayed, "death");
    assert_eq!(replayed.run().account.answered, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_left_in_production_leaves_in_the_replay() {
    let server = Server::start(Mood::Silent, 0).await;
    let left = Turn {
        recorded_outcome: Outcome::ClientAborted,
        output_tokens: None,
        recorded_end_us: Some(200_000),
        ..turn(0, "a", 0)
    };
    let flags = ["--no-probe", "--lateness-p99-max", "1h"];
    let replayed = replay(&[left], &server.url(), &flags).await;
    let (run, rows) = (replayed.run(), replayed.rows());
    assert_eq!((run.validity.as_str(), replayed.exit_code()), ("valid", 0));
    assert_eq!(run.account.failed["recorded_cancel"], 1);
    assert!(run.account.balances());
    assert_eq!(rows[0].outcome, Some(Outcome::ClientAborted));
    assert_eq!(rows[0].error_code.as_deref(), Some("recorded_cancel"));
    // No whole answer was observed, so that no length was asked for.
    assert_eq!(rows[0].length_miss, None);
}
