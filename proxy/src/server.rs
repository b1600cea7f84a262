//! One proxy, from its first connection to its last segment.

use crate::admin;
use crate::capture::Capture;
use crate::config::Config;
use crate::error::Error;
use crate::limits;
use crate::metrics::{Metric, Metrics};
use crate::recorder::Recorder;
use crate::{accept, observe};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use truetape_schemas::ledger::Ledger;

/// What all connections share.
#[derive(Debug)]
pub struct Shared {
    /// The settings.
    pub config: Config,
    /// Takes exchanges.
    pub recorder: Arc<Recorder>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Tasks that shutdown waits for: connections, tunnels and uploads.
    pub tasks: TaskTracker,
    /// No more connections; those that are idle close, the others end their exchange.
    pub drain: CancellationToken,
    /// The deadline passed: everything closes as it is.
    pub cut: CancellationToken,
    last_complaint_us: AtomicI64,
}

impl Shared {
    /// The upstream cannot be reached: said once in a while, counted always.
    pub fn unreachable(&self, cause: &std::io::Error) {
        let now_us = self.recorder.clock().now_us();
        let every_us = i64::try_from(limits::LOSS_LOG_EVERY.as_micros()).unwrap_or(i64::MAX);
        let last_us = self.last_complaint_us.load(Relaxed);
        let due = last_us == 0 || now_us - last_us >= every_us;
        if due
            && self
                .last_complaint_us
                .compare_exchange(last_us, now_us, Relaxed, Relaxed)
                .is_ok()
        {
            let upstream = self.config.upstream.authority();
            tracing::warn!(%upstream, %cause, "upstream cannot be reached");
        }
    }
}

/// How a proxy ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The account of everything that arrived.
    pub ledger: Ledger,
    /// Exchanges and tunnels that the deadline cut.
    pub cut: u64,
    /// Spools that could not be sealed; the next start seals them.
    pub unsealed: u64,
}

/// A proxy that runs.
#[derive(Debug)]
pub struct Proxy {
    /// Where clients connect.
    pub listen_addr: SocketAddr,
    /// Where the admin pages are.
    pub admin_addr: SocketAddr,
    shared: Arc<Shared>,
    capture: Capture,
    accepting: JoinHandle<()>,
    background: TaskTracker,
    stopped: CancellationToken,
}

/// Starts a proxy on the current runtime.
pub async fn start(config: Config) -> Result<Proxy, Error> {
    let (listener, listen_addr) = bind(&config.listen).await?;
    let (admin_listener, admin_addr) = bind_admin(config.admin).await?;
    let (recorder, records) = Recorder::new(config.memory_budget, limits::QUEUE_RECORDS_MAX);
    let metrics = Arc::new(Metrics::default());
    let plan = observe::Plan::of(&config);
    let capture = Capture::start(&config, &recorder, &metrics, plan, records)?;
    let shared = Arc::new(Shared {
        config,
        recorder,
        metrics,
        tasks: TaskTracker::new(),
        drain: CancellationToken::new(),
        cut: CancellationToken::new(),
        last_complaint_us: AtomicI64::new(0),
    });
    let (background, stopped) = (TaskTracker::new(), CancellationToken::new());
    let accepting = background.spawn(accept::run(listener, Arc::clone(&shared)));
    let serving = admin::run(
        admin_listener,
        Arc::clone(&shared),
        capture.status(),
        stopped.clone(),
    );
    drop(background.spawn(serving));
    Ok(Proxy {
        listen_addr,
        admin_addr,
        shared,
        capture,
        accepting,
        background,
        stopped,
    })
}

impl Proxy {
    /// Stops taking connections, waits for open exchanges up to the deadline of the settings, and
    /// seals what was captured.
    pub async fn shutdown(self) -> Ledger {
        self.shutdown_or(std::future::pending()).await.ledger
    }

    /// The same; when `at_once` ends, what is still open is cut without waiting longer.
    pub async fn shutdown_or(self, at_once: impl Future<Output = ()>) -> Ended {
        let shared = self.shared;
        shared.drain.cancel();
        // Once it has ended, the port is closed.
        self.accepting.await.ok();
        shared.tasks.close();
        tracing::info!(open = shared.tasks.len(), "draining");
        tokio::select! {
            () = shared.tasks.wait() => {}
            () = tokio::time::sleep(shared.config.drain_timeout) => {}
            () = at_once => {}
        }
        let tunnels = shared.tasks.len() as u64;
        let cut = u64::try_from(shared.recorder.inflight())
            .unwrap_or(0)
            .max(tunnels);
        if cut > 0 {
            tracing::warn!(cut, "cutting what is still open");
        }
        shared.recorder.cut();
        shared.cut.cancel();
        shared.tasks.wait().await;
        let unsealed = self.capture.finish().await;
        self.stopped.cancel();
        self.background.close();
        self.background.wait().await;
        Ended {
            ledger: shared.recorder.account().snapshot(),
            cut,
            unsealed,
        }
    }

    /// The settings in force.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// A counter's value.
    pub fn count(&self, metric: Metric) -> u64 {
        self.shared.metrics.get(metric)
    }
}

/// A second proxy on a machine must not fail for a port that nobody asked for: the default gives way
/// to a free one, which the log names. An address that was chosen is that address, or an error.
async fn bind_admin(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    match bind(&address.to_string()).await {
        Err(Error::Listen { cause, .. })
            if cause.kind() == std::io::ErrorKind::AddrInUse
                && address.to_string() == limits::ADMIN =>
        {
            let free = SocketAddr::new(address.ip(), 0);
            tracing::warn!(%address, "the default admin port is taken, another one serves");
            bind(&free.to_string()).await
        }
        bound => bound,
    }
}

async fn bind(address: &str) -> Result<(TcpListener, SocketAddr), Error> {
    let listen = |cause| Error::Listen {
        address: address.to_owned(),
        cause,
    };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    Ok((listener, bound))
}
