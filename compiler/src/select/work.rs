//! How unevenly work arrives: the dispersion of a choice, kept up while it changes.
//!
//! Time is cut into windows; what the chosen turns bring in each is added up. The index of dispersion
//! of work, `IDW = Var W / (E W · E w)`, then follows from two sums, and a unit that comes or goes
//! changes the windows of its turns only. Sums are integers, so that a choice that is undone leaves
//! nothing behind.

use super::source::{Source, Units};
use truetape_fidelity::dispersion::SECOND_US;

/// Windows, in seconds.
pub const WINDOWS_S: [i64; 3] = [10, 60, 300];

/// Full windows that must fit into the source.
const WINDOWS_MIN: i64 = 10;

/// What arrives with a turn: uncached prompt tokens, and answer tokens.
pub type Load = [u32; 2];

/// Dispersion of both kinds of work over each window; none where the source is too short.
pub type Dispersion = [[Option<f64>; 2]; 3];

/// One length of window.
#[derive(Clone, Debug)]
struct Scale {
    window_us: i64,
    /// Full windows.
    windows: usize,
    cells: Vec<[u64; 2]>,
    sums: [u64; 2],
    squares: [u128; 2],
    arrivals: u64,
}

/// The work of a choice.
#[derive(Clone, Debug)]
pub struct Work<'a> {
    source: &'a Source<'a>,
    loads: &'a [Load],
    zero_us: i64,
    scales: Vec<Scale>,
}

impl<'a> Work<'a> {
    /// The work of nobody, over the time of a source.
    pub fn new(source: &'a Source<'a>, loads: &'a [Load], resolution_us: i64) -> Self {
        let turns = &source.population.turns;
        let zero_us = turns.first().map_or(0, |turn| turn.arrival_us);
        let span_us = turns.last().map_or(0, |turn| turn.arrival_us - zero_us);
        let scale = |seconds: i64| {
            let window_us = seconds * SECOND_US;
            let windows = span_us / window_us;
            let valid = windows >= WINDOWS_MIN && window_us >= 3 * resolution_us;
            let windows = if valid {
                usize::try_from(windows).unwrap_or(0)
            } else {
                0
            };
            Scale {
                window_us,
                windows,
                cells: vec![[0; 2]; windows],
                sums: [0; 2],
                squares: [0; 2],
                arrivals: 0,
            }
        };
        Self {
            source,
            loads,
            zero_us,
            scales: WINDOWS_S.into_iter().map(scale).collect(),
        }
    }

    /// Adds the turns of a unit.
    pub fn add(&mut self, units: &Units, unit: usize) {
        for turn in units.turns(unit) {
            self.turn(*turn as usize, true);
        }
    }

    /// Takes the turns of a unit away.
    pub fn take(&mut self, units: &Units, unit: usize) {
        for turn in units.turns(unit) {
            self.turn(*turn as usize, false);
        }
    }

    /// Adds one turn, or takes it away.
    pub fn turn(&mut self, turn: usize, adds: bool) {
        let Some(arrival) = self.source.population.turns.get(turn) else {
            return;
        };
        let load = self.loads.get(turn).copied().unwrap_or_default();
        let since = arrival.arrival_us - self.zero_us;
        for scale in &mut self.scales {
            scale.change(since, load, adds);
        }
    }

    /// `A`, what the dispersion of thinly drawn units would be: `Σ c² / Σ c` over what each unit
    /// brings into a window, in the mean of an arrival. Meant for the work of everybody.
    pub fn cluster_factors(&self, units: &Units) -> Dispersion {
        let mut found = Dispersion::default();
        for (found, scale) in found.iter_mut().zip(&self.scales) {
            let mut squares = [0_u128; 2];
            let mut inside: Vec<(usize, Load)> = Vec::new();
            for unit in 0..units.len() {
                inside.clear();
                for turn in units.turns(unit) {
                    inside.extend(self.window(*turn as usize, scale));
                }
                inside.sort_unstable_by_key(|(window, _)| *window);
                for same in inside.chunk_by(|a, b| a.0 == b.0) {
                    for (kind, squares) in squares.iter_mut().enumerate() {
                        let loads = same.iter().filter_map(|(_, load)| load.get(kind));
                        let sum: u128 = loads.map(|load| u128::from(*load)).sum();
                        *squares += sum * sum;
                    }
                }
            }
            let factor = |kind: usize| {
                let sum = *scale.sums.get(kind)? as f64;
                let squares = *squares.get(kind)? as f64;
                (sum > 0.0).then(|| squares / sum * scale.arrivals as f64 / sum)
            };
            *found = [factor(0), factor(1)];
        }
        found
    }

    fn window(&self, turn: usize, scale: &Scale) -> Option<(usize, Load)> {
        let arrival_us = self.source.population.turns.get(turn)?.arrival_us;
        let window = usize::try_from((arrival_us - self.zero_us) / scale.window_us).ok()?;
        let load = self.loads.get(turn).copied()?;
        (window < scale.windows).then_some((window, load))
    }

    /// The dispersion of what is chosen.
    pub fn dispersion(&self) -> Dispersion {
        let mut found = Dispersion::default();
        for (found, scale) in found.iter_mut().zip(&self.scales) {
            *found = [scale.idw(0), scale.idw(1)];
        }
        found
    }
}

impl Scale {
    fn change(&mut self, since_us: i64, load: Load, adds: bool) {
        let window = usize::try_from(since_us / self.window_us).unwrap_or(usize::MAX);
        let Some(cell) = self.cells.get_mut(window) else {
            return;
        };
        for (kind, load) in load.into_iter().enumerate() {
            let load = u64::from(load);
            let (Some(cell), Some(sum), Some(squares)) = (
                cell.get_mut(kind),
                self.sums.get_mut(kind),
                self.squares.get_mut(kind),
            ) else {
                continue;
            };
            let before = u128::from(*cell) * u128::from(*cell);
            if adds {
                *cell += load;
                *sum += load;
            } else {
                *cell -= load;
                *sum -= load;
            }
            *squares = *squares - before + u128::from(*cell) * u128::from(*cell);
        }
        if adds {
            self.arrivals += 1;
        } else {
            self.arrivals -= 1;
        }
    }

    fn idw(&self, kind: usize) -> Option<f64> {
        let (sum, squares) = (
            *self.sums.get(kind)? as f64,
            *self.squares.get(kind)? as f64,
        );
        if self.windows < 2 || sum <= 0.0 {
            return None;
        }
        let n = self.windows as f64;
        let variance = (squares - sum * sum / n) / (n - 1.0);
        Some(variance.max(0.0) * n / sum * self.arrivals as f64 / sum)
    }
}
