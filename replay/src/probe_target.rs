//! What the target is and takes, asked before anything is measured or written.

use crate::body::{can_enforce, can_salt};
use crate::client::{Client, Failure, Fetched, Request};
use crate::error::Error;
use crate::plan::TargetFacts;
use crate::scrape::{self, Scraped};
use serde_json::{Value, json};
use std::time::Duration;
use truetape_schemas::run::Engine;
use truetape_schemas::wire::Dialect;

mod engine;

/// Time a question may take: a server that is up answers these at once, and one that is still
/// loading its model does not accept connections.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// Time the one-token requests may take: a busy server queues them.
const TOKEN_TIME_MAX: Duration = Duration::from_secs(120);

/// Characters of a refusal that are repeated in an error.
const REFUSAL_CHARS_MAX: usize = 200;

/// What was found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// What the target said it is.
    pub engine: Engine,
    /// Its context length, by model.
    pub context_tokens: Vec<(String, i64)>,
    /// Things a user should know.
    pub findings: Vec<String>,
}

/// Which parameters a target takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// `ignore_eos` and `min_tokens`.
    pub lengths: bool,
    /// `cache_salt`.
    pub salt: bool,
}

impl Probed {
    /// What the plan must know, for the models that will be asked for.
    pub fn facts(&self, takes: Takes) -> TargetFacts {
        TargetFacts {
            models: self.engine.models.clone(),
            // The smallest of them: a turn that fits it fits wherever it is sent.
            context_tokens_max: self.context_tokens.iter().map(|(_, tokens)| *tokens).min(),
            enforces_lengths: takes.lengths,
        }
    }
}

/// Asks what the target is. A target that cannot be reached is an error, before a run exists.
pub async fn identify(client: &Client, headers: &http::HeaderMap) -> Result<Probed, Error> {
    let target = client.target();
    let mut probed = Probed::default();
    let models = ask(client, headers, target.path("/v1/models")).await;
    let models = models.map_err(|failure| unreachable(client, &failure))?;
    if matches!(models.status, 401 | 403) {
        return Err(refused(
            client,
            &models,
            "name the variable that holds a key: --api-key-env",
        ));
    }
    let server = models
        .headers
        .get(http::header::SERVER)
        .and_then(|value| value.to_str().ok());
    probed.engine.server = server.map(str::to_owned);
    let listed = listed_models(&models);
    if listed.is_empty() {
        probed
            .findings
            .push("target: it lists no models: recorded names are asked for".to_owned());
    }
    for (name, context_tokens) in listed {
        if let Some(context_tokens) = context_tokens {
            probed.context_tokens.push((name.clone(), context_tokens));
        }
        probed.engine.models.push(name);
    }
    if let Ok(version) = ask(client, headers, target.beside("/version")).await {
        probed.engine.version = version_of(&version);
    }
    let samples = samples(client, headers).await;
    engine::describe(&mut probed.engine, &owners(&models), &samples);
    Ok(probed)
}

fn listed_models(answer: &Fetched) -> Vec<(String, Option<i64>)> {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let data = body
        .get("data")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let model = |entry: &Value| {
        let name = entry.get("id")?.as_str()?.to_owned();
        Some((name, entry.get("max_model_len").and_then(Value::as_i64)))
    };
    if answer.status == 200 {
        data.iter().filter_map(model).collect()
    } else {
        Vec::new()
    }
}

fn owners(answer: &Fetched) -> Vec<String> {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let data = body.get("data").and_then(Value::as_array);
    let owner = |entry: &Value| Some(entry.get("owned_by")?.as_str()?.to_owned());
    data.into_iter().flatten().filter_map(owner).collect()
}

/// The target's own metrics; none where it has none.
pub(crate) async fn samples(client: &Client, headers: &http::HeaderMap) -> Vec<Scraped> {
    let path = client.target().beside("/metrics");
    match ask(client, headers, path).await {
        Ok(fetched) if fetched.status == 200 => {
            scrape::parse(&String::from_utf8_lossy(&fetched.body))
        }
        _ => Vec::new(),
    }
}

fn version_of(answer: &Fetched) -> Option<String> {
    if answer.status != 200 {
        return None;
    }
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    body.get("version")?.as_str().map(str::to_owned)
}

/// Finds out which parameters the target takes, by asking for one token: a strict server that
/// refuses an unknown field must do so now, not in the middle of a run.
pub async fn takes(
    client: &Client,
    headers: &http::HeaderMap,
    sample: &Sample<'_>,
    wanted: Takes,
) -> Result<Takes, Error> {
    let tries = [
        wanted,
        Takes {
            lengths: false,
            ..wanted
        },
        Takes {
            salt: false,
            ..wanted
        },
        Takes {
            lengths: false,
            salt: false,
        },
    ];
    for (nth, takes) in tries.into_iter().enumerate() {
        if tries.iter().take(nth).any(|earlier| *earlier == takes) {
            continue;
        }
        let request = question(client, headers, sample, takes);
        let answer = client.fetch(&request).await;
        let answer = answer.map_err(|failure| unreachable(client, &failure))?;
        match answer.status {
            // A refusal of the parameters; anything else is not about them.
            400 | 422 if takes.lengths || takes.salt => {}
            200..=299 if answer.is_answer_in(sample.dialect) => return Ok(takes),
            200..=299 => {
                let hint = "that is no answer to an inference request: name another --target";
                return Err(refused(client, &answer, hint));
            }
            _ => return Err(refused(client, &answer, "send it one such request by hand")),
        }
    }
    Ok(Takes {
        lengths: false,
        salt: false,
    })
}

/// A request for one token.
pub(crate) fn question(
    client: &Client,
    headers: &http::HeaderMap,
    sample: &Sample<'_>,
    takes: Takes,
) -> Request {
    Request {
        method: http::Method::POST,
        path: client.target().path(sample.path),
        headers: headers.clone(),
        body: sample.body(takes).to_string().into(),
        dialect: sample.dialect,
        timeout: Some(TOKEN_TIME_MAX),
        ..Request::default()
    }
}

/// A request like the ones the set will send.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The path.
    pub path: &'a str,
    /// The dialect.
    pub dialect: Dialect,
    /// The model.
    pub model: Option<&'a str>,
    /// The salt.
    pub salt: &'a str,
    /// The prompt.
    pub text: &'a str,
    /// Tokens that are asked for.
    pub tokens: i64,
}

impl Sample<'_> {
    fn body(&self, takes: Takes) -> Value {
        let message = json!([{"role": "user", "content": self.text}]);
        let mut body = match self.dialect {
            Dialect::OpenaiCompletions => json!({"prompt": self.text}),
            Dialect::SglangGenerate => json!({"text": self.text}),
            Dialect::OpenaiResponses => json!({"input": message}),
            _ => json!({"messages": message}),
        };
        body["stream"] = json!(true);
        if let Some(model) = self.model {
            body["model"] = json!(model);
        }
        let forced = takes.lengths && can_enforce(self.dialect);
        match self.dialect {
            Dialect::SglangGenerate => {
                body["sampling_params"] = json!({"max_new_tokens": self.tokens});
                if forced {
                    body["sampling_params"]["min_new_tokens"] = json!(self.tokens);
                    body["sampling_params"]["ignore_eos"] = json!(true);
                }
            }
            Dialect::OpenaiResponses => body["max_output_tokens"] = json!(self.tokens),
            Dialect::AnthropicMessages => body["max_tokens"] = json!(self.tokens),
            _ => {
                body["max_tokens"] = json!(self.tokens);
                body["stream_options"] = json!({"include_usage": true});
            }
        }
        if forced && self.dialect != Dialect::SglangGenerate {
            body["min_tokens"] = json!(self.tokens);
            body["ignore_eos"] = json!(true);
        }
        if takes.salt && can_salt(self.dialect) {
            let name = match self.dialect {
                Dialect::SglangGenerate => "extra_key",
                _ => "cache_salt",
            };
            body[name] = json!(self.salt);
        }
        body
    }
}

/// Empties the target's prefix cache.
pub async fn flush(client: &Client, headers: &http::HeaderMap) -> Result<(), Error> {
    let request = Request {
        method: http::Method::POST,
        path: client.target().beside("/reset_prefix_cache"),
        headers: headers.clone(),
        timeout: Some(ANSWER_TIME_MAX),
        ..Request::default()
    };
    let answer = client.fetch(&request).await;
    let answer = answer.map_err(|failure| unreachable(client, &failure))?;
    if (200..300).contains(&answer.status) {
        return Ok(());
    }
    let hint = "vLLM offers it with VLLM_SERVER_DEV_MODE=1; or use --cache salted";
    Err(Error::Target {
        target: client.target().url.clone(),
        problem: format!("POST /reset_prefix_cache was answered {}", answer.status),
        hint: hint.to_owned(),
    })
}

async fn ask(client: &Client, headers: &http::HeaderMap, path: String) -> Result<Fetched, Failure> {
    let headers = headers.clone();
    let timeout = Some(ANSWER_TIME_MAX);
    client
        .fetch(&Request {
            path,
            headers,
            timeout,
            ..Request::default()
        })
        .await
}

pub(crate) fn unreachable(client: &Client, failure: &Failure) -> Error {
    Error::Target {
        target: client.target().url.clone(),
        problem: failure.to_string(),
        hint: "start the server, or name another --target".to_owned(),
    }
}

fn refused(client: &Client, answer: &Fetched, hint: &str) -> Error {
    let said: String = String::from_utf8_lossy(&answer.body)
        .chars()
        .take(REFUSAL_CHARS_MAX)
        .collect();
    Error::Target {
        target: client.target().url.clone(),
        problem: format!("it answered {}: {}", answer.status, said.trim()),
        hint: hint.to_owned(),
    }
}
