//! One connection, driven by the task that uses it.
//!
//! hyper wants a connection to be polled beside its requests. The usual way is a task of its own;
//! then every frame crosses from one task to another before it is timed. Here the exchange polls
//! the connection itself: a frame is stamped in the same poll that read it.
//!
//! A connection carries one exchange at a time, over HTTP/2 too.

use super::Http;
use super::socket::{Socket, Written};
use super::tls::Tls;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::TokioExecutor;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Time a connection attempt may take, its handshake included.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// An idle connection is not used again after this. Common servers close theirs after five seconds;
/// a request that meets the close halfway would fail, and nobody could say whether it was served.
const IDLE_TIME_MAX: Duration = Duration::from_secs(3);

/// Bytes read from the socket at once at most: several events, but not a whole long answer.
const READ_BUFFER_BYTES_MAX: usize = 256 * 1024;

/// A peer that is silent for so long is asked whether it is still there: one that vanished without a
/// word would hold its exchange for ever.
const SILENCE: Duration = Duration::from_secs(30);

/// Between two such questions, and how many stay unanswered: a vanished peer is found after 75 s.
const QUESTION_EVERY: Duration = Duration::from_secs(15);
const QUESTIONS: u32 = 3;

type Body = Full<Bytes>;
type Request = http::Request<Body>;
type Response = http::Response<Incoming>;

enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

enum Conn {
    Http1(Pin<Box<http1::Connection<Socket, Body>>>),
    Http2(Pin<Box<http2::Connection<Socket, Body, TokioExecutor>>>),
}

/// A connection and its sender.
pub(super) struct Link {
    sender: Sender,
    pub(super) written: Written,
    /// Exchanges it has carried.
    pub(super) carried: u32,
    /// `None` once it has ended.
    conn: Option<Conn>,
    idle_since: Instant,
}

impl Link {
    /// Connects to the first address that answers.
    pub(super) async fn connect(
        addresses: &[SocketAddr],
        tls: Option<&Tls>,
        http: Http,
    ) -> Result<Self, String> {
        let connecting = Self::connect_at_leisure(addresses, tls, http);
        tokio::time::timeout(CONNECT_TIME_MAX, connecting)
            .await
            .unwrap_or_else(|_| Err(format!("no connection after {CONNECT_TIME_MAX:?}")))
    }

    async fn connect_at_leisure(
        addresses: &[SocketAddr],
        tls: Option<&Tls>,
        http: Http,
    ) -> Result<Self, String> {
        let stream = TcpStream::connect(addresses).await;
        let stream = stream.map_err(|cause| cause.to_string())?;
        // Nagle's algorithm would hold the end of a request back until the start is acknowledged.
        stream
            .set_nodelay(true)
            .map_err(|cause| cause.to_string())?;
        keep_alive(&stream);
        let (socket, is_http2) = match tls {
            None => (Socket::plain(stream), http == Http::Two),
            Some(tls) => {
                let (stream, is_http2) = tls.shake_hands(stream).await?;
                (Socket::tls(stream), is_http2 || http == Http::Two)
            }
        };
        let written = socket.written();
        let (sender, conn) = if is_http2 {
            let builder = http2::Builder::new(TokioExecutor::new());
            let shaken = builder.handshake(socket).await;
            let (sender, conn) = shaken.map_err(|cause| cause.to_string())?;
            (Sender::Http2(sender), Conn::Http2(Box::pin(conn)))
        } else {
            let shaken = http1::Builder::new()
                .max_buf_size(READ_BUFFER_BYTES_MAX)
                .handshake(socket)
                .await;
            let (sender, conn) = shaken.map_err(|cause| cause.to_string())?;
            (Sender::Http1(sender), Conn::Http1(Box::pin(conn)))
        };
        Ok(Self {
            sender,
            written,
            carried: 0,
            conn: Some(conn),
            idle_since: Instant::now(),
        })
    }

    /// Whether it speaks HTTP/2, whose requests name their server in another way.
    pub(super) fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(
        &mut self,
        request: Request,
    ) -> Result<Response, TrySendError<Request>> {
        match &mut self.sender {
            Sender::Http1(sender) => {
                let answer = sender.try_send_request(request);
                drive(&mut self.conn, answer).await
            }
            Sender::Http2(sender) => {
                let answer = sender.try_send_request(request);
                drive(&mut self.conn, answer).await
            }
        }
    }

    /// Waits for something that the connection brings, driving the connection meanwhile.
    pub(super) async fn drive<F: Future>(&mut self, awaited: F) -> F::Output {
        drive(&mut self.conn, awaited).await
    }

    /// Whether it has been idle for so short a time that no common server closes it just now.
    pub(super) fn is_fresh(&self) -> bool {
        self.idle_since.elapsed() <= IDLE_TIME_MAX
    }

    /// Whether it can carry another exchange. Looks at the socket once, so that a close that has
    /// arrived is seen.
    pub(super) async fn is_usable(&mut self) -> bool {
        std::future::poll_fn(|cx| {
            poll(&mut self.conn, cx);
            let ready = match &self.sender {
                Sender::Http1(sender) => sender.is_ready(),
                Sender::Http2(sender) => sender.is_ready(),
            };
            Poll::Ready(self.conn.is_some() && ready)
        })
        .await
    }

    /// Takes note that an exchange is over.
    pub(super) fn rest(&mut self) {
        self.carried = self.carried.saturating_add(1);
        self.idle_since = Instant::now();
    }
}

async fn drive<F: Future>(conn: &mut Option<Conn>, awaited: F) -> F::Output {
    let mut awaited = pin!(awaited);
    std::future::poll_fn(|cx| {
        poll(conn, cx);
        awaited.as_mut().poll(cx)
    })
    .await
}

fn poll(conn: &mut Option<Conn>, cx: &mut Context<'_>) {
    // An error of the connection reaches whoever waits for its answer, through hyper.
    let ended = match conn {
        Some(Conn::Http1(conn)) => conn.as_mut().poll(cx).is_ready(),
        Some(Conn::Http2(conn)) => conn.as_mut().poll(cx).is_ready(),
        None => return,
    };
    if ended {
        *conn = None;
    }
}

fn keep_alive(stream: &TcpStream) {
    let questions = socket2::TcpKeepalive::new()
        .with_time(SILENCE)
        .with_interval(QUESTION_EVERY)
        .with_retries(QUESTIONS);
    let asked = socket2::SockRef::from(stream).set_tcp_keepalive(&questions);
    if let Err(cause) = asked {
        tracing::debug!(%cause, "could not ask for keep-alive");
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("carried", &self.carried)
            .finish_non_exhaustive()
    }
}
