//! What is sent, and what is not, by the flags of the schedule.

use super::*;

/// Sessions of three turns each, one after the other.
fn chains(count: i64) -> Vec<Turn> {
    (0..count * 3)
        .map(|id| {
            let mut turn = turn(id, &format!("s{}", id % count), id * 10);
            turn.turn = (id / count) as i32 + 1;
            turn.depends_on = (count <= id).then_some(id - count).into_iter().collect();
            turn.gap_us = (count <= id).then_some(1_000);
            turn
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_depends_on_a_failed_turn_is_sent_or_skipped_as_asked() {
    for (flag, sent, skipped) in [("continue", 12, None), ("skip", 4, Some(8))] {
        let server = Server::start(Mood::Failing { after: 0 }, 0).await;
        let flags = [
            "--on-failed-turn",
            flag,
            "--error-rate-max",
            "1",
            "--no-probe",
        ];
        let replayed = replay(&chains(4), &server.url(), &flags).await;
        let run = replayed.run();
        assert!(run.account.balances());
        assert_eq!((run.account.due, run.account.sent), (12, sent), "{flag}");
        assert_eq!(
            run.account.not_sent.get("dependency_failed").copied(),
            skipped
        );
        assert_eq!(run.flags["on_failed_turn"], flag);
        let reasons = replayed
            .rows()
            .into_iter()
            .filter_map(|row| row.not_sent_reason);
        assert_eq!(reasons.count() as u64, skipped.unwrap_or(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_left_out_are_rows_and_no_loss() {
    let server = Server::start(Mood::Good, 0).await;
    let flags = ["--rate-scale", "0.5", "--rate-mode", "shape"];
    let replayed = replay(&chains(4), &server.url(), &flags).await;
    let run = replayed.run();
    assert!(run.account.balances());
    assert_eq!((run.account.due, run.account.sent), (12, 6));
    assert_eq!(run.account.not_sent["thinned"], 6);
    assert!(
        run.findings
            .iter()
            .any(|found| found.starts_with("rate: 2 of 4 sessions are left out"))
    );
    let report = replayed.result.unwrap().report;
    let completed = report
        .dimensions
        .iter()
        .find(|found| found.id == "run.completed");
    assert_eq!(completed.unwrap().value, Some(1.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_is_marked_and_steps_are_told() {
    let server = Server::start(Mood::Good, 0).await;
    let flags = [
        "--arrivals",
        "poisson",
        "--arrivals-seed",
        "3",
        "--steps",
        "1,2",
    ];
    let replayed = replay(&ten_a_second(), &server.url(), &flags).await;
    let run = replayed.run();
    assert_eq!(
        (&run.flags["arrivals"], &run.flags["arrivals_seed"]),
        (&"poisson".into(), &3.into())
    );
    let is_marked = |found: &String| found.starts_with("arrivals are a control (poisson)");
    assert!(run.findings.iter().any(is_marked), "{:?}", run.findings);
    assert_eq!(run.steps.len(), 2);
    let sent = run
        .steps
        .iter()
        .map(|step| step.summary["requests"]["sent"].as_u64().unwrap());
    assert_eq!(sent.sum::<u64>(), 8);
    let report = replayed.result.unwrap().report;
    let noted = report
        .dimensions
        .iter()
        .find(|found| found.id == "run.arrivals.rate");
    let note = noted.unwrap().note.clone().unwrap();
    assert!(note.contains("arrivals are a control: poisson"), "{note}");
}
