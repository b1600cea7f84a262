//! How many units a budget buys.

use super::*;
use proptest::prelude::*;

fn tokens_only(tokens: &[u64]) -> Population {
    let turns = tokens
        .iter()
        .enumerate()
        .map(|(at, tokens)| PopulationTurn {
            session: at as u32,
            arrival_us: at as i64,
            input_tokens: Some(*tokens),
            ..PopulationTurn::default()
        });
    Population {
        turns: turns.collect(),
        sessions: tokens.len() as u32,
        ..Population::default()
    }
}

proptest! {
    #[test]
    fn a_larger_budget_only_adds_sessions(
        tokens in proptest::collection::vec(0u64..10_000, 0..60),
        share in 0.0f64..1.0,
        more in 0.0f64..1.0,
    ) {
        let population = tokens_only(&tokens);
        let units = Units::sessions(&source(&population, 1));
        let small = units.smallest(share, 0.0);
        let large = units.smallest(share + more, 0.0);
        prop_assert!(small.iter().zip(&large).all(|(small, large)| !small || *large));
    }

    #[test]
    fn the_budget_is_met_within_half_the_largest_session(
        tokens in proptest::collection::vec(1u64..10_000, 1..60),
        share in 0.0f64..1.0,
    ) {
        let population = tokens_only(&tokens);
        let units = Units::sessions(&source(&population, 1));
        let taken = units.smallest(share, 0.0);
        let found: u64 = tokens.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(n, _)| n).sum();
        let budget = share * tokens.iter().sum::<u64>() as f64;
        let largest = *tokens.iter().max().unwrap() as f64;
        // Below one session, there is one session.
        prop_assert!((found as f64 - budget).abs() <= largest / 2.0 + 1e-6 || budget < largest);
    }
}

#[test]
fn everything_fits_in_a_budget_of_everything() {
    let population = tokens_only(&[5, 0, 7, 0]);
    let units = Units::sessions(&source(&population, 1));
    assert_eq!(units.smallest(1.0, 0.0), [true; 4]);
}
