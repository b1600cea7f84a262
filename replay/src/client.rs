//! One request, one timed answer.
//!
//! A [`Client`] keeps connections to one target. [`Client::send`] never fails: whatever happens to
//! an exchange is an [`Exchanged`] with an outcome, because a failure that is not a row is a
//! failure that is not counted.

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
mod told;

pub use exchanged::{Exchanged, Failure, Fetched, NOT_AN_ANSWER, Request, is_answer};
use link::Link;
pub use target::Target;
use told::Told;

/// Some servers send their end marker and keep the body open; nobody waits longer than this for it.
const END_AFTER_DONE_MAX: Duration = Duration::from_millis(250);

/// Connections to one target.
#[derive(Debug)]
pub struct Client {
    target: Target,
    idle: Mutex<Vec<Link>>,
}

impl Client {
    /// A client without connections yet.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            idle: Mutex::default(),
        }
    }

    /// Where it sends to.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Opens connections ahead of use, until there are `count` or the target takes no more.
    pub async fn warm(&self, count: usize) -> usize {
        for opened in 0..count {
            match Link::connect(&self.target.addresses).await {
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
        tokio::select! {
            biased;
            ended = bounded => ended.err(),
            () = cut.cancelled() => Some(Failure::Aborted),
        }
    }

    async fn exchange(&self, request: &Request, told: &mut Told) -> Result<(), Failure> {
        let mut wire = self.wire(request)?;
        let mut fresh = false;
        loop {
            let mut link = self.link(fresh).await?;
            told.handed(link.carried != 0);
            let answer = link.sender.try_send_request(wire);
            match link.drive(answer).await {
                Ok(response) => return self.read(link, response, told).await,
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

    async fn link(&self, fresh: bool) -> Result<Link, Failure> {
        if !fresh {
            while let Some(mut link) = self.check_out() {
                if link.is_usable().await {
                    return Ok(link);
                }
            }
        }
        Link::connect(&self.target.addresses)
            .await
            .map_err(Failure::Connect)
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
                Some(Ok(frame)) => told.frame(frame.data_ref()),
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
