//! Made-up traffic, the same for the same seed: sessions of several turns that bring their history
//! along, system prompts and documents that strangers share, and hours that differ.

use truetape_fidelity::mix::mix;
use truetape_schemas::capture::{Exchange, LengthSource, Outcome};

/// Tokens in a block, as Mooncake's traces have.
pub(crate) const BLOCK_TOKENS: i64 = 512;

/// Mean turns started a second.
const RATE_PER_S: f64 = 40.0;

/// Mean turns of a session, of which many have one and few have dozens.
const TURNS_MEAN: f64 = 4.0;

/// Turns of a session at most.
const TURNS_MAX: u32 = 64;

/// System prompts, the first of which half of all sessions have.
const SYSTEM_PROMPTS: u64 = 64;

/// Documents, of which one session in eight reads one.
const DOCUMENTS: u64 = 20_000;

/// A stream of numbers that follows from a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed ^ mix(stream)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    /// From above 0 up to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }
}

/// One turn, before it is written: rows are sorted by arrival, and made when they are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    pub(crate) arrival_us: i64,
    pub(crate) session: u32,
    pub(crate) turn: u32,
}

/// The turns of so many, in the order of their arrival.
pub(crate) fn plan(seed: u64, turns: usize) -> Vec<Due> {
    let mut due = Vec::with_capacity(turns);
    let mut start_s = 0.0;
    let mut gaps = Random::new(seed, 1);
    let session_gap_s = TURNS_MEAN / RATE_PER_S;
    for session in 0.. {
        // A day's wave, and minutes that are three times as busy as others.
        let wave = 1.0 + 0.5 * (start_s / 3_600.0_f64).sin();
        let busy = if mix(start_s as u64 / 60).is_multiple_of(4) {
            3.0
        } else {
            1.0
        };
        start_s += gaps.exponential(session_gap_s / (wave * busy));
        let mut random = Random::new(seed, 1_000 + u64::from(session));
        let mut at_s = start_s;
        for turn in 0..turns_of(&mut random) {
            if due.len() == turns {
                due.sort_unstable();
                return due;
            }
            due.push(Due {
                arrival_us: (at_s * 1e6) as i64,
                session,
                turn,
            });
            at_s += 2.0 + random.exponential(30.0);
        }
    }
    due
}

fn turns_of(random: &mut Random) -> u32 {
    if random.below(10) < 4 {
        return 1;
    }
    (2 + random.exponential(TURNS_MEAN) as u32).min(TURNS_MAX)
}

/// The blocks of a turn's prompt: what the session shares with others, then its own.
fn blocks(seed: u64, due: Due) -> Vec<u64> {
    let mut random = Random::new(seed, 7_000_000_000 + u64::from(due.session));
    let mut blocks = Vec::new();
    let mut push = |root: u64, n: u64| {
        for at in 0..n {
            let before = blocks.last().copied().unwrap_or(0_u64);
            blocks.push(mix(before ^ mix(root).wrapping_add(at)));
        }
    };
    let system = if random.below(2) == 0 {
        0
    } else {
        random.below(SYSTEM_PROMPTS)
    };
    push(system, 2 + system % 5);
    if random.below(8) == 0 {
        let document = random.below(DOCUMENTS);
        push(1_000 + document, 8 + document % 40);
    }
    let own = 1_u64 << 40 | u64::from(due.session) << 8;
    for turn in 0..=u64::from(due.turn) {
        let length = 1.0 + random.exponential(if turn == 0 { 8.0 } else { 2.0 });
        push(own | turn, length as u64);
    }
    // The last block is not full, and the next turn has another one in its place.
    push(own | 255, 1);
    blocks
}

/// The row of a turn.
pub(crate) fn exchange(seed: u64, index: usize, due: Due) -> Exchange {
    let blocks = blocks(seed, due);
    let mut random = Random::new(seed, u64::from(due.session) << 32 | u64::from(due.turn));
    let partial = 1 + random.below(BLOCK_TOKENS as u64 - 1) as i64;
    let output = 1 + random.exponential(200.0) as i64;
    let ttft = 50_000 + 100 * blocks.len() as i64;
    let last = ttft + output * 1_000;
    Exchange {
        exchange_id: format!("{index:08x}-0000-8000-8000-{:012x}", random.next() >> 16),
        proxy_id: "bench".to_owned(),
        conn_id: -1,
        upstream: format!("10.0.0.{}:8000", due.session % 8),
        arrival: 1_760_000_000_000_000 + due.arrival_us,
        arrival_mono_us: due.arrival_us,
        request_end_us: Some(500),
        first_token_us: Some(500 + ttft),
        last_token_us: Some(500 + last),
        end_us: Some(600 + last),
        method: "POST".to_owned(),
        dialect: "trace".to_owned(),
        model: Some("bench".to_owned()),
        status: Some(200),
        input_tokens: Some((blocks.len() as i64 - 1) * BLOCK_TOKENS + partial),
        input_tokens_source: LengthSource::Usage,
        output_tokens: Some(output),
        output_tokens_source: LengthSource::Usage,
        block_tokens: i32::try_from(BLOCK_TOKENS).ok(),
        block_hashes: Some(blocks),
        // Half of the sessions are named; the others are to be found.
        session_key: due
            .session
            .is_multiple_of(2)
            .then(|| format!("u-{:08x}", due.session)),
        session_rule: due
            .session
            .is_multiple_of(2)
            .then(|| "header:x-session-id".to_owned()),
        outcome: Outcome::Complete,
        ..Exchange::default()
    }
}
