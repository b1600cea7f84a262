//! One exchange: client to upstream to client.

use crate::account::Exclusion;
use crate::answer::{Answer, Source};
use crate::body::{Failure, Inbound, Torn};
use crate::connection::{Connection, Side};
use crate::fields::Fields;
use crate::io::Busy;
use crate::link::RequestBody;
use crate::metrics::Metric;
use crate::protocol::Protocol;
use crate::reach::{self, Failed};
use crate::redact::{self, Credentials, HeaderText};
use crate::server::Shared;
use crate::tap::{Recording, Tap};
use crate::tape::{Arrival, Fate, ResponseHead, Tape};
use crate::{headers, limits};
use h2::Reason;
use http::header::EXPECT;
use http::response::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Body as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use truetape_schemas::wire::session::PROBE_HEADER;

/// The body of a response on its way to the client.
pub type ResponseBody = Tap<Answer>;

/// The upstream went away before its response began: the client's connection, or its stream, ends as
/// its own at the upstream would have.
#[derive(Debug, thiserror::Error)]
#[error("upstream went away: {reason}")]
pub struct Gone {
    /// The code for a stream.
    pub reason: Reason,
    /// How the connection to the upstream broke, where that is why.
    pub torn: Option<Torn>,
}

impl Gone {
    fn of(failure: &Failure) -> Self {
        let reason = match failure {
            // The stream was not begun: the upstream closes its connection, and says so to all.
            Failure::Http2(cause) if cause.is_go_away() && cause.is_remote() => {
                Reason::REFUSED_STREAM
            }
            failure => failure.reason(),
        };
        let torn = failure.torn();
        Self { reason, torn }
    }
}

/// Header of the one answer that is ours.
pub const ERROR_HEADER: &str = "x-truetape-error";

/// Forwards one request and records the exchange.
pub async fn exchange(
    connection: Arc<Connection>,
    sequence: i32,
    side: Side,
    request: Request<Inbound>,
) -> Result<Response<ResponseBody>, Gone> {
    let shared = &connection.shared;
    let protocol = connection.client.protocol;
    let (busy, arrival_us) = Busy::begin(&connection.traffic, protocol, shared.recorder.clock());
    shared.metrics.count(Metric::Requests);
    let (method, uri) = (request.method().as_str(), request.uri());
    let target = || (redact::target(uri), uri.query().unwrap_or_default());
    let tape = begin(
        &connection,
        sequence,
        arrival_us,
        method,
        request.headers(),
        target,
    );
    let request = prepare(&connection, request, tape.clone());
    let upload = request.body().watch();
    let answered = reach::answer(&connection, &side, request).await;
    match answered {
        Ok(reached) => {
            let came = reached.split(&connection, !upload.is_over());
            Ok(pass(&connection, &side, came, tape, busy))
        }
        Err(Failed::Unreachable(unsent, why)) => {
            read_off(shared, *unsent).await;
            Ok(unreachable(shared, why, tape, busy))
        }
        Err(Failed::Broken(failure)) => {
            shared.metrics.count(Metric::UpstreamBroken);
            if let Some(tape) = tape {
                tape.fate(Fate::Broken);
            }
            Err(Gone::of(&failure))
        }
    }
}

/// Counts a request, and starts its tape when it is to be a row. `target`: what may be kept of what it
/// asks for, and the query that it has.
pub fn begin<'q>(
    connection: &Connection,
    sequence: i32,
    arrival_us: i64,
    method: &str,
    fields: &(impl Fields + ?Sized),
    target: impl FnOnce() -> (String, &'q str),
) -> Option<Arc<Tape>> {
    let recorder = &connection.shared.recorder;
    if method != Method::POST.as_str() {
        recorder.skip(Exclusion::NotInference);
        return None;
    }
    if fields.field(PROBE_HEADER).is_some() {
        recorder.skip(Exclusion::ReplayProbe);
        return None;
    }
    recorder.begin(|inflight| {
        let (path, query) = target();
        Arrival {
            conn_id: connection.id,
            conn_seq: sequence,
            upstream: Arc::clone(&connection.destination.authority),
            arrival_us,
            inflight,
            method: method.to_owned(),
            path,
            headers: HeaderText::of(fields, &connection.shared.plans.get().kept_headers),
            content_encoding: redact::coding(fields).1,
            credentials: Credentials::of(fields, query),
        }
    })
}

/// Makes the request that goes upstream: the same parts, without the fields of this hop.
fn prepare(
    connection: &Connection,
    request: Request<Inbound>,
    tape: Option<Arc<Tape>>,
) -> Request<RequestBody> {
    let shared = &connection.shared;
    let (mut parts, body) = request.into_parts();
    headers::strip(&mut parts.headers);
    let body_max = shared.config.body_bytes_max;
    let recording = tape.map(|tape| Recording::of_request(tape, body_max));
    Request::from_parts(parts, Tap::new(body, recording))
}

/// Passes a response on: the same parts, so that reason phrase and header case stay.
fn pass(
    connection: &Connection,
    side: &Side,
    (mut parts, source): (Parts, Source),
    tape: Option<Arc<Tape>>,
    busy: Busy,
) -> Response<ResponseBody> {
    let shared = &connection.shared;
    let recording = tape.map(|tape| {
        tape.head(head(shared, &tape, parts.status.as_u16(), &parts.headers));
        Recording::of_response(tape, shared.config.body_bytes_max, Arc::clone(&side.stall))
    });
    headers::strip(&mut parts.headers);
    let holds = connection.client.protocol == Protocol::Http1;
    if holds {
        parts.version = Version::HTTP_11;
    } else {
        parts.version = Version::HTTP_2;
        parts.headers = headers::without_framing(&parts.headers);
    }
    let answer = Answer::upstream(source, holds, busy);
    Response::from_parts(parts, Tap::new(answer, recording))
}

/// What is kept of a response's head.
pub fn head(
    shared: &Shared,
    tape: &Tape,
    status: u16,
    fields: &(impl Fields + ?Sized),
) -> ResponseHead {
    let (content_type, content_encoding) = redact::coding(fields);
    ResponseHead {
        at_us: tape.recorder().clock().now_us(),
        status,
        headers: HeaderText::of(fields, &shared.plans.get().kept_headers),
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
        tape.head(head(
            shared,
            &tape,
            StatusCode::BAD_GATEWAY.as_u16(),
            response.headers(),
        ));
    }
    response
}
