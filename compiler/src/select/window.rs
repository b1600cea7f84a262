//! A stretch of time that is as the whole is: everything inside it is exact.

use super::feature::{Extra, Group, features};
use super::fleet::share_of;
use super::problem::{Problem, Tolerances, Weights};
use super::search::State;
use super::source::{Source, Units};

/// Starts that are tried, evenly over the source's time.
const STARTS: i64 = 96;

/// The error that counts as 1: no stretch of time is as near as exchanged sessions come, and what is
/// gone by luck must not hide what is different.
const TOLERANCE: f64 = 0.05;

/// The error of its load that counts as 1.
const LOAD_TOLERANCE: f64 = 0.1;

/// The start of the window of that length that is nearest to the source, after its first arrival. A
/// window takes the sessions that start inside it.
pub fn typical_start_us(source: &Source<'_>, length_us: i64) -> i64 {
    let turns = &source.population.turns;
    let zero_us = turns.first().map_or(0, |turn| turn.arrival_us);
    let span_us = turns.last().map_or(0, |turn| turn.arrival_us - zero_us);
    let room_us = span_us - length_us;
    if room_us <= 0 {
        return 0;
    }
    let units = Units::sessions(source);
    let features = features(source, &units, &Extra::default());
    // Of the time, a window is a piece; that its load is the whole's is what the sums say.
    let weights: Weights = [
        (Group::Time, 0.0),
        (Group::Pauses, 0.0),
        (Group::Joint, 0.0),
    ]
    .into();
    let tolerances: Tolerances = Group::ALL.map(|group| (group, TOLERANCE)).into();
    let share = length_us as f64 / span_us.max(1) as f64;
    let start_of = |unit: usize| {
        let first = units
            .turns(unit)
            .first()
            .and_then(|turn| turns.get(*turn as usize));
        first.map_or(i64::MIN, |turn| turn.arrival_us - zero_us)
    };
    let starts_us: Vec<i64> = (0..units.len()).map(start_of).collect();
    let misfit = |start_us: &i64| {
        let inside = *start_us..start_us + length_us;
        let is_inside = |start: &i64| inside.contains(start);
        let taken: Vec<bool> = starts_us.iter().map(is_inside).collect();
        let of_turns = units.chosen_turns(&taken).len() as f64 / turns.len() as f64;
        let of_tokens = share_of(source, &units.chosen_turns(&taken));
        if of_turns == 0.0 {
            return f64::INFINITY;
        }
        // What it is made of is compared with as many turns of the source; how much there is, with
        // its part of the time.
        let problem = Problem::new(&units, &features, of_turns, (&weights, &tolerances));
        let load = (of_tokens / share - 1.0) / LOAD_TOLERANCE;
        State::new(&problem, taken).misfit() + load * load
    };
    let starts = (0..=STARTS).map(|step| room_us / STARTS * step);
    starts
        .min_by(|a, b| misfit(a).total_cmp(&misfit(b)))
        .unwrap_or(0)
}
