//! The demo's own traffic: seeded sessions with shared system prompts, tool-calling agents and
//! bursts. Pure: what is sent when is decided here, by the seed alone.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::time::Duration;

/// How long sessions keep starting.
pub(crate) const STARTS_FOR: Duration = Duration::from_secs(17);

/// Sessions of the demo. With about three turns each this gives some 350 turns in 21 seconds: just
/// long enough for the dispersion of arrivals to be judged at one second.
pub(crate) const SESSION_COUNT: usize = 108;

/// Moments at which many sessions start at once: half of all sessions start in one of these.
const BURSTS_AT: [f64; 3] = [3.0, 8.0, 13.0];

/// Width of a burst.
const BURST_SPREAD_S: f64 = 0.4;

/// What a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A person and an assistant, turn by turn.
    Chat,
    /// An agent that calls a tool, waits for it, and calls again.
    Agent,
    /// One long document, one answer.
    Document,
}

/// One session, decided before anything is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Session {
    /// Its key, sent as `x-session-id`.
    pub(crate) key: String,
    /// When it starts.
    pub(crate) start: Duration,
    /// What it is.
    pub(crate) kind: Kind,
    /// Which of the shared system prompts it uses.
    pub(crate) system_prompt_index: usize,
    /// Its turns.
    pub(crate) turns: Vec<Turn>,
}

/// One turn of a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turn {
    /// Time from the end of the answer before it.
    pub(crate) think: Duration,
    /// What the user says, or what the tool returns.
    pub(crate) text: String,
    /// The most the client lets the server generate.
    pub(crate) max_tokens: u32,
}

/// The system prompts: long, and shared by many sessions, as in production.
pub(crate) fn system_prompts() -> [String; 3] {
    let about = |who: &str, rules: usize| {
        let mut text = format!("You are {who}. Follow these rules.");
        for rule in 1..=rules {
            text +=
                &format!(" Rule {rule}: answer briefly, say what you know and how you know it.");
        }
        text
    };
    [
        about("a support assistant", 12),
        about("a writing assistant", 30),
        about("an agent", 60),
    ]
}

/// Decides the whole workload. The same seed gives the same workload, always.
pub(crate) fn sessions(seed: u64) -> Vec<Session> {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
    let mut sessions: Vec<Session> = (0..SESSION_COUNT).map(|i| session(i, &mut dice)).collect();
    sessions.sort_by_key(|session| session.start);
    sessions
}

fn session(index: usize, dice: &mut Dice) -> Session {
    let kind = match dice.unit() {
        u if u < 0.60 => Kind::Chat,
        u if u < 0.85 => Kind::Agent,
        _ => Kind::Document,
    };
    let (system_prompt_index, turn_count) = match kind {
        Kind::Chat => (dice.below(2), 1 + dice.below(5)),
        Kind::Agent => (2, 3 + dice.below(4)),
        Kind::Document => (0, 1),
    };
    let start = Duration::from_secs_f64(start_s(dice));
    let turns = (0..turn_count).map(|_| turn(kind, dice)).collect();
    Session {
        key: format!("demo-{index:03}"),
        start,
        kind,
        system_prompt_index,
        turns,
    }
}

fn start_s(dice: &mut Dice) -> f64 {
    if dice.unit() < 0.5 {
        let burst = BURSTS_AT
            .get(dice.below(BURSTS_AT.len()))
            .copied()
            .unwrap_or_default();
        return burst + dice.unit() * BURST_SPREAD_S;
    }
    dice.unit() * STARTS_FOR.as_secs_f64()
}

fn turn(kind: Kind, dice: &mut Dice) -> Turn {
    // Lengths are heavy-tailed: most prompts are short, and a few hold most of the tokens.
    let (words, think_s) = match kind {
        Kind::Chat => (
            8.0 * (1.2 * dice.normal()).exp(),
            0.15 + 0.4 * dice.exponential(),
        ),
        Kind::Agent => (
            30.0 * (0.8 * dice.normal()).exp(),
            0.05 + 0.1 * dice.exponential(),
        ),
        Kind::Document => (900.0 * (0.6 * dice.normal()).exp(), 0.0),
    };
    let max_tokens = 16 + u32::try_from(dice.below(112)).unwrap_or(0);
    Turn {
        think: Duration::from_secs_f64(think_s.min(2.0)),
        text: dice.words(words.clamp(3.0, 4_000.0)),
        max_tokens,
    }
}

/// Samplers written out: the distributions of a library may change between its versions.
struct Dice(ChaCha8Rng);

impl Dice {
    fn unit(&mut self) -> f64 {
        // 53 bits are what a double holds.
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        ((self.unit() * n as f64) as usize).min(n.saturating_sub(1))
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    fn words(&mut self, count: f64) -> String {
        const WORDS: [&str; 16] = [
            "batch", "cache", "prefix", "token", "queue", "block", "replica", "burst", "stream",
            "budget", "trace", "window", "latency", "session", "prompt", "engine",
        ];
        let mut text = String::new();
        for _ in 0..count as usize {
            text.push_str(
                WORDS
                    .get(self.below(WORDS.len()))
                    .copied()
                    .unwrap_or_default(),
            );
            text.push(' ');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_makes_one_workload() {
        assert_eq!(sessions(7), sessions(7));
        assert_ne!(sessions(7), sessions(8));
    }

    #[test]
    fn the_workload_has_every_kind_of_session_and_starts_in_time() {
        let sessions = sessions(1);
        assert_eq!(sessions.len(), SESSION_COUNT);
        for kind in [Kind::Chat, Kind::Agent, Kind::Document] {
            assert!(
                sessions.iter().any(|session| session.kind == kind),
                "{kind:?}"
            );
        }
        assert!(
            sessions
                .iter()
                .all(|s| s.start <= STARTS_FOR + Duration::from_secs(1))
        );
        assert!(
            sessions
                .windows(2)
                .all(|pair| pair[0].start <= pair[1].start)
        );
    }
}
