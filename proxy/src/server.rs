//! One proxy, from its first connection to its last segment.

use crate::admin;
use crate::capture::Capture;
use crate::config::Config;
use crate::error::Error;
use crate::limits;
use crate::metrics::{Metric, Metrics};
use crate::recorder::Recorder;
use crate::route::{Route, Routes, Unreached};
use crate::swap::Swap;
use crate::tls::Changed;
use crate::workers::Workers;
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
    /// What rows are made by, and which headers are kept for them.
    pub plans: Arc<Swap<observe::Plan>>,
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
    /// Listeners and where they lead.
    pub routes: Routes,
    connections: AtomicI64,
    unreachable_said: Seldom,
    handshake_said: Seldom,
}

impl Shared {
    /// Numbers connections, over all listeners.
    pub fn next_connection(&self) -> i64 {
        self.connections.fetch_add(1, Relaxed)
    }

    /// Takes over what a reload may change: what is kept of what passes, which sessions are recorded,
    /// and certificates. All of it is checked first; a reload that fails changes nothing.
    pub fn reload(&self, fresh: &Config) -> Result<Changed, Error> {
        let config = self.config.keeping_as(fresh);
        let plan = observe::Plan::of(&config).after(&self.plans.get());
        let plan = Arc::new(plan.keyed(&config)?);
        let changed = self.routes.keeper.reload()?;
        self.plans.set(plan);
        Ok(changed)
    }

    /// The upstream cannot be reached: said once in a while, counted always.
    pub fn unreachable(&self, upstream: &str, cause: &Unreached) {
        match cause {
            Unreached::Tcp(_) => {}
            Unreached::Tls(_) => self.metrics.count(Metric::UpstreamTlsFailures),
            Unreached::Loop => self.metrics.count(Metric::LoopsRefused),
        }
        if self.unreachable_said.is_due(self.recorder.clock().now_us()) {
            tracing::warn!(upstream, %cause, "upstream cannot be reached");
        }
    }

    /// A client's handshake failed: the same.
    pub fn handshake_failed(&self, route: &Route, cause: &std::io::Error) {
        self.metrics.count(Metric::TlsHandshakeFailures);
        if self.handshake_said.is_due(self.recorder.clock().now_us()) {
            tracing::warn!(listen = route.listen, %cause, "a client's TLS handshake failed");
        }
    }
}

/// Keeps what repeats itself from filling the log.
#[derive(Debug, Default)]
struct Seldom(AtomicI64);

impl Seldom {
    fn is_due(&self, now_us: i64) -> bool {
        let every_us = i64::try_from(limits::LOSS_LOG_EVERY.as_micros()).unwrap_or(i64::MAX);
        let last_us = self.0.load(Relaxed);
        (last_us == 0 || now_us - last_us >= every_us)
            && self
                .0
                .compare_exchange(last_us, now_us, Relaxed, Relaxed)
                .is_ok()
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
    /// Where clients connect; with several routes, to the first.
    pub listen_addr: SocketAddr,
    /// Where clients connect, route by route.
    pub listen_addrs: Vec<SocketAddr>,
    /// Where the admin pages are.
    pub admin_addr: SocketAddr,
    shared: Arc<Shared>,
    capture: Capture,
    workers: Arc<Workers>,
    accepting: Vec<JoinHandle<()>>,
    background: TaskTracker,
    stopped: CancellationToken,
}

/// Starts a proxy on the current runtime.
pub async fn start(config: Config) -> Result<Proxy, Error> {
    let metrics = Arc::new(Metrics::default());
    let routes = Routes::load(&config, &metrics)?;
    let (listeners, listen_addrs) = listen(&routes).await?;
    let listen_addr = listen_addrs
        .first()
        .copied()
        .ok_or_else(|| Error::config("listen", "not set; pass --listen or --route"))?;
    let (admin_listener, admin_addr) = bind_admin(config.admin).await?;
    let (recorder, records) = Recorder::new(config.memory_budget, limits::QUEUE_RECORDS_MAX);
    let plan = observe::Plan::of(&config);
    let capture = Capture::start(&config, &recorder, &metrics, plan, records)?;
    let shared = Arc::new(Shared {
        plans: capture.plans(),
        config,
        recorder,
        metrics,
        tasks: TaskTracker::new(),
        drain: CancellationToken::new(),
        cut: CancellationToken::new(),
        routes,
        connections: AtomicI64::new(0),
        unreachable_said: Seldom::default(),
        handshake_said: Seldom::default(),
    });
    let workers = Arc::new(Workers::start(shared.config.workers)?);
    let (background, stopped) = (TaskTracker::new(), CancellationToken::new());
    let accept = |(listener, route): (_, &Arc<Route>)| {
        background.spawn(accept::run(
            listener,
            Arc::clone(route),
            Arc::clone(&shared),
            Arc::clone(&workers),
        ))
    };
    let accepting = listeners
        .into_iter()
        .zip(&shared.routes.all)
        .map(accept)
        .collect();
    let keeper = Arc::clone(&shared.routes.keeper);
    drop(background.spawn(keeper.watch(limits::TLS_LOOK_EVERY, stopped.clone())));
    let serving = admin::run(
        admin_listener,
        Arc::clone(&shared),
        capture.status(),
        stopped.clone(),
    );
    drop(background.spawn(serving));
    Ok(Proxy {
        listen_addr,
        listen_addrs,
        admin_addr,
        shared,
        capture,
        workers,
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
        // Once they have ended, the ports are closed.
        for accepting in self.accepting {
            accepting.await.ok();
        }
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
        // Nobody else has them: accepting has ended.
        if let Some(workers) = Arc::into_inner(self.workers) {
            workers.stop();
        }
        Ended {
            ledger: shared.recorder.account().snapshot(),
            cut,
            unsealed,
        }
    }

    /// Reads certificates, keys and authorities again; a reload that fails changes nothing.
    pub fn reload_tls(&self) -> Result<Changed, Error> {
        self.shared.routes.keeper.reload()
    }

    /// What connections share; a reload works on it from a thread that serves nobody.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Where each listener leads, as in `127.0.0.1:8001=127.0.0.1:8000`.
    pub fn routes(&self) -> Vec<String> {
        let routes = self.shared.routes.all.iter();
        let named = self.listen_addrs.iter().zip(routes);
        named
            .map(|(listen, route)| format!("{listen}={}", route.name()))
            .collect()
    }

    /// Asks for what is captured to be sealed now; see [`crate::capture::Status::flush`].
    pub fn flush(&self) {
        self.capture.status().flush();
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

/// Binds every listener before any takes a connection.
async fn listen(routes: &Routes) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), Error> {
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    for route in &routes.all {
        let (listener, address) = bind(&route.listen).await?;
        listeners.push(listener);
        addresses.push(address);
    }
    routes.listen(&addresses);
    Ok((listeners, addresses))
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
