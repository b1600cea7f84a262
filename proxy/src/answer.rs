//! The body of a response: it drives the link that it comes over, unless an upload does.

use crate::io::Busy;
use crate::link::Link;
use crate::pair::Pair;
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
    over: bool,
    busy: Busy,
}

#[derive(Debug)]
enum Source {
    Own(Bytes),
    Upstream { incoming: Incoming, drive: Drive },
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

/// A failure that is held back until what came before it has left.
#[derive(Debug)]
struct Cut {
    error: hyper::Error,
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
            over,
            busy,
        }
    }

    /// A body that comes over a link.
    pub fn upstream(incoming: Incoming, drive: Drive, busy: Busy) -> Self {
        let source = Source::Upstream { incoming, drive };
        Self {
            source,
            cut: None,
            over: false,
            busy,
        }
    }

    /// hyper closes the connection when a body fails, and with it what it has not yet written. So
    /// the failure waits: first for one round, in which hyper writes, then for a socket that is
    /// full. The client sees every byte that came, and then the cut.
    fn poll_cut(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(cut) = &mut self.cut else {
            return Poll::Pending;
        };
        if !std::mem::replace(&mut cut.flushed, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.busy.traffic().is_stalled() {
            // The socket wakes this task once it has taken more.
            return Poll::Pending;
        }
        self.over = true;
        Poll::Ready(self.cut.take().map(|cut| Err(cut.error)))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
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
            Source::Upstream { incoming, drive } => match drive {
                Drive::Here(link, _) => link.poll_body(incoming, cx),
                Drive::Task(_) | Drive::Over => Pin::new(incoming).poll_frame(cx),
            },
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
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Own(bytes) => bytes.is_empty(),
            Source::Upstream { incoming, .. } => self.cut.is_none() && incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Own(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Upstream { incoming, .. } => incoming.size_hint(),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let whole = self.cut.is_none() && (self.over || self.is_end_stream());
        let Source::Upstream { drive, .. } = &mut self.source else {
            return;
        };
        match (std::mem::replace(drive, Drive::Over), whole) {
            (Drive::Here(link, pair), true) => pair.give(link),
            // Dropping the link tells the upstream that nobody wants the rest.
            (Drive::Here(..), false) => {}
            // The upload may go on, as it would without us.
            (Drive::Task(_), true) => {}
            (Drive::Task(task), false) => task.cancel(),
            (Drive::Over, _) => {}
        }
    }
}
