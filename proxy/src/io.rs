//! The client's socket: when requests begin, how long writes wait, and when the client is gone.

use crate::clock::Clock;
use crate::protocol::Protocol;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

const NEVER: i64 = -1;

/// What passes over one client connection, on the proxy's clock.
#[derive(Debug)]
pub struct Traffic {
    armed: AtomicBool,
    first_read_us: AtomicI64,
    last_read_us: AtomicI64,
    stalled_us: AtomicI64,
    stalled_since_us: AtomicI64,
    busy: AtomicUsize,
}

impl Traffic {
    /// A connection that was just accepted: its next byte begins a request.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            armed: AtomicBool::new(true),
            first_read_us: AtomicI64::new(NEVER),
            last_read_us: AtomicI64::new(NEVER),
            stalled_us: AtomicI64::new(0),
            stalled_since_us: AtomicI64::new(NEVER),
            busy: AtomicUsize::new(0),
        })
    }

    /// What was read until now was no request: the next byte begins one.
    ///
    /// A client may send its request together with the end of the handshake; then the latest read is
    /// taken as its first byte, as for a pipelined one.
    pub fn rearm(&self) {
        self.first_read_us.store(NEVER, Relaxed);
        self.armed.store(true, Relaxed);
    }

    /// An exchange begins: when its first byte was read.
    ///
    /// A pipelined request has no read of its own: it came with the latest one. So did a stream: what
    /// was read first after the one before may have been a frame of the connection.
    fn begin(&self, protocol: Protocol, clock: &Clock) -> i64 {
        self.busy.fetch_add(1, Relaxed);
        let first = match protocol {
            Protocol::Http1 => self.first_read_us.swap(NEVER, Relaxed),
            Protocol::Http2 => NEVER,
        };
        let last = self.last_read_us.load(Relaxed);
        [first, last]
            .into_iter()
            .find(|us| *us != NEVER)
            .unwrap_or_else(|| clock.now_us())
    }

    /// An exchange is over: when it was the only one, the next byte begins another.
    fn end(&self) {
        if self.busy.fetch_sub(1, Relaxed) == 1 {
            self.armed.store(true, Relaxed);
        }
    }

    /// Whether an exchange is happening.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) > 0
    }

    /// Time that writes waited because the client did not read, in all, the last one included that
    /// may still wait.
    pub fn stalled_us(&self, now_us: i64) -> i64 {
        let since_us = self.stalled_since_us.load(Relaxed);
        let waiting_us = if since_us == NEVER {
            0
        } else {
            (now_us - since_us).max(0)
        };
        self.stalled_us.load(Relaxed) + waiting_us
    }

    /// Whether the last write waits.
    pub fn is_stalled(&self) -> bool {
        self.stalled_since_us.load(Relaxed) != NEVER
    }

    fn read(&self, now_us: i64) {
        self.last_read_us.store(now_us, Relaxed);
        if self.armed.swap(false, Relaxed) {
            self.first_read_us.store(now_us, Relaxed);
        }
    }

    /// A write waits from now on.
    pub fn stall(&self, clock: &Clock) {
        if !self.is_stalled() {
            self.stalled_since_us.store(clock.now_us(), Relaxed);
        }
    }

    /// Says whether the write before had to wait.
    pub fn wrote(&self, clock: &Clock) -> bool {
        if !self.is_stalled() {
            return false;
        }
        let since_us = self.stalled_since_us.swap(NEVER, Relaxed);
        self.stalled_us
            .fetch_add(clock.now_us() - since_us, Relaxed);
        true
    }
}

/// An exchange on a connection: it is over when this is dropped, however it ended.
#[derive(Debug)]
pub struct Busy(Arc<Traffic>);

impl Busy {
    /// Begins one, and says when its first byte was read.
    pub fn begin(traffic: &Arc<Traffic>, protocol: Protocol, clock: &Clock) -> (Self, i64) {
        (Self(Arc::clone(traffic)), traffic.begin(protocol, clock))
    }

    /// The connection.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The socket as its reader sees it.
#[derive(Debug)]
pub struct ClientIo {
    stream: Arc<TcpStream>,
    traffic: Arc<Traffic>,
    recorder: Arc<crate::recorder::Recorder>,
}

impl ClientIo {
    /// Wraps an accepted socket.
    pub fn new(
        stream: Arc<TcpStream>,
        traffic: Arc<Traffic>,
        recorder: Arc<crate::recorder::Recorder>,
    ) -> Self {
        Self {
            stream,
            traffic,
            recorder,
        }
    }

    /// Reads once. A read that leaves room has emptied the socket: that is noted, so that the next
    /// one waits instead of asking in vain, which would be a system call for each request.
    fn read_what_is_there(&self, buf: &mut ReadBuf<'_>) -> io::Result<usize> {
        let room = buf.remaining();
        let mut read = Ok(0);
        let emptied = self.stream.try_io(Interest::READABLE, || {
            read = self.stream.try_read_buf(buf);
            match read {
                // Said within, so that what arrives from here on is still told.
                Ok(bytes) if bytes > 0 && bytes < room => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        });
        match emptied {
            // It was not tried: there was nothing.
            Err(cause) if matches!(read, Ok(0)) => Err(cause),
            _ => read,
        }
    }

    fn after_write(
        &self,
        cx: &mut Context<'_>,
        written: io::Result<usize>,
    ) -> Option<Poll<io::Result<usize>>> {
        match written {
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => None,
            result => {
                if self.traffic.wrote(self.recorder.clock()) {
                    // A body may wait for this: see [`crate::answer`].
                    cx.waker().wake_by_ref();
                }
                Some(Poll::Ready(result))
            }
        }
    }

    fn poll_writing(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.stream.poll_write_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => {
                    self.traffic.stall(self.recorder.clock());
                    return Poll::Pending;
                }
            }
            if let Some(done) = self.after_write(cx, write(&self.stream)) {
                return done;
            }
        }
    }
}

/// How a client left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It ended its side: it sends no more, and may still read.
    Ended,
    /// It reset the connection.
    Reset,
}

/// Waits until the client has ended its side, or reset the connection.
///
/// A reader sees it only at the end of what was sent: not behind one stray byte after a request, and
/// not while a response waits for the socket. The kernel says it at once.
pub async fn left(stream: &TcpStream) -> Left {
    // With `PRIORITY`, only urgent data and a closed read side end the wait, not ordinary data. A
    // client that sends urgent data is left to whoever reads.
    match stream.ready(Interest::PRIORITY | Interest::ERROR).await {
        Ok(ready) if ready.is_error() => Left::Reset,
        Ok(ready) if !ready.is_read_closed() => std::future::pending().await,
        Ok(_) => Left::Ended,
        Err(_) => Left::Reset,
    }
}

/// Waits until the connection is broken: a client that has ended its side may still reset it.
pub async fn broken(stream: &TcpStream) {
    // The end of a wait by an error is one too.
    drop(stream.ready(Interest::ERROR).await);
}

/// Has a socket reset once it is let go, instead of ended.
pub fn reset(stream: &TcpStream) {
    let at_once = Some(std::time::Duration::ZERO);
    if let Err(cause) = socket2::SockRef::from(stream).set_linger(at_once) {
        tracing::debug!(%cause, "a connection ends although its other side was reset");
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.read_what_is_there(buf) {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
                Err(cause) => return Poll::Ready(Err(cause)),
                Ok(read) => {
                    if read > 0 {
                        self.traffic.read(self.recorder.clock().now_us());
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = socket2::SockRef::from(&*self.stream);
        Poll::Ready(socket.shutdown(std::net::Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use super::{Busy, Traffic};
    use crate::clock::Clock;
    use crate::protocol::Protocol;

    #[test]
    fn a_stream_began_with_the_latest_read_and_a_request_with_its_first() {
        let clock = Clock::start();
        for (protocol, first_us, second_us) in
            [(Protocol::Http1, 10, 30), (Protocol::Http2, 20, 40)]
        {
            let traffic = Traffic::new();
            traffic.read(10);
            traffic.read(20);
            let (busy, arrival_us) = Busy::begin(&traffic, protocol, &clock);
            assert_eq!(arrival_us, first_us, "{protocol:?}");
            drop(busy);
            traffic.read(30);
            traffic.read(40);
            let (_busy, arrival_us) = Busy::begin(&traffic, protocol, &clock);
            assert_eq!(arrival_us, second_us, "{protocol:?}");
        }
    }

    #[test]
    fn a_stall_counts_while_it_lasts_and_once_it_is_over() {
        let (traffic, clock) = (Traffic::new(), Clock::start());
        assert_eq!(traffic.stalled_us(1_000_000), 0);
        traffic.stall(&clock);
        let began_us = clock.now_us();
        assert!(traffic.stalled_us(began_us + 1_000) >= 1_000);
        assert!(traffic.wrote(&clock));
        let stalled_us = traffic.stalled_us(i64::MAX);
        assert!((0..1_000_000).contains(&stalled_us), "{stalled_us}");
        assert!(!traffic.wrote(&clock));
    }
}
