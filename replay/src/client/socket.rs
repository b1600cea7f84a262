//! A socket that remembers when it was last written to.
//!
//! Time to first token counts from the instant at which the request was wholly sent (D2). Only the
//! socket knows it: above it there are buffers.

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// When a socket last took bytes.
#[derive(Clone, Debug)]
pub(super) struct Written {
    since: Instant,
    nanos: Arc<AtomicU64>,
}

impl Written {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            nanos: Arc::default(),
        }
    }

    /// The end of the latest write.
    pub(super) fn at(&self) -> Instant {
        self.since + std::time::Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    fn stamp(&self) {
        // 2^64 ns are 584 years.
        let nanos = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanos.store(nanos, Ordering::Relaxed);
    }
}

#[derive(Debug)]
enum Io {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

#[derive(Debug)]
pub(super) struct Socket {
    io: Io,
    written: Written,
    /// Bytes that TLS has taken and may not have sent yet.
    unsent: bool,
}

impl Socket {
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self::new(Io::Plain(TokioIo::new(stream)))
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>) -> Self {
        Self::new(Io::Tls(Box::new(TokioIo::new(stream))))
    }

    fn new(io: Io) -> Self {
        Self {
            io,
            written: Written::new(),
            unsent: false,
        }
    }

    pub(super) fn written(&self) -> Written {
        self.written.clone()
    }

    fn took(&mut self, written: Poll<std::io::Result<usize>>) -> Poll<std::io::Result<usize>> {
        if let Poll::Ready(Ok(_)) = written {
            self.written.stamp();
            self.unsent = matches!(self.io, Io::Tls(_));
        }
        written
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_read(cx, buf),
            Io::Tls(io) => Pin::new(io).poll_read(cx, buf),
        }
    }
}

impl Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_write(cx, buf),
            Io::Tls(io) => Pin::new(io).poll_write(cx, buf),
        };
        self.took(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_write_vectored(cx, bufs),
            Io::Tls(io) => Pin::new(io).poll_write_vectored(cx, bufs),
        };
        self.took(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(io) => io.is_write_vectored(),
            Io::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let flushed = match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_flush(cx),
            Io::Tls(io) => Pin::new(io).poll_flush(cx),
        };
        // What was taken is sent only now.
        if flushed.is_ready() && std::mem::take(&mut self.unsent) {
            self.written.stamp();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Io::Tls(io) => Pin::new(io).poll_shutdown(cx),
        }
    }
}
