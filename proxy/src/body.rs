//! Bodies as they come in, from either side and over either version of HTTP.

use crate::expect::Gate;
use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Why a body ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Over HTTP/1.
    #[error(transparent)]
    Http1(#[from] hyper::Error),
    /// Over HTTP/2.
    #[error(transparent)]
    Http2(#[from] h2::Error),
}

/// How a connection of HTTP/2 ended under its streams.
#[derive(Clone, Copy, Debug)]
pub enum Torn {
    /// It was closed without a word.
    Closed,
    /// It was reset.
    Reset,
    /// Its upstream gave it up, and said why.
    GivenUp(Reason),
}

impl Failure {
    /// How the connection ended, where that is why.
    pub fn torn(&self) -> Option<Torn> {
        let Self::Http2(cause) = self else {
            return None;
        };
        let reason = cause
            .reason()
            .filter(|_| cause.is_go_away() && cause.is_remote());
        match (reason, cause.get_io()) {
            // It goes on with the streams that it has: this is one that it has not begun.
            (Some(Reason::NO_ERROR), _) | (None, None) => None,
            (Some(reason), _) => Some(Torn::GivenUp(reason)),
            (None, Some(cause)) if cause.kind() == std::io::ErrorKind::ConnectionReset => {
                Some(Torn::Reset)
            }
            (None, Some(_)) => Some(Torn::Closed),
        }
    }

    /// The code that a stream is reset with because of it: the one that came, where one came.
    pub fn reason(&self) -> Reason {
        match self {
            // The end of a connection is no code of a stream.
            Self::Http2(cause) if !cause.is_go_away() => {
                cause.reason().unwrap_or(Reason::INTERNAL_ERROR)
            }
            Self::Http1(_) | Self::Http2(_) => Reason::INTERNAL_ERROR,
        }
    }
}

/// A body that comes in.
#[derive(Debug)]
pub enum Inbound {
    /// Over HTTP/1; where the client waits to be told to send it, with what it waits for.
    Http1(Incoming, Option<Gate>),
    /// Over HTTP/2.
    Http2(Stream),
}

impl Inbound {
    /// What its client waits for, where it waits.
    pub fn gate(&self) -> Option<&Gate> {
        match self {
            Self::Http1(_, gate) => gate.as_ref(),
            Self::Http2(_) => None,
        }
    }
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        match self.get_mut() {
            Self::Http1(incoming, gate) => {
                if let Some(waiting) = gate {
                    ready!(waiting.poll_open(cx));
                    *gate = None;
                }
                Pin::new(incoming).poll_frame(cx).map_err(Failure::Http1)
            }
            Self::Http2(stream) => stream.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(incoming, _) => incoming.is_end_stream(),
            Self::Http2(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(incoming, _) => incoming.size_hint(),
            Self::Http2(stream) => stream.size_hint(),
        }
    }
}

/// One direction of a stream of HTTP/2. Its window opens again as its frames are taken, so a reader
/// that is slow holds up this stream, and no other.
///
/// hyper's own takes a stream that was reset with `CANCEL` for one that ended; this one does not.
#[derive(Debug)]
pub struct Stream {
    frames: RecvStream,
    in_trailers: bool,
}

impl Stream {
    /// Wraps what h2 receives.
    pub fn new(frames: RecvStream) -> Self {
        Self {
            frames,
            in_trailers: false,
        }
    }

    /// The next frame.
    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if !self.in_trailers {
            match ready!(self.frames.poll_data(cx)) {
                Some(Ok(data)) => {
                    // It fails for a stream that is over, which needs no window.
                    drop(self.frames.flow_control().release_capacity(data.len()));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(cause)) => return Poll::Ready(Some(Err(Failure::Http2(cause)))),
                None => self.in_trailers = true,
            }
        }
        let trailers: Result<Option<HeaderMap>, h2::Error> = ready!(self.frames.poll_trailers(cx));
        Poll::Ready(
            trailers
                .map(|fields| fields.map(Frame::trailers))
                .map_err(Failure::Http2)
                .transpose(),
        )
    }

    /// Whether all of it has come and was taken.
    pub fn is_end_stream(&self) -> bool {
        self.frames.is_end_stream()
    }

    /// Its length, where that is known.
    pub fn size_hint(&self) -> SizeHint {
        if self.is_end_stream() {
            SizeHint::with_exact(0)
        } else {
            SizeHint::default()
        }
    }
}
