//! What can be asked of the schedule.

use crate::arrivals::{Arrivals, Course, RateMode};
use crate::knee::Slo;
use crate::shard::Shard;
use clap::{Args, ValueEnum};

/// When sessions start, and what becomes of them.
#[derive(Clone, Debug, Args)]
pub struct ArrivalArgs {
    /// When sessions start: `recorded`, or a control with the same count and mean rate: `constant`, `poisson`,
    /// `gamma:CV`.
    #[arg(long, env = "TRUETAPE_ARRIVALS", value_name = "KIND", default_value = "recorded", value_parser = Arrivals::parse)]
    pub arrivals: Arrivals,

    /// Seeds the controls of `--arrivals`.
    #[arg(
        long,
        env = "TRUETAPE_ARRIVALS_SEED",
        value_name = "N",
        default_value_t = 0
    )]
    pub arrivals_seed: u64,

    /// What `--rate-scale` means.
    #[arg(long, env = "TRUETAPE_RATE_MODE", value_enum, default_value_t = RateMode::Stress)]
    pub rate_mode: RateMode,

    /// Let the rate go evenly from one multiple of the set's to another over the run (over `--duration`, if given).
    #[arg(long, env = "TRUETAPE_RAMP", value_name = "FROM..TO", value_parser = Course::parse_ramp)]
    pub ramp: Option<Course>,

    /// Let the rate step through multiples of the set's, each as long as another.
    #[arg(long, env = "TRUETAPE_STEPS", value_name = "F,F,...", value_parser = Course::parse_steps, conflicts_with = "ramp")]
    pub steps: Option<Course>,

    /// What becomes of the turns that depend on one that failed.
    #[arg(long, env = "TRUETAPE_ON_FAILED_TURN", value_enum, default_value_t = OnFailedTurn::Continue)]
    pub on_failed_turn: OnFailedTurn,

    /// Send only the sessions of shard I of N. All shards of a run need the same flags and `--start-at`.
    #[arg(long, env = "TRUETAPE_SHARD", value_name = "I/N", value_parser = Shard::parse, requires = "start_at")]
    pub shard: Option<Shard>,

    /// Schedule zero on the wall clock, as in `2026-03-01T12:00:00Z`.
    #[arg(long, env = "TRUETAPE_START_AT", value_name = "TIME", value_parser = parse_start)]
    pub start_at: Option<i64>,

    /// Find the highest rate at which the target keeps a promise, as in `ttft-p99=2s,tpot-p50=50ms,errors=1%`: short
    /// replays at rates from `--rate-scale` on, `--duration` each (1 minute).
    #[arg(long, env = "TRUETAPE_FIND_KNEE", value_name = "SLO", value_parser = Slo::parse, conflicts_with_all = ["ramp", "steps", "shard", "start_at"])]
    pub find_knee: Option<Slo>,

    /// How near the rate that held and the one that did not must be, as a share.
    #[arg(
        long,
        env = "TRUETAPE_KNEE_PRECISION",
        value_name = "SHARE",
        default_value_t = 0.1
    )]
    pub knee_precision: f64,
}

impl ArrivalArgs {
    /// How the rate changes on the way.
    pub fn course(&self) -> Course {
        let asked = self.ramp.as_ref().or(self.steps.as_ref());
        asked.cloned().unwrap_or_default()
    }
}

/// What becomes of the turns that depend on one that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnFailedTurn {
    /// They are sent: a recorded history needs no answer to go on.
    #[default]
    Continue,
    /// They are not sent, unless production's turn failed too: a client that got no answer goes away.
    Skip,
}

fn parse_start(text: &str) -> Result<i64, String> {
    let allowed = "allowed is a time with its zone, as in 2026-03-01T12:00:00Z";
    truetape_schemas::time::parse_utc(text).ok_or_else(|| allowed.to_owned())
}
