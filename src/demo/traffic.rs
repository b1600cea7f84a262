//! Sends the demo's workload as its clients would: each session waits for its answers.

use super::workload::{Kind, Session, Turn, system_prompts};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use truetape_replay::client::{Client, Request, Target};
use truetape_schemas::capture::Outcome;
use truetape_schemas::wire::Dialect;
use truetape_schemas::wire::session::SESSION_HEADER;

/// The model that the embedded engine serves.
pub(super) const MODEL: &str = "demo";

/// What became of the workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Requests sent.
    pub(super) requests: u64,
    /// Whole answers.
    pub(super) answered: u64,
}

/// Sends every session, and waits for the last answer.
pub(super) async fn drive(target: Target, sessions: Vec<Session>) -> Sent {
    let client = Arc::new(Client::new(target));
    let zero = Instant::now();
    let mut running = JoinSet::new();
    for session in sessions {
        let client = Arc::clone(&client);
        running.spawn(async move {
            sleep_until(zero + session.start).await;
            converse(&client, &session).await
        });
    }
    let mut sent = Sent::default();
    while let Some(ended) = running.join_next().await {
        if let Ok(one) = ended {
            sent.requests += one.requests;
            sent.answered += one.answered;
        }
    }
    sent
}

async fn converse(client: &Client, session: &Session) -> Sent {
    let mut sent = Sent::default();
    let mut history = vec![json!({
        "role": "system",
        "content": system_prompts().get(session.system_prompt_index).cloned().unwrap_or_default(),
    })];
    let last = session.turns.len().saturating_sub(1);
    for (index, turn) in session.turns.iter().enumerate() {
        sleep(turn.think).await;
        history.push(next_message(&history, turn));
        let calls_tool = session.kind == Kind::Agent && index < last;
        let request = request(session, &history, turn, calls_tool);
        let answer = client.send(&request).await;
        sent.requests += 1;
        sent.answered += u64::from(answer.facts.outcome == Outcome::Complete);
        // Without an answer there is nothing to continue from, as for a real user.
        let Some(message) = answer.facts.assistant_message() else {
            break;
        };
        history.push(message);
    }
    sent
}

/// A tool answers the call before it; a person just speaks.
fn next_message(history: &[Value], turn: &Turn) -> Value {
    let call = history
        .last()
        .and_then(|message| message.pointer("/tool_calls/0/id"));
    match call {
        Some(id) => json!({"role": "tool", "tool_call_id": id, "content": turn.text}),
        None => json!({"role": "user", "content": turn.text}),
    }
}

fn request(session: &Session, history: &[Value], turn: &Turn, calls_tool: bool) -> Request {
    let (path, dialect, body) = match session.kind {
        Kind::Document => {
            let prompt = format!("Summarise this document.\n\n{}", turn.text);
            let body = json!({"prompt": prompt});
            ("/v1/completions", Dialect::OpenaiCompletions, body)
        }
        Kind::Chat | Kind::Agent => (
            "/v1/chat/completions",
            Dialect::OpenaiChat,
            json!({"messages": history}),
        ),
    };
    let mut body = body;
    body["model"] = MODEL.into();
    body["max_tokens"] = turn.max_tokens.into();
    body["stream"] = true.into();
    body["stream_options"] = json!({"include_usage": true});
    if session.kind == Kind::Agent {
        body["tools"] = tools();
        body["tool_choice"] = if calls_tool { "required" } else { "none" }.into();
    }
    let mut headers = http::HeaderMap::new();
    headers.insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    if let Ok(key) = http::HeaderValue::from_str(&session.key) {
        headers.insert(SESSION_HEADER, key);
    }
    Request {
        method: http::Method::POST,
        path: path.to_owned(),
        headers,
        body: body.to_string().into(),
        dialect,
        ..Request::default()
    }
}

fn tools() -> Value {
    json!([{
        "type": "function",
        "function": {
            "name": "search",
            "description": "Searches the knowledge base.",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
        },
    }])
}
