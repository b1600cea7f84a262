//! The listener, and one task for each client connection.

use crate::connection::Connection;
use crate::io::{ClientIo, Traffic};
use crate::metrics::Metric;
use crate::protocol::{Client, Protocol, Wanted};
use crate::route::{Destination, Route};
use crate::server::Shared;
use crate::sniff::{self, Spoken};
use crate::tls::{self, Inbound};
use crate::workers::Workers;
use crate::{http1, http2, limits, link, relay, tunnel};
use bytes::BytesMut;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;

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
        let arrived = Arrived {
            shared: Arc::clone(&shared),
            traffic: Traffic::new(),
            destination,
            id,
        };
        let served = workers.serve(&shared.tasks, stream, |stream| serve(stream, arrived));
        if let Err(cause) = served {
            tracing::warn!(%cause, "could not serve a connection");
        }
    }
}

/// A connection of which it is not yet known what it speaks.
struct Arrived {
    shared: Arc<Shared>,
    traffic: Arc<Traffic>,
    destination: Destination,
    id: i64,
}

/// Serves one connection until it ends, drains or is cut.
async fn serve(stream: TcpStream, arrived: Arrived) {
    if let Err(cause) = link::tune(&stream) {
        tracing::debug!(%cause, "a client was gone before its first request");
        return;
    }
    let stream = Arc::new(stream);
    let io = ClientIo::new(
        Arc::clone(&stream),
        Arc::clone(&arrived.traffic),
        Arc::clone(&arrived.shared.recorder),
    );
    match arrived.destination.route().inbound.clone() {
        None => in_cleartext(io, &stream, arrived).await,
        Some(inbound) => {
            if let Some(io) = shake_hands(&inbound, io, &stream, &arrived).await {
                let (_, session) = io.get_ref();
                arrived.destination.asked(session.server_name());
                let protocol = match session.alpn_protocol() {
                    Some(tls::H2) => Protocol::Http2,
                    _ => Protocol::Http1,
                };
                // The bytes of the handshake were no request.
                arrived.traffic.rearm();
                let client = Client {
                    protocol,
                    tls: true,
                };
                over(io, BytesMut::new(), &stream, client, arrived).await;
            }
        }
    }
}

/// Serves what the first line says, or joins both sides when it says nothing that is known.
async fn in_cleartext(mut io: ClientIo, stream: &Arc<TcpStream>, arrived: Arrived) {
    let mut seen = BytesMut::new();
    let spoken = tokio::select! {
        biased;
        spoken = sniff::read(&mut io, &mut seen) => spoken,
        () = arrived.shared.drain.cancelled() => return,
        () = tokio::time::sleep(limits::SILENCE_MAX) => {
            tunnel::silent(&mut io, &mut seen, &arrived.shared, &arrived.destination).await
        }
    };
    match spoken {
        Ok(Some(Spoken::Http(protocol))) => {
            let client = Client {
                protocol,
                tls: false,
            };
            over(io, seen, stream, client, arrived).await;
        }
        Ok(Some(Spoken::Unknown)) => {
            tunnel::opaque(io, seen.freeze(), &arrived.shared, &arrived.destination).await;
        }
        Ok(None) => {}
        Err(cause) => tracing::debug!(%cause, "a client was gone before its first request"),
    }
}

/// Shakes hands with a client. A connection that ends before its first byte, or never sends one, is
/// a probe of the port.
async fn shake_hands(
    inbound: &Inbound,
    io: ClientIo,
    stream: &TcpStream,
    arrived: &Arrived,
) -> Option<TlsStream<ClientIo>> {
    let shared = &arrived.shared;
    let mut byte = [0];
    let first = tokio::time::timeout(limits::TLS_HANDSHAKE_WITHIN, stream.peek(&mut byte));
    let Some(Ok(Ok(1..))) = shared.drain.run_until_cancelled(first).await else {
        return None;
    };
    let shaking = inbound.shake_hands(io, limits::TLS_HANDSHAKE_WITHIN);
    match shared.cut.run_until_cancelled(shaking).await? {
        Ok(io) => Some(io),
        Err(cause) => {
            shared.handshake_failed(arrived.destination.route(), &cause);
            None
        }
    }
}

/// Serves what is spoken over a client's socket, or over what lies upon it.
async fn over<I>(io: I, first: BytesMut, stream: &Arc<TcpStream>, client: Client, arrived: Arrived)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Arrived {
        shared,
        traffic,
        destination,
        id,
    } = arrived;
    let connection = Connection::new(&shared, &traffic, destination, client, id);
    let connection = Arc::new(connection);
    // Each in a box of its own: a connection must not pay for the largest of them.
    match (client.protocol, connection.wanted) {
        (Protocol::Http1, Wanted::Http1) => {
            Box::pin(relay::serve(io, first, stream, connection)).await;
        }
        (Protocol::Http1, _) => {
            Box::pin(http1::serve(io, first.freeze(), stream, connection)).await;
        }
        (Protocol::Http2, _) => {
            Box::pin(http2::serve(io, first.freeze(), stream, connection)).await;
        }
    }
}
