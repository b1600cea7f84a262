//! Seeded traffic whose sessions, lengths and sharing are known.

use std::collections::BTreeMap;

/// A stream of numbers that is the same everywhere (SplitMix64).
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Starts a stream.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number of `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next_u64() % (high - low + 1)
    }
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number, from 1, in order of arrival.
    pub id: u64,
    /// The row whose history it continues.
    pub parent: Option<u64>,
    /// Its session, from 0.
    pub session: usize,
    /// Its depth in the session, from 1.
    pub turn: u64,
    /// Arrival in milliseconds.
    pub at_ms: u64,
    /// Prompt tokens, history included.
    pub input_tokens: u64,
    /// Generated tokens.
    pub output_tokens: u64,
    /// Chained block ids; the last may cover a partial block.
    pub blocks: Vec<u64>,
}

/// Traffic of several sessions that share a system prompt.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Tokens in a block.
    pub block_tokens: u64,
    /// In order of arrival.
    pub rows: Vec<Row>,
}

/// What a trace is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Sessions.
    pub sessions: usize,
    /// Most turns of a session.
    pub turns_max: u64,
    /// Tokens in a block.
    pub block_tokens: u64,
    /// Whole blocks of the system prompt that all sessions share.
    pub shared_blocks: u64,
    /// Between session starts, at most.
    pub start_gap_ms: u64,
    /// Between turns of a session, at most.
    pub turn_gap_ms: u64,
}

impl Trace {
    /// Makes the trace of a seed: the same on every machine.
    pub fn seeded(seed: u64, shape: Shape) -> Self {
        let mut numbers = Numbers::new(seed);
        let mut next_block = shape.shared_blocks;
        let mut start_ms = 0;
        let mut rows = Vec::new();
        for session in 0..shape.sessions {
            let mut at_ms = start_ms;
            let mut input = shape.shared_blocks * shape.block_tokens;
            let mut blocks: Vec<u64> = (0..shape.shared_blocks).collect();
            for turn in 1..=numbers.between(1, shape.turns_max) {
                input += numbers.between(4, 3 * shape.block_tokens);
                let output_tokens = numbers.between(1, 12);
                // A partial last block of the turn before is another block once it is full.
                let whole = (rows.last().filter(|_| turn > 1))
                    .map_or(blocks.len() as u64, |row: &Row| {
                        row.input_tokens / shape.block_tokens
                    });
                blocks.truncate(usize::try_from(whole).unwrap_or(0));
                while (blocks.len() as u64) < input.div_ceil(shape.block_tokens) {
                    blocks.push(next_block);
                    next_block += 1;
                }
                rows.push(Row {
                    id: 0,
                    parent: None,
                    session,
                    turn,
                    at_ms,
                    input_tokens: input,
                    output_tokens,
                    blocks: blocks.clone(),
                });
                input += output_tokens;
                at_ms += numbers.between(shape.turn_gap_ms / 2, shape.turn_gap_ms);
            }
            start_ms += numbers.between(0, shape.start_gap_ms);
        }
        rows.sort_by_key(|row| (row.at_ms, row.session, row.turn));
        let mut last: BTreeMap<usize, u64> = BTreeMap::new();
        for (row, id) in rows.iter_mut().zip(1..) {
            row.id = id;
            row.parent = last.insert(row.session, id);
        }
        Self {
            block_tokens: shape.block_tokens,
            rows,
        }
    }

    /// As Mooncake writes it: milliseconds, block ids, no sessions.
    pub fn mooncake(&self) -> String {
        self.lines(|row| {
            serde_json::json!({
                "timestamp": row.at_ms,
                "input_length": row.input_tokens,
                "output_length": row.output_tokens,
                "hash_ids": row.blocks,
            })
        })
    }

    /// As Bailian writes it: seconds, block ids, parents.
    pub fn bailian(&self) -> String {
        self.lines(|row| {
            #[expect(clippy::cast_precision_loss, reason = "times of a test are small")]
            let seconds = row.at_ms as f64 / 1000.0;
            serde_json::json!({
                "chat_id": row.id,
                "parent_chat_id": row.parent.map_or(-1, |id| i64::try_from(id).unwrap_or(-1)),
                "timestamp": seconds,
                "input_length": row.input_tokens,
                "output_length": row.output_tokens,
                "type": "text",
                "turn": row.turn,
                "hash_ids": row.blocks,
            })
        })
    }

    fn lines(&self, line: impl Fn(&Row) -> serde_json::Value) -> String {
        self.rows
            .iter()
            .map(|row| format!("{}\n", line(row)))
            .collect()
    }
}

/// Numbers block ids anew by first appearance: two traces with the same sharing become equal.
pub fn canonical<'a>(prompts: impl IntoIterator<Item = &'a [u64]>) -> Vec<Vec<usize>> {
    let mut names = BTreeMap::new();
    let mut number = |id: &u64| {
        let next = names.len();
        *names.entry(*id).or_insert(next)
    };
    prompts
        .into_iter()
        .map(|ids| ids.iter().map(&mut number).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        sessions: 5,
        turns_max: 4,
        block_tokens: 16,
        shared_blocks: 2,
        start_gap_ms: 100,
        turn_gap_ms: 300,
    };

    #[test]
    fn a_seed_gives_one_trace_and_another_seed_another() {
        let (a, b) = (Trace::seeded(1, SHAPE), Trace::seeded(1, SHAPE));
        assert_eq!(a.rows, b.rows);
        assert_ne!(a.rows, Trace::seeded(2, SHAPE).rows);
    }

    #[test]
    fn blocks_cover_the_prompt_and_extend_the_parent() {
        let trace = Trace::seeded(7, SHAPE);
        for row in &trace.rows {
            assert_eq!(row.blocks.len() as u64, row.input_tokens.div_ceil(16));
            let Some(parent) = row.parent else { continue };
            let parent = trace.rows.iter().find(|r| r.id == parent).unwrap();
            let whole = usize::try_from(parent.input_tokens / 16).unwrap();
            assert_eq!(row.blocks.get(..whole), parent.blocks.get(..whole));
            assert_eq!(parent.session, row.session);
            assert!(parent.at_ms < row.at_ms);
        }
    }

    #[test]
    fn renumbering_keeps_sharing_and_nothing_else() {
        let a: [&[u64]; 2] = [&[9, 4], &[9, 7]];
        let b: [&[u64]; 2] = [&[1, 2], &[1, 3]];
        let c: [&[u64]; 2] = [&[1, 2], &[4, 3]];
        assert_eq!(canonical(a), canonical(b));
        assert_ne!(canonical(a), canonical(c));
    }
}
