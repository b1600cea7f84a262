//! What an operator types.

use crate::engine::config::{Config, Quirks};
use crate::error::Error;
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::time::Duration;
use truetape_fidelity::engine::EngineConfig;

/// Nanoseconds in a microsecond.
const NS_PER_US: f64 = 1_000.0;

/// Longest time of one step, or of one part of it, that can be set: a day.
const PART_US_MAX: f64 = 24.0 * 3_600.0 * 1e6;

/// `truetape stub`.
#[derive(Args, Clone, Debug)]
pub struct StubArgs {
    /// Which server to stand in for.
    #[command(subcommand)]
    pub server: Server,
}

/// The servers there are.
#[derive(Clone, Debug, Subcommand)]
pub enum Server {
    /// An inference server: OpenAI dialects over the reference engine model, in real time.
    Engine(EngineArgs),
}

/// `truetape stub engine`.
#[derive(Args, Clone, Debug)]
pub struct EngineArgs {
    /// Where clients connect; port 0 takes a free one and says which.
    #[arg(
        long,
        env = "TRUETAPE_STUB_LISTEN",
        value_name = "ADDR",
        default_value = "127.0.0.1:0"
    )]
    pub listen: SocketAddr,

    /// Name of the model.
    #[arg(
        long,
        env = "TRUETAPE_STUB_MODEL",
        value_name = "NAME",
        default_value = "stub"
    )]
    pub model: String,

    /// Tokens in a block of the prefix cache.
    #[arg(
        long,
        env = "TRUETAPE_STUB_BLOCK_TOKENS",
        value_name = "TOKENS",
        default_value_t = 16
    )]
    pub block_tokens: u32,

    /// Blocks of memory, for running requests and the prefix cache together.
    #[arg(
        long,
        env = "TRUETAPE_STUB_KV_BLOCKS",
        value_name = "BLOCKS",
        default_value_t = 65_536
    )]
    pub kv_blocks: u64,

    /// Longest prompt and answer together [default: 131072, or what fits into memory].
    #[arg(long, env = "TRUETAPE_STUB_MAX_MODEL_LEN", value_name = "TOKENS")]
    pub max_model_len: Option<u64>,

    /// Requests that run at the same time.
    #[arg(
        long,
        env = "TRUETAPE_STUB_MAX_SEQS",
        value_name = "REQUESTS",
        default_value_t = 256
    )]
    pub max_seqs: usize,

    /// Tokens computed in one step.
    #[arg(
        long,
        env = "TRUETAPE_STUB_STEP_TOKENS_MAX",
        value_name = "TOKENS",
        default_value_t = 8_192
    )]
    pub step_tokens_max: u64,

    /// How many times faster than the formula steps pass.
    #[arg(
        long,
        env = "TRUETAPE_STUB_SPEED",
        value_name = "FACTOR",
        default_value_t = 1.0
    )]
    pub speed: f64,

    /// Microseconds of a step that computes nothing.
    #[arg(
        long,
        env = "TRUETAPE_STUB_STEP_US",
        value_name = "US",
        default_value_t = 8_000.0
    )]
    pub step_us: f64,

    /// Microseconds of one prompt token.
    #[arg(
        long,
        env = "TRUETAPE_STUB_PREFILL_US_PER_TOKEN",
        value_name = "US",
        default_value_t = 60.0
    )]
    pub prefill_us_per_token: f64,

    /// Microseconds of one decoding request in a step.
    #[arg(
        long,
        env = "TRUETAPE_STUB_DECODE_US_PER_SEQ",
        value_name = "US",
        default_value_t = 50.0
    )]
    pub decode_us_per_seq: f64,

    /// Microseconds of one token of context of a decoding request in a step.
    #[arg(
        long,
        env = "TRUETAPE_STUB_KV_US_PER_TOKEN",
        value_name = "US",
        default_value_t = 0.017
    )]
    pub kv_us_per_token: f64,

    /// Seed of what the model says and how long it speaks.
    #[arg(
        long,
        env = "TRUETAPE_STUB_SEED",
        value_name = "SEED",
        default_value_t = 0
    )]
    pub seed: u64,

    /// Compute every prompt from its first token on.
    #[arg(long, env = "TRUETAPE_STUB_NO_PREFIX_CACHING")]
    pub no_prefix_caching: bool,

    /// Answer 400 to `ignore_eos` and `min_tokens`, as servers with strict bodies do.
    #[arg(long, env = "TRUETAPE_STUB_REFUSE_LENGTH_CONTROL")]
    pub refuse_length_control: bool,

    /// Take no notice of `cache_salt`, as some servers do.
    #[arg(long, env = "TRUETAPE_STUB_IGNORE_CACHE_SALT")]
    pub ignore_cache_salt: bool,

    /// Leave cached tokens out of the usage, as many servers do.
    #[arg(long, env = "TRUETAPE_STUB_HIDE_CACHED_TOKENS")]
    pub hide_cached_tokens: bool,

    /// How long open streams may take to end after SIGTERM.
    #[arg(long, env = "TRUETAPE_STUB_DRAIN_TIMEOUT", value_name = "DURATION",
        default_value = "5s", value_parser = humantime::parse_duration)]
    pub drain_timeout: Duration,
}

impl EngineArgs {
    /// Says what the flags mean, or which of them means nothing.
    pub fn into_config(self) -> Result<Config, Error> {
        let engine = EngineConfig {
            block_tokens: self.block_tokens,
            kv_blocks: self.kv_blocks,
            sequences_max: self.max_seqs,
            step_tokens_max: self.step_tokens_max,
            prefix_caching: !self.no_prefix_caching,
            step_ns: ns("--step-us", self.step_us)?,
            prefill_token_ns: ns("--prefill-us-per-token", self.prefill_us_per_token)?,
            decode_sequence_ns: ns("--decode-us-per-seq", self.decode_us_per_seq)?,
            kv_token_ns: ns("--kv-us-per-token", self.kv_us_per_token)?,
        };
        let config = Config {
            listen: self.listen,
            model: self.model,
            max_model_len: self.max_model_len,
            engine,
            speed: self.speed,
            seed: self.seed,
            quirks: Quirks {
                refuse_length_control: self.refuse_length_control,
                ignore_cache_salt: self.ignore_cache_salt,
                hide_cached_tokens: self.hide_cached_tokens,
            },
            drain_timeout: self.drain_timeout,
        };
        config.check()?;
        Ok(config)
    }
}

fn ns(subject: &'static str, us: f64) -> Result<u64, Error> {
    if !(0.0..=PART_US_MAX).contains(&us) {
        let problem = format!("{us} microseconds, allowed are 0 to {PART_US_MAX}");
        return Err(Error::Config { subject, problem });
    }
    Ok((us * NS_PER_US).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        stub: StubArgs,
    }

    fn parse(flags: &[&str]) -> Result<Config, String> {
        let words = ["truetape", "engine"].iter().chain(flags);
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        let Server::Engine(args) = command.stub.server;
        args.into_config().map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_it_is_the_default() {
        assert_eq!(parse(&[]), Ok(Config::default()));
    }

    #[test]
    fn flags_are_in_the_units_they_name() {
        let flags = "--step-us 10 --prefill-us-per-token 2.5 --decode-us-per-seq 1 \
             --kv-us-per-token 0.001 --drain-timeout 2s --kv-blocks 10";
        let config = parse(&flags.split_whitespace().collect::<Vec<_>>()).unwrap();
        let engine = &config.engine;
        assert_eq!((engine.step_ns, engine.prefill_token_ns), (10_000, 2_500));
        assert_eq!((engine.decode_sequence_ns, engine.kv_token_ns), (1_000, 1));
        assert_eq!(config.drain_timeout, Duration::from_secs(2));
        // What fits into ten blocks of 16.
        assert_eq!(config.model_len(), 160);
    }

    #[test]
    fn a_flag_that_means_nothing_is_named() {
        for (flag, value) in [
            ("--step-us", "-1"),
            ("--speed", "NaN"),
            ("--block-tokens", "0"),
        ] {
            let flag_and_value = format!("{flag}={value}");
            let message = parse(&[&flag_and_value]).unwrap_err();
            assert!(message.starts_with(flag), "{message}");
        }
    }
}
