//! The target's own counters, beside what its answers said.

use super::replay;
use super::support::{Mood, Server, turn};
use truetape_schemas::run::metrics;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_are_read_before_during_and_after() {
    let server = Server::start(Mood::Counting, 20).await;
    let turns: Vec<_> = (0..10).map(|i| turn(i, &format!("s{i}"), i * 50)).collect();
    let flags = ["--no-probe", "--metrics-every", "100ms"];
    let replayed = replay(&turns, &server.url(), &flags).await;
    let counters = replayed.run().counters.unwrap();
    assert_eq!(counters.names.as_deref(), Some("vllm"));
    assert_eq!(counters.failed, 0);
    assert!(3 <= counters.scrapes, "{counters:?}");
    assert_eq!(
        (counters.queried_tokens, counters.cached_tokens),
        (Some(80.0), Some(20.0))
    );
    assert_eq!(counters.running_peak, Some(2.0));
    assert_eq!(counters.kv_usage_peak, Some(0.25));
    assert_eq!(counters.preemptions, None);
    let summary = truetape_fidelity::latency::summarize(&replayed.rows());
    let written = replayed.run().summary;
    assert_eq!(written, serde_json::to_value(summary).unwrap());
    let samples = metrics::samples(&replayed.out()).unwrap();
    let phases = |wanted: &str| {
        samples
            .iter()
            .filter(|sample| sample.phase == wanted)
            .count()
    };
    assert!(0 < phases("before") && 0 < phases("during") && 0 < phases("after"));
    let readings = samples.iter().map(|sample| sample.scrape).max().unwrap() + 1;
    assert_eq!(readings, i64::try_from(counters.scrapes).unwrap());
    assert!(
        samples
            .iter()
            .all(|s| s.kind == "counter" || s.kind == "gauge")
    );
    let engine = replayed.run().engine;
    assert_eq!(
        (engine.name.as_deref(), engine.block_tokens),
        (Some("vllm"), Some(16))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_without_counters_is_said_and_is_no_error() {
    let server = Server::start(Mood::Good, 0).await;
    let replayed = replay(&[turn(0, "a", 0)], &server.url(), &["--no-probe"]).await;
    let run = replayed.run();
    assert_eq!((run.validity.as_str(), replayed.exit_code()), ("valid", 0));
    let counters = run.counters.unwrap();
    assert_eq!((counters.scrapes, counters.cached_tokens), (0, None));
    assert!(
        run.findings
            .iter()
            .any(|found| found.starts_with("metrics: "))
    );
    assert!(!replayed.out().join(metrics::METRICS).try_exists().unwrap());
    let silent = ["--no-probe", "--metrics-every", "0s"];
    let replayed = replay(&[turn(0, "a", 0)], &server.url(), &silent).await;
    assert_eq!(replayed.run().counters, None);
}
