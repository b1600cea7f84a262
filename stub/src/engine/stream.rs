//! A streamed answer as a body.

use super::driver::Progress;
use super::events::Events;
use hyper::body::{Body, Bytes, Frame};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::watch;
use tokio_util::sync::ReusableBoxFuture;

/// Tokens in one frame at most. A client that was slow gets what it missed in frames of this size.
const FRAME_TOKENS_MAX: u64 = 256;

type Change = (bool, watch::Receiver<Progress>);

/// Turns progress into events. Dropping it is how the driver learns that the client left.
#[derive(Debug)]
pub(super) struct Stream {
    events: Events,
    progress: Progress,
    /// Tokens written so far.
    written: u64,
    ended: bool,
    change: ReusableBoxFuture<'static, Change>,
}

impl Stream {
    pub(super) fn new(events: Events, progress: watch::Receiver<Progress>) -> Self {
        Self {
            events,
            progress: Progress::default(),
            written: 0,
            ended: false,
            change: ReusableBoxFuture::new(changed(progress)),
        }
    }

    /// Writes what can be written now: nothing, if there is no token that was not written yet.
    fn frame(&mut self) -> Option<Bytes> {
        let until = self.progress.said.min(self.written + FRAME_TOKENS_MAX);
        if until == self.written {
            return None;
        }
        let mut out = Vec::new();
        if self.written == 0 {
            self.events.begin(&mut out, self.progress);
        }
        for index in self.written..until {
            self.events.token(&mut out, index, self.progress);
        }
        self.written = until;
        if until == self.events.tokens() {
            self.events.end(&mut out, self.progress);
            self.ended = true;
        }
        Some(Bytes::from(out))
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            if let Some(frame) = self.frame() {
                return Poll::Ready(Some(Ok(Frame::data(frame))));
            }
            let (alive, mut progress) = ready!(self.change.poll(cx));
            if !alive {
                self.ended = true;
                let cause = std::io::Error::other("the engine stopped before the answer was whole");
                return Poll::Ready(Some(Err(cause)));
            }
            self.progress = *progress.borrow_and_update();
            self.change.set(changed(progress));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

async fn changed(mut progress: watch::Receiver<Progress>) -> Change {
    let alive = progress.changed().await.is_ok();
    (alive, progress)
}
