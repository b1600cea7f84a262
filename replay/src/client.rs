//! One request, one timed answer.
//!
//! A [`Client`] keeps connections to one target. [`Client::send`] never fails: whatever happens to
//! an exchange is an [`Exchanged`] with an outcome, because a failure that is not a row is a
//! failure that is not counted.

use crate::error::Error;
use crate::plan::Cancel;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use truetape_schemas::wire::Dialect;

mod exchanged;
mod link;
mod socket;
mod target;
mod tls;
mod told;

pub use exchanged::{
    Exchanged, Failure, Fetched, NOT_AN_ANSWER, RECORDED_CANCEL, Request, is_answer,
};
use link::Link;
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
    idle: Mutex<Vec<Link>>,
}

impl Client {
    /// A client of a target without TLS, over HTTP/1.1, without connections yet.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            tls: None,
            http: Http::One,
            idle: Mutex::default(),
        }
    }

    /// The same of any target.
    pub fn open(target: Target, trust: &Trust, http: Http) -> Result<Self, Error> {
        let tls = match target.is_tls {
            true => Some(Tls::load(&target.host, trust, http)?),
            false => None,
        };
        Ok(Self {
            target,
            tls,
            http,
            idle: Mutex::default(),
        })
    }

    /// Where it sends to.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Opens connections ahead of use, until there are `count` or the target takes no more.
    pub async fn warm(&self, count: usize) -> usize {
        for opened in 0..count {
            match self.connect().await {
                Ok(link) => self.check_in(link),
                Err(_) => return opened,
            }
        }
        count
    }

    /// Sends a request and reads its answer.
    pub async fn send(&self, request: &Request) -> Exchanged {
        self.send_until(request, &CancellationToken::new()).await
    }

    /// The same, cut short when `cut` is cancelled.
    pub async fn send_until(&self, request: &Request, cut: &CancellationToken) -> Exchanged {
        let mut told = Told::new(request.dialect);
        let failure = self.carry(request, &mut told, cut).await;
        told.exchanged(failure)
    }

    /// Asks something that is not load, and keeps the answer.
    pub async fn fetch(&self, request: &Request) -> Result<Fetched, Failure> {
        let mut told = Told {
            kept: Some(Vec::new()),
            ..Told::new(Dialect::Unknown)
        };
        if let Some(failure) = self
            .carry(request, &mut told, &CancellationToken::new())
            .await
        {
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
        request: &Request,
        told: &mut Told,
        cut: &CancellationToken,
    ) -> Option<Failure> {
        let exchange = Box::pin(self.exchange(request, told));
        let bounded = async {
            match request.timeout {
                Some(most) => tokio::time::timeout(most, exchange)
                    .await
                    .unwrap_or(Err(Failure::Timeout)),
                None => exchange.await,
            }
        };
        let gone = async {
            match request.cancel {
                Some(Cancel::AfterUs(us)) => {
                    tokio::time::sleep(Duration::from_micros(us.unsigned_abs())).await;
                }
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = bounded => ended.err(),
            () = cut.cancelled() => Some(Failure::Aborted),
            () = gone => Some(Failure::RecordedCancel),
        }
    }

    async fn exchange(&self, request: &Request, told: &mut Told) -> Result<(), Failure> {
        let mut wire = self.wire(request)?;
        let mut fresh = false;
        loop {
            let mut link = self.link(fresh).await?;
            told.handed(link.carried != 0);
            if link.is_http2() {
                self.name_server(&mut wire)?;
            }
            match link.send(wire).await {
                Ok(response) => return self.read(link, response, told, request.cancel).await,
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

    fn wire(&self, request: &Request) -> Result<http::Request<Full<Bytes>>, Failure> {
        let built = http::Request::builder()
            .method(&request.method)
            .uri(&request.path)
            .header(http::header::HOST, &self.target.authority)
            .body(Full::new(request.body.clone()));
        let mut built = built.map_err(|cause| Failure::NoAnswer(cause.to_string()))?;
        built.headers_mut().extend(request.headers.clone());
        Ok(built)
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

    async fn link(&self, fresh: bool) -> Result<Link, Failure> {
        if !fresh {
            while let Some(mut link) = self.check_out() {
                if link.is_usable().await {
                    return Ok(link);
                }
            }
        }
        self.connect().await.map_err(Failure::Connect)
    }

    async fn connect(&self) -> Result<Link, String> {
        Link::connect(&self.target.addresses, self.tls.as_ref(), self.http).await
    }

    fn check_out(&self) -> Option<Link> {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
    }

    fn check_in(&self, link: Link) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(link);
    }

    async fn read(
        &self,
        mut link: Link,
        response: http::Response<hyper::body::Incoming>,
        told: &mut Told,
        cancel: Option<Cancel>,
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
                    if is_over(cancel, told) {
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
            self.check_in(link);
        }
        Ok(())
    }
}

/// Whether production's client had gone away by now.
fn is_over(cancel: Option<Cancel>, told: &Told) -> bool {
    matches!(cancel, Some(Cancel::AfterTokens(tokens)) if tokens <= told.token_events())
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
