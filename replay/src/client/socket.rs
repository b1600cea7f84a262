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
pub(super) struct Socket {
    io: TokioIo<TcpStream>,
    written: Written,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            io: TokioIo::new(stream),
            written: Written::new(),
        }
    }

    pub(super) fn written(&self) -> Written {
        self.written.clone()
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        if let Poll::Ready(Ok(_)) = written {
            self.written.stamp();
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        if let Poll::Ready(Ok(_)) = written {
            self.written.stamp();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
