//! A connection to the upstream, and the pool of idle ones.
//!
//! A link is driven by whoever uses it: there is no task of its own. So a response needs no hop
//! between threads, and dropping the exchange closes the socket at once, in whatever phase it is.

use crate::config::Upstream;
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
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::net::TcpStream;

/// The body of a request on its way to the upstream.
pub type RequestBody = Tap<Incoming>;

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// One connection. It carries one exchange at a time.
pub struct Link {
    sender: SendRequest<RequestBody>,
    driver: Option<Driver>,
    poller: Poller,
    reused: bool,
    idle_since: Instant,
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
    /// An idle link turned out to be closed, and not a byte of the request was written: it can go
    /// over another link.
    Unsent(Box<Request<RequestBody>>),
    /// The upstream went away, or broke the protocol.
    Broken(hyper::Error),
}

impl Link {
    /// Connects.
    pub async fn connect(upstream: &Upstream) -> io::Result<Self> {
        let connecting = TcpStream::connect((upstream.host.as_str(), upstream.port));
        let stream = tokio::time::timeout(limits::CONNECT_WITHIN, connecting)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        tune(&stream)?;
        let (sender, driver) = Builder::new()
            .preserve_header_case(true)
            .max_headers(limits::HEADERS_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        let driver: Driver = Box::pin(driver.with_upgrades());
        Ok(Self {
            sender,
            driver: Some(driver),
            poller: Poller::default(),
            reused: false,
            idle_since: Instant::now(),
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
                _ => Unanswered::Broken(unanswered.into_error()),
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

    /// Drives the connection to its end, which hands an upgraded socket over.
    pub async fn finish(mut self) {
        poll_fn(|cx| {
            drive(&mut self.driver, cx);
            if self.driver.is_none() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Whether another request can go over it, as far as can be seen without waiting.
    fn is_idle(&mut self) -> bool {
        drive(&mut self.driver, &mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
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

/// Idle links, the latest used first.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Mutex<Vec<Link>>,
}

impl Pool {
    /// A link that is idle and, as far as can be seen, still open.
    pub fn take(&self) -> Option<Link> {
        loop {
            let mut link = self.links().pop()?;
            if link.idle_since.elapsed() >= limits::UPSTREAM_IDLE_MAX {
                // Those below it have been idle for longer.
                self.sweep();
                return None;
            }
            if link.is_idle() {
                link.reused = true;
                return Some(link);
            }
        }
    }

    /// Keeps a link when another request can go over it; else closes it.
    pub fn give(&self, mut link: Link) {
        if link.is_idle() {
            link.idle_since = Instant::now();
            let mut idle = self.links();
            if idle.len() < limits::UPSTREAM_IDLE_LINKS_MAX {
                idle.push(link);
            }
        }
    }

    /// Closes links that have been idle for too long. They are closed after the lock is released.
    pub fn sweep(&self) {
        let mut idle = self.links();
        let kept =
            idle.partition_point(|link| link.idle_since.elapsed() >= limits::UPSTREAM_IDLE_MAX);
        let stale: Vec<Link> = idle.drain(..kept).collect();
        drop(idle);
        drop(stale);
    }

    /// Idle links.
    pub fn len(&self) -> usize {
        self.links().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn links(&self) -> std::sync::MutexGuard<'_, Vec<Link>> {
        self.idle
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
