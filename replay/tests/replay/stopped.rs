//! Runs that end early, by their user or by a limit, at any time.

use super::support::{Mood, Server, turn};
use super::{replay, replay_until};
use std::time::{Duration, Instant};
use truetape_replay::walk::Halt;
use truetape_schemas::capture::Outcome;
use truetape_schemas::set::Turn;

/// Turns that are all due at once.
fn at_once(count: i64) -> Vec<Turn> {
    (0..count).map(|i| turn(i, &format!("s{i}"), 0)).collect()
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
async fn what_the_user_cuts_is_not_the_targets_fault() {
    let server = Server::start(Mood::Good, 60_000).await;
    let halt = Halt::default();
    let url = server.url();
    let turns = at_once(40);
    let cut = async {
        server.has_measured(40).await;
        halt.stop.cancel();
        halt.cut.cancel();
    };
    let (replayed, ()) = tokio::join!(
        replay_until(&turns, &url, &["--no-probe"], halt.clone()),
        cut
    );
    let run = replayed.run();
    assert_eq!(
        (run.validity.as_str(), replayed.exit_code()),
        ("stopped", 75)
    );
    assert_eq!(run.account.failed["client_aborted"], 40);
    assert!(
        run.validity_reasons
            .iter()
            .any(|why| why == "it was interrupted")
    );
    assert_eq!(run.flags["cache_verified"], "not_probed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_broke_off_does_not_wait_for_an_exchange_that_hangs() {
    let server = Server::start(Mood::Stuck, 60_000).await;
    let flags = ["--no-probe", "--grace", "100ms", "--lateness-p99-max", "1h"];
    let before = Instant::now();
    let replayed = replay(&at_once(40), &server.url(), &flags).await;
    assert!(before.elapsed() < Duration::from_secs(50));
    let run = replayed.run();
    assert_eq!(
        (run.validity.as_str(), replayed.exit_code()),
        ("stopped", 69)
    );
    assert!(run.validity_reasons[0].contains("above --error-rate-max"));
    assert_eq!(run.account.failed["client_aborted"], 1);
    assert!(run.account.balances());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_before_the_first_request_leaves_nothing_behind() {
    let server = Server::start(Mood::Good, 60_000).await;
    let halt = Halt::default();
    let url = server.url();
    let turns = at_once(1);
    let stop = async {
        // The question that finds out what the target takes is on its way.
        server.has_seen(1).await;
        halt.stop.cancel();
    };
    let before = Instant::now();
    let (replayed, ()) = tokio::join!(replay_until(&turns, &url, &[], halt.clone()), stop);
    assert!(before.elapsed() < Duration::from_secs(50));
    assert_eq!(replayed.exit_code(), 75);
    assert!(!replayed.out().try_exists().unwrap());
    assert!(server.measured().is_empty());
}
