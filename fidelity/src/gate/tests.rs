use super::*;
use truetape_schemas::report::Level;

fn dimension(id: &str, verdict: Verdict) -> Dimension {
    Dimension {
        id: id.to_owned(),
        title: String::new(),
        level: Level::RunAgainstSet,
        value: None,
        target: None,
        deviation: None,
        threshold: 0.0,
        unit: "share".to_owned(),
        verdict,
        direction: Direction::Neutral,
        note: Some("nobody told".to_owned()),
    }
}

fn report() -> Report {
    Report {
        format: "report/1".to_owned(),
        set_name: String::new(),
        set_digest: String::new(),
        run_id: None,
        target: None,
        view: "fleet".to_owned(),
        verdict: Verdict::Fail,
        direction: Direction::Pessimistic,
        pushes: Vec::new(),
        sentence: String::new(),
        checklist: Vec::new(),
        dimensions: vec![
            dimension("tokens.input", Verdict::Pass),
            dimension("tokens.output", Verdict::Fail),
            dimension("input_tokens.p50", Verdict::Pass),
            dimension("input_tokens.p99", Verdict::Unknown),
        ],
        unknown: vec!["input_tokens.p99".to_owned()],
        simulations: Vec::new(),
        findings: Vec::new(),
        tool_version: String::new(),
    }
}

fn run(validity: &str) -> Run {
    Run {
        validity: validity.to_owned(),
        summary: serde_json::json!({
            "requests": {"error_rate": 0.02},
            "tpot_ms": {"p50": 8.0},
            "from_due": {
                "ttft_ms": {"p99": 900.0},
                "failures_infinite": {"ttft_ms": {"p50": 300.0, "p99": "inf"}},
            },
            "from_send": {"ttft_ms": {"p99": 700.0}},
        }),
        ..Run::default()
    }
}

fn judged(gate: &Gate) -> Vec<(String, bool, String)> {
    let outcome = gate.judge(&report(), &run("valid"));
    let rules = outcome.rules.into_iter();
    rules
        .map(|rule| (rule.name, rule.held, rule.said))
        .collect()
}

fn asking(names: &[&str], unknown: &[&str]) -> Gate {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Gate {
        must_pass: owned(names),
        may_be_unknown: owned(unknown),
        ..Gate::default()
    }
}

#[test]
fn a_name_means_whole_words_from_the_beginning() {
    assert!(names("input_tokens", "input_tokens.p50") && names("*", "x") && names("a.b", "a.b"));
    assert!(!names("input", "input_tokens.p50") && !names("p50", "input_tokens.p50"));
    assert!(asking(&["tokens"], &[]).asks_for("tokens.output"));
    assert!(!asking(&["tokens"], &[]).asks_for("input_tokens.p50"));
}

#[test]
fn what_is_unknown_or_missing_does_not_pass_unless_it_may() {
    let held = |gate: &Gate| {
        judged(gate)
            .iter()
            .map(|(_, held, _)| *held)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        held(&asking(&["input_tokens", "tokens.input"], &[])),
        [false, true]
    );
    assert_eq!(
        held(&asking(&["input_tokens"], &["input_tokens.p99"])),
        [true]
    );
    // Tolerating what is unknown tolerates no failure.
    assert_eq!(held(&asking(&["tokens"], &["*"])), [false]);
    assert_eq!(held(&asking(&["run.order"], &["*"])), [false]);
    let said = &judged(&asking(&["*"], &[]))[0].2;
    assert_eq!(
        said,
        "2 of 4 do not hold: tokens.output FAIL, input_tokens.p99 UNKNOWN (nobody told)"
    );
}

#[test]
fn only_the_directions_that_are_named_are_allowed() {
    let gate = |directions: &[Direction]| Gate {
        directions: directions.to_vec(),
        ..Gate::default()
    };
    let neutral = judged(&gate(&[Direction::Neutral]));
    assert_eq!(neutral[0].2, "PESSIMISTIC, allowed: NEUTRAL");
    assert!(!neutral[0].1);
    assert!(judged(&gate(&[Direction::Neutral, Direction::Pessimistic]))[0].1);
}

#[test]
fn a_bound_is_read_on_the_clock_and_with_the_failures_that_it_asks_for() {
    let gate = |clock, failures, most: f64| Gate {
        bounds: Bounds {
            clock,
            failures,
            ttft_ms: Quantiles {
                p99: Some(most),
                ..Quantiles::default()
            },
            ..Bounds::default()
        },
        ..Gate::default()
    };
    let (due, send, out) = (Clock::FromDue, Clock::FromSend, Failures::LeftOut);
    assert!(!judged(&gate(due, Failures::Infinite, 1e9))[0].1);
    assert!(judged(&gate(due, out, 900.0))[0].1);
    assert!(!judged(&gate(due, out, 899.9))[0].1);
    assert!(judged(&gate(send, out, 700.0))[0].1);
    // Nothing was measured from the send with failures: that is no pass.
    let unmeasured = judged(&gate(send, Failures::Infinite, 1e9));
    assert_eq!(
        (unmeasured[0].1, unmeasured[0].2.starts_with("not judged")),
        (false, true)
    );
}

#[test]
fn nothing_that_an_invalid_run_measured_is_within_its_bounds() {
    let gate = Gate {
        bounds: Bounds {
            error_rate: Some(0.02),
            ..Bounds::default()
        },
        ..Gate::default()
    };
    assert!(gate.judge(&report(), &run("valid")).is_open());
    let outcome = gate.judge(&report(), &run("stopped"));
    assert!(!outcome.is_open());
    assert_eq!(
        outcome.sentence(),
        "the gate is shut: 1 of 1 rules do not hold"
    );
}

#[test]
fn a_gate_that_means_nothing_is_refused() {
    let problem = |gate: Gate| gate.check().unwrap_err();
    assert!(problem(Gate::default()).contains("holds no rule"));
    assert!(problem(asking(&[], &["*"])).contains("must_pass"));
    assert!(problem(asking(&[""], &[])).contains("without a name"));
    for rate in [1.5, -0.1, f64::NAN] {
        let bounds = Bounds {
            error_rate: Some(rate),
            ..Bounds::default()
        };
        let said = problem(Gate {
            bounds,
            ..Gate::default()
        });
        assert!(said.starts_with("bounds.error_rate"), "{said}");
    }
    asking(&["*"], &["arrivals"]).check().unwrap();
}
