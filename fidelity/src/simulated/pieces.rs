//! Which turns of two sides run, where and when.

use super::{BLOCKS_MAX, Sides, TURNS_MAX};
use crate::engine::Job;
use crate::mix::{MixMap, mix};
use crate::population::Population;

/// How the wanted side's sessions are spread over replicas, where no capture tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// A session stays on one replica.
    Session,
    /// Sessions that begin with the same prompt, system prompt aside, stay on one replica.
    Prefix,
}

/// Separates the choice of a replica, and the times that a coarse clock hides, from other uses of
/// the same numbers.
const ROUTE: u64 = 0x524F_5554_4500;
const HIDDEN: u64 = 0x4A49_5454_4552;

/// A stretch that covers this much of the wanted side's time is all of it.
const ALL_OF_TIME: f64 = 0.9;

/// A block that so many sessions begin with ties none of them together.
const COMMON_SESSIONS: u32 = 20;

/// Turns of each side, by pieces that run on their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) wanted: Vec<Vec<u32>>,
    pub(super) found: Vec<Vec<u32>>,
    pub(super) replicas: u64,
}

/// Tokens in a block; where a population has no blocks any size will do.
pub(super) fn block_tokens(population: &Population) -> u32 {
    population.block_tokens.unwrap_or(16).max(1)
}

/// Cuts both sides to what may run.
pub(super) fn cut(sides: &Sides<'_>) -> Cut {
    let share = sides.rate_share;
    let replicas = if share > 0.0 && share < 1.0 {
        (1.0 / share).round()
    } else {
        1.0
    };
    let replicas = replicas.min(f64::from(u32::MAX)) as u64;
    let (wanted, found) = (Side::of(sides.wanted), Side::of(sides.found));
    let captured = captured(sides.wanted, replicas);
    // Both sides run in the same stretch, where both have all of the time.
    let alike = found.span_us as f64 >= ALL_OF_TIME * wanted.span_us as f64;
    let fits = sides.found.turns.len() <= TURNS_MAX
        && (wanted.turns(0, i64::MAX) as u64 / replicas) as usize <= TURNS_MAX;
    let stretch = (!fits).then(|| {
        found
            .stretch(TURNS_MAX)
            .min(wanted.stretch(TURNS_MAX * replicas as usize))
    });
    let found_in = found.middle(stretch);
    let wanted_in = match (alike, stretch) {
        (true, _) => vec![wanted.middle(stretch)],
        // A window of the wanted side stands against all of it, or against several such windows.
        (false, _) if sides.wanted.turns.len() <= TURNS_MAX => vec![wanted.middle(None)],
        (false, stretch) => wanted.spread(stretch.unwrap_or(found.span_us)),
    };
    let mut pieces = Vec::new();
    let mut turns = 0;
    // Few replicas say little of how much they differ: they are drawn again.
    let draws = if replicas > 1 && captured.is_none() {
        DRAWN_MIN.div_ceil(replicas)
    } else {
        1
    };
    'all: for draw in 0..draws {
        let routed = || route(sides.wanted, sides.routing, replicas, draw);
        let of_replica = captured.clone().unwrap_or_else(routed);
        for replica in 0..replicas {
            for window in &wanted_in {
                let piece: Vec<u32> = wanted
                    .within(*window)
                    .filter(|turn| of_replica.get(*turn as usize) == Some(&replica))
                    .collect();
                if turns > 0 && turns + piece.len() > TURNS_MAX {
                    break 'all;
                }
                turns += piece.len();
                if !piece.is_empty() {
                    pieces.push(piece);
                }
            }
        }
    }
    Cut {
        wanted: pieces,
        found: vec![found.within(found_in).collect()],
        replicas,
    }
}

/// One side's arrivals.
struct Side<'a> {
    population: &'a Population,
    first_us: i64,
    span_us: i64,
}

impl<'a> Side<'a> {
    fn of(population: &'a Population) -> Self {
        let first_us = population.turns.first().map_or(0, |turn| turn.arrival_us);
        let last_us = population.turns.last().map_or(0, |turn| turn.arrival_us);
        Self {
            population,
            first_us,
            span_us: last_us.saturating_sub(first_us).max(0),
        }
    }

    fn turns(&self, from_us: i64, to_us: i64) -> usize {
        self.within((from_us, to_us)).count()
    }

    /// The turns of a stretch, from the first arrival.
    fn within(&self, (from_us, to_us): (i64, i64)) -> impl Iterator<Item = u32> {
        let at = |us: i64| {
            let offset = |arrival_us: i64| arrival_us.saturating_sub(self.first_us);
            let turns = &self.population.turns;
            turns.partition_point(|turn| offset(turn.arrival_us) < us) as u32
        };
        at(from_us)..at(to_us)
    }

    /// How long a stretch in the middle may be so that it holds no more than so many turns.
    fn stretch(&self, turns: usize) -> i64 {
        let (mut low, mut high) = (0, self.span_us.saturating_add(1));
        while high - low > 1 {
            let length = low + (high - low) / 2;
            let (from_us, to_us) = self.middle(Some(length));
            if self.turns(from_us, to_us) <= turns {
                low = length;
            } else {
                high = length;
            }
        }
        low.max(1)
    }

    /// A stretch in the middle; everything where none is asked for.
    fn middle(&self, length_us: Option<i64>) -> (i64, i64) {
        let Some(length_us) = length_us else {
            return (0, i64::MAX);
        };
        let from_us = (self.span_us.saturating_sub(length_us) / 2).max(0);
        (from_us, from_us.saturating_add(length_us))
    }

    /// Stretches of that length, spread evenly: the middle one first, as far as there is room.
    fn spread(&self, length_us: i64) -> Vec<(i64, i64)> {
        let length_us = length_us.max(1);
        let all = (self.span_us / length_us).clamp(1, STRETCHES_MAX);
        let room = self.span_us.saturating_sub(length_us).max(0);
        let mut order: Vec<i64> = (0..all).collect();
        order.sort_by_key(|at| (2 * at + 1 - all).abs());
        order
            .into_iter()
            .map(|at| {
                let from_us = if all > 1 {
                    room / (all - 1) * at
                } else {
                    room / 2
                };
                (from_us, from_us.saturating_add(length_us))
            })
            .collect()
    }
}

/// Replicas that are drawn at least, where there are several.
const DRAWN_MIN: u64 = 8;

/// Stretches of the wanted side that stand against one of the replay.
const STRETCHES_MAX: i64 = 8;

/// The replica of each turn as it was captured, where there were as many as there should be.
fn captured(population: &Population, replicas: u64) -> Option<Vec<u64>> {
    let turns = population.turns.iter();
    let of: Option<Vec<u64>> = turns.map(|turn| turn.replica.map(u64::from)).collect();
    let count = of.as_ref()?.iter().max().map_or(0, |last| last + 1);
    of.filter(|_| replicas > 1 && count == replicas)
}

/// The replica of each turn, in one draw of them.
fn route(population: &Population, routing: Routing, replicas: u64, draw: u64) -> Vec<u64> {
    if replicas <= 1 {
        return vec![0; population.turns.len()];
    }
    let groups = match routing {
        Routing::Session => MixMap::default(),
        Routing::Prefix => beginnings(population),
    };
    let turns = population.turns.iter();
    turns
        .map(|turn| {
            let session = u64::from(turn.session);
            let group = groups.get(&session).copied().unwrap_or(session);
            mix(group ^ mix(ROUTE ^ draw)) % replicas
        })
        .collect()
}

/// By session: the first block of its first prompt that not everybody begins with.
fn beginnings(population: &Population) -> MixMap<u64> {
    let mut first: MixMap<usize> = MixMap::default();
    for (place, turn) in population.turns.iter().enumerate() {
        first.entry(u64::from(turn.session)).or_insert(place);
    }
    let blocks = |place: &usize| {
        population
            .turns
            .get(*place)
            .map_or(&[][..], |turn| &turn.blocks)
    };
    let mut sessions: MixMap<u32> = MixMap::default();
    for hash in first.values().flat_map(blocks) {
        *sessions.entry(*hash).or_default() += 1;
    }
    let own = |hash: &&u64| {
        sessions
            .get(hash)
            .is_some_and(|uses| *uses < COMMON_SESSIONS)
    };
    first
        .iter()
        .filter_map(|(session, place)| Some((*session, *blocks(place).iter().find(own)?)))
        .collect()
}

/// How many blocks have to be one so that neither side looks up too many.
pub(super) fn coarser(sides: &Sides<'_>, cut: &Cut) -> u32 {
    let blocks = |population: &Population, pieces: &[Vec<u32>]| -> usize {
        let turns = pieces.iter().flatten();
        let of = |turn: &u32| {
            population
                .turns
                .get(*turn as usize)
                .map_or(0, |t| t.blocks.len())
        };
        turns.map(of).sum()
    };
    let most = blocks(sides.wanted, &cut.wanted).max(blocks(sides.found, &cut.found));
    let times = most.div_ceil(BLOCKS_MAX).max(1).next_power_of_two();
    u32::try_from(times).unwrap_or(u32::MAX)
}

/// Turns as jobs. A hash covers everything before it, so every so many-th one is the hash of a
/// coarser block. What a coarse clock hides of an arrival is made up, the same on both sides.
pub(super) fn jobs(population: &Population, turns: &[u32], coarser: u32) -> Vec<Job> {
    let step_us = population
        .clock_resolution_us
        .unwrap_or(1)
        .clamp(1, HIDDEN_US_MAX);
    let first = turns
        .first()
        .and_then(|turn| population.turns.get(*turn as usize));
    let first_us = first.map_or(0, |turn| turn.arrival_us);
    let block_tokens = block_tokens(population).saturating_mul(coarser);
    let every = coarser.max(1) as usize;
    let job = |turn: &u32| {
        let at = population.turns.get(*turn as usize)?;
        let prompt_tokens = at.input_tokens.filter(|tokens| *tokens > 0)?;
        let output_tokens = at.output_tokens.unwrap_or(1).max(1);
        let is =
            mix(prompt_tokens ^ output_tokens.rotate_left(32) ^ at.blocks.last().unwrap_or(&0));
        let hidden = mix(is ^ at.arrival_us.unsigned_abs() ^ HIDDEN) % step_us.unsigned_abs();
        let offset_us = at.arrival_us.saturating_sub(first_us).min(OFFSET_US_MAX);
        let blocks: Vec<u64> = at
            .blocks
            .iter()
            .copied()
            .skip(every - 1)
            .step_by(every)
            .collect();
        Some(Job::of_prompt_blocks(
            offset_us.saturating_add(i64::try_from(hidden).unwrap_or(0)),
            prompt_tokens,
            output_tokens,
            &blocks,
            block_tokens,
        ))
    };
    turns.iter().filter_map(job).collect()
}

/// Clocks do not step by more than a minute, and captures do not last for longer than a century:
/// nanoseconds of anything longer would not fit.
const HIDDEN_US_MAX: i64 = 60_000_000;
const OFFSET_US_MAX: i64 = 100 * 366 * 86_400 * 1_000_000;
