use super::*;
use crate::mix::mix;
use crate::population::PopulationTurn;

/// Turns a second apart on average, in sessions of two, each prompt a block longer than the last.
fn population(turns: u32) -> Population {
    let turns = (0..turns).map(|at| {
        let session = at / 2;
        let own = u64::from(session) << 8;
        PopulationTurn {
            session,
            arrival_us: i64::from(at) * 1_000_000 + (mix(u64::from(at)) % 900_000) as i64,
            input_tokens: Some(512 * (3 + u64::from(at % 2))),
            output_tokens: Some(20 + mix(u64::from(at) ^ 9) % 200),
            blocks: [1]
                .into_iter()
                .chain(own..own + 2 + u64::from(at % 2))
                .map(mix)
                .collect(),
            ..PopulationTurn::default()
        }
    });
    Population {
        turns: turns.collect(),
        sessions: 60_000,
        block_tokens: Some(512),
        ..Population::default()
    }
}

fn sides<'a>(wanted: &'a Population, found: &'a Population, rate_share: f64) -> Sides<'a> {
    Sides {
        wanted,
        found,
        rate_share,
        routing: Routing::Session,
        kv_tokens: None,
    }
}

#[test]
fn a_side_that_is_its_other_measures_the_same_however_much_of_it_runs() {
    for turns in [400, TURNS_MAX as u32 + 6_000] {
        let population = population(turns);
        let simulated = simulate(&sides(&population, &population, 1.0)).unwrap();
        assert_eq!(simulated.engines.len(), 2);
        for engine in &simulated.engines {
            assert_eq!(engine.wanted, engine.found);
            assert!(engine.wanted.iter().all(Option::is_some), "{engine:?}");
        }
        let ran = simulated.wanted_turns.0;
        assert_eq!(simulated.is_whole(), turns == 400);
        assert!(
            ran <= TURNS_MAX as u64 && 2 * ran >= u64::from(turns).min(TURNS_MAX as u64),
            "{ran}"
        );
    }
}

#[test]
fn a_tenth_stands_against_a_tenth_of_the_replicas_each() {
    let wanted = population(4_000);
    let tenth = |turn: &&PopulationTurn| mix(u64::from(turn.session)).is_multiple_of(10);
    let found = Population {
        turns: wanted.turns.iter().filter(tenth).cloned().collect(),
        ..wanted.clone()
    };
    let simulated = simulate(&sides(&wanted, &found, 0.1)).unwrap();
    assert_eq!(
        (simulated.replicas, simulated.wanted_turns),
        (10, (4_000, 4_000))
    );
    assert_eq!(simulated.engines[0].each.len(), 10);
    // As a whole it would be a tenth of the load, and look far better.
    let e2el = place("e2el_p50").unwrap();
    let change = |simulated: &Simulated| {
        let engine = &simulated.engines[0];
        (engine.found[e2el].unwrap() / engine.wanted[e2el].unwrap()).ln()
    };
    let as_all = simulate(&sides(&wanted, &found, 1.0)).unwrap();
    assert!(change(&simulated).abs() < 0.1, "{}", change(&simulated));
    assert!(change(&as_all) < -0.1, "{}", change(&as_all));
}

#[test]
fn replicas_are_those_of_the_capture_where_there_are_as_many() {
    let mut wanted = population(400);
    let by_turn = |at: usize| u16::try_from(at % 4).unwrap();
    for (at, turn) in wanted.turns.iter_mut().enumerate() {
        turn.replica = Some(by_turn(at));
    }
    let cut = pieces::cut(&sides(&wanted, &wanted, 0.25));
    let every_fourth: Vec<u32> = (0..400).step_by(4).collect();
    assert_eq!((cut.wanted.len(), &cut.wanted[0]), (4, &every_fourth));
    // Half of the rate is two replicas' worth, and no two of them.
    let cut = pieces::cut(&sides(&wanted, &wanted, 0.5));
    assert_eq!(
        (cut.replicas, cut.wanted.len()),
        (2, 8),
        "two replicas, drawn four times"
    );
    let turns: usize = cut.wanted.iter().map(Vec::len).sum();
    assert_eq!(turns, 4 * 400);
}

#[test]
fn sessions_that_begin_alike_stay_together_behind_a_prefix_aware_router() {
    let mut wanted = population(400);
    for turn in &mut wanted.turns {
        // Ten sessions begin with the same document; all of them with the same system prompt.
        if let Some(block) = turn.blocks.get_mut(1) {
            *block = mix(u64::from(turn.session / 10) | 1 << 40);
        }
    }
    let routed = Sides {
        routing: Routing::Prefix,
        ..sides(&wanted, &wanted, 0.25)
    };
    let cut = pieces::cut(&routed);
    for piece in cut.wanted.iter().take(4) {
        let groups: std::collections::BTreeSet<u32> = piece.iter().map(|turn| turn / 20).collect();
        assert_eq!(piece.len(), groups.len() * 20, "whole groups");
    }
}

#[test]
fn an_engine_is_as_fast_as_the_recorded_answers_say() {
    let mut wanted = population(600);
    for turn in &mut wanted.turns {
        let tokens = turn.output_tokens.unwrap_or(0) as i64;
        turn.end_us = Some(turn.arrival_us + 300_000 + tokens * 15_000);
    }
    let simulated = simulate(&sides(&wanted, &wanted, 1.0)).unwrap();
    let median_us = simulated.engines[0].wanted[place("e2el_p50").unwrap()].unwrap();
    let recorded = 300_000.0 + 120.0 * 15_000.0;
    assert!(
        (median_us / recorded).ln().abs() < 0.1,
        "{median_us} of {recorded}"
    );
    assert_eq!(
        simulated.engines[0].config.step_ns,
        simulated.engines[1].config.step_ns
    );
}

#[test]
fn what_cannot_be_simulated_says_why() {
    let whole = population(100);
    let mut silent = whole.clone();
    for turn in silent.turns.iter_mut().take(2) {
        turn.output_tokens = None;
    }
    let why = simulate(&sides(&whole, &silent, 1.0)).unwrap_err();
    assert!(why.starts_with("2 of 100 of the replay's lengths"), "{why}");
    let nothing = Population::default();
    let why = simulate(&sides(&nothing, &whole, 1.0)).unwrap_err();
    assert!(why.contains("no turn"), "{why}");
}

#[test]
fn blocks_are_coarser_where_there_would_be_too_many() {
    let mut long = population(50);
    for turn in &mut long.turns {
        let own = u64::from(turn.session) << 32;
        turn.blocks = (own..own + 100_000).map(mix).collect();
        turn.input_tokens = Some(100_000);
    }
    long.block_tokens = Some(1);
    let simulated = simulate(&sides(&long, &long, 1.0)).unwrap();
    assert_eq!(
        simulated.coarser, 2,
        "5,000,000 blocks are 2,500,000 of two"
    );
    assert_eq!(simulated.engines[0].config.block_tokens, 2);
    // The second turn of a session still finds the first.
    let hits = simulated.engines[1].wanted[place("hits").unwrap()].unwrap();
    assert!(hits > 0.45, "{hits}");
}
