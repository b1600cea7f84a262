//! Clients that left in production leave in the replay.

use super::replay;
use super::support::{Mood, Server, turn};
use truetape_schemas::capture::Outcome;
use truetape_schemas::set::Turn;

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

/// Four events of which one is a token, and another server that says ten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_leaves_after_as_many_token_events_as_it_had_seen() {
    let server = Server::start(Mood::Ten, 20).await;
    let left = |turn_id: i64, events| Turn {
        recorded_outcome: Outcome::ClientAborted,
        output_tokens: None,
        max_tokens: Some(50),
        recorded_token_events: events,
        // Longer than any of them: who is counted does not leave by the clock.
        recorded_end_us: Some(3_600_000_000),
        ..turn(turn_id, &format!("s{turn_id}"), 0)
    };
    let turns = [left(0, Some(1)), left(1, Some(4)), left(2, Some(30))];
    let flags = ["--no-probe", "--lateness-p99-max", "1h"];
    let replayed = replay(&turns, &server.url(), &flags).await;
    let (run, rows) = (replayed.run(), replayed.rows());
    assert!(run.account.balances());
    assert_eq!(run.account.failed["recorded_cancel"], 2);
    let events =
        |row: &truetape_schemas::run::Dispatch| row.token_event_offsets_us.as_ref().unwrap().len();
    // A read may bring more than one event, and the pauses between them none.
    assert!((1..10).contains(&events(&rows[0])), "{rows:?}");
    assert!((4..10).contains(&events(&rows[1])), "{rows:?}");
    // The third had seen more than this target says: it reads all of it.
    assert_eq!(
        (events(&rows[2]), rows[2].outcome),
        (10, Some(Outcome::Complete))
    );
    let found = |text: &str| run.findings.iter().any(|found| found.contains(text));
    assert!(found(
        "3 of 3 turns: production's client went away early: the replay goes away after as many token events"
    ));
    assert!(found(
        "1 answers ended before production's client had gone away"
    ));
    let asked: Vec<i64> = server
        .measured()
        .iter()
        .map(|seen| seen.body["min_tokens"].as_i64().unwrap())
        .collect();
    let mut asked = asked;
    asked.sort_unstable();
    assert_eq!(asked, [1, 4, 30]);
}
