//! An inference server over the reference engine model, in real time.
//!
//! Read in this order:
//!
//! 1. [`config`]: what it is made of;
//! 2. `ask`: what a request body asks for, or why it is refused;
//! 3. `speech`: what the model says;
//! 4. `driver`: the thread that steps the model and sleeps through its steps;
//! 5. `events`, `stream` and `whole`: answers as they go over the wire;
//! 6. `metrics`: the counters, under vLLM's names;
//! 7. `routes`: paths to handlers.
//!
//! Requests go to the driver through one bounded queue; each brings a cell that always holds the
//! newest state of its answer. What the model says follows from the request alone, so the state is
//! a count: a client that reads slowly costs neither time nor memory, and loses nothing.

use crate::error::Error;
use config::Config;
use driver::Driver;
use http_body_util::combinators::BoxBody;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use routes::Server;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use truetape_schemas::blame::Answer;

mod ask;
pub mod config;
mod driver;
mod events;
mod metrics;
mod refusal;
mod routes;
mod speech;
mod stream;
mod whole;

/// A body on its way out. It fails when the engine stops before the answer is whole.
type Outgoing = BoxBody<Bytes, std::io::Error>;

/// Pause after a failed accept: without file descriptors, the next one would fail as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running engine stub.
#[derive(Debug)]
pub struct Handle {
    /// Where it listens.
    pub addr: SocketAddr,
    stopping: CancellationToken,
    cutting: CancellationToken,
    cut: Arc<AtomicU64>,
    tasks: TaskTracker,
    driver: std::thread::JoinHandle<()>,
    drain_timeout: Duration,
}

impl Handle {
    /// Stops: no new connections, open answers may end within the drain timeout. Returns how many
    /// connections had to be cut.
    pub async fn shutdown(self) -> u64 {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(self.drain_timeout, self.tasks.wait())
            .await
            .is_err()
        {
            self.cutting.cancel();
            self.tasks.wait().await;
        }
        // With the last connection the last sender is gone: the driver ends by itself, at the
        // latest with its current step.
        let joined = tokio::task::spawn_blocking(|| self.driver.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the engine's thread ended badly");
        }
        self.cut.load(Ordering::Relaxed)
    }
}

/// Runs an engine stub until SIGTERM or SIGINT.
pub fn run(config: Config) -> Result<Answer, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|cause| Error::Runtime { cause })?;
    runtime.block_on(async {
        let mut terminate =
            signal(SignalKind::terminate()).map_err(|cause| Error::Runtime { cause })?;
        let mut interrupt =
            signal(SignalKind::interrupt()).map_err(|cause| Error::Runtime { cause })?;
        let handle = start(config).await?;
        tracing::info!(listen = %handle.addr, "listening");
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        match handle.shutdown().await {
            0 => Ok(Answer::Yes),
            connections => Err(Error::DrainCut { connections }),
        }
    })
}

/// Starts an engine stub in this process; it accepts connections when this returns.
pub async fn start(config: Config) -> Result<Handle, Error> {
    config.check()?;
    let address = config.listen;
    let listen = |cause| Error::Listen { address, cause };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let addr = listener.local_addr().map_err(listen)?;
    let (driver, client) = Driver::new(&config);
    let driver = std::thread::Builder::new()
        .name("engine".to_owned())
        .spawn(move || driver.run())
        .map_err(|cause| Error::Runtime { cause })?;
    let handle = Handle {
        addr,
        stopping: CancellationToken::new(),
        cutting: CancellationToken::new(),
        cut: Arc::new(AtomicU64::new(0)),
        tasks: TaskTracker::new(),
        driver,
        drain_timeout: config.drain_timeout,
    };
    let connections = Connections {
        server: Arc::new(Server::new(config, client)),
        stopping: handle.stopping.clone(),
        cutting: handle.cutting.clone(),
        cut: Arc::clone(&handle.cut),
    };
    handle
        .tasks
        .spawn(accept(listener, connections, handle.tasks.clone()));
    Ok(handle)
}

/// What every connection needs.
#[derive(Clone)]
struct Connections {
    server: Arc<Server>,
    stopping: CancellationToken,
    cutting: CancellationToken,
    cut: Arc<AtomicU64>,
}

async fn accept(listener: TcpListener, connections: Connections, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = connections.stopping.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                tasks.spawn(serve(stream, connections.clone()));
            }
            Err(cause) => {
                tracing::warn!(%cause, "cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, connections: Connections) {
    // One token is one small write: it must not wait for the next one.
    if let Err(cause) = stream.set_nodelay(true) {
        tracing::debug!(%cause, "a connection was gone before it was served");
        return;
    }
    let server = Arc::clone(&connections.server);
    let service = hyper::service::service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, std::convert::Infallible>(server.answer(request).await) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = connections.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = connections.cutting.cancelled() => {
                    connections.cut.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
    };
    if let Err(cause) = ended {
        // Clients leave in the middle of an answer: that is what the driver cancels for.
        tracing::debug!(%cause, "a connection ended");
    }
}
