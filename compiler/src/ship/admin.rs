//! `/livez` and `/metrics`, for the container that ships.

use super::tally::Tally;
use crate::error::Error;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Longest wait for the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// Pause after an accept that failed, as when descriptors run out.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(100);

/// Serves the pages until `ended`.
pub(super) async fn start(
    tasks: &TaskTracker,
    addr: SocketAddr,
    tally: &Arc<Tally>,
    ended: &CancellationToken,
) -> Result<(), Error> {
    let refuse = |cause: std::io::Error| Error::config("admin", format!("{addr}: {cause}"));
    let listener = TcpListener::bind(addr).await.map_err(refuse)?;
    let admin = listener.local_addr().map_err(refuse)?;
    tracing::info!(listen = %admin, "listening");
    let serving = serve(listener, Arc::clone(tally), tasks.clone(), ended.clone());
    drop(tasks.spawn(serving));
    Ok(())
}

async fn serve(
    listener: TcpListener,
    tally: Arc<Tally>,
    tasks: TaskTracker,
    ended: CancellationToken,
) {
    while let Some(accepted) = ended.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY_AFTER).await;
            continue;
        };
        let (tally, until) = (Arc::clone(&tally), ended.clone());
        drop(tasks.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let page = page(&tally, request.method(), request.uri().path());
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
}

fn page(tally: &Tally, method: &Method, path: &str) -> Response<Full<Bytes>> {
    let (status, text) = match path {
        _ if !matches!(*method, Method::GET | Method::HEAD) => {
            (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned())
        }
        // Alive through any outage of the store: a restart would not help.
        "/livez" => (StatusCode::OK, "ok\n".to_owned()),
        "/metrics" => (StatusCode::OK, tally.metrics()),
        _ => (StatusCode::NOT_FOUND, "not found\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
