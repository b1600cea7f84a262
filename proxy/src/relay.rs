//! A client of HTTP/1 and an upstream of HTTP/1, joined.
//!
//! Each client connection has one connection to the upstream. Bytes pass as they came: heads are
//! read where they lie, bodies are followed to know where they end, and the recorder is told what
//! they hold. What cannot be read passes too, unlooked at. A side that ends, or is reset, ends or
//! resets the other: what happens between client and upstream is what would happen without us.
//!
//! Read in this order: [`framing`] and [`head`], what a message says; [`lane`] and [`flow`], a side
//! and a direction; [`asked`] and [`exchange`], one request
//! and its response; [`refuse`], the one answer that is
//! ours; then here, one exchange after the other.

pub mod asked;
pub mod exchange;
pub mod flow;
pub mod framing;
pub mod head;
pub mod lane;
pub mod refuse;

use crate::connection::Connection;
use crate::io::{self, Busy};
use crate::limits;
use crate::metrics::Metric;
use crate::protocol::Protocol;
use crate::tls::Offer;
use crate::upward::UpstreamIo;
use bytes::BytesMut;
use exchange::{Ended, Exchange};
use head::Found;
use lane::Lane;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Serves a client until its connection ends, drains or is cut. `first`: what was read of it to
/// learn what it speaks.
pub async fn serve<I>(io: I, first: BytesMut, stream: &Arc<TcpStream>, connection: Arc<Connection>)
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let cut = connection.shared.cut.child_token();
    let relay = Relay {
        client: Lane::new(io, first),
        upstream: None,
        stream,
        connection: &connection,
        sequence: 0,
    };
    cut.run_until_cancelled(relay.run()).await;
}

/// Both connections.
struct Relay<'c, I> {
    client: Lane<I>,
    upstream: Option<Lane<UpstreamIo>>,
    /// The client's socket.
    stream: &'c TcpStream,
    connection: &'c Connection,
    sequence: i32,
}

/// What a client does next.
enum Next {
    /// It asks.
    Request,
    /// It says what is no request.
    Foreign,
    /// It is gone, or its upstream is, or the proxy drains.
    Nothing,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Relay<'_, I> {
    async fn run(mut self) {
        loop {
            match self.next().await {
                Next::Request => {}
                Next::Foreign => return self.unread().await,
                Next::Nothing => return self.close().await,
            }
            match self.exchange().await {
                Ended::Whole => {}
                Ended::Last { unread } => {
                    if unread {
                        self.linger().await;
                    }
                    return self.close().await;
                }
                Ended::Reset => return io::reset(self.stream),
                // Closed as it is: what lies upon it does not say its end either.
                Ended::Torn => return,
                Ended::Left => {
                    if let Some(upstream) = &self.upstream {
                        upstream.io.reset();
                    }
                    return;
                }
                Ended::Tunnel => return self.join().await,
                Ended::Unread => return self.unread().await,
            }
            if self.connection.shared.drain.is_cancelled() {
                return self.close().await;
            }
        }
    }

    /// Waits for a whole head.
    async fn next(&mut self) -> Next {
        let drain = self.connection.shared.drain.child_token();
        let mut drained = pin!(drain.cancelled());
        let mut idle = pin!(tokio::time::sleep(limits::CLIENT_IDLE_MAX));
        self.client.rest();
        if let Some(upstream) = &mut self.upstream {
            upstream.rest();
        }
        let (client, upstream) = (&mut self.client, &mut self.upstream);
        let mut looked = 0;
        poll_fn(|cx| {
            loop {
                if client.read.len() > looked {
                    match head::is_request(&client.read, looked) {
                        Found::Head(()) => return Poll::Ready(Next::Request),
                        Found::Foreign => return Poll::Ready(Next::Foreign),
                        Found::Part => looked = client.read.len(),
                    }
                }
                match client.poll_read(cx) {
                    Poll::Ready(Ok(0)) if is_blank(&client.read) => {
                        return Poll::Ready(Next::Nothing);
                    }
                    Poll::Ready(Ok(0)) => return Poll::Ready(Next::Foreign),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(Next::Nothing),
                    Poll::Pending => break,
                }
            }
            if let Some(upstream) = upstream
                && poll_unasked(client, upstream, cx).is_ready()
            {
                return Poll::Ready(Next::Nothing);
            }
            let idle = idle.as_mut().poll(cx).is_ready();
            if idle || is_blank(&client.read) && drained.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Next::Nothing);
            }
            Poll::Pending
        })
        .await
    }

    /// One request and its response.
    async fn exchange(&mut self) -> Ended {
        let (connection, sequence) = (self.connection, self.sequence);
        self.sequence = sequence.saturating_add(1);
        let clock = connection.shared.recorder.clock();
        let (_busy, arrival_us) = Busy::begin(&connection.traffic, Protocol::Http1, clock);
        connection.shared.metrics.count(Metric::Requests);
        let Some(exchange) = Exchange::begin(connection, sequence, arrival_us, &self.client.read)
        else {
            return Ended::Tunnel;
        };
        if self.is_stale().await {
            connection.shared.metrics.count(Metric::UpstreamReplaced);
            self.upstream = None;
        }
        if self.upstream.is_none() {
            match self.connect().await {
                Some(Ok(io)) => self.upstream = Some(Lane::new(io, BytesMut::new())),
                Some(Err(why)) => return exchange.refuse(&mut self.client, why).await,
                None => return Ended::Left,
            }
        }
        match &mut self.upstream {
            Some(upstream) => exchange.run(&mut self.client, upstream, self.stream).await,
            None => Ended::Left,
        }
    }

    /// Whether the upstream has ended the connection since its last exchange. Not a byte of the next
    /// one was written, so that it can go over another.
    async fn is_stale(&mut self) -> bool {
        let Some(upstream) = &mut self.upstream else {
            return false;
        };
        poll_fn(|cx| {
            let came = upstream.poll_read(cx);
            Poll::Ready(matches!(came, Poll::Ready(Ok(0) | Err(_))))
        })
        .await
    }

    /// Opens a connection to the upstream, unless the client leaves meanwhile.
    async fn connect(&self) -> Option<Result<UpstreamIo, &'static str>> {
        let (shared, destination) = (&self.connection.shared, &self.connection.destination);
        shared.metrics.count(Metric::UpstreamConnects);
        tokio::select! {
            biased;
            connected = destination.connect(Offer::Http1) => Some(connected.map_err(|cause| {
                shared.unreachable(&destination.authority, &cause);
                cause.name()
            })),
            () = gone(self.stream) => None,
        }
    }

    /// Joins both sides because it is not known what they say.
    async fn unread(self) {
        let metrics = &self.connection.shared.metrics;
        metrics.count(Metric::ProtocolErrors);
        metrics.count(Metric::Opaque);
        self.join().await;
    }

    /// Joins both sides to the end: what passes is no exchange.
    async fn join(mut self) {
        if self.upstream.is_none() {
            match self.connect().await {
                Some(Ok(io)) => self.upstream = Some(Lane::new(io, BytesMut::new())),
                Some(Err(_)) | None => return,
            }
        }
        let Some(mut upstream) = self.upstream else {
            return;
        };
        let (down, up) = (upstream.read.split(), self.client.read.split());
        let joined = async {
            poll_fn(|cx| self.client.poll_write(cx)).await?;
            poll_fn(|cx| upstream.poll_write(cx)).await?;
            crate::tunnel::copy(&mut self.client.io, &mut upstream.io, &down, &up).await
        };
        let joined = joined.await;
        if matches!(&joined, Err(cause) if cause.kind() == std::io::ErrorKind::ConnectionReset) {
            // One of them was reset: so is the other, and the first does not mind.
            io::reset(self.stream);
            upstream.io.reset();
        }
        crate::tunnel::told(joined);
    }

    /// Ends the client's connection once it has taken what is for it.
    async fn close(mut self) {
        let closing = async {
            poll_fn(|cx| self.client.poll_write(cx)).await?;
            self.client.io.shutdown().await
        };
        if let Err(cause) = closing.await {
            tracing::debug!(%cause, "a client was gone before its connection ended");
        }
    }

    /// Takes what a client still sends to an upstream that is gone: a socket that is closed over
    /// unread bytes is reset, and the response with it.
    async fn linger(&mut self) {
        let (mut left, mut ended) = (limits::LINGER_BYTES_MAX, false);
        let taking = poll_fn(|cx| {
            if !ended && self.client.poll_write(cx)?.is_ready() {
                ended = self.client.poll_end(cx)?.is_ready();
            }
            loop {
                self.client.read.clear();
                match self.client.poll_read(cx)? {
                    Poll::Ready(0) => return Poll::Ready(std::io::Result::Ok(())),
                    Poll::Ready(count) if count < left => left -= count,
                    Poll::Ready(_) => return Poll::Ready(Ok(())),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        // However that ends, the connection does.
        drop(tokio::time::timeout(limits::LINGER_WITHIN, taking).await);
    }
}

/// Passes on what an upstream says unasked; it may end an idle connection, and say why. Ready once
/// either side is gone.
fn poll_unasked<I>(
    client: &mut Lane<I>,
    upstream: &mut Lane<UpstreamIo>,
    cx: &mut Context<'_>,
) -> Poll<()>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        if ready!(client.poll_write(cx)).is_err() {
            return Poll::Ready(());
        }
        if !upstream.read.is_empty() {
            client.put(upstream.read.split().freeze());
        } else if !matches!(ready!(upstream.poll_read(cx)), Ok(1..)) {
            return Poll::Ready(());
        }
    }
}

/// Whether nothing was said: some clients end a body with a line of its own.
fn is_blank(read: &[u8]) -> bool {
    read.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}

/// Waits until a client that has no upstream yet is taken to be gone. One that ended its side may
/// still wait for its answer, but nobody can ask it: it gets as long as a connection usually takes.
async fn gone(stream: &TcpStream) {
    if io::left(stream).await == io::Left::Ended {
        let within = limits::CONNECT_AFTER_END_WITHIN;
        // Over either way.
        drop(tokio::time::timeout(within, io::broken(stream)).await);
    }
}
