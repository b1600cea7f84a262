use super::*;
use Direction::{Mixed, Neutral, Optimistic, Pessimistic, Unknown};
use truetape_schemas::report::{Level, SimulatedEngine, SimulatedMeasure};

/// A simulation in which each engine has these changes of the p99 of TTFT and the p50 of TPOT.
fn simulation(changes: &[[f64; 2]]) -> Simulation {
    let measure = |name: &str, change: f64| SimulatedMeasure {
        name: name.to_owned(),
        target: Some(100.0),
        value: Some(100.0 * (1.0 + change)),
        change: Some(change),
    };
    let engines = changes.iter().map(|[ttft, tpot]| SimulatedEngine {
        kv_tokens: 1,
        busy: 0.6,
        measures: vec![
            measure("ttft_p99", *ttft),
            measure("tpot_p50", *tpot),
            measure("hits", 9.0),
        ],
    });
    Simulation {
        level: Level::SetAgainstSource,
        direction: Unknown,
        note: None,
        replicas: 1,
        target_turns: 1,
        turns: 1,
        engines: engines.collect(),
    }
}

fn failed(id: &str, deviation: f64) -> Dimension {
    Dimension {
        id: id.to_owned(),
        title: String::new(),
        level: Level::RunAgainstSet,
        value: Some(0.0),
        target: Some(0.0),
        deviation: Some(deviation),
        threshold: 0.01,
        unit: "share".to_owned(),
        verdict: Verdict::Fail,
        direction: crate::direction::of(id, Some(deviation), 0.01),
        note: None,
    }
}

#[test]
fn signs_are_those_of_the_latencies() {
    let cases = [
        (vec![[0.0, 0.0]], Neutral),
        (vec![[0.029, -0.029]], Neutral),
        (vec![[-0.3, 0.0]], Optimistic),
        (vec![[0.1, 0.05]], Pessimistic),
        // Latencies or engines that disagree; unless one goes four times as far.
        (vec![[-0.3, 0.2]], Mixed),
        (vec![[-0.3, 0.0], [0.2, 0.0]], Mixed),
        (vec![[-0.5, 0.04]], Optimistic),
        (vec![], Unknown),
    ];
    for (changes, want) in cases {
        assert_eq!(of(&[simulation(&changes)]), want, "{changes:?}");
    }
    assert_eq!(of(&[]), Unknown);
}

#[test]
fn levels_add_up() {
    let set = simulation(&[[-0.2, 0.0]]);
    let run = simulation(&[[0.25, 0.0]]);
    assert_eq!(of(&[set.clone(), run.clone()]), Neutral);
    let twice = Change::of(&[run.clone(), run], "ttft_p99").unwrap();
    assert!((twice.high_ln - 1.25_f64.ln() * 2.0).abs() < 1e-12);
    // A level that could not be simulated says nothing.
    assert_eq!(of(&[set, simulation(&[])]), Optimistic);
}

#[test]
fn a_prior_that_disagrees_makes_it_mixed_and_one_that_is_unsure_does_not() {
    let faster = [simulation(&[[-0.3, -0.1]])];
    for (prior, want) in [
        (Optimistic, Optimistic),
        (Neutral, Optimistic),
        (Mixed, Optimistic),
        (Unknown, Optimistic),
        (Pessimistic, Mixed),
    ] {
        assert_eq!(overall(prior, &faster, &[]), want, "{prior:?}");
    }
    assert_eq!(
        overall(Optimistic, &[simulation(&[[0.0, 0.0]])], &[]),
        Neutral
    );
    assert_eq!(overall(Optimistic, &[], &[]), Optimistic);
}

#[test]
fn what_the_model_does_not_see_counts_by_its_prior() {
    let still = [simulation(&[[0.0, 0.0]])];
    let slower = [simulation(&[[0.3, 0.0]])];
    let warm = [failed("run.cached_tokens.simulated", 0.5)];
    let shorter = [failed("tokens.output", -0.5)];
    assert_eq!(overall(Optimistic, &still, &warm), Optimistic);
    assert_eq!(overall(Optimistic, &slower, &warm), Mixed);
    // What it does see is in its own numbers.
    assert_eq!(overall(Optimistic, &still, &shorter), Neutral);
}
