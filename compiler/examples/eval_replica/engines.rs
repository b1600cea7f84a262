//! The engines of the table.
//!
//! Choices are made on five settings ([`CHOSEN_ON`]). B and C were looked at while the search was
//! made; D and E were written down before anything was measured on them, and nothing was changed
//! after. They differ in what no other setting varies: the ratio of prefill to decoding, and the
//! seats of a batch.

use truetape_compiler::select::judge::{CHOSEN_ON, HELD_OUT, Setting};
use truetape_fidelity::engine::EngineConfig;

/// How many engines the table has.
pub(crate) const COUNT: usize = 5;

/// Their names.
pub(crate) const NAMES: [&str; COUNT] = [
    "A (chosen on)",
    "B (held out)",
    "C (held out)",
    "D (held out, never tuned for)",
    "E (held out, never tuned for)",
];

/// One engine of its own ratios.
struct Fresh {
    memory: f64,
    step: f64,
    prefill: f64,
    decode: f64,
    step_tokens: f64,
    sequences_max: usize,
}

/// Fast prefill, slow decoding, small steps and few seats; and the opposite with much memory.
const FRESH: [Fresh; 2] = [
    Fresh {
        memory: 1.3,
        step: 1.0,
        prefill: 0.7,
        decode: 2.0,
        step_tokens: 0.25,
        sequences_max: 24,
    },
    Fresh {
        memory: 3.5,
        step: 0.6,
        prefill: 1.4,
        decode: 0.5,
        step_tokens: 2.0,
        sequences_max: 256,
    },
];

impl Fresh {
    fn of(&self, engine: &EngineConfig) -> EngineConfig {
        let times = |value: u64, factor: f64| ((value as f64 * factor).round() as u64).max(1);
        EngineConfig {
            kv_blocks: times(engine.kv_blocks, self.memory),
            step_tokens_max: times(engine.step_tokens_max, self.step_tokens),
            step_ns: times(engine.step_ns, self.step),
            prefill_token_ns: times(engine.prefill_token_ns, self.prefill),
            decode_sequence_ns: times(engine.decode_sequence_ns, self.decode),
            kv_token_ns: times(engine.kv_token_ns, self.decode),
            sequences_max: self.sequences_max,
            ..engine.clone()
        }
    }
}

/// The engine at hand: the reference engine, as slow as the load of N = 4 asks for.
pub(crate) fn at_hand(replicas: u16, loaded_as: f64) -> EngineConfig {
    let loaded = Setting {
        memory: 1.0,
        time: f64::from(replicas) / loaded_as,
        step_tokens: 1.0,
    };
    loaded.of(&EngineConfig::default())
}

/// Those that choices are made on.
pub(crate) fn chosen_on(engine: &EngineConfig) -> Vec<EngineConfig> {
    CHOSEN_ON.iter().map(|setting| setting.of(engine)).collect()
}

/// Those of the table, in the order of their names.
pub(crate) fn shown(engine: &EngineConfig) -> Vec<EngineConfig> {
    let settings = CHOSEN_ON.iter().take(1).chain(&HELD_OUT);
    let known = settings.map(|setting| setting.of(engine));
    known
        .chain(FRESH.iter().map(|fresh| fresh.of(engine)))
        .collect()
}
