//! The recorded arrival list that every subject is to keep, as a Mooncake trace: the one format
//! that they all read.

use serde_json::json;
use std::path::Path;

/// Tokens of a prompt.
pub(crate) const INPUT_TOKENS: u32 = 64;

const NS_PER_MS: u64 = 1_000_000;

/// Instants after the first, in whole milliseconds, as such traces have them.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) due_ms: Vec<u64>,
    pub(crate) output_tokens: u32,
}

impl Schedule {
    /// Arrivals without memory at a rate: bursts are in it, and the same ones each time.
    pub(crate) fn poisson(rate_per_s: u64, seconds: f64, output_tokens: u32) -> Self {
        let count = (rate_per_s as f64 * seconds) as u64;
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ rate_per_s);
        let mut at_ms = 0.0;
        let mut due_ms = vec![0];
        for _ in 1..count {
            at_ms += -random.unit().ln() * 1000.0 / rate_per_s as f64;
            due_ms.push(at_ms as u64);
        }
        Self {
            due_ms,
            output_tokens,
        }
    }

    /// All at once: how fast they can be sent is the subject's.
    pub(crate) fn at_once(count: usize, output_tokens: u32) -> Self {
        Self {
            due_ms: vec![0; count],
            output_tokens,
        }
    }

    pub(crate) fn due_ns(&self) -> Vec<u64> {
        self.due_ms.iter().map(|ms| ms * NS_PER_MS).collect()
    }

    /// Writes it as a trace; prompts share nothing.
    pub(crate) fn write(&self, path: &Path) {
        let line = |(number, at): (usize, &u64)| {
            let row = json!({
                "timestamp": at,
                "input_length": INPUT_TOKENS,
                "output_length": self.output_tokens,
                "hash_ids": [number],
            });
            format!("{row}\n")
        };
        let text: String = self.due_ms.iter().enumerate().map(line).collect();
        std::fs::write(path, text).expect("the trace is written");
    }
}

/// SplitMix64: the same list on every machine.
struct Random(u64);

impl Random {
    /// Above 0, up to 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + f64::MIN_POSITIVE
    }
}
