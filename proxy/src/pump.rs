//! A body on its way out over HTTP/2.

use crate::body::Failure;
use crate::io::Traffic;
use crate::recorder::Recorder;
use bytes::Bytes;
use h2::{Reason, SendStream};
use hyper::body::Body;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

/// The code that an exchange is given up with: the client's own, where it said one.
#[derive(Debug)]
pub struct Cause(AtomicU32);

impl Default for Cause {
    fn default() -> Self {
        Self(AtomicU32::new(Reason::CANCEL.into()))
    }
}

impl Cause {
    /// The client said why.
    pub fn set(&self, reason: Reason) {
        self.0.store(reason.into(), Relaxed);
    }

    fn get(&self) -> Reason {
        self.0.load(Relaxed).into()
    }
}

/// Our half of a stream to the upstream. Letting it go resets the stream, unless it was released.
#[derive(Debug)]
pub struct Outgoing {
    stream: SendStream<Bytes>,
    cause: Option<Arc<Cause>>,
}

impl Outgoing {
    /// The half of a stream that was just opened.
    pub fn new(stream: SendStream<Bytes>, cause: Arc<Cause>) -> Self {
        Self {
            stream,
            cause: Some(cause),
        }
    }

    /// What is sent over it.
    pub fn stream(&mut self) -> &mut SendStream<Bytes> {
        &mut self.stream
    }

    /// Resets the stream, for such a reason.
    pub fn reset(self, reason: Reason) {
        if let Some(cause) = &self.cause {
            cause.set(reason);
        }
    }

    /// Lets go of it without a reset.
    pub fn release(mut self) {
        self.cause = None;
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some(cause) = &self.cause {
            self.stream.send_reset(cause.get());
        }
    }
}

/// Why a body did not pass whole.
#[derive(Debug)]
pub enum Stopped {
    /// The receiver reset the stream.
    Reset(Reason),
    /// The receiver's connection is gone.
    Lost,
    /// The body's sender went away.
    Failed(Failure),
}

/// Passes the frames of a body on, each as it came.
///
/// A frame is taken before room for it is claimed: a claim of room that stays unused would hold up
/// the other streams of the connection. So one frame a stream waits here, and back-pressure reaches
/// the sender.
#[derive(Debug)]
pub struct Pump<B> {
    body: B,
    /// What came, and whether it is the last.
    waiting: Option<(Bytes, bool)>,
    /// Where it is told how long a receiver lets frames wait.
    stall: Option<(Arc<Traffic>, Arc<Recorder>)>,
}

impl<B: Body<Data = Bytes, Error = Failure> + Unpin> Pump<B> {
    /// A pump that has not begun.
    pub fn new(body: B, stall: Option<(Arc<Traffic>, Arc<Recorder>)>) -> Self {
        Self {
            body,
            waiting: None,
            stall,
        }
    }

    /// Passes on what can be passed on, until the end.
    pub fn poll(
        &mut self,
        to: &mut SendStream<Bytes>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Stopped>> {
        loop {
            match to.poll_reset(cx) {
                Poll::Ready(Ok(reason)) => return Poll::Ready(Err(Stopped::Reset(reason))),
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Stopped::Lost)),
                Poll::Pending => {}
            }
            if self.waiting.is_some() {
                if ready!(self.poll_waiting(to, cx))? {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => return Poll::Ready(send(to, Bytes::new(), true)),
                Some(Err(failure)) => return Poll::Ready(Err(Stopped::Failed(failure))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        to.reserve_capacity(data.len());
                        self.waiting = Some((data, self.body.is_end_stream()));
                    }
                    Err(frame) => {
                        if let Ok(trailers) = frame.into_trailers() {
                            let sent = to.send_trailers(trailers);
                            return Poll::Ready(sent.map_err(|_| Stopped::Lost));
                        }
                    }
                },
            }
        }
    }

    /// Sends as much of the frame as there is room for. Says whether that was the last of the body.
    fn poll_waiting(
        &mut self,
        to: &mut SendStream<Bytes>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, Stopped>> {
        let Some((data, last)) = &mut self.waiting else {
            return Poll::Ready(Ok(false));
        };
        // An empty frame needs no room.
        while !data.is_empty() && to.capacity() == 0 {
            match to.poll_capacity(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Err(Stopped::Lost)),
                Poll::Pending => {
                    if let Some((traffic, recorder)) = &self.stall {
                        traffic.stall(recorder.clock());
                    }
                    return Poll::Pending;
                }
            }
        }
        if let Some((traffic, recorder)) = &self.stall {
            traffic.wrote(recorder.clock());
        }
        let part = data.split_to(data.len().min(to.capacity()));
        let (whole, last) = (data.is_empty(), *last);
        if whole {
            self.waiting = None;
        }
        send(to, part, whole && last)?;
        Poll::Ready(Ok(whole && last))
    }
}

fn send(to: &mut SendStream<Bytes>, data: Bytes, last: bool) -> Result<(), Stopped> {
    to.send_data(data, last).map_err(|_| Stopped::Lost)
}
