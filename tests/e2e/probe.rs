//! What a target is and does is found out before anything is measured on it.

use crate::support::{engine, truetape};
use serde_json::Value;

/// Flags of the engine, the exit code, and the verdicts of `caching`, `salt`, `lengths`, `usage`.
type Case = (&'static [&'static str], i32, [&'static str; 4]);

const CASES: [Case; 6] = [
    (&[], 0, ["PASS", "PASS", "PASS", "PASS"]),
    (
        &["--no-prefix-caching"],
        1,
        ["FAIL", "UNKNOWN", "PASS", "PASS"],
    ),
    (
        &["--ignore-cache-salt"],
        0,
        ["PASS", "FAIL", "PASS", "PASS"],
    ),
    (
        &["--refuse-length-control"],
        0,
        ["PASS", "PASS", "FAIL", "PASS"],
    ),
    // What the answers do not tell, the counters do.
    (
        &["--hide-cached-tokens"],
        0,
        ["PASS", "PASS", "PASS", "PASS"],
    ),
    (
        &["--hide-cached-tokens", "--ignore-cache-salt"],
        0,
        ["PASS", "FAIL", "PASS", "PASS"],
    ),
];

#[test]
fn a_probe_tells_what_a_target_does() {
    for (flags, code, verdicts) in CASES {
        let mut all = vec!["--speed", "20"];
        all.extend(flags);
        let (_engine, address) = engine(&all);
        let url = format!("http://{address}");
        let ended = truetape(&["probe", url.as_str(), "--format", "json"]).expect_code(code);
        let found: Value = serde_json::from_str(&ended.stdout).unwrap();
        let checks = found["checks"].as_array().unwrap();
        let told: Vec<&str> = checks
            .iter()
            .map(|check| check["verdict"].as_str().unwrap())
            .collect();
        assert_eq!(told, verdicts, "{flags:?} {found:#}");
        assert_eq!(found["engine"]["name"], "truetape");
        assert_eq!(found["engine"]["block_tokens"], 16);
        assert_eq!(found["engine"]["kv_tokens"], 16 * 65_536);
    }
}

#[test]
fn a_probe_can_be_asked_for_more_than_caching() {
    let (_engine, address) = engine(&["--speed", "20", "--ignore-cache-salt"]);
    let url = format!("http://{address}");
    let all = ["probe", &url, "--require", "caching,salt"];
    let ended = truetape(&all).expect_code(1);
    assert!(
        ended.stdout.trim_end().ends_with(&format!("FAIL: {url}")),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("taken and ignored"),
        "{}",
        ended.stdout
    );
    truetape(&["probe", "http://127.0.0.1:1"]).expect_code(69);
    truetape(&["probe"]).expect_code(2);
}
