//! One exchange: client to upstream to client.

use crate::account::Exclusion;
use crate::answer::{Answer, Drive};
use crate::io::{Busy, Traffic};
use crate::link::{Link, RequestBody, Unanswered};
use crate::metrics::Metric;
use crate::pair::Pair;
use crate::redact::{self, Credentials, HeaderText};
use crate::route::Destination;
use crate::server::Shared;
use crate::tap::{Recording, Tap};
use crate::tape::{Arrival, Fate, ResponseHead, Tape};
use crate::{headers, limits, tunnel};
use http::header::{CONNECTION, EXPECT, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, DropGuard};
use truetape_schemas::wire::session::PROBE_HEADER;

/// The body of a response on its way to the client.
pub type ResponseBody = Tap<Answer>;

/// The upstream went away before its response began: the client's connection ends as its own
/// connection to the upstream would have.
#[derive(Debug, thiserror::Error)]
#[error("upstream went away")]
pub struct Gone;

/// Header of the one answer that is ours.
pub const ERROR_HEADER: &str = "x-truetape-error";

/// One client connection, as its exchanges see it.
#[derive(Debug)]
pub struct Connection {
    /// What all connections share.
    pub shared: Arc<Shared>,
    /// What passes over this one.
    pub traffic: Arc<Traffic>,
    /// Its link to the upstream.
    pub pair: Arc<Pair>,
    /// Ends with it: what goes on for it in tasks of their own.
    pub alive: DropGuard,
    /// Where its requests go.
    pub destination: Destination,
    /// Its number.
    pub id: i64,
}

impl Connection {
    /// A connection that was just accepted.
    pub fn new(shared: &Arc<Shared>, destination: Destination, id: i64) -> Self {
        Self {
            shared: Arc::clone(shared),
            traffic: Traffic::new(),
            pair: Arc::default(),
            alive: CancellationToken::new().drop_guard(),
            destination,
            id,
        }
    }

    /// Says who drives the link of a response. An upload that is not over must not wait for a client
    /// that does not read yet, so it gets a task.
    fn drive(&self, mut link: Link, uploading: bool) -> Drive {
        let pair = Arc::clone(&self.pair);
        if !uploading {
            return Drive::Here(link, pair);
        }
        let ended = self.alive.token().child_token();
        let (cut, abort) = (self.shared.cut.clone(), ended.clone());
        let settling = async move {
            link.settle().await;
            pair.give_from_outside(link);
        };
        drop(self.shared.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = ended.cancelled() => {}
                () = settling => {}
            }
        }));
        Drive::Task(abort)
    }
}

/// Forwards one request and records the exchange.
pub async fn exchange(
    connection: Arc<Connection>,
    sequence: i32,
    mut request: Request<Incoming>,
) -> Result<Response<ResponseBody>, Gone> {
    let shared = &connection.shared;
    let (busy, arrival_us) = Busy::begin(&connection.traffic, shared.recorder.clock());
    shared.metrics.count(Metric::Requests);
    let upgrade = headers::is_upgrade(request.headers());
    let client_side = upgrade.then(|| hyper::upgrade::on(&mut request));
    // Counted once it is known whether it became a tunnel.
    let uncounted = upgrade && request.method() != Method::POST;
    let tape = if uncounted {
        None
    } else {
        begin(&connection, sequence, arrival_us, &request)
    };
    let asked = Asked::of(&request);
    let request = prepare(&connection, request, upgrade, tape.clone());
    let upload = request.body().watch();
    let answered = match (answer(&connection, request).await, client_side) {
        (Ok((response, link)), Some(client_side))
            if response.status() == StatusCode::SWITCHING_PROTOCOLS =>
        {
            match &tape {
                Some(tape) => tape.fate(Fate::Upgraded),
                None if uncounted => shared.recorder.skip(Exclusion::Upgrade),
                None => {}
            }
            return Ok(tunnel::open(shared, response, link, client_side, busy).await);
        }
        (answered, _) => answered,
    };
    if uncounted {
        shared.recorder.skip(Exclusion::NotInference);
    }
    match answered {
        Ok((response, link)) => {
            let drive = connection.drive(link, !upload.is_over());
            Ok(pass(&connection, response, drive, asked, tape, busy))
        }
        Err(Failed::Unreachable(unsent, why)) => {
            read_off(shared, *unsent).await;
            Ok(unreachable(shared, why, tape, busy))
        }
        Err(Failed::Broken) => {
            shared.metrics.count(Metric::UpstreamBroken);
            if let Some(tape) = tape {
                tape.fate(Fate::Broken);
            }
            Err(Gone)
        }
    }
}

/// What the answer depends on of how the request was asked.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// By a client of HTTP/1.0 that expects the end of its connection anyway, unannounced.
    once: bool,
}

impl Asked {
    fn of(request: &Request<Incoming>) -> Self {
        let version = request.version();
        let last = headers::is_last(version, request.headers());
        Self {
            once: version == Version::HTTP_10 && last,
        }
    }
}

/// Counts the request, and starts its tape when it is to be a row.
fn begin(
    connection: &Connection,
    sequence: i32,
    arrival_us: i64,
    request: &Request<Incoming>,
) -> Option<Arc<Tape>> {
    let recorder = &connection.shared.recorder;
    if request.method() != Method::POST {
        recorder.skip(Exclusion::NotInference);
        return None;
    }
    let headers = request.headers();
    if headers.contains_key(PROBE_HEADER) {
        recorder.skip(Exclusion::ReplayProbe);
        return None;
    }
    recorder.begin(|inflight| Arrival {
        conn_id: connection.id,
        conn_seq: sequence,
        upstream: Arc::clone(&connection.destination.authority),
        arrival_us,
        inflight,
        method: request.method().as_str().to_owned(),
        path: redact::target(request.uri()),
        headers: HeaderText::of(headers, &connection.shared.config.session_headers),
        content_encoding: redact::coding(headers).1,
        credentials: Credentials::of(headers, request.uri()),
    })
}

/// Makes the request that goes upstream: the same parts, without the fields of this hop.
fn prepare(
    connection: &Connection,
    request: Request<Incoming>,
    upgrade: bool,
    tape: Option<Arc<Tape>>,
) -> Request<RequestBody> {
    let shared = &connection.shared;
    let (mut parts, body) = request.into_parts();
    headers::strip(&mut parts.headers, upgrade);
    if parts.version != Version::HTTP_11 {
        // An upstream that is asked in 1.0 may not chunk, and buffers its stream.
        parts.version = Version::HTTP_11;
        if !parts.headers.contains_key(HOST)
            && let Ok(host) = HeaderValue::from_str(&connection.destination.authority)
        {
            parts.headers.insert(HOST, host);
        }
    }
    let body_max = shared.config.body_bytes_max;
    let recording = tape.map(|tape| Recording::of_request(tape, body_max));
    Request::from_parts(parts, Tap::new(body, recording))
}

enum Failed {
    Unreachable(Box<Request<RequestBody>>, &'static str),
    Broken,
}

/// Sends a request over the link of its connection, or over a new one.
///
/// A link that turned out to be closed is replaced as long as not a byte was written. After that,
/// nothing is ever sent twice: the client decides about retries, as it would without us.
async fn answer(
    connection: &Connection,
    mut request: Request<RequestBody>,
) -> Result<(Response<Incoming>, Link), Failed> {
    let shared = &connection.shared;
    loop {
        let mut link = match connection.pair.take() {
            Some(link) => link,
            None => {
                shared.metrics.count(Metric::UpstreamConnects);
                match Link::connect(&connection.destination).await {
                    Ok(link) => link,
                    Err(cause) => {
                        shared.unreachable(&connection.destination.authority, &cause);
                        return Err(Failed::Unreachable(Box::new(request), cause.name()));
                    }
                }
            }
        };
        match link.send(request).await {
            Ok(response) => return Ok((response, link)),
            Err(Unanswered::Unsent(unsent)) => {
                shared.metrics.count(Metric::UpstreamReplaced);
                request = *unsent;
            }
            Err(Unanswered::Broken(cause)) => {
                tracing::debug!(%cause, "upstream gave no response");
                return Err(Failed::Broken);
            }
        }
    }
}

/// Passes a response on: the same parts, so that reason phrase and header case stay.
fn pass(
    connection: &Connection,
    response: Response<Incoming>,
    drive: Drive,
    asked: Asked,
    tape: Option<Arc<Tape>>,
    busy: Busy,
) -> Response<ResponseBody> {
    let shared = &connection.shared;
    let (mut parts, incoming) = response.into_parts();
    let recording = tape.map(|tape| {
        tape.head(head(&tape, parts.status, &parts.headers));
        Recording::of_response(
            tape,
            shared.config.body_bytes_max,
            Arc::clone(busy.traffic()),
        )
    });
    let close = headers::is_last(parts.version, &parts.headers);
    // It says what to upgrade to: that is its content.
    let upgrade = parts.status == StatusCode::UPGRADE_REQUIRED;
    headers::strip(&mut parts.headers, upgrade);
    parts.version = Version::HTTP_11;
    if close && !asked.once && !headers::is_last(parts.version, &parts.headers) {
        // The upstream closes after this response. Without us the client would see it close.
        parts
            .headers
            .append(CONNECTION, HeaderValue::from_static("close"));
    }
    let answer = Answer::upstream(incoming, drive, busy);
    Response::from_parts(parts, Tap::new(answer, recording))
}

/// What is kept of a response's head.
pub fn head(tape: &Tape, status: StatusCode, headers: &HeaderMap) -> ResponseHead {
    let (content_type, content_encoding) = redact::coding(headers);
    ResponseHead {
        at_us: tape.recorder().clock().now_us(),
        status: status.as_u16(),
        headers: HeaderText::of(headers, &[]),
        content_type,
        content_encoding,
    }
}

/// Reads a body that goes nowhere, so that the row has it: what could not be served is traffic too.
/// A client that waits before it sends is not kept waiting, and a body is not read for longer than
/// it may be remembered.
async fn read_off(shared: &Shared, request: Request<RequestBody>) {
    if request.headers().contains_key(EXPECT) {
        return;
    }
    let mut left = shared.config.body_bytes_max;
    let mut body = request.into_body();
    let reading = async {
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let length = frame.data_ref().map_or(0, bytes::Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // Beyond it, the row has what came.
    drop(tokio::time::timeout(limits::READ_OFF_WITHIN, reading).await);
}

/// The one answer that is ours, marked as such.
fn unreachable(
    shared: &Shared,
    why: &'static str,
    tape: Option<Arc<Tape>>,
    busy: Busy,
) -> Response<ResponseBody> {
    let text = format!("truetape: {why} failed\n");
    let mut response = Response::new(Tap::new(Answer::own(text, busy), None));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    let headers = response.headers_mut();
    headers.insert(ERROR_HEADER, HeaderValue::from_static(why));
    headers.insert(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain"),
    );
    shared.metrics.count(Metric::UpstreamUnreachable);
    if let Some(tape) = tape {
        tape.fate(Fate::Unreachable);
        tape.head(head(&tape, StatusCode::BAD_GATEWAY, response.headers()));
    }
    response
}
