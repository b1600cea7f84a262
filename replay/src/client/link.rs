//! One connection, driven by the task that uses it.
//!
//! hyper wants a connection to be polled beside its requests. The usual way is a task of its own;
//! then every frame crosses from one task to another before it is timed. Here the exchange polls
//! the connection itself: a frame is stamped in the same poll that read it.

use super::socket::{Socket, Written};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Time a connection attempt may take.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// An idle connection is not used again after this. Common servers close theirs after five seconds;
/// a request that meets the close halfway would fail, and nobody could say whether it was served.
const IDLE_TIME_MAX: Duration = Duration::from_secs(3);

/// Bytes read from the socket at once at most: several events, but not a whole long answer.
const READ_BUFFER_BYTES_MAX: usize = 256 * 1024;

type Conn = Connection<Socket, Full<Bytes>>;

/// A connection and its sender.
pub(super) struct Link {
    pub(super) sender: SendRequest<Full<Bytes>>,
    pub(super) written: Written,
    /// Exchanges it has carried.
    pub(super) carried: u32,
    /// `None` once it has ended.
    conn: Option<Pin<Box<Conn>>>,
    idle_since: Instant,
}

impl Link {
    /// Connects to the first address that answers.
    pub(super) async fn connect(addresses: &[SocketAddr]) -> Result<Self, String> {
        let attempt = tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect(addresses)).await;
        let stream = match attempt {
            Ok(Ok(stream)) => stream,
            Ok(Err(cause)) => return Err(cause.to_string()),
            Err(_) => return Err(format!("no connection after {CONNECT_TIME_MAX:?}")),
        };
        // Nagle's algorithm would hold the end of a request back until the start is acknowledged.
        stream
            .set_nodelay(true)
            .map_err(|cause| cause.to_string())?;
        let socket = Socket::new(stream);
        let written = socket.written();
        let handshake = Builder::new()
            .max_buf_size(READ_BUFFER_BYTES_MAX)
            .handshake(socket)
            .await;
        let (sender, conn) = handshake.map_err(|cause| cause.to_string())?;
        let conn = Some(Box::pin(conn));
        Ok(Self {
            sender,
            written,
            carried: 0,
            conn,
            idle_since: Instant::now(),
        })
    }

    /// Waits for something that the connection brings, driving the connection meanwhile.
    pub(super) async fn drive<F: Future>(&mut self, awaited: F) -> F::Output {
        let mut awaited = pin!(awaited);
        std::future::poll_fn(|cx| {
            self.poll(cx);
            awaited.as_mut().poll(cx)
        })
        .await
    }

    /// Whether it can carry another exchange. Looks at the socket once, so that a close that has
    /// arrived is seen.
    pub(super) async fn is_usable(&mut self) -> bool {
        if IDLE_TIME_MAX < self.idle_since.elapsed() {
            return false;
        }
        std::future::poll_fn(|cx| {
            self.poll(cx);
            Poll::Ready(self.conn.is_some() && self.sender.is_ready())
        })
        .await
    }

    /// Takes note that an exchange is over.
    pub(super) fn rest(&mut self) {
        self.carried = self.carried.saturating_add(1);
        self.idle_since = Instant::now();
    }

    fn poll(&mut self, cx: &mut std::task::Context<'_>) {
        let Some(conn) = &mut self.conn else { return };
        // An error of the connection reaches whoever waits for its answer, through hyper.
        if conn.as_mut().poll(cx).is_ready() {
            self.conn = None;
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("carried", &self.carried)
            .finish_non_exhaustive()
    }
}
