//! The connection to the upstream that carries the streams of one client connection, over HTTP/2.

use crate::body::Stream;
use crate::limits;
use crate::link::{RequestBody, Unanswered};
use crate::pump::{Cause, Outgoing, Pump, Stopped};
use crate::reach::Ear;
use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use http::{Request, Response};
use hyper::body::Body as _;
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection that takes streams.
#[derive(Clone, Debug)]
pub struct Trunk {
    sender: SendRequest<Bytes>,
    over: Arc<AtomicBool>,
}

/// A request's body on its way up a stream.
#[derive(Debug)]
pub struct Upload {
    /// The body, until it has passed.
    pub pump: Option<Box<Pump<RequestBody>>>,
    /// Where it goes.
    pub to: Outgoing,
}

impl Upload {
    /// Passes on what can be passed on. Ready once there is nothing more to pass.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        let Some(pump) = &mut self.pump else {
            return Poll::Ready(Ok(()));
        };
        let polled = pump.poll(self.to.stream(), cx);
        if polled.is_ready() {
            self.pump = None;
        }
        polled
    }

    /// Whether there is nothing more to pass.
    pub fn is_over(&self) -> bool {
        self.pump.is_none()
    }
}

impl Trunk {
    /// Begins to speak HTTP/2 over a connection that is open. Somebody must drive what comes with it.
    pub async fn handshake<I>(io: I) -> io::Result<(Self, Connection<I, Bytes>)>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, driver) = Builder::new()
            .enable_push(false)
            .initial_window_size(limits::STREAM_WINDOW_BYTES)
            .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
            .max_header_list_size(limits::HEADER_LIST_BYTES_MAX)
            .max_send_buffer_size(limits::STREAM_SEND_BYTES_MAX)
            .initial_max_send_streams(limits::STREAMS_MAX as usize)
            .handshake(io)
            .await
            .map_err(|cause| {
                cause
                    .into_io()
                    .unwrap_or_else(|| io::ErrorKind::Other.into())
            })?;
        let over = Arc::default();
        Ok((Self { sender, over }, driver))
    }

    /// Its connection has ended.
    pub fn end(&self) {
        self.over.store(true, Relaxed);
    }

    /// Whether its connection has ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Whether this is the same connection.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.over, &other.over)
    }

    /// Sends a request and waits for the head of its response, passing the request's body on
    /// meanwhile. What is not sent by then is left in the upload.
    pub async fn send(
        self,
        request: Request<RequestBody>,
        cause: &Arc<Cause>,
        ear: Option<Ear>,
    ) -> Result<(Response<Stream>, Upload), Unanswered> {
        // A connection that was told to go away takes no more streams, and nothing was sent.
        let Ok(mut sender) = self.sender.ready().await else {
            return Err(Unanswered::Unsent(Box::new(request)));
        };
        let (parts, body) = request.into_parts();
        let last = body.is_end_stream();
        let (answer, stream) = sender
            .send_request(Request::from_parts(parts, ()), last)
            .map_err(|cause| Unanswered::Broken(cause.into()))?;
        let mut upload = Upload {
            pump: (!last).then(|| Box::new(Pump::new(body, None))),
            to: Outgoing::new(stream, Arc::clone(cause)),
        };
        let mut answer = answer;
        let head = poll_fn(|cx| {
            if let Poll::Ready(Err(Stopped::Failed(failure))) = upload.poll(cx) {
                cause.set(failure.reason());
                return Poll::Ready(Err(failure));
            }
            poll_head(&mut answer, ear.as_ref(), cx).map_err(Into::into)
        });
        let response = head.await.map_err(Unanswered::Broken)?;
        Ok((response.map(Stream::new), upload))
    }
}

fn poll_head(
    answer: &mut ResponseFuture,
    ear: Option<&Ear>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<h2::RecvStream>, h2::Error>> {
    while let Poll::Ready(Some(Ok(response))) = answer.poll_informational(cx) {
        if let Some(ear) = ear {
            ear.hear(response.status(), response.headers());
        }
    }
    Pin::new(answer).poll(cx)
}
