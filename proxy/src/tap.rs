//! A body that passes frames on unchanged and remembers them.
//!
//! It is polled by hyper, which may never poll again once [`Body::is_end_stream`] says so, and
//! which drops a body whose receiver went away. So the end is told at whichever comes first: the
//! end of the frames, a failure, or the drop.

use crate::clock::Clock;
use crate::io::Traffic;
use crate::tape::Tape;
use crate::track::{Track, TrackEnd};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

/// What is told where, for one direction.
#[derive(Debug)]
pub struct Recording {
    tape: Arc<Tape>,
    track: Track,
    over: bool,
    /// The client's connection and its stall at the start, for a response.
    stall: Option<(Arc<Traffic>, i64)>,
}

impl Recording {
    /// Remembers the body of a request.
    pub fn of_request(tape: Arc<Tape>, body_max: usize) -> Self {
        let track = Track::new(tape.recorder(), body_max, false);
        Self {
            tape,
            track,
            over: false,
            stall: None,
        }
    }

    /// Remembers the body of a response, when each frame came, and how long the client's socket was
    /// full meanwhile.
    pub fn of_response(tape: Arc<Tape>, body_max: usize, traffic: Arc<Traffic>) -> Self {
        let track = Track::new(tape.recorder(), body_max, true);
        let stalled_us = traffic.stalled_us(tape.recorder().clock().now_us());
        Self {
            tape,
            track,
            over: false,
            stall: Some((traffic, stalled_us)),
        }
    }

    fn now_us(&self) -> i64 {
        Clock::now_us(self.tape.recorder().clock())
    }

    fn frame(&mut self, frame: &Frame<Bytes>) {
        if let Some(data) = frame.data_ref() {
            self.track.push(self.now_us(), data);
        }
    }

    /// Pieces of the body came, all at once.
    pub fn content(&mut self, pieces: impl Iterator<Item = Bytes>) {
        let now_us = self.now_us();
        for piece in pieces {
            self.track.push(now_us, &piece);
        }
    }

    /// The body is over.
    pub fn end(&mut self, end: TrackEnd) {
        if !std::mem::replace(&mut self.over, true) {
            self.track.finish(self.now_us(), end);
        }
    }

    /// Hands what was remembered to the tape.
    pub fn hand_over(self) {
        let now_us = self.now_us();
        match self.stall {
            None => self.tape.request(self.track),
            Some((traffic, before_us)) => {
                self.tape
                    .response(self.track, traffic.stalled_us(now_us) - before_us);
            }
        }
    }
}

/// The body.
#[derive(Debug)]
pub struct Tap<B: Body> {
    inner: B,
    recording: Option<Recording>,
    alive: Arc<()>,
}

/// Tells whether a body is still on its way.
#[derive(Debug)]
pub struct Watch(Weak<()>);

impl Watch {
    /// Whether whoever sends the body has let it go: it is sent, or never will be.
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl<B: Body> Tap<B> {
    /// Wraps a body; without a recording it only passes frames on.
    pub fn new(inner: B, recording: Option<Recording>) -> Self {
        Self {
            inner,
            recording,
            alive: Arc::new(()),
        }
    }

    /// What it passes on.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Watches for its end.
    pub fn watch(&self) -> Watch {
        Watch(Arc::downgrade(&self.alive))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Tap<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        let polled = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        if let Some(recording) = &mut this.recording {
            match &polled {
                Some(Ok(frame)) => {
                    recording.frame(frame);
                    // Nothing follows trailers, so nobody may ask again.
                    if frame.is_trailers() || this.inner.is_end_stream() {
                        recording.end(TrackEnd::Clean);
                    }
                }
                Some(Err(_)) => recording.end(TrackEnd::Failed),
                None => recording.end(TrackEnd::Clean),
            }
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: Body> Drop for Tap<B> {
    fn drop(&mut self) {
        if let Some(mut recording) = self.recording.take() {
            let end = if self.inner.is_end_stream() {
                TrackEnd::Clean
            } else {
                TrackEnd::Dropped
            };
            recording.end(end);
            recording.hand_over();
        }
    }
}
