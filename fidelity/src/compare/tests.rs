//! Runs on the engine model, twenty seeds each: how often a claim is made, and how often it is right.

use super::*;
use crate::draws::{normal, unit};
use crate::engine::{EngineConfig, Job, simulate};
use crate::mix::mix;
use truetape_schemas::capture::Outcome;
use truetape_schemas::run::{Dispatch, Run};

const SEEDS: u64 = 20;
const PAIRS: u64 = 5;

/// How much a run is slower or faster than another of the same build: the standard deviation.
const RUN_NOISE: f64 = 0.01;

fn stream(seed: u64) -> impl FnMut() -> f64 {
    let mut state = mix(seed);
    move || {
        state = mix(state);
        unit(state)
    }
}

/// The set: half an hour of 400 sessions of one to four turns, with a shared beginning.
fn set(seed: u64) -> Vec<(u64, Job)> {
    let mut uniform = stream(seed);
    let mut jobs = Vec::new();
    for session in 0..400_u64 {
        let mut at_us = (uniform() * 1_800e6) as i64;
        let mut blocks: Vec<u64> = (0..2).collect();
        for _ in 0..1 + (uniform() * 4.0) as u64 {
            let have = blocks.len() as u64;
            blocks.extend(
                (have..have + 1 + (uniform() * 4.0) as u64).map(|i| mix(session << 20 | i)),
            );
            let output_tokens = 1 + (200.0 * crate::draws::exponential(&mut uniform)) as u64;
            let prompt_tokens = blocks.len() as u64 * 512;
            jobs.push((
                session,
                Job {
                    arrival_us: at_us,
                    prompt_tokens,
                    output_tokens,
                    blocks: blocks.clone(),
                },
            ));
            at_us += 20_000_000 + (uniform() * 60e6) as i64;
        }
    }
    jobs.sort_by_key(|(_, job)| job.arrival_us);
    jobs
}

/// One run of the set on an engine that takes so many times as long, give or take what runs differ by.
fn run(set: &[(u64, Job)], times: f64, seed: u64, zero_us: i64) -> Sample {
    let mut uniform = stream(seed ^ 0x52_55_4E);
    let times = 1.6 * times * (RUN_NOISE * normal(&mut uniform)).exp();
    let slower = |ns: u64| (ns as f64 * times).round() as u64;
    let default = EngineConfig::default();
    let engine = EngineConfig {
        step_ns: slower(default.step_ns),
        prefill_token_ns: slower(default.prefill_token_ns),
        decode_sequence_ns: slower(default.decode_sequence_ns),
        kv_token_ns: slower(default.kv_token_ns),
        ..default
    };
    // A client is never on time to the microsecond.
    let late: Vec<i64> = set.iter().map(|_| (uniform() * 2_000.0) as i64).collect();
    let jobs: Vec<Job> = set
        .iter()
        .zip(&late)
        .map(|((_, job), late)| Job {
            arrival_us: job.arrival_us + late,
            ..job.clone()
        })
        .collect();
    let results = simulate(&engine, &jobs);
    let dispatches: Vec<Dispatch> = (0..)
        .zip(set.iter().zip(&results).zip(&late))
        .map(|(turn_id, (((session, job), result), late))| Dispatch {
            turn_id,
            session: session.to_string(),
            due_us: job.arrival_us,
            sent_us: Some(job.arrival_us + late),
            lateness_us: Some(*late),
            first_token_us: result.ttft_us(),
            last_token_us: result.e2el_us(),
            end_us: result.e2el_us(),
            input_tokens: Some(job.prompt_tokens as i64),
            output_tokens: Some(job.output_tokens as i64),
            outcome: Some(Outcome::Complete),
            ..Dispatch::default()
        })
        .collect();
    let run = Run {
        run_id: format!("r{seed}"),
        zero_us,
        ..Run::default()
    };
    Sample::of(&run, &dispatches)
}

/// Pairs in the order ABBA: a baseline, and a build that takes so many times as long.
fn comparison(times: f64, seed: u64, pairs: u64) -> Comparison {
    let set = set(seed / 4);
    let (mut runs, mut against) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let at = |place: u64| (pair * 2 + place) as i64 * 1_800_000_000;
        let swap = pair % 2;
        against.push(run(&set, 1.0, mix(seed) ^ (pair * 2), at(swap)));
        runs.push(run(&set, times, mix(seed) ^ (pair * 2 + 1), at(1 - swap)));
    }
    compare(&runs, &against)
}

fn claims(comparison: &Comparison, claim: Claim) -> Vec<&str> {
    let with = comparison
        .effects
        .iter()
        .filter(|effect| effect.claim == claim);
    with.map(|effect| effect.measure.as_str()).collect()
}

#[test]
fn equals_are_not_told_apart() {
    let mut claimed = 0;
    for seed in 0..SEEDS {
        let comparison = comparison(1.0, seed, PAIRS);
        let any = matches!(comparison.claim, Claim::Slower | Claim::Faster);
        claimed += u64::from(any);
        if !any {
            assert!(
                comparison
                    .answer
                    .starts_with("no difference was found in 5 pairs"),
                "{}",
                comparison.answer
            );
        }
    }
    println!("A/A: {claimed} of {SEEDS} comparisons of equals claim a difference");
    // One in twenty is what a p of 5 % allows; two of twenty happen to one suite in four.
    assert!(claimed <= 2, "{claimed} of {SEEDS}");
}

#[test]
fn a_slower_engine_is_found_and_with_the_right_sign() {
    let (mut found, mut measures) = (0, 0);
    for seed in 0..SEEDS {
        let comparison = comparison(1.15, seed, PAIRS);
        assert_eq!(
            claims(&comparison, Claim::Faster),
            Vec::<&str>::new(),
            "seed {seed}"
        );
        found += u64::from(comparison.claim == Claim::Slower);
        measures += claims(&comparison, Claim::Slower).len();
    }
    println!(
        "15 % slower: {found} of {SEEDS} found, {:.1} of 8 measures each, none with the wrong sign",
        measures as f64 / SEEDS as f64
    );
    assert_eq!(found, SEEDS);
}

#[test]
fn what_is_below_the_smallest_that_can_be_found_is_not_claimed() {
    let mut claimed = 0;
    for seed in 0..SEEDS {
        let comparison = comparison(1.003, seed, PAIRS);
        for effect in &comparison.effects {
            let claims = matches!(effect.claim, Claim::Slower | Claim::Faster);
            let size = effect.change.unwrap().ln_1p().abs();
            assert!(
                !claims || size >= effect.detectable.unwrap().ln_1p(),
                "{effect:?}"
            );
            assert!(
                !claims || size > effect.against_itself.unwrap().ln_1p(),
                "{effect:?}"
            );
        }
        claimed += u64::from(matches!(comparison.claim, Claim::Slower | Claim::Faster));
    }
    println!("0.3 % slower: {claimed} of {SEEDS} claimed");
    assert!(claimed <= 2, "{claimed} of {SEEDS}");
}

/// A difference that is beyond chance, and still smaller than what five pairs find four times of five.
#[test]
fn a_significant_difference_may_be_refused() {
    let mut effect = Effect {
        measure: "ttft_p50".to_owned(),
        value_ms: Some(102.0),
        target_ms: Some(100.0),
        change: Some(0.02),
        interval: Some((0.001, 0.039)),
        detectable: Some(0.025),
        against_itself: Some(0.001),
        p: Some(0.01),
        p_corrected: Some(0.04),
        pairs_needed: Some(8),
        claim: Claim::Unknown,
        note: None,
    };
    let judged = |effect: &Effect| {
        let mut effect = effect.clone();
        judge(&mut effect);
        (effect.claim, effect.note.is_some())
    };
    assert_eq!(judged(&effect), (Claim::None, true));
    effect.detectable = Some(0.015);
    assert_eq!(judged(&effect), (Claim::Slower, false));
    effect.against_itself = Some(0.03);
    assert_eq!(judged(&effect), (Claim::None, true));
    effect.against_itself = None;
    effect.p_corrected = Some(0.06);
    assert_eq!(judged(&effect), (Claim::None, false));
}

#[test]
fn one_pair_shows_an_interval_and_claims_nothing() {
    let comparison = comparison(1.5, 3, 1);
    assert_eq!(comparison.claim, Claim::Unknown);
    assert!(
        comparison.answer.contains("3 pairs are needed"),
        "{}",
        comparison.answer
    );
    let ttft = &comparison.effects[0];
    let (low, high) = ttft.interval.unwrap();
    assert!(
        0.0 < low && low < ttft.change.unwrap() && ttft.change.unwrap() < high,
        "{ttft:?}"
    );
    assert_eq!(
        (ttft.p, ttft.detectable, ttft.against_itself),
        (None, None, None)
    );
}

#[test]
fn other_numbers_of_runs_are_compared_without_pairs_and_order_is_watched() {
    let set = set(1);
    let runs: Vec<Sample> = (0..3)
        .map(|at| run(&set, 1.3, at, 1_000 + at as i64))
        .collect();
    let against: Vec<Sample> = (10..14).map(|at| run(&set, 1.0, at, at as i64)).collect();
    let comparison = compare(&runs, &against);
    assert!(!comparison.paired);
    assert_eq!(comparison.claim, Claim::Slower, "{}", comparison.answer);
    let said = comparison.findings.join("; ");
    assert!(
        said.contains("not taken in pairs") && said.contains("ABBA"),
        "{said}"
    );
    let table = words::table(&comparison, false);
    assert!(
        table.contains("TTFT p50") && table.contains("SLOWER"),
        "{table}"
    );
    assert!(words::table(&comparison, true).contains("| TTFT p50 |"));
}

#[test]
fn nothing_to_compare_is_unknown_and_finite() {
    for (runs, against) in [
        (vec![], vec![]),
        (vec![Sample::default()], vec![Sample::default()]),
    ] {
        let comparison = compare(&runs, &against);
        assert_eq!(comparison.claim, Claim::Unknown);
        assert!(!serde_json::to_string(&comparison).unwrap().contains("NaN"));
    }
}

#[test]
fn a_warm_up_is_left_out_of_all_runs_alike() {
    let set = set(2);
    let mut runs = [run(&set, 1.0, 1, 0)];
    let mut against = [run(&set, 1.0, 2, 1)];
    runs[0].warm_up = Some(0.1);
    against[0].warm_up = Some(0.25);
    let before = runs[0].answers.len();
    let said = sample::steady(&mut runs, &mut against).unwrap();
    assert!(said.contains("25 %"), "{said}");
    assert!(runs[0].answers.len() < before);
    assert_eq!(runs[0].answers.len(), against[0].answers.len());
    runs[0].warm_up = Some(0.9);
    let kept = runs[0].answers.len();
    assert!(
        sample::steady(&mut runs, &mut against)
            .unwrap()
            .contains("never became steady")
    );
    assert_eq!(runs[0].answers.len(), kept);
}
