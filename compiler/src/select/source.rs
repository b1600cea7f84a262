//! What is chosen from: turns of sessions, and the units that are taken whole.

use truetape_fidelity::mix::mix;
use truetape_fidelity::population::Population;

/// The turns to choose from, with what a population does not say.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// The turns.
    pub population: &'a Population,
    /// By session: its permanent random number.
    pub random: Vec<u64>,
    /// By turn: the replica that served it; empty where one tap saw everything.
    pub replica: Vec<u16>,
    /// By turn: what it asked for beyond lengths (a model, a stream), as a number; empty where all
    /// turns are alike.
    pub kind: Vec<u16>,
    /// Whether no length is known: then turns are counted instead of tokens.
    pub by_turns: bool,
}

impl Source<'_> {
    /// What a turn costs: its prompt and generated tokens, as far as they are known; 1 where no length
    /// is known at all.
    pub fn tokens(&self, turn: usize) -> u64 {
        let Some(turn) = self.population.turns.get(turn) else {
            return 0;
        };
        if self.by_turns {
            return 1;
        }
        let known = |tokens: Option<u64>| tokens.unwrap_or(0);
        known(turn.input_tokens).saturating_add(known(turn.output_tokens))
    }

    /// The sum of what all turns cost.
    pub fn tokens_all(&self) -> u64 {
        (0..self.population.turns.len())
            .map(|turn| self.tokens(turn))
            .fold(0, u64::saturating_add)
    }

    /// The sum of what the turns of chosen sessions cost.
    pub fn tokens_of(&self, sessions: &[bool]) -> u64 {
        (0..self.population.turns.len())
            .filter(|turn| sessions.get(self.session(*turn)) == Some(&true))
            .map(|turn| self.tokens(turn))
            .fold(0, u64::saturating_add)
    }

    /// The session of a turn.
    pub fn session(&self, turn: usize) -> usize {
        self.population
            .turns
            .get(turn)
            .map_or(0, |turn| turn.session as usize)
    }
}

/// What is taken whole or not at all: a session, or a family of sessions.
#[derive(Clone, Debug, Default)]
pub struct Units {
    /// By session: its unit.
    pub of_session: Vec<u32>,
    /// By unit: its permanent random number, uniform between 0 and 1.
    pub random: Vec<f64>,
    /// By unit: what it costs.
    pub tokens: Vec<u64>,
    /// By unit: where its turns start in `turns`, and last where they end.
    starts: Vec<u32>,
    /// Turns, unit by unit, in the order of the source.
    turns: Vec<u32>,
}

impl Units {
    /// Makes units of sessions that were put together: sessions with one label are one unit. Units
    /// are numbered by their first turn.
    pub fn new(source: &Source<'_>, labels: &[u32]) -> Self {
        const NONE: u32 = u32::MAX;
        let turns = source.population.turns.len();
        let mut number = vec![NONE; labels.len()];
        let mut of_turn = Vec::with_capacity(turns);
        let mut count = 0;
        for turn in 0..turns {
            let label = labels.get(source.session(turn)).copied().unwrap_or(NONE);
            let Some(unit) = number.get_mut(label as usize) else {
                of_turn.push(NONE);
                continue;
            };
            if *unit == NONE {
                *unit = count;
                count += 1;
            }
            of_turn.push(*unit);
        }
        let of_session = labels
            .iter()
            .map(|label| number.get(*label as usize).copied().unwrap_or(NONE))
            .collect();
        let mut units = Self {
            of_session,
            tokens: vec![0; count as usize],
            ..Self::default()
        };
        units.list_turns(source, &of_turn);
        units.draw(source);
        units
    }

    /// Every session by itself.
    pub fn sessions(source: &Source<'_>) -> Self {
        let labels: Vec<u32> = (0..source.population.sessions).collect();
        Self::new(source, &labels)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The turns of a unit, in the order of the source.
    pub fn turns(&self, unit: usize) -> &[u32] {
        let bounds = self.starts.get(unit).zip(self.starts.get(unit + 1));
        bounds
            .and_then(|(start, end)| self.turns.get(*start as usize..*end as usize))
            .unwrap_or_default()
    }

    /// The turns of the units that were taken, in the order of the source.
    pub fn chosen_turns(&self, taken: &[bool]) -> Vec<u32> {
        let chosen = (0..self.len()).filter(|unit| taken.get(*unit) == Some(&true));
        let mut turns: Vec<u32> = chosen.flat_map(|unit| self.turns(unit)).copied().collect();
        turns.sort_unstable();
        turns
    }

    /// By session: whether its unit was taken.
    pub fn chosen_sessions(&self, taken: &[bool]) -> Vec<bool> {
        let is = |unit: &u32| taken.get(*unit as usize) == Some(&true);
        self.of_session.iter().map(is).collect()
    }

    /// By unit: whether one of its sessions is chosen.
    pub fn by_session(&self, sessions: &[bool]) -> Vec<bool> {
        let mut taken = vec![false; self.len()];
        for (unit, chosen) in self.of_session.iter().zip(sessions) {
            if let Some(taken) = taken.get_mut(*unit as usize) {
                *taken |= chosen;
            }
        }
        taken
    }

    /// The units of smallest number, as many as come nearest to the share of all tokens, and at least
    /// one; `shift` moves all numbers around the circle, to start elsewhere.
    pub fn smallest(&self, share: f64, shift: f64) -> Vec<bool> {
        let number = |unit: usize| {
            let random = self.random.get(unit).copied().unwrap_or(1.0);
            (random - shift).rem_euclid(1.0)
        };
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by(|a, b| number(*a).total_cmp(&number(*b)).then(a.cmp(b)));
        let all: f64 = self.tokens.iter().map(|tokens| *tokens as f64).sum();
        let budget = share * all;
        let mut taken = vec![false; self.len()];
        let mut sum = 0.0;
        for unit in order {
            let tokens = self.tokens.get(unit).map_or(0.0, |tokens| *tokens as f64);
            // The sums only grow, so the nearest one is the last before the error grows.
            if sum > 0.0 && (sum + tokens - budget).abs() > (sum - budget).abs() {
                break;
            }
            sum += tokens;
            if let Some(taken) = taken.get_mut(unit) {
                *taken = true;
            }
        }
        taken
    }

    /// The units in the order of their numbers.
    pub(super) fn by_number(&self) -> Vec<u32> {
        let number = |unit: &u32| self.random.get(*unit as usize).copied().unwrap_or(1.0);
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_by(|a, b| number(a).total_cmp(&number(b)).then(a.cmp(b)));
        order
    }

    fn list_turns(&mut self, source: &Source<'_>, of_turn: &[u32]) {
        let mut sizes = vec![0_u32; self.len() + 1];
        for (turn, unit) in of_turn.iter().enumerate() {
            if let Some(tokens) = self.tokens.get_mut(*unit as usize) {
                *tokens = tokens.saturating_add(source.tokens(turn));
            }
            if let Some(size) = sizes.get_mut(*unit as usize) {
                *size += 1;
            }
        }
        let mut start = 0;
        for size in &mut sizes {
            start += std::mem::replace(size, start);
        }
        self.starts = sizes.clone();
        self.turns = vec![0; of_turn.len()];
        for (turn, unit) in (0_u32..).zip(of_turn) {
            let Some(next) = sizes.get_mut(*unit as usize) else {
                continue;
            };
            if let Some(slot) = self.turns.get_mut(*next as usize) {
                *slot = turn;
            }
            *next += 1;
        }
    }

    /// The number of a unit is the smallest of its sessions', stretched so that it is uniform
    /// whatever their count: `P(min of k > x) = (1 - x)^k`.
    fn draw(&mut self, source: &Source<'_>) {
        let mut least = vec![(u64::MAX, 0_i32); self.len()];
        for (session, unit) in self.of_session.iter().enumerate() {
            let random = source.random.get(session).copied().unwrap_or_default();
            if let Some((smallest, count)) = least.get_mut(*unit as usize) {
                *smallest = random.min(*smallest);
                *count = count.saturating_add(1);
            }
        }
        let uniform = |(smallest, count): (u64, i32)| {
            let x = smallest as f64 / 2.0_f64.powi(64);
            1.0 - (1.0 - x).powi(count.max(1))
        };
        self.random = least.into_iter().map(uniform).collect();
    }
}

/// A stream of numbers that is the same everywhere.
#[derive(Clone, Debug)]
pub struct Stream(u64);

impl Stream {
    /// Starts a stream.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `bound`; 0 where there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        // The product of a 32-bit share and the bound: no division, and no bias worth naming.
        ((self.next_u64() >> 32).wrapping_mul(bound as u64) >> 32) as usize
    }

    /// A number between 0 and 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
