//! The driver must be able to say no.

use super::*;
use serde_json::json;

fn case(expect: Value, must_not: &[&str]) -> Case {
    let dir = truetape_testkit::tempdir::TempDir::new("check");
    let expected =
        json!({"part": ["proxy"], "tolerance_ms": 20, "expect": expect, "must_not": must_not});
    std::fs::write(dir.join("expected.json"), expected.to_string()).unwrap();
    Case::read(dir.path()).unwrap().unwrap()
}

fn seen(variant: &str, values: Value) -> Seen {
    let mut seen = Seen::new(variant, "");
    for (key, value) in values.as_object().unwrap() {
        seen.put(key, value.clone());
    }
    seen
}

fn texts(findings: Findings) -> Vec<String> {
    let wrong = findings.wrong.into_iter();
    wrong.map(|wrong| wrong.text).collect()
}

fn wrong(expect: Value, values: Value) -> Vec<String> {
    texts(check(&case(expect, &[]), &[seen("", values)], 0.0))
}

#[test]
fn an_unknown_key_fails_and_so_does_a_wrong_value() {
    assert_eq!(
        wrong(json!({"zzz": 1}), json!({"a": 1})),
        ["zzz: key not understood"]
    );
    assert_eq!(
        wrong(json!({"a": 2}), json!({"a": 1})),
        ["a: got 1, wanted 2"]
    );
    assert_eq!(wrong(json!({"a": null}), json!({"a": 0})).len(), 1);
    assert!(wrong(json!({"a": null}), json!({"a": null})).is_empty());
}

#[test]
fn times_have_a_tolerance_and_counts_have_none() {
    assert!(wrong(json!({"ttft_ms": 100}), json!({"ttft_ms": 119.0})).is_empty());
    assert_eq!(
        wrong(json!({"ttft_ms": 100}), json!({"ttft_ms": 121.0})).len(),
        1
    );
    assert_eq!(
        wrong(json!({"gaps_ms": [0, 100]}), json!({"gaps_ms": [0.0]})).len(),
        1
    );
    assert_eq!(
        wrong(json!({"output_tokens": 5}), json!({"output_tokens": 6})).len(),
        1
    );
    assert!(wrong(json!({"rate": 0.166667}), json!({"rate": 5.0 / 30.0})).is_empty());
    assert_eq!(
        wrong(json!({"rate": 0.1666}), json!({"rate": 0.1668})).len(),
        1
    );
    let big = json!({"id": u64::MAX});
    assert_eq!(wrong(big, json!({"id": u64::MAX - 1})).len(), 1);
}

#[test]
fn bounds_are_read_off_the_key() {
    let values = json!({"token_events": 3, "upstream_closed_ms": 40.0, "wire": [1, 2]});
    assert!(
        wrong(
            json!({"token_events_min": 2, "token_events_max": 4}),
            values.clone()
        )
        .is_empty()
    );
    assert_eq!(
        wrong(json!({"token_events_min": 4}), values.clone()).len(),
        1
    );
    assert!(wrong(json!({"upstream_closed_within_ms": 1000}), values.clone()).is_empty());
    assert_eq!(wrong(json!({"wire_never": [2]}), values.clone()).len(), 1);
    assert!(wrong(json!({"wire_never": [0]}), values).is_empty());
    let text = json!({"capture": "abc SECRET def"});
    assert_eq!(
        wrong(json!({"capture_must_not_contain": ["SECRET"]}), text).len(),
        1
    );
}

#[test]
fn a_statistic_named_max_is_itself_and_no_bound() {
    let values = json!({"latency_max_ms": 3300.0, "latency_ms": [1.0]});
    assert!(wrong(json!({"latency_max_ms": 3300}), values.clone()).is_empty());
    assert_eq!(wrong(json!({"latency_max_ms": 4000}), values).len(), 1);
}

#[test]
fn any_of_takes_each_value_it_lists() {
    let expect = json!({"outcome": {"any_of": ["complete", "truncated"]}});
    assert!(wrong(expect.clone(), json!({"outcome": "truncated"})).is_empty());
    assert_eq!(wrong(expect, json!({"outcome": "error"})).len(), 1);
}

#[test]
fn pairs_of_ids_are_compared() {
    let values = json!({"ids": {"A0": 1, "B0": 1, "A1": 2}});
    assert!(wrong(json!({"equal": [["A0", "B0"]]}), values.clone()).is_empty());
    assert_eq!(
        wrong(json!({"different": [["A0", "B0"]]}), values.clone()).len(),
        1
    );
    assert_eq!(wrong(json!({"equal": [["A0", "Z9"]]}), values).len(), 1);
}

#[test]
fn variants_are_nested_or_common_or_listed_in_a_key() {
    let both = [
        seen("", json!({"n": 1, "t_ms": 5.0})),
        seen("cut", json!({"n": 2, "t_ms": null})),
    ];
    let check = |expect: Value| texts(check(&case(expect, &[]), &both, 0.0));
    assert!(check(json!({"A": {"n": 1}, "cut": {"n": 2}})).is_empty());
    assert_eq!(
        check(json!({"A": {"n": 2}, "cut": {"n": 2}})),
        ["n: got 1, wanted 2"]
    );
    assert_eq!(
        check(json!({"all_variants": {"n": 1}})),
        ["cut.n: got 2, wanted 1"]
    );
    assert!(check(json!({"t_ms": {"A": 5, "cut": null}})).is_empty());
    assert_eq!(
        check(json!({"other": {"n": 2}})),
        ["other: key not understood"]
    );
}

#[test]
fn sentences_that_a_machine_can_read_are_read() {
    let values = json!({"output_tokens": 7, "ttft_ms": 50.0, "outcome": "complete", "sends_ms": [0.0, 11000.0]});
    let check = |sentence: &str| {
        let findings = check(
            &case(json!({"outcome": "complete"}), &[sentence]),
            &[seen("", values.clone())],
            0.0,
        );
        (findings.sentences, findings.wrong.len())
    };
    assert_eq!(check("output_tokens = 7"), (1, 1));
    assert_eq!(check("output_tokens = 16 or 4"), (1, 0));
    assert_eq!(check("A.output_tokens in [7, 11, 12]"), (1, 1));
    assert_eq!(check("output_tokens > 100"), (1, 0));
    assert_eq!(check("TTFT = 50"), (1, 1));
    assert_eq!(check("TTFT NULL"), (1, 0));
    assert_eq!(check("outcome complete"), (1, 1));
    assert_eq!(check("events merged or lost"), (0, 0));
}

#[test]
fn noise_of_the_machine_widens_times_and_nothing_else() {
    let case = case(json!({"t_ms": 100, "n": 1}), &[]);
    let seen = |ms: f64, n: u64| [seen("", json!({"t_ms": ms, "n": n}))];
    assert_eq!(check(&case, &seen(130.0, 1), 0.0).wrong.len(), 1);
    assert!(check(&case, &seen(130.0, 1), 15.0).wrong.is_empty());
    assert_eq!(check(&case, &seen(100.0, 2), 50.0).wrong.len(), 1);
}

#[test]
fn noise_of_the_machine_never_reaches_the_distance_between_two_times() {
    let seen = |ms: f64| [seen("", json!({"ttft_ms": ms}))];
    let want = || json!({"ttft_ms": 300});
    let far = case(want(), &["TTFT = 210"]);
    assert!(check(&far, &seen(329.0), 500.0).wrong.is_empty());
    let off = texts(check(&far, &seen(331.0), 500.0));
    assert!(off[0].ends_with("machine too busy to judge, threads were 500 ms late"));
    let plainly = texts(check(&far, &seen(331.0), 5.0));
    assert!(plainly[0].ends_with("+- 25.0"), "{plainly:?}");
    let near = case(want(), &["TTFT = 290"]);
    assert!(check(&near, &seen(319.0), 500.0).wrong.is_empty());
    assert_eq!(check(&near, &seen(321.0), 500.0).wrong.len(), 1);
}
