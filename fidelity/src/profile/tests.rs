use super::*;
use crate::population::PopulationTurn;
use crate::testdata;

fn turn(session: u32, arrival_s: i64, end_s: Option<i64>, blocks: &[u64]) -> PopulationTurn {
    PopulationTurn {
        session,
        arrival_us: arrival_s * SECOND_US,
        end_us: end_s.map(|end| end * SECOND_US),
        input_tokens: Some(blocks.len() as u64 * 4),
        output_tokens: Some(2),
        blocks: blocks.to_vec(),
        ..PopulationTurn::default()
    }
}

fn population(turns: Vec<PopulationTurn>) -> Population {
    let sessions = turns.iter().map(|turn| turn.session + 1).max().unwrap_or(0);
    Population {
        turns,
        sessions,
        block_tokens: Some(4),
        ..Population::default()
    }
}

/// A population of a Mooncake trace in which every turn is a session of its own.
fn mooncake() -> Option<Population> {
    let rows = testdata::mooncake("mooncake/conversation_trace.jsonl")?;
    let turns = rows
        .into_iter()
        .zip(0..)
        .map(|(row, session)| PopulationTurn {
            session,
            arrival_us: row.arrival_us,
            input_tokens: Some(row.input_tokens),
            output_tokens: Some(row.output_tokens),
            blocks: row.blocks,
            ..PopulationTurn::default()
        });
    Some(population(turns.collect()))
}

/// Constants of `science.md` A1 and D(iii).
#[test]
fn the_profile_of_mooncake_is_known() {
    let Some(population) = mooncake() else { return };
    let options = Options {
        capacities_blocks: vec![1_000, 10_000, 160_000],
        ..Options::default()
    };
    let profile = profile(&population, &options);
    assert_eq!(profile.turns, 12_031);
    let cases = [
        (&profile.input_tokens, [6_909.0, 27_367.0, 85_400.0]),
        (&profile.output_tokens, [350.0, 597.0, 1_118.0]),
    ];
    for (lengths, wants) in cases {
        for (got, want) in [lengths.p50, lengths.p90, lengths.p99].iter().zip(wants) {
            // The constants are whole tokens; interpolation ends between two of them.
            assert!((got.unwrap() - want).abs() < 1.0, "{got:?}, wanted {want}");
        }
    }
    // Half of all prompt tokens sit in prompts of at most this length.
    assert_eq!(profile.input_tokens.p50_token_weighted, Some(21_975.0));
    assert!((profile.input_tokens.top10_share.unwrap() - 0.4066).abs() < 0.0005);
    assert!((profile.input_output_correlation.unwrap().abs()) < 0.3);
    let prefix = &profile.prefix;
    assert_eq!((prefix.refs, prefix.unique), (288_500, 182_790));
    assert!((prefix.infinite_hit_ratio.unwrap() - 0.366_412).abs() < 1e-6);
    let curve: Vec<f64> = prefix
        .curve
        .iter()
        .map(|point| point.hit_ratio.unwrap())
        .collect();
    for (got, want) in curve.iter().zip([0.0445, 0.2116, 0.3664]) {
        assert!((got - want).abs() < 5e-5, "{curve:?}");
    }
    // One block is global: it hits in every turn but the first.
    assert!(
        (prefix.hot_ratio.unwrap() - 0.0417).abs() < 0.001,
        "{prefix:?}"
    );
    let arrivals = &profile.arrivals;
    assert!((arrivals.rate_per_s.unwrap() - 3.40).abs() < 0.005);
    assert!(arrivals.clock_resolution_inferred);
    let idc: Vec<Option<f64>> = arrivals
        .dispersion
        .iter()
        .map(|window| window.idc)
        .collect();
    assert!(
        idc[0].is_none() && idc[3].is_none(),
        "1 s is below the clock, 300 s above the span"
    );
    assert!((idc[1].unwrap() - 2.1).abs() < 0.01);
}

#[test]
fn hits_are_told_apart_by_who_made_them() {
    let mut turns = Vec::new();
    // A system prompt (block 1) that 60 sessions share; each has a block of its own, used twice.
    for session in 0..60u32 {
        let own = 1_000 + u64::from(session);
        turns.push(turn(session, i64::from(session), None, &[1, own]));
        turns.push(turn(session, i64::from(session), None, &[1, own]));
    }
    // A document (7, 8) that two sessions share, and that the first comes back to.
    turns.push(turn(60, 100, None, &[1, 7, 8]));
    turns.push(turn(61, 101, None, &[1, 7, 8]));
    turns.push(turn(60, 102, None, &[1, 7, 8, 9]));
    let population = population(turns);
    let reuse = prefix::Reuse::of(&population, prefix::hot_handovers(&population));
    // Hot: block 1 in 123 turns but the first. Intra: 60 own blocks, and two of turn 60's return.
    assert_eq!((reuse.hot, reuse.intra, reuse.cross), (122, 60 + 2, 2));
    assert_eq!((reuse.hot_blocks, reuse.unique), (1, 64));
    assert_eq!(reuse.hits_per_turn[120..], [1, 3, 3]);
}

/// Two ways to count the same hits, of which only one knows whose they are.
#[test]
fn the_engine_models_cache_agrees() {
    let Some(population) = mooncake() else { return };
    let reuse = prefix::Reuse::of(&population, 20);
    let requests = population.turns.iter().map(|turn| turn.blocks.as_slice());
    assert_eq!(
        reuse.hits_per_turn,
        crate::prefix::hits_per_request(requests, None)
    );
}

#[test]
fn kinds_add_up_to_the_infinite_hits() {
    let Some(population) = mooncake() else { return };
    let profile = profile(&population, &Options::default());
    let prefix = profile.prefix;
    let sum = prefix.hot_ratio.unwrap()
        + prefix.intra_session_ratio.unwrap()
        + prefix.cross_session_ratio.unwrap();
    assert!((sum - prefix.infinite_hit_ratio.unwrap()).abs() < 1e-12);
}

/// The session of case o37: starts 0, 10 and 25 s, service 8, 3 and 2 s.
#[test]
fn a_pause_starts_when_the_answer_ends() {
    let session = vec![
        turn(0, 0, Some(8), &[]),
        turn(0, 10, Some(13), &[]),
        turn(0, 25, Some(27), &[]),
    ];
    assert_eq!(sessions::think_times_s(&population(session)), [2.0, 12.0]);
}

#[test]
fn forks_and_unknown_ends_have_no_pause() {
    // The second turn starts while the first runs; the third after the second, before the first.
    let fork = vec![
        turn(0, 0, Some(100), &[]),
        turn(0, 5, Some(7), &[]),
        turn(0, 10, None, &[]),
        turn(0, 20, Some(21), &[]),
        turn(0, 120, None, &[]),
    ];
    assert_eq!(sessions::think_times_s(&population(fork)), [3.0]);
}

#[test]
fn concurrency_counts_the_turn_that_arrives() {
    let turns = vec![
        turn(0, 0, Some(10), &[]),
        turn(1, 5, Some(20), &[]),
        turn(2, 10, Some(11), &[]),
    ];
    assert_eq!(sessions::concurrency(&turns), [1.0, 2.0, 2.0]);
    assert!(sessions::concurrency(&[turn(0, 0, None, &[])]).is_empty());
}

#[test]
fn an_empty_population_has_an_empty_profile_without_nan() {
    let profile = profile(&Population::default(), &Options::default());
    let text = serde_json::to_string(&profile).unwrap();
    assert!(!text.contains("NaN") && !text.contains("inf\"") && text.contains("\"p50\":null"));
    assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
}

/// The keys that scripts and the cases read.
#[test]
fn the_keys_are_those_that_are_promised() {
    let population = population(vec![
        turn(0, 0, Some(1), &[1, 2]),
        turn(0, 4, Some(6), &[1, 2, 3]),
    ]);
    let options = Options {
        capacities_blocks: vec![8],
        curve_points: 0,
        windows_s: vec![1],
    };
    let value = serde_json::to_value(profile(&population, &options)).unwrap();
    for pointer in [
        "/turns",
        "/sessions",
        "/input_tokens/p50",
        "/input_tokens/p90",
        "/input_tokens/p99",
        "/input_tokens/sum",
        "/output_tokens/p50",
        "/output_tokens/sum",
        "/prefix/block_tokens",
        "/prefix/infinite_hit_ratio",
        "/prefix/curve/0/capacity_blocks",
        "/prefix/curve/0/hit_ratio",
        "/arrivals/dispersion/0/window_s",
        "/arrivals/dispersion/0/idc",
        "/arrivals/dispersion/0/peak_to_mean",
    ] {
        assert!(
            value.pointer(pointer).is_some(),
            "{pointer} is missing in {value}"
        );
    }
    assert_eq!(
        value
            .pointer("/prefix/infinite_hit_ratio")
            .unwrap()
            .as_f64(),
        Some(0.4)
    );
}

/// A million turns of a few dozen blocks must take seconds, not minutes.
#[test]
fn cost_is_about_linear() {
    let make = |sessions: u32| {
        let turns = (0..sessions).flat_map(|session| {
            (1..=5u64).map(move |depth| {
                let own = u64::from(session) << 16;
                let blocks: Vec<u64> = (0..2).chain(own..own + depth * 4).collect();
                turn(session, i64::from(session) + depth as i64, None, &blocks)
            })
        });
        let mut turns: Vec<PopulationTurn> = turns.collect();
        turns.sort_by_key(|turn| turn.arrival_us);
        population(turns)
    };
    let clock = std::time::Instant::now();
    let profile = profile(&make(20_000), &Options::default());
    assert_eq!(profile.turns, 100_000);
    // 1.4 M references: well under 1 us each where nothing else runs; the bound allows for a crowd.
    assert!(clock.elapsed().as_secs() < 20, "{:?}", clock.elapsed());
}
