//! What an engine stub is made of.

use crate::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use truetape_fidelity::engine::EngineConfig;

/// Longest prompt and answer together, where memory allows it and nothing else is said.
pub const MODEL_LEN_MAX: u64 = 131_072;

/// Speeds beyond this make every step last no time at all.
const SPEED_MAX: f64 = 1e9;

/// Settings of an engine stub. The default listens on a free loopback port.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Name of the model.
    pub model: String,
    /// Longest prompt and answer together; see [`Config::model_len`].
    pub max_model_len: Option<u64>,
    /// Sizes and speeds of the model.
    pub engine: EngineConfig,
    /// How many times faster than the formula steps pass.
    pub speed: f64,
    /// Seed of what the model says and how long it speaks.
    pub seed: u64,
    /// Habits of other servers.
    pub quirks: Quirks,
    /// How long open streams may take to end once it is told to stop.
    pub drain_timeout: Duration,
}

/// Habits of other servers, which a replayer has to notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// Answers 400 to `ignore_eos` and `min_tokens`.
    pub refuse_length_control: bool,
    /// Takes no notice of `cache_salt`.
    pub ignore_cache_salt: bool,
    /// Leaves cached tokens out of the usage.
    pub hide_cached_tokens: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            model: "stub".to_owned(),
            max_model_len: None,
            engine: EngineConfig {
                block_tokens: 16,
                kv_blocks: 65_536,
                ..EngineConfig::default()
            },
            speed: 1.0,
            seed: 0,
            quirks: Quirks::default(),
            drain_timeout: Duration::from_secs(5),
        }
    }
}

impl Config {
    /// Longest prompt and answer together: what was set, else the default or what fits.
    pub fn model_len(&self) -> u64 {
        self.max_model_len
            .unwrap_or_else(|| MODEL_LEN_MAX.min(self.engine.kv_tokens()))
    }

    /// Says which setting cannot work.
    pub fn check(&self) -> Result<(), Error> {
        let config = |subject, problem| Err(Error::Config { subject, problem });
        if !(self.speed > 0.0 && self.speed <= SPEED_MAX) {
            return config(
                "--speed",
                format!("{}, allowed is above 0 to {SPEED_MAX}", self.speed),
            );
        }
        for (subject, value) in [
            ("--block-tokens", u64::from(self.engine.block_tokens)),
            ("--kv-blocks", self.engine.kv_blocks),
            ("--max-seqs", self.engine.sequences_max as u64),
            ("--step-tokens-max", self.engine.step_tokens_max),
        ] {
            if value == 0 {
                return config(subject, "0, at least 1 is needed".to_owned());
            }
        }
        let (asked, fits) = (self.model_len(), self.engine.kv_tokens());
        if asked < 2 || asked > fits {
            let problem =
                format!("{asked} tokens, allowed are 2 to the {fits} that fit; see --kv-blocks");
            return config("--max-model-len", problem);
        }
        Ok(())
    }
}
