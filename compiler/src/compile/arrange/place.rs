//! Where sessions start. Everything here moves whole sessions: think times are never scaled.

use truetape_fidelity::population::Population;

/// What is known of the time of the chosen sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    /// By session: how far it moves.
    pub(super) shift_us: Vec<i64>,
    /// Time that was cut out of idle stretches.
    pub(super) idle_cut_us: i64,
}

/// A session from its first arrival to its last known moment.
#[derive(Clone, Copy, Debug)]
struct Stay {
    session: usize,
    start_us: i64,
    end_us: i64,
}

/// Sessions where they were.
pub(super) fn recorded(population: &Population) -> Placed {
    Placed {
        shift_us: vec![0; population.sessions as usize],
        idle_cut_us: 0,
    }
}

/// Starts of the chosen sessions, in their order, at the starts of the source's sessions that stand at
/// the same share of the way: every burst of starts becomes as much smaller as the set is, and none is
/// drawn by luck.
pub(super) fn shape(population: &Population, taken: &[bool]) -> Placed {
    let mut placed = recorded(population);
    let all = stays(population);
    let chosen: Vec<&Stay> = all
        .iter()
        .filter(|stay| taken.get(stay.session) == Some(&true))
        .collect();
    for (place, stay) in chosen.iter().enumerate() {
        // The middle of its share of the way, in whole numbers.
        let at = (2 * place + 1) * all.len() / (2 * chosen.len());
        if let (Some(wanted), Some(shift)) = (all.get(at), placed.shift_us.get_mut(stay.session)) {
            *shift = wanted.start_us - stay.start_us;
        }
    }
    placed
}

/// Cuts stretches in which no chosen session is there down to a length. The time before the first one
/// is such a stretch.
pub(super) fn cut_idle(
    population: &Population,
    taken: &[bool],
    idle_max_us: i64,
    mut placed: Placed,
) -> Placed {
    let mut chosen: Vec<Stay> = stays(population)
        .into_iter()
        .filter(|stay| taken.get(stay.session) == Some(&true))
        .collect();
    for stay in &mut chosen {
        let shift = placed.shift_us.get(stay.session).copied().unwrap_or(0);
        stay.start_us += shift;
        stay.end_us += shift;
    }
    chosen.sort_by_key(|stay| (stay.start_us, stay.session));
    let mut busy_until_us = population.turns.first().map_or(0, |first| first.arrival_us);
    for stay in &chosen {
        let idle_us = stay.start_us - busy_until_us;
        placed.idle_cut_us += (idle_us - idle_max_us).max(0);
        busy_until_us = busy_until_us.max(stay.end_us);
        if let Some(shift) = placed.shift_us.get_mut(stay.session) {
            *shift -= placed.idle_cut_us;
        }
    }
    placed
}

/// The sessions of a population, by their start.
fn stays(population: &Population) -> Vec<Stay> {
    let mut stays: Vec<Option<Stay>> = vec![None; population.sessions as usize];
    for turn in &population.turns {
        let session = turn.session as usize;
        let Some(slot) = stays.get_mut(session) else {
            continue;
        };
        let end_us = turn.end_us.unwrap_or(turn.arrival_us).max(turn.arrival_us);
        let stay = slot.get_or_insert(Stay {
            session,
            start_us: turn.arrival_us,
            end_us,
        });
        stay.end_us = stay.end_us.max(end_us);
    }
    let mut stays: Vec<Stay> = stays.into_iter().flatten().collect();
    stays.sort_by_key(|stay| (stay.start_us, stay.session));
    stays
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use truetape_fidelity::population::PopulationTurn;

    fn population(stays: &[(i64, i64)]) -> Population {
        let turns = stays
            .iter()
            .zip(0..)
            .flat_map(|((start, length), session)| {
                [*start, start + length].map(|arrival_us| PopulationTurn {
                    session,
                    arrival_us,
                    end_us: Some(arrival_us),
                    ..PopulationTurn::default()
                })
            });
        let mut turns: Vec<PopulationTurn> = turns.collect();
        turns.sort_by_key(|turn| turn.arrival_us);
        Population {
            turns,
            sessions: stays.len() as u32,
            ..Population::default()
        }
    }

    #[test]
    fn a_smaller_set_keeps_the_shape_of_the_starts() {
        // Eight start at once, two later; of half of them, four and one do.
        let stays: Vec<(i64, i64)> = (0..10)
            .map(|i| (if i < 8 { 0 } else { i * 100 }, 5))
            .collect();
        let population = population(&stays);
        // Those that were taken happen to have started late.
        let taken: Vec<bool> = (0..10).map(|i| i >= 5).collect();
        let placed = shape(&population, &taken);
        let starts: Vec<i64> = (5..10).map(|i| stays[i].0 + placed.shift_us[i]).collect();
        assert_eq!(starts, [0, 0, 0, 0, 900]);
        assert_eq!(placed.shift_us[0], 0);
    }

    #[test]
    fn only_time_without_any_session_is_cut() {
        let population = population(&[(0, 50), (40, 20), (200, 5), (1_000, 1)]);
        let taken = [true, true, true, true];
        let placed = cut_idle(&population, &taken, 100, recorded(&population));
        // From 60 to 200, 40 too many; from 205 to 1000, 695 too many.
        assert_eq!(placed.shift_us, [0, 0, -40, -735]);
        assert_eq!(placed.idle_cut_us, 735);
        let quiet = cut_idle(
            &population,
            &[false, false, false, true],
            100,
            recorded(&population),
        );
        assert_eq!(quiet.shift_us[3], -900, "the beginning is idle too");
    }

    proptest! {
        #[test]
        fn no_idle_stretch_is_longer_than_allowed_and_shorter_ones_stay(
            stays in proptest::collection::vec((0i64..2_000, 0i64..100), 1..20),
            idle_max in 0i64..300,
        ) {
            let population = population(&stays);
            let taken = vec![true; stays.len()];
            let placed = cut_idle(&population, &taken, idle_max, recorded(&population));
            let mut moved: Vec<(i64, i64)> = stays.iter().zip(&placed.shift_us)
                .map(|((start, length), shift)| (start + shift, start + shift + length)).collect();
            moved.sort_unstable();
            let mut order: Vec<usize> = (0..stays.len()).collect();
            order.sort_by_key(|at| (stays[*at].0, *at));
            let starts: Vec<i64> = order.iter().map(|at| stays[*at].0 + placed.shift_us[*at]).collect();
            prop_assert!(starts.is_sorted(), "the order of starts stays");
            let mut until = moved[0].0;
            for (start, end) in moved {
                prop_assert!(start - until <= idle_max);
                until = until.max(end);
            }
        }
    }
}
