//! Exchanges of sessions that bring simulated latencies nearer.
//!
//! Nearly all exchanges make something worse, so one is asked about on one engine after the other,
//! and dropped as soon as it is no gain on those asked so far. Which engine is asked first rotates.

use super::judge;
use super::replica::{Chosen, ReplicaView};
use super::search::{Exchange, State};
use super::source::Stream;
use truetape_fidelity::mix::mix;

/// How much worse than the best candidate's the sums may become while latencies are brought nearer.
const SUMS_SLACK: f64 = 2.0;

/// Exchanges that are made at once, at most.
const AT_ONCE_MAX: usize = 3;

/// Keeps exchanges that bring latencies nearer and leave the sums about as right as they are.
pub(super) fn refine(view: &ReplicaView<'_>, mut state: State<'_>, mut chosen: Chosen) -> Chosen {
    let mut stream = Stream::new(mix(1));
    let limit = state.misfit() * SUMS_SLACK + state.units() as f64 * 0.01 + 4.0;
    let mut misfits: Vec<f64> = chosen
        .measured
        .iter()
        .zip(&view.reference.pooled)
        .map(|(found, wanted)| judge::misfit(found, wanted))
        .collect();
    for round in 0..view.plan.refinements {
        let mut done: Vec<Exchange> = Vec::new();
        for _ in 0..1 + stream.below(AT_ONCE_MAX) {
            if let Some((exchange, _)) = state.any_exchange(&mut stream, limit) {
                state.exchange(exchange);
                done.push(exchange);
            }
        }
        if done.is_empty() {
            continue;
        }
        chosen.simulated += 1;
        if gains(view, state.taken(), round, &mut chosen, &mut misfits) {
            chosen.taken = state.taken().to_vec();
            chosen.sums_misfit = state.misfit();
        } else {
            for exchange in done.into_iter().rev() {
                state.exchange(exchange.back());
            }
        }
    }
    chosen
}

/// Asks the engines about a choice, beginning with another one each round; where it is a gain on
/// all that were asked, at each step, what they say replaces what was known.
fn gains(
    view: &ReplicaView<'_>,
    taken: &[bool],
    round: usize,
    chosen: &mut Chosen,
    misfits: &mut [f64],
) -> bool {
    let turns = view.units.chosen_turns(taken);
    let engines = misfits.len();
    let mut gain = 0.0;
    let mut found = Vec::new();
    for step in 0..engines {
        let engine = (round + step) % engines;
        let Some((measured, misfit)) = view.on(engine, &turns) else {
            return false;
        };
        gain += misfits.get(engine).map_or(0.0, |before| before - misfit);
        if gain <= 0.0 {
            return false;
        }
        found.push((engine, measured, misfit));
    }
    for (engine, measured, misfit) in found {
        if let Some(slot) = chosen.measured.get_mut(engine) {
            *slot = measured;
        }
        if let Some(slot) = misfits.get_mut(engine) {
            *slot = misfit;
        }
    }
    chosen.misfit = misfits.iter().sum();
    engines > 0
}
