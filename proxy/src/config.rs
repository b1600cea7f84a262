//! What the settings mean: parsed, bounded, cross-checked, or one good error.

mod keeping;
mod parse;
mod routes;
mod settings;
mod storage;

use crate::cli::RecordArgs;
use crate::error::Error;
use crate::limits;
use crate::protocol::UpstreamProtocol;
use crate::tls::{InboundFiles, OutboundFiles};
pub use keeping::{Keeping, Sampling};
use keeping::{content, keeping as kept};
use parse::{bytes, duration, mark, proxy_id, rows, workers};
use routes::routes;
use settings::Settings;
pub(crate) use settings::new_salt;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
pub use storage::Storage;
use truetape_schemas::ids::Digester;

/// What is kept of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes as sent.
    Full,
    /// Lengths and keyed hashes of messages, for text.
    Digest,
    /// Nothing; lengths, times and parameters are kept.
    None,
}

impl Content {
    /// The word in the footer: the policy, and the version of what it leaves.
    pub fn profile(self) -> &'static str {
        match self {
            Self::Full => "full/1",
            Self::Digest => "digest/1",
            Self::None => "none/1",
        }
    }
}

/// The server that requests are forwarded to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its host, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether it is spoken to over TLS.
    pub tls: bool,
}

impl Upstream {
    /// `host:port`, as in the column `upstream`.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Where the connections of a listener go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To one server.
    Server(Upstream),
    /// Each to where it was sent before it was redirected.
    OriginalDestination,
}

impl Target {
    /// What it is called in logs, digests and, where it is one server, the column `upstream`.
    pub fn name(&self) -> String {
        match self {
            Self::Server(upstream) => upstream.authority(),
            Self::OriginalDestination => "original destination".to_owned(),
        }
    }
}

/// One listener and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// Where clients connect.
    pub listen: String,
    /// Where their requests go.
    pub target: Target,
    /// TLS towards clients; without, they are spoken to in clear.
    pub inbound: Option<InboundFiles>,
    /// TLS towards the upstream; without, it is spoken to in clear.
    pub outbound: Option<OutboundFiles>,
}

/// The configuration of one proxy. It is passed, never global, and does not change while it runs.
#[derive(Clone, Debug)]
#[expect(
    missing_docs,
    reason = "every field is a setting, documented in cli::RecordArgs"
)]
pub struct Config {
    pub routes: Vec<RouteConfig>,
    pub so_mark: Option<u32>,
    pub upstream_protocol: UpstreamProtocol,
    pub out: PathBuf,
    pub admin: SocketAddr,
    pub admin_writes: bool,
    pub memory_budget: usize,
    pub body_bytes_max: usize,
    pub content: Content,
    pub keeping: Keeping,
    pub rotate_bytes: u64,
    pub rotate_rows: u64,
    pub rotate_every: Duration,
    pub fsync_every: Duration,
    pub storage: Storage,
    pub drain_timeout: Duration,
    pub workers: usize,
    pub session_headers: Vec<String>,
    pub proxy_id: String,
    printed: String,
}

/// Settings that SIGHUP changes while a proxy runs; the contents of certificate files too.
pub const RELOADED: &[&str] = &[
    "blobs",
    "content",
    "digest_key_file",
    "keep_header",
    "keep_model",
    "sample",
    "sample_salt",
    "session_header",
];

impl Config {
    /// Resolves what was typed: flags and variables over the file over defaults.
    pub fn resolve(args: &RecordArgs) -> Result<Self, Error> {
        let settings = Settings::merge(args)?;
        let memory_budget = bytes(&settings, "memory_budget", limits::MEMORY_BUDGET_MIN)?;
        let body_bytes_max = bytes(&settings, "body_bytes_max", 1)?;
        if body_bytes_max > limits::BODY_BYTES_LIMIT {
            return Err(Error::config(
                "body_bytes_max",
                "is more than 1GiB, the most a row may hold",
            ));
        }
        Ok(Self {
            routes: routes(&settings)?,
            so_mark: mark(settings.text("so_mark"))?,
            upstream_protocol: upstream_protocol(settings.text("upstream_protocol"))?,
            out: PathBuf::from(settings.required("out")?),
            admin: admin(&settings)?,
            admin_writes: settings.text("admin_writes") == "true",
            memory_budget,
            body_bytes_max,
            content: content(settings.text("content"))?,
            keeping: kept(&settings)?,
            rotate_bytes: bytes(&settings, "rotate_bytes", limits::ROTATE_BYTES_MIN)? as u64,
            rotate_rows: rows(&settings, "rotate_rows")?,
            rotate_every: duration(&settings, "rotate_every", limits::ROTATE_EVERY_MIN)?,
            fsync_every: duration(&settings, "fsync_every", limits::FSYNC_EVERY_MIN)?,
            storage: Storage::of(&settings)?,
            drain_timeout: duration(&settings, "drain_timeout", Duration::ZERO)?,
            workers: workers(&settings)?,
            session_headers: keeping::headers("session_header", settings.session_headers())?,
            proxy_id: proxy_id(settings.text("proxy_id"))?,
            printed: settings.print(),
        })
    }

    /// Headers that are kept beside those of the list.
    pub fn kept_headers(&self) -> Vec<String> {
        let names = self.session_headers.iter();
        names.chain(&self.keeping.headers).cloned().collect()
    }

    /// The same, with what may change while a proxy runs taken from `fresh`.
    pub fn keeping_as(&self, fresh: &Self) -> Self {
        Self {
            content: fresh.content,
            keeping: fresh.keeping.clone(),
            session_headers: fresh.session_headers.clone(),
            printed: fresh.printed.clone(),
            ..self.clone()
        }
    }

    /// Names of settings that differ in `fresh` and that a reload does not change.
    pub fn left_by_reload(&self, fresh: &Self) -> Vec<String> {
        fn lines(config: &Config) -> BTreeSet<&str> {
            config.printed.lines().collect()
        }
        let names = lines(self)
            .symmetric_difference(&lines(fresh))
            .filter_map(|line| line.split(" = ").next().map(str::to_owned))
            .collect::<BTreeSet<String>>();
        let left = |name: &String| !RELOADED.contains(&name.as_str());
        names.into_iter().filter(left).collect()
    }

    /// The settings in force as TOML, each with where it comes from.
    pub fn print(&self) -> &str {
        &self.printed
    }

    /// Names the configuration in footers: what a capture means depends on it.
    pub fn digest(&self) -> String {
        let mut digest = Digester::new();
        for route in &self.routes {
            digest.add(route.target.name().as_bytes());
        }
        digest.add(&(self.body_bytes_max as u64).to_le_bytes());
        digest.add(&(self.memory_budget as u64).to_le_bytes());
        digest.add(format!("{:?}", self.content).as_bytes());
        digest.add(format!("{:?}", self.keeping).as_bytes());
        for name in &self.session_headers {
            digest.add(name.as_bytes());
        }
        digest.finish()
    }
}

fn admin(settings: &Settings) -> Result<SocketAddr, Error> {
    let text = settings.text("admin");
    // Beyond loopback it shows counts to whoever can reach it, and takes no commands from there.
    text.parse().map_err(|_| {
        Error::config(
            "admin",
            format!("found {text:?}, expected an IP address and a port"),
        )
    })
}

fn upstream_protocol(text: &str) -> Result<UpstreamProtocol, Error> {
    let mut all = UpstreamProtocol::ALL.into_iter();
    all.find(|known| known.name() == text).ok_or_else(|| {
        let problem = format!("found {text:?}, expected http1, http2 or mirror");
        Error::config("upstream_protocol", problem)
    })
}

#[cfg(test)]
mod tests;
