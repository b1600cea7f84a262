//! What can be asked of `truetape replay` and `truetape report`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

mod arrivals;
mod compare;
mod report;

pub use arrivals::{ArrivalArgs, OnFailedTurn};
pub use compare::{CompareArgs, FailOnClaim};
pub use report::{ReportArgs, ReportFormat};

/// Replay a set against a target, and say how far the run is from the set.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// The set: its directory, or `name`, `name@tag`, `name@sha256:…` in the store.
    #[arg(value_name = "SET")]
    pub set: String,

    /// Server to send to, as in `http://127.0.0.1:8000`. A path in it is put before each turn's path.
    #[arg(long, env = "TRUETAPE_TARGET", value_name = "URL")]
    pub target: String,

    /// Directory of the run. It must not exist, or be empty: a run is never overwritten.
    #[arg(
        long,
        env = "TRUETAPE_OUT",
        value_name = "DIR",
        required_unless_present = "dry_run"
    )]
    pub out: Option<PathBuf>,

    /// Directory that holds sets by name.
    #[arg(long, env = "TRUETAPE_STORE", value_name = "DIR")]
    pub store: Option<PathBuf>,

    /// Send only turns that are due before this time, as in `5m`.
    #[arg(long, env = "TRUETAPE_DURATION", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub duration: Option<Duration>,

    /// When sessions start.
    #[command(flatten)]
    pub schedule: ArrivalArgs,

    /// Change the rate of session starts by F: above 1 is faster (see `--rate-mode`). Think times inside
    /// a session are never scaled.
    #[arg(
        long,
        env = "TRUETAPE_RATE_SCALE",
        value_name = "F",
        default_value_t = 1.0
    )]
    pub rate_scale: f64,

    /// What decides when a turn is sent.
    #[arg(long, env = "TRUETAPE_PACING", value_enum, default_value_t = Pacing::Hybrid)]
    pub pacing: Pacing,

    /// Multiply think times by this. Only with `--pacing closed`.
    #[arg(
        long,
        env = "TRUETAPE_THINK_SCALE",
        value_name = "F",
        default_value_t = 1.0
    )]
    pub think_scale: f64,

    /// Keep at most N requests in flight. Off by default: a cap reshapes the load, and the time a turn
    /// waits for it counts as lateness.
    #[arg(long, env = "TRUETAPE_MAX_IN_FLIGHT", value_name = "N")]
    pub max_in_flight: Option<usize>,

    /// How the length of answers is controlled.
    #[arg(long, env = "TRUETAPE_OUTPUT", value_enum, default_value_t = Output::Enforce)]
    pub output: Output,

    /// What the prefix cache may know of earlier runs.
    #[arg(long, env = "TRUETAPE_CACHE", value_enum, default_value_t = Cache::Salted)]
    pub cache: Cache,

    /// Salt of `--cache salted`; the run's own id by default. Give an earlier run's salt to repeat it
    /// byte for byte, against a cache that may remember it.
    #[arg(long, env = "TRUETAPE_SALT", value_name = "TEXT")]
    pub salt: Option<String>,

    /// Model to ask for, instead of the recorded ones.
    #[arg(long, env = "TRUETAPE_MODEL", value_name = "NAME")]
    pub model: Option<String>,

    /// Header that carries the session, for routers with session affinity.
    #[arg(long, env = "TRUETAPE_SESSION_HEADER", value_name = "NAME", default_value = DEFAULT_SESSION_HEADER)]
    pub session_header: String,

    /// A target that may be sent to, as HOST:PORT. Loopback targets are always allowed.
    #[arg(
        long,
        env = "TRUETAPE_ALLOW_TARGET",
        value_name = "HOST:PORT",
        value_delimiter = ','
    )]
    pub allow_target: Vec<String>,

    /// Allow the very server that the set was captured from.
    #[arg(long, env = "TRUETAPE_ALLOW_CAPTURED_ORIGIN")]
    pub allow_captured_origin: bool,

    /// Send no more than this many prompt and output tokens in all. Turns past it are not sent.
    #[arg(long, env = "TRUETAPE_TOKEN_BUDGET", value_name = "N")]
    pub token_budget: Option<u64>,

    /// Stop when more than this share of the latest 100 exchanges failed.
    #[arg(
        long,
        env = "TRUETAPE_ERROR_RATE_MAX",
        value_name = "SHARE",
        default_value_t = 0.5
    )]
    pub error_rate_max: f64,

    /// The run is invalid (exit 74) when the p99 of its own lateness is above this.
    #[arg(long, env = "TRUETAPE_LATENESS_P99_MAX", value_name = "TIME", default_value = "100ms", value_parser = humantime::parse_duration)]
    pub lateness_p99_max: Duration,

    /// Give up on an exchange after this time. No limit by default.
    #[arg(long, env = "TRUETAPE_TIMEOUT", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub timeout: Option<Duration>,

    /// Give up on an exchange of which nothing has come or gone for so long; `0s` waits for ever. A long
    /// answer that goes on is never cut.
    #[arg(long, env = "TRUETAPE_IDLE_TIMEOUT", value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    pub idle_timeout: Duration,

    /// After a first Ctrl-C, or when a limit stopped the run, wait this long for exchanges in flight.
    #[arg(long, env = "TRUETAPE_GRACE", value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub grace: Duration,

    /// Spin for up to this long (at most 100us) before each deadline, instead of sleeping to it.
    #[arg(long, env = "TRUETAPE_SPIN", value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub spin: Duration,

    /// Which connection carries which request.
    #[arg(long, env = "TRUETAPE_CONNECTIONS", value_enum, default_value_t = Connections::Pool)]
    pub connections: Connections,

    /// Connections opened before time zero.
    #[arg(
        long,
        env = "TRUETAPE_WARM_CONNECTIONS",
        value_name = "N",
        default_value_t = 16
    )]
    pub warm_connections: usize,

    /// Whose answers a session's history carries.
    #[arg(long, env = "TRUETAPE_HISTORY", value_enum, default_value_t = History::Recorded)]
    pub history: History,

    /// Do not send the one-token requests that find out, before the run, which parameters the target
    /// takes. Lengths are then taken to be enforceable.
    #[arg(long, env = "TRUETAPE_NO_PROBE")]
    pub no_probe: bool,

    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Where the target's own counters are read, in Prometheus' text format [default: the target's /metrics].
    #[arg(long, env = "TRUETAPE_METRICS_URL", value_name = "URL")]
    pub metrics_url: Option<String>,

    /// Read the target's counters this often, besides once before and once after the run; `0s` does
    /// not read them at all.
    #[arg(long, env = "TRUETAPE_METRICS_EVERY", value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    pub metrics_every: Duration,

    /// Print the plan (duration, rate, tokens, findings) and send nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Exit 1 when the verdict of the run is this or worse.
    #[arg(long, env = "TRUETAPE_FAIL_ON", value_enum, default_value_t = FailOn::Fail)]
    pub fail_on: FailOn,

    /// How the result is printed.
    #[arg(long, env = "TRUETAPE_FORMAT", value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// Variable that holds the target's API key. Credentials never come from the capture.
    #[arg(long, env = "TRUETAPE_API_KEY_ENV", value_name = "NAME")]
    pub api_key_env: Option<String>,
}

/// How a target is connected to.
#[derive(Clone, Debug, Default, Args)]
pub struct ConnectionArgs {
    /// Which HTTP is spoken; `auto` is HTTP/2 where TLS agrees on it.
    #[arg(long, env = "TRUETAPE_HTTP", value_enum, default_value_t = HttpVersion::One)]
    pub http: HttpVersion,

    /// Authorities that the certificate of an https target must come from; the machine's by default.
    #[arg(long, env = "TRUETAPE_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

    /// Take any certificate of an https target: whoever answers is measured, and gets the prompts.
    #[arg(long)]
    pub insecure_any_certificate: bool,
}

/// Which HTTP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    #[value(name = "1.1")]
    One,
    /// HTTP/2, with prior knowledge where there is no TLS.
    #[value(name = "2")]
    Two,
    /// What TLS agrees on; HTTP/1.1 without.
    Auto,
}

impl From<HttpVersion> for crate::client::Http {
    fn from(version: HttpVersion) -> Self {
        match version {
            HttpVersion::One => Self::One,
            HttpVersion::Two => Self::Two,
            HttpVersion::Auto => Self::Auto,
        }
    }
}

/// The header that carries a session unless `--session-header` says otherwise.
pub const DEFAULT_SESSION_HEADER: &str = "x-session-id";

/// What decides when a turn is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pacing {
    /// At `max(due, end of dependency + think time)`: open loop across sessions, closed inside.
    Hybrid,
    /// At the end of its dependency + think time; only first turns have a due time.
    Closed,
    /// When it is due, whatever the target does.
    Open,
}

/// How the length of answers is controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// The recorded length exactly: `min_tokens = max_tokens = recorded`, `ignore_eos`, no stop strings.
    Enforce,
    /// At most the recorded length.
    Cap,
    /// Whatever the recorded request asked for.
    AsRecorded,
}

/// What the prefix cache may know of earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cache {
    /// Nothing: every request carries the run's salt as `cache_salt`; sharing inside the run survives.
    Salted,
    /// Nothing: the target's prefix cache is reset before the run.
    Flush,
    /// Whatever it holds.
    AsIs,
}

/// Which connection carries which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Connections {
    /// Whichever is idle, as HTTP clients do.
    Pool,
    /// A new one for each.
    Fresh,
    /// As in production: those that shared a connection share one here.
    Recorded,
}

impl From<Connections> for crate::client::Reuse {
    fn from(connections: Connections) -> Self {
        match connections {
            Connections::Pool => Self::Pool,
            Connections::Fresh => Self::Fresh,
            Connections::Recorded => Self::Recorded,
        }
    }
}

/// Whose answers a session's history carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum History {
    /// Production's, as recorded.
    Recorded,
    /// The target's own. Not built yet.
    Live,
}

/// Which verdict makes the answer no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// FAIL.
    Fail,
    /// FAIL or UNKNOWN.
    Unknown,
    /// None.
    Never,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// For documents.
    Markdown,
}

/// Find out what a target is and does: caching, salts, lengths, usage, memory.
#[derive(Clone, Debug, Args)]
pub struct ProbeArgs {
    /// Server to ask, as in `http://127.0.0.1:8000`.
    #[arg(value_name = "URL", env = "TRUETAPE_TARGET")]
    pub target: String,

    /// Model to ask for; the first that the target lists by default.
    #[arg(long, env = "TRUETAPE_MODEL", value_name = "NAME")]
    pub model: Option<String>,

    /// Checks whose verdicts make the verdict.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "caching",
        value_name = "CHECK"
    )]
    pub require: Vec<ProbeCheck>,

    /// Exit 1 when the verdict is this or worse.
    #[arg(long, env = "TRUETAPE_FAIL_ON", value_enum, default_value_t = FailOn::Fail)]
    pub fail_on: FailOn,

    /// How the result is printed.
    #[arg(long, env = "TRUETAPE_FORMAT", value_enum, default_value_t = Format::Text)]
    pub format: Format,

    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Variable that holds the target's API key.
    #[arg(long, env = "TRUETAPE_API_KEY_ENV", value_name = "NAME")]
    pub api_key_env: Option<String>,
}

/// What a probe finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProbeCheck {
    /// Prefixes are cached.
    Caching,
    /// `cache_salt` keeps prefixes apart.
    Salt,
    /// Output lengths can be forced.
    Lengths,
    /// Usage is told in a stream.
    Usage,
}

impl ProbeCheck {
    /// Its name in the result.
    pub fn name(self) -> &'static str {
        match self {
            Self::Caching => "caching",
            Self::Salt => "salt",
            Self::Lengths => "lengths",
            Self::Usage => "usage",
        }
    }
}

/// The word of a flag's value, as it is typed and as `run.json` holds it.
pub fn word<T: ValueEnum>(value: T) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}
