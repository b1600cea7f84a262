//! The body of a response: it drives the link that it comes over, unless an upload does.

use crate::body::{Failure, Stream};
use crate::io::Busy;
use crate::link::Link;
use crate::pair::Pair;
use crate::pump::Outgoing;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio_util::sync::CancellationToken;

/// The body of a response.
#[derive(Debug)]
pub struct Answer {
    source: Source,
    cut: Option<Cut>,
    /// Whether a failure must wait here, because hyper would drop what came before it.
    holds: bool,
    over: bool,
    busy: Busy,
}

/// Where a body comes from.
#[derive(Debug)]
pub enum Source {
    /// From us.
    Own(Bytes),
    /// Over HTTP/1.
    Link {
        /// The body.
        incoming: Incoming,
        /// What drives it.
        drive: Drive,
    },
    /// Over HTTP/2.
    Trunk {
        /// The body.
        stream: Stream,
        /// What became of the request.
        sent: Sent,
    },
}

/// Who drives the link of a response.
#[derive(Debug)]
pub enum Drive {
    /// Whoever polls its body. Afterwards the link goes back to its client's connection.
    Here(Link, Arc<Pair>),
    /// A task, because the request's body is still on its way. This ends it at once.
    Task(CancellationToken),
    /// Nobody any more.
    Over,
}

/// What became of a request's body that goes over HTTP/2.
#[derive(Debug)]
pub enum Sent {
    /// It is sent. Letting go of this resets the stream.
    Whole(Outgoing),
    /// A task sends it. This ends it at once.
    Task(CancellationToken),
    /// Nobody cares any more.
    Over,
}

/// A failure that is held back until what came before it has left.
#[derive(Debug)]
struct Cut {
    error: Failure,
    flushed: bool,
}

impl Answer {
    /// A body of our own.
    pub fn own(text: impl Into<Bytes>, busy: Busy) -> Self {
        let text = text.into();
        let over = text.is_empty();
        Self {
            source: Source::Own(text),
            cut: None,
            holds: false,
            over,
            busy,
        }
    }

    /// A body that comes from the upstream. `holds`: its failure waits until what came before it has
    /// left.
    pub fn upstream(source: Source, holds: bool, busy: Busy) -> Self {
        Self {
            source,
            cut: None,
            holds,
            over: false,
            busy,
        }
    }

    /// hyper closes the connection when a body fails, and with it what it has not yet written. So
    /// the failure waits: first for one round, in which hyper writes, then for a socket that is
    /// full. The client sees every byte that came, and then the cut.
    fn poll_cut(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let Some(cut) = &mut self.cut else {
            return Poll::Pending;
        };
        if self.holds && !std::mem::replace(&mut cut.flushed, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.holds && self.busy.traffic().is_stalled() {
            // The socket wakes this task once it has taken more.
            return Poll::Pending;
        }
        self.over = true;
        Poll::Ready(self.cut.take().map(|cut| Err(cut.error)))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let this = self.get_mut();
        if this.cut.is_some() {
            return this.poll_cut(cx);
        }
        let polled = match &mut this.source {
            Source::Own(bytes) => {
                let bytes = std::mem::take(bytes);
                this.over = true;
                return Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))));
            }
            Source::Link { incoming, drive } => match drive {
                Drive::Here(link, _) => link.poll_body(incoming, cx),
                Drive::Task(_) | Drive::Over => Pin::new(incoming).poll_frame(cx),
            }
            .map_err(Failure::Http1),
            Source::Trunk { stream, .. } => stream.poll_frame(cx),
        };
        match polled {
            Poll::Ready(Some(Err(error))) => {
                this.cut = Some(Cut {
                    error,
                    flushed: false,
                });
                this.poll_cut(cx)
            }
            Poll::Ready(None) => {
                this.over = true;
                Poll::Ready(None)
            }
            Poll::Ready(Some(Ok(frame))) => {
                // Nothing follows trailers, so nobody may ask again.
                this.over |= frame.is_trailers();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Own(bytes) => bytes.is_empty(),
            Source::Link { incoming, .. } => self.cut.is_none() && incoming.is_end_stream(),
            Source::Trunk { stream, .. } => self.cut.is_none() && stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Own(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Link { incoming, .. } => incoming.size_hint(),
            Source::Trunk { stream, .. } => stream.size_hint(),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let whole = self.cut.is_none() && (self.over || self.is_end_stream());
        match &mut self.source {
            Source::Own(_) => {}
            Source::Link { drive, .. } => drive.end(whole),
            Source::Trunk { sent, .. } => sent.end(whole),
        }
    }
}

impl Drive {
    fn end(&mut self, whole: bool) {
        match (std::mem::replace(self, Self::Over), whole) {
            (Self::Here(link, pair), true) => pair.give(link),
            // Dropping the link tells the upstream that nobody wants the rest.
            (Self::Here(..), false) => {}
            // The upload may go on, as it would without us.
            (Self::Task(_), true) => {}
            (Self::Task(task), false) => task.cancel(),
            (Self::Over, _) => {}
        }
    }
}

impl Sent {
    fn end(&mut self, whole: bool) {
        match (std::mem::replace(self, Self::Over), whole) {
            (Self::Whole(outgoing), true) => outgoing.release(),
            // Dropping it tells the upstream that nobody wants the rest.
            (Self::Whole(_), false) => {}
            // The upload may go on, as it would without us.
            (Self::Task(_), true) => {}
            (Self::Task(task), false) => task.cancel(),
            (Self::Over, _) => {}
        }
    }
}
