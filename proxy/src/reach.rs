//! From a request to the head of its response: over which connection, and what when that fails.

use crate::answer::{Drive, Sent, Source};
use crate::body::{Failure, Stream};
use crate::connection::{Connection, Side};
use crate::dial::{self, Driver, Fresh};
use crate::expect::Gate;
use crate::interim::Interim;
use crate::link::{Link, RequestBody, Unanswered};
use crate::metrics::Metric;
use crate::protocol::{Protocol, Wanted};
use crate::pump::Stopped;
use crate::route::Unreached;
use crate::server::Shared;
use crate::translate;
use crate::trunk::{Trunk, Upload};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use std::future::poll_fn;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What came, and over what.
#[derive(Debug)]
pub enum Reached {
    /// Over HTTP/1.
    Link(Response<Incoming>, Link),
    /// Over HTTP/2.
    Trunk(Response<Stream>, Upload),
}

impl Reached {
    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Link(response, _) => response.status(),
            Self::Trunk(response, _) => response.status(),
        }
    }

    /// Parts it into the head and the body with whatever drives it. `uploading`: the body of the
    /// request is still on its way; that must not wait for a client that does not read yet, so it
    /// gets a task.
    pub fn split(
        self,
        connection: &Connection,
        uploading: bool,
    ) -> (http::response::Parts, Source) {
        match self {
            Self::Link(response, link) => {
                let (parts, incoming) = response.into_parts();
                let drive = drive(connection, link, uploading);
                (parts, Source::Link { incoming, drive })
            }
            Self::Trunk(response, upload) => {
                let (parts, stream) = response.into_parts();
                let sent = finish(connection, upload);
                (parts, Source::Trunk { stream, sent })
            }
        }
    }
}

fn drive(connection: &Connection, mut link: Link, uploading: bool) -> Drive {
    let pair = Arc::clone(&connection.pair);
    if !uploading {
        return Drive::Here(link, pair);
    }
    let ended = connection.alive.child_token();
    let abort = ended.clone();
    connection.spawn(async move {
        let settling = async move {
            link.settle().await;
            pair.give_from_outside(link);
        };
        ended.run_until_cancelled(settling).await;
    });
    Drive::Task(abort)
}

fn finish(connection: &Connection, mut upload: Upload) -> Sent {
    if upload.is_over() {
        return Sent::Whole(upload.to);
    }
    let ended = connection.alive.child_token();
    let abort = ended.clone();
    connection.spawn(async move {
        let passing = poll_fn(|cx| upload.poll(cx));
        match ended.run_until_cancelled(passing).await {
            // The client gave it up, and said why.
            Some(Err(Stopped::Failed(failure))) => upload.to.reset(failure.reason()),
            Some(Ok(()) | Err(Stopped::Reset(_) | Stopped::Lost)) => upload.to.release(),
            // When it does not end by itself, the stream is reset.
            None => {}
        }
    });
    Sent::Task(abort)
}

/// Why there is no response.
#[derive(Debug)]
pub enum Failed {
    /// No connection could be opened, for such a reason; this was not sent.
    Unreachable(Box<Request<RequestBody>>, &'static str),
    /// The upstream gave none.
    Broken(Failure),
}

/// Sends a request over a connection that its client has, or over a new one.
///
/// A connection that turned out to be closed is replaced as long as not a byte was written. After
/// that, nothing is ever sent twice: the client decides about retries, as it would without us.
pub async fn answer(
    connection: &Connection,
    side: &Side,
    mut request: Request<RequestBody>,
) -> Result<Reached, Failed> {
    let (shared, destination) = (&connection.shared, &connection.destination);
    // A client of HTTP/1.0 does not understand them.
    let hears = request.version() >= Version::HTTP_11;
    if hears && connection.wanted != Wanted::Http2 {
        let ear = Ear::of(connection, side, &request);
        hyper::ext::on_informational(&mut request, move |response| {
            ear.hear(response.status(), response.headers());
        });
    }
    loop {
        let road = match road(connection).await {
            Ok(road) => road,
            Err(cause) => {
                shared.unreachable(&destination.authority, &cause);
                return Err(Failed::Unreachable(Box::new(request), cause.name()));
            }
        };
        let sent = match road {
            Road::Link(mut link) => {
                translate::to_http1(&mut request, &destination.authority);
                let sent = link.send(request).await;
                sent.map(|response| Reached::Link(response, link))
            }
            Road::Trunk(trunk) => {
                translate::to_http2(&mut request, &destination.authority, destination.scheme());
                let ear = hears.then(|| Ear::of(connection, side, &request));
                let sent = trunk.clone().send(request, &side.cause, ear).await;
                if matches!(sent, Err(Unanswered::Unsent(_))) {
                    connection.pair.fell(&trunk);
                }
                sent.map(|(response, upload)| Reached::Trunk(response, upload))
            }
        };
        match sent {
            Ok(reached) => return Ok(reached),
            Err(Unanswered::Unsent(unsent)) => {
                shared.metrics.count(Metric::UpstreamReplaced);
                request = *unsent;
            }
            Err(Unanswered::Broken(cause)) => {
                tracing::debug!(%cause, "upstream gave no response");
                return Err(Failed::Broken(cause));
            }
        }
    }
}

/// Passes the interim responses of one exchange on.
#[derive(Debug)]
pub struct Ear {
    shared: Arc<Shared>,
    interim: Arc<Interim>,
    /// Opened by `100 Continue`, for a client that hyper tells so once its body is wanted.
    gate: Option<CancellationToken>,
    to_http1: bool,
}

impl Ear {
    fn of(connection: &Connection, side: &Side, request: &Request<RequestBody>) -> Self {
        Self {
            shared: Arc::clone(&connection.shared),
            interim: Arc::clone(&side.interim),
            gate: request.body().inner().gate().map(Gate::key),
            to_http1: connection.client.protocol == Protocol::Http1,
        }
    }

    /// One came.
    pub fn hear(&self, status: StatusCode, headers: &HeaderMap) {
        if self.to_http1 && status == StatusCode::CONTINUE {
            if let Some(gate) = &self.gate {
                gate.cancel();
            }
        } else if !self.interim.push(status, headers) {
            self.shared.metrics.count(Metric::InterimLost);
        }
    }
}

enum Road {
    Link(Link),
    Trunk(Trunk),
}

async fn road(connection: &Connection) -> Result<Road, Unreached> {
    let pair = &connection.pair;
    if let Some(link) = pair.take() {
        return Ok(Road::Link(link));
    }
    if connection.wanted == Wanted::Http1 {
        return open(connection).await;
    }
    if let Some(trunk) = pair.trunk() {
        return Ok(Road::Trunk(trunk));
    }
    // One of several streams opens it; those that waited for it take what came of it.
    let Some(turn) = pair.turn().await? else {
        return open(connection).await;
    };
    if let Some(link) = pair.take() {
        return Ok(Road::Link(link));
    }
    match pair.trunk() {
        Some(trunk) => Ok(Road::Trunk(trunk)),
        None => open(connection).await.map_err(|cause| turn.failed(cause)),
    }
}

async fn open(connection: &Connection) -> Result<Road, Unreached> {
    connection.shared.metrics.count(Metric::UpstreamConnects);
    Ok(
        match dial::connect(&connection.destination, connection.wanted).await? {
            Fresh::Link(link) => {
                connection.pair.only_links();
                Road::Link(link)
            }
            Fresh::Trunk(trunk, driver) => {
                connection.pair.plant(&trunk);
                run(connection, &trunk, driver);
                Road::Trunk(trunk)
            }
        },
    )
}

/// Drives a trunk until it or its client's connection ends.
fn run(connection: &Connection, trunk: &Trunk, driver: Driver) {
    let (pair, trunk) = (Arc::clone(&connection.pair), trunk.clone());
    connection.spawn(async move {
        if let Err(cause) = driver.0.await {
            tracing::debug!(%cause, "a connection to the upstream ended early");
        }
        pair.ended(&trunk);
    });
}
