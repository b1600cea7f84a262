//! One request, one timed answer.
//!
//! A [`Client`] keeps connections to one target. [`Client::send`] never fails: whatever happens to
//! an exchange is an [`Exchanged`] with an outcome, because a failure that is not a row is a
//! failure that is not counted.

use crate::error::Error;
use crate::plan::Cancel;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use truetape_schemas::wire::Dialect;

mod exchanged;
mod link;
mod pulse;
mod shelf;
mod socket;
mod target;
mod tls;
mod told;

use exchanged::Bounds;
pub use exchanged::{
    Exchanged, Failure, Fetched, NOT_AN_ANSWER, Prepared, RECORDED_CANCEL, Request, is_answer,
};
use link::Link;
use shelf::Shelf;
pub use shelf::{Carrier, Reuse};
pub use target::Target;
use tls::Tls;
pub use tls::Trust;
use told::Told;

/// Some servers send their end marker and keep the body open; nobody waits longer than this for it.
const END_AFTER_DONE_MAX: Duration = Duration::from_millis(250);

/// Which HTTP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1.
    #[default]
    One,
    /// HTTP/2, with prior knowledge where there is no TLS.
    Two,
    /// What the target prefers: HTTP/2 where TLS agrees on it, else HTTP/1.1.
    Auto,
}

impl Http {
    /// The ALPN names.
    fn offers(self) -> &'static [&'static [u8]] {
        match self {
            Self::One => &[b"http/1.1"],
            Self::Two => &[b"h2"],
            Self::Auto => &[b"h2", b"http/1.1"],
        }
    }
}

/// Connections to one target.
#[derive(Debug)]
pub struct Client {
    target: Target,
    tls: Option<Tls>,
    http: Http,
    shelf: Mutex<Shelf>,
    opened_late: AtomicU64,
}

impl Client {
    /// A client of a target without TLS, over HTTP/1.1, without connections yet.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            tls: None,
            http: Http::One,
            shelf: Mutex::default(),
            opened_late: AtomicU64::new(0),
        }
    }

    /// The same of any target.
    pub fn open(target: Target, trust: &Trust, http: Http, reuse: Reuse) -> Result<Self, Error> {
        let tls = match target.is_tls {
            true => Some(Tls::load(&target.host, trust, http)?),
            false => None,
        };
        Ok(Self {
            tls,
            http,
            shelf: Mutex::new(Shelf::new(reuse)),
            ..Self::new(target)
        })
    }

    /// Where it sends to.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Says how many requests each recorded connection is to carry: it is kept until the last of them
    /// has ended.
    pub fn expect(&self, requests: HashMap<i64, usize>) {
        self.shelf().expect(requests);
    }

    /// Requests that came over an open connection in production and had to open one here.
    pub fn opened_late(&self) -> u64 {
        self.opened_late.load(Ordering::Relaxed)
    }

    /// Opens connections ahead of use, until there are `count` or the target takes no more.
    pub async fn warm(&self, count: usize) -> usize {
        for opened in 0..count {
            match self.connect().await {
                Ok(link) => self.shelf().put(None, link),
                Err(_) => return opened,
            }
        }
        count
    }

    /// Builds everything of a request that can be built before it is sent.
    pub fn prepare(&self, request: Request) -> Prepared {
        let bounds = Bounds::of(&request);
        let body_bytes = request.body.len();
        let built = http::Request::builder()
            .method(request.method)
            .uri(request.path)
            .header(http::header::HOST, &self.target.authority)
            .body(Full::new(request.body));
        let wire = built.map_err(|cause| cause.to_string()).map(|mut wire| {
            wire.headers_mut().extend(request.headers);
            wire
        });
        Prepared {
            wire,
            bounds,
            body_bytes,
        }
    }

    /// Sends a request and reads its answer.
    pub async fn send(&self, request: &Request) -> Exchanged {
        let prepared = self.prepare(request.clone());
        self.send_until(prepared, &CancellationToken::new()).await
    }

    /// The same, cut short when `cut` is cancelled.
    pub async fn send_until(&self, prepared: Prepared, cut: &CancellationToken) -> Exchanged {
        let carrier = prepared.bounds.carrier;
        let mut told = Told::new(prepared.bounds.dialect);
        let failure = self.carry(prepared, &mut told, cut).await;
        self.shelf().ended(carrier);
        told.exchanged(failure)
    }

    /// Asks something that is not load, and keeps the answer.
    pub async fn fetch(&self, request: &Request) -> Result<Fetched, Failure> {
        let mut told = Told {
            kept: Some(Vec::new()),
            ..Told::new(Dialect::Unknown)
        };
        let never = CancellationToken::new();
        let prepared = self.prepare(request.clone());
        if let Some(failure) = self.carry(prepared, &mut told, &never).await {
            return Err(failure);
        }
        let status = told.status.unwrap_or_default();
        Ok(Fetched {
            status,
            headers: told.headers,
            body: told.kept.unwrap_or_default(),
        })
    }

    async fn carry(
        &self,
        prepared: Prepared,
        told: &mut Told,
        cut: &CancellationToken,
    ) -> Option<Failure> {
        let Prepared { wire, bounds, .. } = prepared;
        let pulse = Arc::clone(&told.pulse);
        let exchange = Box::pin(self.exchange(wire, bounds, told));
        let bounded = async {
            match bounds.timeout {
                Some(most) => tokio::time::timeout(most, exchange)
                    .await
                    .unwrap_or(Err(Failure::Timeout)),
                None => exchange.await,
            }
        };
        let gone = async {
            match bounds.cancel {
                Some(Cancel::AfterUs(us)) => {
                    tokio::time::sleep(Duration::from_micros(us.unsigned_abs())).await;
                }
                _ => std::future::pending().await,
            }
        };
        let silent = async {
            match bounds.idle_timeout {
                Some(most) => pulse.silence(most).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = bounded => ended.err(),
            () = cut.cancelled() => Some(Failure::Aborted),
            () = gone => Some(Failure::RecordedCancel),
            () = silent => Some(Failure::Silence),
        }
    }

    async fn exchange(
        &self,
        wire: Result<http::Request<Full<Bytes>>, String>,
        bounds: Bounds,
        told: &mut Told,
    ) -> Result<(), Failure> {
        let mut wire = wire.map_err(Failure::NoAnswer)?;
        let mut fresh = false;
        loop {
            let mut link = self.link(fresh, bounds.carrier).await?;
            told.pulse.follow(&link.written);
            told.handed(link.carried != 0);
            if link.is_http2() {
                self.name_server(&mut wire)?;
            }
            match link.send(wire).await {
                Ok(response) => return self.read(link, response, told, bounds).await,
                Err(mut refused) => {
                    told.request_end = Some(link.written.at());
                    let unsent = refused.take_message();
                    let cause = causes(&refused.into_error());
                    match unsent {
                        // Not one byte of it was written, so that sending it again repeats nothing.
                        Some(same) if !fresh => (wire, fresh) = (same, true),
                        _ => return Err(Failure::NoAnswer(cause)),
                    }
                }
            }
        }
    }

    /// HTTP/2 names the server in the address.
    fn name_server(&self, wire: &mut http::Request<Full<Bytes>>) -> Result<(), Failure> {
        let whole = format!("{}{}", self.target.origin(), wire.uri());
        if wire.uri().authority().is_none() {
            let whole = whole.parse::<http::Uri>();
            *wire.uri_mut() = whole.map_err(|cause| Failure::NoAnswer(cause.to_string()))?;
        }
        wire.headers_mut().remove(http::header::HOST);
        *wire.version_mut() = http::Version::HTTP_2;
        Ok(())
    }

    async fn link(&self, fresh: bool, carrier: Option<Carrier>) -> Result<Link, Failure> {
        if !fresh {
            loop {
                let Some(mut link) = self.shelf().take(carrier) else {
                    break;
                };
                if link.is_usable().await {
                    return Ok(link);
                }
            }
        }
        let had_one = carrier.is_some_and(|carrier| !carrier.is_first);
        self.opened_late
            .fetch_add(u64::from(had_one), Ordering::Relaxed);
        self.connect().await.map_err(Failure::Connect)
    }

    async fn connect(&self) -> Result<Link, String> {
        Link::connect(&self.target.addresses, self.tls.as_ref(), self.http).await
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(
        &self,
        mut link: Link,
        response: http::Response<hyper::body::Incoming>,
        told: &mut Told,
        bounds: Bounds,
    ) -> Result<(), Failure> {
        let (head, mut body) = response.into_parts();
        told.request_end = Some(link.written.at());
        told.head(head);
        loop {
            let next = link.drive(body.frame());
            let frame = match told.done_at {
                None => next.await,
                Some(done_at) => {
                    let until = tokio::time::Instant::from_std(done_at + END_AFTER_DONE_MAX);
                    match tokio::time::timeout_at(until, next).await {
                        Ok(frame) => frame,
                        // The answer was over at its end marker; the connection is given up.
                        Err(_) => {
                            told.ended = Some(done_at);
                            return Ok(());
                        }
                    }
                }
            };
            match frame {
                Some(Ok(frame)) => {
                    told.frame(frame.data_ref());
                    if is_over(bounds.cancel, told) {
                        return Err(Failure::RecordedCancel);
                    }
                }
                Some(Err(cause)) => return Err(Failure::Cut(causes(&cause))),
                None => break,
            }
        }
        told.ended = Some(Instant::now());
        link.rest();
        if link.is_usable().await {
            self.shelf().put(bounds.carrier, link);
        }
        Ok(())
    }
}

/// Whether production's client had gone away by now.
fn is_over(cancel: Option<Cancel>, told: &Told) -> bool {
    matches!(cancel, Some(Cancel::AfterEvents(events)) if events <= told.token_events())
}

/// An error with its causes, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        line = format!("{line}: {inner}");
        cause = inner.source();
    }
    line
}

#[cfg(test)]
mod tests;
