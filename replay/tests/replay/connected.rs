//! Which connection carries which request.

use super::replay;
use super::support::{Mood, Server, turn};
use std::collections::BTreeSet;
use truetape_schemas::set::Turn;

/// Nine turns, one after the other, over three connections of production in turn; two of them were open
/// before the set began.
fn turns() -> Vec<Turn> {
    let over = |turn_id: i64| Turn {
        depends_on: (0 < turn_id).then(|| turn_id - 1).into_iter().collect(),
        gap_us: (0 < turn_id).then_some(1_000),
        recorded_conn: Some(turn_id % 3),
        recorded_conn_seq: Some((turn_id / 3 + turn_id % 3) as i32),
        ..turn(turn_id, "s", turn_id)
    };
    (0..9).map(over).collect()
}

/// The connection of each request, in order, and whether the row says that it was used again.
async fn carried(turns: &[Turn], flags: &[&str]) -> (Vec<usize>, Vec<bool>, Vec<String>) {
    let server = Server::start(Mood::Good, 0).await;
    let always = [
        "--no-probe",
        "--metrics-every",
        "0s",
        "--lateness-p99-max",
        "1h",
    ];
    let flags: Vec<&str> = always.iter().chain(flags).copied().collect();
    let replayed = replay(turns, &server.url(), &flags).await;
    let run = replayed.run();
    assert_eq!(
        run.account.answered,
        turns.len() as u64,
        "{:?}",
        run.account
    );
    let seen = server
        .measured()
        .iter()
        .map(|seen| seen.connection)
        .collect();
    let rows = replayed.rows();
    let reused = rows.iter().map(|row| row.conn_reused.unwrap());
    (seen, reused.collect(), run.findings)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_uses_the_latest_again_and_fresh_uses_none() {
    let (pooled, reused, _) = carried(&turns(), &["--warm-connections", "0"]).await;
    assert_eq!(pooled.iter().collect::<BTreeSet<_>>().len(), 1);
    assert_eq!(reused.iter().filter(|reused| **reused).count(), 9);
    let (fresh, reused, _) = carried(&turns(), &["--connections", "fresh"]).await;
    assert_eq!(fresh.iter().collect::<BTreeSet<_>>().len(), 9);
    assert!(reused.iter().all(|reused| !reused));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_shared_a_connection_in_production_shares_one() {
    // One connection is open from the questions before the run.
    for warm in ["0", "1"] {
        let flags = ["--connections", "recorded", "--warm-connections", warm];
        let (seen, _, findings) = carried(&turns(), &flags).await;
        let [first, second, third] = [seen[0], seen[1], seen[2]];
        assert_eq!(BTreeSet::from([first, second, third]).len(), 3);
        assert_eq!(seen, [first, second, third].repeat(3));
        let late = "connections: 1 requests came over an open connection";
        let is_told = findings.iter().any(|found| found.starts_with(late));
        assert_eq!(is_told, warm == "0", "{findings:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_busy_holds_nothing_back() {
    let server = Server::start(Mood::Good, 300).await;
    let together = |turn_id: i64| Turn {
        recorded_conn: Some(0),
        recorded_conn_seq: Some(turn_id as i32),
        ..turn(turn_id, &format!("s{turn_id}"), 0)
    };
    let turns: Vec<Turn> = (0..3).map(together).collect();
    let flags = [
        "--no-probe",
        "--connections",
        "recorded",
        "--lateness-p99-max",
        "1h",
    ];
    let replayed = replay(&turns, &server.url(), &flags).await;
    assert_eq!(replayed.run().account.answered, 3);
    let seen: BTreeSet<usize> = server
        .measured()
        .iter()
        .map(|seen| seen.connection)
        .collect();
    assert_eq!(seen.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_does_not_say_is_replayed_over_a_pool_and_told() {
    let plain: Vec<Turn> = (0..3)
        .map(|id| turn(id, &format!("s{id}"), id * 20))
        .collect();
    let (_, _, findings) = carried(&plain, &["--connections", "recorded"]).await;
    let told = "connections: 3 of 3 turns: the set does not say";
    assert!(
        findings.iter().any(|found| found.starts_with(told)),
        "{findings:?}"
    );
}
