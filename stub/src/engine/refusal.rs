//! Why a request is refused, in vLLM's words.

use hyper::StatusCode;
use serde_json::{Value, json};

/// A request that gets no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) kind: &'static str,
    pub(super) message: String,
    pub(super) param: Option<&'static str>,
}

impl Refusal {
    /// The body asks for what cannot be.
    pub(super) fn bad(param: Option<&'static str>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "BadRequestError",
            message,
            param,
        }
    }

    /// There is no such model.
    pub(super) fn no_model(model: &str) -> Self {
        let message = format!("The model `{model}` does not exist.");
        let status = StatusCode::NOT_FOUND;
        Self {
            status,
            kind: "NotFoundError",
            message,
            param: Some("model"),
        }
    }

    /// The body is longer than anybody's prompt.
    pub(super) fn too_large(bytes_max: usize) -> Self {
        let message = format!("The body is longer than the {bytes_max} bytes that are read.");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self {
            status,
            kind: "BadRequestError",
            message,
            param: None,
        }
    }

    /// The cache cannot be emptied while requests run.
    pub(super) fn cache_in_use() -> Self {
        let message = "The prefix cache is in use by running requests.".to_owned();
        Self {
            status: StatusCode::CONFLICT,
            kind: "ConflictError",
            message,
            param: None,
        }
    }

    /// The engine is going away.
    pub(super) fn stopping() -> Self {
        let message = "The engine is stopping.".to_owned();
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self {
            status,
            kind: "ServiceUnavailableError",
            message,
            param: None,
        }
    }

    /// The JSON that goes over the wire.
    pub(super) fn body(&self) -> Value {
        let Self {
            status,
            kind,
            message,
            param,
        } = self;
        let code = status.as_u16();
        json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
    }
}
