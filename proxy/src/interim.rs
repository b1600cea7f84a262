//! Interim responses (1xx) on their way to the client, and the bytes that were read to learn what it
//! speaks: what goes between hyper and the stream it serves.
//!
//! hyper's server cannot send an interim response. Between a request and the head of its response
//! nothing else is written, so its bytes can be put there.

use crate::limits;
use bytes::{Buf as _, Bytes};
use http::{HeaderMap, StatusCode};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Interim responses that wait to be passed on.
#[derive(Debug, Default)]
pub struct Interim {
    any: AtomicBool,
    /// hyper has bytes of an earlier response that it could not write yet: what comes now has no
    /// place of which it is known that it lies before the next head.
    owing: AtomicBool,
    waiting: Mutex<Vec<(StatusCode, HeaderMap)>>,
}

impl Interim {
    /// One came from the upstream. Says whether it can be passed on; what cannot is let go: it is a
    /// hint.
    pub fn push(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let mut waiting = self.waiting();
        let fits = waiting.len() < limits::INTERIM_MAX && !self.owing.load(Relaxed);
        if fits {
            waiting.push((status, headers.clone()));
            self.any.store(true, Relaxed);
        }
        fits
    }

    /// Takes what waits.
    pub fn take(&self) -> Vec<(StatusCode, HeaderMap)> {
        // The common case costs one load.
        if self.any.swap(false, Relaxed) {
            std::mem::take(&mut *self.waiting())
        } else {
            Vec::new()
        }
    }

    fn is_any(&self) -> bool {
        self.any.load(Relaxed)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(StatusCode, HeaderMap)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of interim responses in HTTP/1.1.
fn render(responses: Vec<(StatusCode, HeaderMap)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (status, headers) in responses {
        let reason = status.canonical_reason().unwrap_or_default();
        bytes.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).as_bytes());
        for (name, value) in &headers {
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// What hyper reads from and writes to.
#[derive(Debug)]
pub struct Front<I> {
    io: I,
    /// Read before hyper was there.
    first: Bytes,
    interim: Arc<Interim>,
    /// Of interim responses, what is still to be written.
    ahead: Bytes,
}

impl<I> Front<I> {
    /// Puts bytes back that were read, and passes interim responses on.
    pub fn new(io: I, first: Bytes, interim: Arc<Interim>) -> Self {
        Self {
            io,
            first,
            interim,
            ahead: Bytes::new(),
        }
    }
}

impl<I: AsyncWrite + Unpin> Front<I> {
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.interim.is_any() {
            let more = render(self.interim.take());
            self.ahead = if self.ahead.is_empty() {
                more.into()
            } else {
                [&self.ahead[..], &more].concat().into()
            };
        }
        while !self.ahead.is_empty() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.ahead))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.ahead.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_writing(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut I>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_ahead(cx))?;
        let written = write(Pin::new(&mut self.io), cx);
        if written.is_pending() {
            self.interim.owing.store(true, Relaxed);
        }
        written
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Front<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let length = self.first.len().min(buf.remaining());
        buf.put_slice(&self.first.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Front<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, |io, cx| io.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, |io, cx| io.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    /// hyper flushes the stream itself only when all of its own bytes are written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.interim.owing.store(false, Relaxed);
        ready!(self.poll_ahead(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
