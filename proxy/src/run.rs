//! The proxy as a process: settings, signals, exit.

use crate::cli::RecordArgs;
use crate::config::{self, Config};
use crate::error::Error;
use crate::metrics::Metric;
use crate::route::Routes;
use crate::server::{self, Ended, Shared};
use crate::{limits, workers};
use std::io::Write as _;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinHandle, spawn_blocking};
use truetape_schemas::blame::Answer;

/// Runs a proxy until SIGTERM or SIGINT; a second signal cuts what is still open.
pub fn run(mut args: RecordArgs) -> Result<Answer, Error> {
    args.default_salt = Some(config::new_salt());
    let config = Config::resolve(&args)?;
    if args.print_config {
        // A reader that went away has seen enough.
        drop(std::io::stdout().write_all(config.print().as_bytes()));
        return Ok(Answer::Yes);
    }
    if args.check_config {
        Routes::load(&config, &Arc::default())?;
        return Ok(Answer::Yes);
    }
    quiet_panics();
    // The first worker; the others are threads of their own.
    let runtime = workers::runtime().map_err(|cause| Error::Runtime { cause })?;
    let served = runtime.block_on(serve(config, args));
    runtime.shutdown_timeout(limits::RUNTIME_WITHIN);
    let ended = served?;
    tracing::info!(
        offered = ended.ledger.offered,
        recorded = ended.ledger.recorded,
        degraded = ended.ledger.degraded,
        excluded = ended.ledger.excluded.values().sum::<u64>(),
        dropped = ended.ledger.dropped.values().sum::<u64>(),
        balances = ended.ledger.balances(),
        "stopped"
    );
    match ended {
        Ended {
            cut: exchanges @ 1..,
            ..
        } => Err(Error::DrainCut { exchanges }),
        Ended {
            unsealed: spools @ 1..,
            ..
        } => Err(Error::Unsealed { spools }),
        Ended { .. } => Ok(Answer::Yes),
    }
}

async fn serve(config: Config, args: RecordArgs) -> Result<Ended, Error> {
    let mut signals = Signals::new()?;
    let mut reload = on(SignalKind::hangup())?;
    let mut flush = on(SignalKind::user_defined1())?;
    let proxy = server::start(config).await?;
    let routes = proxy.routes();
    let upstream = routes
        .first()
        .and_then(|route| route.split_once('='))
        .map(|(_, upstream)| upstream);
    let directory = proxy.config().out.display().to_string();
    tracing::info!(
        listen = %proxy.listen_addr,
        admin = %proxy.admin_addr,
        upstream,
        routes = routes.join(", "),
        directory,
        "listening"
    );
    let (shared, args) = (proxy.shared(), Arc::new(args));
    let mut reloading = None;
    loop {
        tokio::select! {
            () = signals.next() => break,
            _ = flush.recv() => proxy.flush(),
            // Files may be on a disk that does not answer, which must not hold a thread that serves.
            // Another signal meanwhile is kept, and heard after this one.
            _ = reload.recv(), if reloading.is_none() => {
                let (shared, args) = (Arc::clone(&shared), Arc::clone(&args));
                reloading = Some(spawn_blocking(move || reload_settings(&shared, &args)));
            }
            () = ended(&mut reloading) => reloading = None,
        }
    }
    drop(shared);
    Ok(proxy.shutdown_or(async move { signals.next().await }).await)
}

async fn ended(reloading: &mut Option<JoinHandle<()>>) {
    match reloading {
        // One that panicked has said so.
        Some(reload) => drop(reload.await),
        None => std::future::pending().await,
    }
}

/// Settings are read again as they were at the start: flags and variables are what they were, the
/// files may say something else.
fn reload_settings(shared: &Shared, args: &RecordArgs) {
    let done = Config::resolve(args).and_then(|fresh| {
        shared.reload(&fresh)?;
        Ok(shared.config.left_by_reload(&fresh))
    });
    match done {
        Ok(left) => {
            shared.metrics.count(Metric::Reloads);
            tracing::info!("settings were reloaded");
            if !left.is_empty() {
                let settings = left.join(", ");
                tracing::warn!(settings, "some settings change at a restart only");
            }
        }
        Err(error) => {
            shared.metrics.count(Metric::ReloadFailures);
            tracing::error!(%error, "settings were not reloaded, what was in force stays");
        }
    }
}

fn on(kind: SignalKind) -> Result<Signal, Error> {
    signal(kind).map_err(|cause| Error::Runtime { cause })
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self, Error> {
        Ok(Self {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
        })
    }

    /// SIGINT counts too: it is what a person at a terminal sends.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// A panic message may quote what was being read. Only its place is told.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panicked");
    }));
}
