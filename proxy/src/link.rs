//! A connection to the upstream.
//!
//! A link is driven by whoever uses it: there is no task of its own, but for an upload that outlasts
//! the head of its response. So a response needs no hop between threads, and dropping the exchange
//! closes the socket at once, in whatever phase it is.

use crate::body::{Failure, Inbound};
use crate::limits;
use crate::nudge::Poller;
use crate::tap::Tap;
use bytes::Bytes;
use hyper::Request;
use hyper::Response;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The body of a request on its way to the upstream.
pub type RequestBody = Tap<Inbound>;

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// One connection. It carries one exchange at a time.
pub struct Link {
    sender: SendRequest<RequestBody>,
    driver: Option<Driver>,
    poller: Poller,
    reused: bool,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("reused", &self.reused)
            .finish_non_exhaustive()
    }
}

/// Why a request brought no response.
#[derive(Debug)]
pub enum Unanswered {
    /// An idle connection turned out to be closed, and not a byte of the request was written: it can
    /// go over another.
    Unsent(Box<Request<RequestBody>>),
    /// The upstream went away, or broke the protocol.
    Broken(Failure),
}

impl Link {
    /// Begins to speak HTTP/1.1 over a connection that is open.
    pub async fn handshake<I>(io: I) -> io::Result<Self>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, driver) = Builder::new()
            .preserve_header_case(true)
            .max_headers(limits::HEADERS_MAX)
            .handshake(TokioIo::new(io))
            .await
            .map_err(io::Error::other)?;
        let driver: Driver = Box::pin(driver);
        Ok(Self {
            sender,
            driver: Some(driver),
            poller: Poller::default(),
            reused: false,
        })
    }

    /// Sends a request and waits for the head of its response, passing the request's body on
    /// meanwhile.
    pub async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let (driver, poller) = (&mut self.driver, &self.poller);
        let answered = poll_fn(|cx| {
            poller.poll(cx, |cx| {
                drive(driver, cx);
                answer.as_mut().poll(cx)
            })
        });
        answered
            .await
            .map_err(|mut unanswered| match unanswered.take_message() {
                Some(request) if self.reused => Unanswered::Unsent(Box::new(request)),
                _ => Unanswered::Broken(unanswered.into_error().into()),
            })
    }

    /// Polls the body that comes over this link: what hyper has read goes first, then the socket
    /// is read, once.
    pub fn poll_body(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let driver = &mut self.driver;
        self.poller.poll(cx, |cx| {
            if let Poll::Ready(frame) = Pin::new(&mut *incoming).poll_frame(cx) {
                return Poll::Ready(frame);
            }
            drive(driver, cx);
            Pin::new(&mut *incoming).poll_frame(cx)
        })
    }

    /// Drives the connection until it can take another request, or is over.
    ///
    /// Meanwhile the response is read as its body is polled, and the request's body goes on even
    /// while the client does not take the response.
    pub async fn settle(&mut self) {
        let (driver, sender) = (&mut self.driver, &mut self.sender);
        let poller = &self.poller;
        poll_fn(|cx| {
            poller.poll(cx, |cx| {
                drive(driver, cx);
                if driver.is_none() {
                    return Poll::Ready(());
                }
                sender.poll_ready(cx).map(drop)
            })
        })
        .await;
    }

    /// Whether another request can go over it, as far as can be seen without waiting.
    pub fn is_idle(&mut self) -> bool {
        drive(&mut self.driver, &mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Marks it as one that has carried a request before.
    pub fn reuse(&mut self) {
        self.reused = true;
    }

    /// Whether the connection is over.
    pub fn is_over(&self) -> bool {
        self.driver.is_none()
    }

    /// Waits, while no request is under way, for the upstream to close.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let driver = &mut self.driver;
        self.poller.poll(cx, |cx| {
            drive(driver, cx);
            if driver.is_none() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
    }
}

fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    let Some(running) = driver else { return };
    // An error is told to whoever waits for the response or its body.
    if running.as_mut().poll(cx).is_ready() {
        *driver = None;
    }
}

/// What every socket gets, on both sides: no delay for small frames, and probes of a silent peer.
pub fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(limits::TCP_KEEPALIVE)
        .with_interval(limits::TCP_KEEPALIVE_INTERVAL);
    socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive)
}
