//! A client connection of HTTP/1 whose upstream speaks HTTP/2. One whose upstream speaks HTTP/1 too
//! is relayed: see [`crate::relay`].

use crate::body::Inbound;
use crate::connection::{Connection, Side};
use crate::expect::Gate;
use crate::forward;
use crate::interim::{Front, Interim};
use crate::io;
use crate::limits;
use crate::metrics::Metric;
use crate::pump::Cause;
use crate::server::Shared;
use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Serves it until it ends, drains or is cut. `first`: what was read of it to learn what it speaks.
pub async fn serve<I>(io: I, first: Bytes, stream: &Arc<TcpStream>, connection: Arc<Connection>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let _alive = connection.guard();
    let shared = Arc::clone(&connection.shared);
    let traffic = Arc::clone(&connection.traffic);
    let pair = Arc::clone(&connection.pair);
    let interim: Arc<Interim> = Arc::default();
    let front = Front::new(io, first, Arc::clone(&interim));
    let side = Side {
        interim,
        cause: Arc::<Cause>::default(),
        stall: Arc::clone(&traffic),
    };
    let sequence = AtomicI32::new(0);
    let socket = Arc::clone(stream);
    let service = service_fn(move |request: Request<Incoming>| {
        let sequence = sequence.fetch_add(1, Relaxed);
        let gate = Gate::of(request.headers(), &socket);
        let request = request.map(|body| Inbound::Http1(body, gate));
        forward::exchange(Arc::clone(&connection), sequence, side.clone(), request)
    });
    let mut serving = pin!(builder().serve_connection(TokioIo::new(front), service));
    let mut gone = pin!(io::left(stream));
    let mut left = pin!(pair.over(&traffic));
    let mut order = pin!(next_order(&shared.drain, &shared.cut, Step::Drain));
    let (mut watching, mut paired, mut ending) = (true, true, Step::Drain);
    loop {
        tokio::select! {
            biased;
            served = serving.as_mut() => {
                ended(&shared, served);
                return;
            }
            () = order.as_mut() => match ending {
                Step::Drain => {
                    serving.as_mut().graceful_shutdown();
                    ending = Step::Cut;
                    order.set(next_order(&shared.drain, &shared.cut, Step::Cut));
                }
                Step::Cut => return,
            },
            _ = gone.as_mut(), if watching => {
                // Dropping the connection drops its exchange, and with it the upstream's.
                if traffic.is_busy() {
                    return;
                }
                watching = false;
            }
            () = left.as_mut(), if paired => {
                // The upstream ended a connection that was idle, so the client's ends too: after
                // the exchange, should one have begun.
                serving.as_mut().graceful_shutdown();
                paired = false;
            }
        }
    }
}

/// What a connection is told to do.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// End once the exchanges are over.
    Drain,
    /// End.
    Cut,
}

/// Waits for the next order. A connection waits for one thing at a time: it is polled with every
/// frame.
pub async fn next_order(drain: &CancellationToken, cut: &CancellationToken, step: Step) {
    let (drain, cut) = (drain.child_token(), cut.child_token());
    match step {
        Step::Drain => drain.cancelled().await,
        Step::Cut => cut.cancelled().await,
    }
}

/// The server's side of HTTP/1.1, with every default that would show taken back.
fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits::CLIENT_IDLE_MAX)
        .preserve_header_case(true)
        .auto_date_header(false)
        .max_headers(limits::HEADERS_MAX)
        .half_close(false);
    builder
}

fn ended(shared: &Shared, served: hyper::Result<()>) {
    let Err(cause) = served else { return };
    if cause.is_parse() {
        shared.metrics.count(Metric::ProtocolErrors);
    }
    tracing::debug!(%cause, "a client connection ended early");
}
