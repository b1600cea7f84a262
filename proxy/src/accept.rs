//! The listener, and one task for each client connection.

use crate::forward::{self, Connection};
use crate::io::{self, ClientIo};
use crate::limits;
use crate::link;
use crate::metrics::Metric;
use crate::protocol::Protocol;
use crate::route::Route;
use crate::server::Shared;
use crate::tls::{self, Inbound};
use crate::workers::Workers;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// Takes connections until the proxy drains.
pub async fn run(
    listener: TcpListener,
    route: Arc<Route>,
    shared: Arc<Shared>,
    workers: Arc<Workers>,
) {
    let drain = shared.drain.clone();
    while let Some(accepted) = drain.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(cause) => {
                // Out of file descriptors, or a client that was gone already.
                tracing::warn!(%cause, "could not accept a connection");
                tokio::time::sleep(limits::ACCEPT_RETRY_AFTER).await;
                continue;
            }
        };
        shared.metrics.count(Metric::Connections);
        let Some(destination) = route.destination(&stream) else {
            shared.metrics.count(Metric::LoopsRefused);
            continue;
        };
        let id = shared.next_connection();
        let connection = Arc::new(Connection::new(&shared, destination, id));
        let served = workers.serve(&shared.tasks, stream, |stream| serve(stream, connection));
        if let Err(cause) = served {
            tracing::warn!(%cause, "could not serve a connection");
        }
    }
}

/// Serves one connection until it ends, drains or is cut.
async fn serve(stream: TcpStream, connection: Arc<Connection>) {
    if let Err(cause) = link::tune(&stream) {
        tracing::debug!(%cause, "a client was gone before its first request");
        return;
    }
    let stream = Arc::new(stream);
    let io = ClientIo::new(
        Arc::clone(&stream),
        Arc::clone(&connection.traffic),
        Arc::clone(&connection.shared.recorder),
    );
    match &connection.destination.route().inbound {
        None => over(io, &stream, Protocol::Http1, connection).await,
        Some(inbound) => {
            if let Some(io) = shake_hands(inbound, io, &stream, &connection).await {
                let (_, session) = io.get_ref();
                connection.destination.asked(session.server_name());
                let protocol = match session.alpn_protocol() {
                    Some(tls::H2) => Protocol::Http2,
                    _ => Protocol::Http1,
                };
                // The bytes of the handshake were no request.
                connection.traffic.rearm();
                over(io, &stream, protocol, connection).await;
            }
        }
    }
}

/// Shakes hands with a client. A connection that ends before its first byte is a probe of the port.
async fn shake_hands(
    inbound: &Inbound,
    io: ClientIo,
    stream: &TcpStream,
    connection: &Connection,
) -> Option<TlsStream<ClientIo>> {
    let shared = &connection.shared;
    let shaking = async {
        let mut byte = [0];
        let first = stream.peek(&mut byte);
        match shared.drain.run_until_cancelled(first).await {
            Some(Ok(1..)) => inbound.acceptor().accept(io).await.map(Some),
            _ => Ok(None),
        }
    };
    let shaking = tokio::time::timeout(limits::TLS_HANDSHAKE_WITHIN, shaking);
    let shaken = shared.cut.run_until_cancelled(shaking).await?;
    match shaken.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())) {
        Ok(io) => io,
        Err(cause) => {
            shared.handshake_failed(connection.destination.route(), &cause);
            None
        }
    }
}

/// Serves what is spoken over a client's socket, or over what lies upon it.
async fn over<I>(io: I, stream: &TcpStream, protocol: Protocol, connection: Arc<Connection>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match protocol {
        Protocol::Http1 => http1(io, stream, connection).await,
        Protocol::Http2 => tracing::debug!("HTTP/2 is not served yet"),
    }
}

async fn http1<I>(io: I, stream: &TcpStream, connection: Arc<Connection>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = Arc::clone(&connection.shared);
    let traffic = Arc::clone(&connection.traffic);
    let pair = Arc::clone(&connection.pair);
    let sequence = AtomicI32::new(0);
    let service = service_fn(move |request| {
        let sequence = sequence.fetch_add(1, Relaxed);
        forward::exchange(Arc::clone(&connection), sequence, request)
    });
    let mut serving = pin!(
        builder()
            .serve_connection(TokioIo::new(io), service)
            .with_upgrades()
    );
    let mut gone = pin!(io::gone(stream));
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
            () = gone.as_mut(), if watching => {
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

#[derive(Clone, Copy)]
enum Step {
    Drain,
    Cut,
}

/// Waits for the next order. A connection waits for one thing at a time: it is polled with every
/// frame.
async fn next_order(drain: &CancellationToken, cut: &CancellationToken, step: Step) {
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
