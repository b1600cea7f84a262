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
use http::header::{CONNECTION, EXPECT};
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
    let tape = begin(&connection, sequence, arrival_us, &request);
    let asked = Asked::of(&request);
    let request = prepare(&connection, request, tape.clone());
    let upload = request.body().watch();
    let answered = reach::answer(&connection, &side, request).await;
    match answered {
        Ok(reached) => {
            let came = reached.split(&connection, !upload.is_over());
            Ok(pass(&connection, &side, came, asked, tape, busy))
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

/// What the answer depends on of how the request was asked.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// By a client of HTTP/1.0 that expects the end of its connection anyway, unannounced.
    once: bool,
}

impl Asked {
    fn of(request: &Request<Inbound>) -> Self {
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
    request: &Request<Inbound>,
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
        headers: HeaderText::of(headers, &connection.shared.plans.get().kept_headers),
        content_encoding: redact::coding(headers).1,
        credentials: Credentials::of(headers, request.uri().query().unwrap_or_default()),
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
    headers::strip(&mut parts.headers, false);
    let body_max = shared.config.body_bytes_max;
    let recording = tape.map(|tape| Recording::of_request(tape, body_max));
    Request::from_parts(parts, Tap::new(body, recording))
}

/// Passes a response on: the same parts, so that reason phrase and header case stay.
fn pass(
    connection: &Connection,
    side: &Side,
    (mut parts, source): (Parts, Source),
    asked: Asked,
    tape: Option<Arc<Tape>>,
    busy: Busy,
) -> Response<ResponseBody> {
    let shared = &connection.shared;
    let recording = tape.map(|tape| {
        tape.head(head(shared, &tape, parts.status.as_u16(), &parts.headers));
        Recording::of_response(tape, shared.config.body_bytes_max, Arc::clone(&side.stall))
    });
    let close = headers::is_last(parts.version, &parts.headers);
    // It says what to upgrade to: that is its content.
    let upgrade = parts.status == StatusCode::UPGRADE_REQUIRED;
    headers::strip(&mut parts.headers, upgrade);
    let holds = connection.client.protocol == Protocol::Http1;
    if !holds {
        parts.version = Version::HTTP_2;
        parts.headers = headers::without_framing(&parts.headers);
        let answer = Answer::upstream(source, holds, busy);
        return Response::from_parts(parts, Tap::new(answer, recording));
    }
    parts.version = Version::HTTP_11;
    if close && !asked.once && !headers::is_last(parts.version, &parts.headers) {
        // The upstream closes after this response. Without us the client would see it close.
        parts
            .headers
            .append(CONNECTION, HeaderValue::from_static("close"));
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
