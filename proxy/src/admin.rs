//! The admin pages: on loopback unless told otherwise, and commands from loopback only.

use crate::capture::Status;
use crate::limits;
use crate::server::Shared;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use truetape_schemas::capture;

/// Longest wait for the head of an admin request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Serves the pages until `stopped`: they are still there while the proxy drains.
pub async fn run(
    listener: TcpListener,
    shared: Arc<Shared>,
    status: Arc<Status>,
    stopped: CancellationToken,
) {
    let tasks = TaskTracker::new();
    while let Some(accepted) = stopped.run_until_cancelled(listener.accept()).await {
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(limits::ACCEPT_RETRY_AFTER).await;
            continue;
        };
        let (shared, status, until) = (Arc::clone(&shared), Arc::clone(&status), stopped.clone());
        drop(tasks.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let page = match *request.method() {
                    Method::GET | Method::HEAD => page(&shared, &status, request.uri().path()),
                    Method::POST => command(&shared, &status, peer.ip(), &request),
                    _ => answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and POST\n"),
                };
                std::future::ready(Ok::<_, Infallible>(page))
            });
            let mut builder = Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_WITHIN);
            let serving = builder.serve_connection(TokioIo::new(stream), service);
            drop(until.run_until_cancelled(serving).await);
        }));
    }
    tasks.close();
    tasks.wait().await;
}

/// Does what an operator asks, when that was allowed at the start, and asked from this host by
/// something that is no web page: a browser names where its request comes from.
fn command(
    shared: &Shared,
    status: &Status,
    peer: IpAddr,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let allowed = shared.config.admin_writes;
    let from_a_page = request.headers().contains_key(header::ORIGIN);
    if !allowed || !peer.to_canonical().is_loopback() || from_a_page {
        const WHY: &str = "commands need --admin-writes, and come from this host\n";
        return answer(StatusCode::FORBIDDEN, TEXT, WHY);
    }
    match request.uri().path() {
        "/capture/on" => shared.recorder.switch_off(false),
        "/capture/off" => shared.recorder.switch_off(true),
        "/capture/flush" => status.flush(),
        _ => return answer(StatusCode::NOT_FOUND, TEXT, "not found\n"),
    }
    tracing::info!(command = request.uri().path(), "an operator gave a command");
    answer(StatusCode::OK, TEXT, "ok\n")
}

fn page(shared: &Shared, status: &Status, path: &str) -> Response<Full<Bytes>> {
    match path {
        "/livez" => answer(StatusCode::OK, TEXT, "ok\n"),
        // Never tied to the recorder: a full disk must not take the traffic away.
        "/readyz" if shared.drain.is_cancelled() => {
            answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n")
        }
        "/readyz" => answer(StatusCode::OK, TEXT, "ok\n"),
        "/metrics" => {
            let text = shared
                .metrics
                .render(&shared.recorder, state(shared, status));
            answer(
                StatusCode::OK,
                "text/plain; version=0.0.4; charset=utf-8",
                text,
            )
        }
        "/version" => answer(StatusCode::OK, JSON, version()),
        "/capture" => answer(StatusCode::OK, JSON, capture_status(shared, status)),
        _ => answer(StatusCode::NOT_FOUND, TEXT, "not found\n"),
    }
}

/// What capture does: `recording`, `off`, or why it does not record.
fn state(shared: &Shared, status: &Status) -> &'static str {
    match status.state() {
        "failed" => "failed",
        _ if shared.recorder.is_off() => "off",
        state => state,
    }
}

fn version() -> String {
    serde_json::json!({
        "name": "truetape",
        "version": env!("CARGO_PKG_VERSION"),
        "formats": [capture::FORMAT.to_string()],
    })
    .to_string()
}

fn capture_status(shared: &Shared, status: &Status) -> String {
    let recorder = &shared.recorder;
    serde_json::json!({
        "state": state(shared, status),
        "segment": status.segment(),
        "ledger": recorder.account().snapshot(),
        "in_flight": recorder.inflight(),
        "memory_bytes": recorder.budget().used(),
        "memory_bytes_max": recorder.budget().max(),
    })
    .to_string()
}

fn answer(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let value = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
