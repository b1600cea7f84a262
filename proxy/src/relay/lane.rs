//! A socket with what was read of it and not yet passed on, and what is to be written to it.

use bytes::{Bytes, BytesMut};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::poll_read_buf;

/// Least room for a read: an event of a stream, or a head.
const ROOM_MIN: usize = 4 * 1024;

/// Most room for a read. It doubles each time that a read fills it.
const ROOM_MAX: usize = 128 * 1024;

/// One side of a relay.
#[derive(Debug)]
pub struct Lane<I> {
    /// The socket, or what lies upon it.
    pub io: I,
    /// What was read and not yet passed on.
    pub read: BytesMut,
    /// Whether its peer has ended its side.
    pub ended: bool,
    out: Bytes,
    unflushed: bool,
    room: usize,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Lane<I> {
    /// A socket of which something was read.
    pub fn new(io: I, read: BytesMut) -> Self {
        Self {
            io,
            read,
            ended: false,
            out: Bytes::new(),
            unflushed: false,
            room: ROOM_MIN,
        }
    }

    /// Reads once more, or learns of the end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.ended {
            return Poll::Ready(Ok(0));
        }
        self.read.reserve(self.room);
        let free = self.read.capacity() - self.read.len();
        let count = ready!(poll_read_buf(Pin::new(&mut self.io), cx, &mut self.read))?;
        if count == free {
            self.room = (self.room * 2).min(ROOM_MAX);
        } else if count < self.room / 4 {
            self.room = (self.room / 2).max(ROOM_MIN);
        }
        self.ended = count == 0;
        Poll::Ready(Ok(count))
    }

    /// Puts bytes up to be written. Only what went before must have been.
    pub fn put(&mut self, bytes: Bytes) {
        self.unflushed = true;
        self.out = if self.out.is_empty() {
            bytes
        } else {
            [&self.out[..], &bytes].concat().into()
        };
    }

    /// Writes what was put up.
    pub fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.out))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => bytes::Buf::advance(&mut self.out, written),
            }
        }
        if self.unflushed {
            // What was written must not keep the buffer that it was read into.
            self.out = Bytes::new();
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Ends our side.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    /// Lets go of the buffer of what has passed: its length does not say how much room it holds.
    pub fn rest(&mut self) {
        if self.read.is_empty() {
            self.read = BytesMut::new();
            self.room = ROOM_MIN;
        }
    }
}
