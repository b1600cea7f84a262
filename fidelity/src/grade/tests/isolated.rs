//! What the cache held, what it knew of earlier runs, and whom the run was sent to.

use super::runs::Replay;
use super::*;
use Direction::{Optimistic, Pessimistic};
use serde_json::json;
use truetape_schemas::capture::Outcome;

#[test]
fn a_warm_cache_is_optimistic_and_a_small_one_unknown() {
    let warm = Replay::faithful()
        .with(|_, dispatch| dispatch.cached_tokens = dispatch.input_tokens.map(|tokens| tokens - 1))
        .report();
    fails(&warm, &[("run.cached_tokens.simulated", Optimistic)]);
    let small = Replay::faithful()
        .with(|_, dispatch| dispatch.cached_tokens = Some(0))
        .report();
    let cached = find(&small, "run.cached_tokens.simulated");
    assert_eq!(
        (cached.verdict, cached.direction),
        (Verdict::Unknown, Pessimistic),
        "{cached:?}"
    );
}

#[test]
fn a_cache_that_holds_generated_blocks_is_no_failure() {
    let mut replay = Replay::faithful();
    let outputs: Vec<i64> = replay
        .turns
        .iter()
        .map(|turn| turn.output_tokens.unwrap_or(0))
        .collect();
    let parents: Vec<Option<i64>> = replay.turns.iter().map(|turn| turn.parent).collect();
    for (dispatch, parent) in replay.dispatches.iter_mut().zip(parents) {
        let more = parent.map_or(0, |parent| outputs[parent as usize]);
        let most = dispatch.input_tokens.map(|input| input - 1);
        dispatch.cached_tokens = dispatch.cached_tokens.map(|cached| cached + more).min(most);
    }
    let report = replay.report();
    let cached = find(&report, "run.cached_tokens.simulated");
    assert!(cached.deviation > Some(0.02), "{cached:?}");
    assert_eq!(
        (cached.verdict, cached.direction),
        (Verdict::Unknown, Direction::Neutral),
        "{cached:?}"
    );
}

#[test]
fn a_target_with_the_sets_blocks_can_hold_no_more_than_completes_them() {
    let most = |block_tokens: Option<i64>| -> f64 {
        let mut replay = Replay::faithful();
        replay.run.engine.block_tokens = block_tokens;
        let report = replay.report();
        let said = find(&report, "run.cached_tokens.simulated").note.clone();
        let said = said.unwrap_or_default();
        let (_, share) = said.split_once("up to ").unwrap();
        share.split_once(" %").unwrap().0.parse().unwrap()
    };
    let block = Replay::faithful().manifest.block_tokens.map(i64::from);
    assert!(
        most(block) < most(Some(1)),
        "{} {}",
        most(block),
        most(Some(1))
    );
    assert_eq!(most(None), most(Some(1)));
}

#[test]
fn prompts_of_failed_exchanges_may_be_cached() {
    let mut replay = Replay::faithful();
    for (turn, dispatch) in replay.turns.iter().zip(&mut replay.dispatches) {
        let first = turn.parent.is_none() && turn.depends_on.is_empty();
        let repeated = replay
            .turns
            .iter()
            .any(|other| other.parent == Some(turn.turn_id));
        if first && repeated {
            dispatch.outcome = Some(Outcome::Truncated);
        }
    }
    let report = replay.report();
    let cached = find(&report, "run.cached_tokens.simulated");
    assert!(cached.deviation.unwrap().abs() < 1e-9, "{cached:?}");
}

#[test]
fn isolation_comes_from_the_flags_and_the_target() {
    let mut replay = Replay::faithful();
    replay.run.flags.insert("cache".to_owned(), json!("as-is"));
    replay.run.target = "http://10.0.0.1:8000/v1".to_owned();
    let report = replay.report();
    let cache = find(&report, "run.isolation.cache");
    assert_eq!(
        (cache.verdict, cache.direction),
        (Verdict::Unknown, Optimistic),
        "{cache:?}"
    );
    assert_eq!(find(&report, "run.isolation.origin").verdict, Verdict::Fail);
    assert_eq!(report.checklist[4].verdict, Verdict::Fail);
    replay.run.flags.clear();
    assert_eq!(
        find(&replay.report(), "run.isolation.cache").verdict,
        Verdict::Unknown
    );
}

#[test]
fn a_salt_that_some_turns_cannot_carry_does_not_pass() {
    let mut replay = Replay::faithful();
    let flags = &mut replay.run.flags;
    flags.insert("cache".to_owned(), json!("salted"));
    flags.insert("cache_verified".to_owned(), json!("partly"));
    let report = replay.report();
    let dimension = find(&report, "run.isolation.cache");
    assert_eq!(dimension.verdict, Verdict::Unknown, "{dimension:?}");
    let note = dimension.note.as_ref().unwrap();
    assert!(note.contains("no field for a salt"), "{note}");
    assert!(note.contains("OPTIMISTIC for those"), "{note}");
}

#[test]
fn a_salt_passes_only_where_it_was_seen_to_be_honoured() {
    let mut replay = Replay::faithful();
    for (cache, verified, expected) in [
        ("salted", json!("honoured"), Verdict::Pass),
        ("salted", json!("unverified"), Verdict::Unknown),
        ("salted", json!("not_probed"), Verdict::Unknown),
        ("salted", json!(null), Verdict::Unknown),
        ("flush", json!(null), Verdict::Pass),
    ] {
        let flags = &mut replay.run.flags;
        flags.insert("cache".to_owned(), json!(cache));
        flags.insert("cache_verified".to_owned(), verified);
        let report = replay.report();
        let dimension = find(&report, "run.isolation.cache");
        assert_eq!(dimension.verdict, expected, "{dimension:?}");
        if expected == Verdict::Unknown {
            let note = dimension.note.as_ref().unwrap();
            assert!(note.contains("OPTIMISTIC if it does not"), "{note}");
        }
    }
}

#[test]
fn what_the_replayer_found_of_the_origin_counts_for_more_than_its_name() {
    let mut replay = Replay::faithful();
    let origin = |replay: &Replay| find(&replay.report(), "run.isolation.origin").verdict;
    assert_eq!(origin(&replay), Verdict::Pass);
    let flag = "captured_origin".to_owned();
    replay.run.flags.insert(flag.clone(), json!(true));
    assert_eq!(origin(&replay), Verdict::Fail);
    replay.run.flags.insert(flag, json!(false));
    replay.run.target = "http://10.0.0.1:8000/v1".to_owned();
    assert_eq!(origin(&replay), Verdict::Pass);
}

#[test]
fn counters_are_a_second_witness_of_cached_tokens() {
    let replay = Replay::faithful();
    let sum = |of: fn(&truetape_schemas::run::Dispatch) -> Option<i64>| -> f64 {
        let known = replay.dispatches.iter().filter_map(of);
        known.map(|tokens| tokens as f64).sum()
    };
    let (prompts, cached) = (sum(|d| d.input_tokens), sum(|d| d.cached_tokens));
    let judged = |queried: f64, found: Option<f64>| {
        let mut replay = Replay::faithful();
        replay.run.counters = Some(truetape_schemas::run::metrics::Counters {
            scrapes: 2,
            queried_tokens: Some(queried),
            cached_tokens: found,
            ..Default::default()
        });
        let report = replay.report();
        let dimension = find(&report, "run.cached_tokens.counters");
        (dimension.verdict, dimension.direction)
    };
    let neutral = (Verdict::Pass, Direction::Neutral);
    let unknown = (Verdict::Unknown, Direction::Unknown);
    assert_eq!(judged(prompts, Some(cached)), neutral);
    // They disagree; they saw somebody else; they say nothing of the cache.
    assert_eq!(judged(prompts, Some(cached * 0.5)), unknown);
    assert_eq!(judged(prompts * 1.2, Some(cached * 1.2)), unknown);
    assert_eq!(judged(prompts, None), unknown);
    let unasked = Replay::faithful().report();
    assert!(
        unasked
            .dimensions
            .iter()
            .all(|d| d.id != "run.cached_tokens.counters")
    );
}
