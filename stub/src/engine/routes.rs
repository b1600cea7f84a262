//! Paths to handlers.

use super::Outgoing;
use super::ask::{self, Api};
use super::config::Config;
use super::driver::{Client, Command, Progress};
use super::events::Events;
use super::refusal::Refusal;
use super::stream::Stream;
use super::{metrics, whole};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, SERVER};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use truetape_fidelity::tokens;

/// Longest body that is read: 16 Mi tokens, far beyond any model.
const BODY_BYTES_MAX: usize = 64 << 20;

/// What the server calls itself.
const SERVER_NAME: &str = concat!("truetape-stub/", env!("CARGO_PKG_VERSION"));

/// Everything a request needs.
#[derive(Debug)]
pub(super) struct Server {
    config: Config,
    client: Client,
    started_s: i64,
}

impl Server {
    pub(super) fn new(config: Config, client: Client) -> Self {
        let started_s = truetape_schemas::time::wall_now_us() / 1_000_000;
        Self {
            config,
            client,
            started_s,
        }
    }

    /// Answers one request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Outgoing> {
        let mut response = match self.route(request).await {
            Ok(response) => response,
            Err(refusal) => in_json(refusal.status, &refusal.body()),
        };
        response
            .headers_mut()
            .insert(SERVER, HeaderValue::from_static(SERVER_NAME));
        response
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Response<Outgoing>, Refusal> {
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let wanted = match path.as_str() {
            "/v1/chat/completions" | "/v1/completions" | "/tokenize" | "/reset_prefix_cache" => {
                Method::POST
            }
            "/v1/models" | "/version" | "/health" | "/metrics" => Method::GET,
            _ => return Ok(detail(StatusCode::NOT_FOUND, "Not Found")),
        };
        if method != wanted {
            return Ok(detail(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"));
        }
        match path.as_str() {
            "/v1/chat/completions" => self.generate(Api::Chat, request).await,
            "/v1/completions" => self.generate(Api::Completions, request).await,
            "/tokenize" => self.tokenize(request).await,
            "/reset_prefix_cache" => self.reset_prefix_cache().await,
            "/v1/models" => Ok(in_json(StatusCode::OK, &self.models())),
            "/version" => {
                let version = json!({"version": env!("CARGO_PKG_VERSION")});
                Ok(in_json(StatusCode::OK, &version))
            }
            "/metrics" => Ok(self.metrics()),
            _ => Ok(plain(StatusCode::OK, "text/plain", Bytes::new())),
        }
    }

    async fn generate(
        &self,
        api: Api,
        request: Request<Incoming>,
    ) -> Result<Response<Outgoing>, Refusal> {
        let body = read(request).await?;
        let mut ask = ask::read(api, &body, &self.config)?;
        let hide_cached_tokens = self.config.quirks.hide_cached_tokens;
        let (sender, progress) = watch::channel(Progress::default());
        let events = Events::new(&ask, hide_cached_tokens);
        // The hashes are the engine's from here on; nobody reads them again.
        let job = truetape_fidelity::engine::Job {
            blocks: std::mem::take(&mut ask.job.blocks),
            ..ask.job
        };
        let command = Command::Serve {
            job,
            finish: ask.finish,
            progress: sender,
        };
        self.client
            .commands
            .send(command)
            .await
            .map_err(|_| Refusal::stopping())?;
        if ask.stream {
            let body = Stream::new(events, progress).boxed();
            return Ok(response(
                StatusCode::OK,
                "text/event-stream; charset=utf-8",
                body,
            ));
        }
        let done = whole::wait(progress).await.ok_or_else(Refusal::stopping)?;
        Ok(in_json(
            StatusCode::OK,
            &whole::answer(&ask, done, hide_cached_tokens),
        ))
    }

    async fn tokenize(&self, request: Request<Incoming>) -> Result<Response<Outgoing>, Refusal> {
        let body = read(request).await?;
        let rendered = ask::render(&body, &self.config)?;
        let ids = tokens::ids(&rendered);
        let answer = json!({
            "count": ids.len(),
            "max_model_len": self.config.model_len(),
            "tokens": ids,
            "token_strs": null,
        });
        Ok(in_json(StatusCode::OK, &answer))
    }

    async fn reset_prefix_cache(&self) -> Result<Response<Outgoing>, Refusal> {
        let (sender, answer) = oneshot::channel();
        let command = Command::Reset(sender);
        self.client
            .commands
            .send(command)
            .await
            .map_err(|_| Refusal::stopping())?;
        match answer.await {
            Ok(true) => Ok(plain(StatusCode::OK, "text/plain", Bytes::new())),
            Ok(false) => Err(Refusal::cache_in_use()),
            Err(_) => Err(Refusal::stopping()),
        }
    }

    fn models(&self) -> Value {
        let model = json!({
            "id": self.config.model,
            "object": "model",
            "created": self.started_s,
            "owned_by": "truetape",
            "root": self.config.model,
            "parent": null,
            "max_model_len": self.config.model_len(),
        });
        json!({"object": "list", "data": [model]})
    }

    fn metrics(&self) -> Response<Outgoing> {
        let snapshot = *self.client.snapshot.borrow();
        let text = metrics::render(&snapshot, &self.config.model, &self.config.engine);
        plain(
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            Bytes::from(text),
        )
    }
}

async fn read(request: Request<Incoming>) -> Result<Bytes, Refusal> {
    match Limited::new(request.into_body(), BODY_BYTES_MAX)
        .collect()
        .await
    {
        Ok(body) => Ok(body.to_bytes()),
        Err(cause) if cause.is::<LengthLimitError>() => Err(Refusal::too_large(BODY_BYTES_MAX)),
        Err(cause) => Err(Refusal::bad(
            None,
            format!("The body cannot be read: {cause}."),
        )),
    }
}

fn in_json(status: StatusCode, value: &Value) -> Response<Outgoing> {
    plain(status, "application/json", Bytes::from(value.to_string()))
}

fn detail(status: StatusCode, detail: &str) -> Response<Outgoing> {
    in_json(status, &json!({"detail": detail}))
}

fn plain(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Outgoing> {
    let body = Full::new(body).map_err(|never| match never {}).boxed();
    response(status, content_type, body)
}

fn response(status: StatusCode, content_type: &'static str, body: Outgoing) -> Response<Outgoing> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
