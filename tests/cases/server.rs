//! A target of fixed service time: the whole answer at the end, as long as was asked for.

use serde_json::{Value, json};
use std::time::Duration;
use truetape_fidelity::tokens;
use truetape_testkit::upstream::{Action, Framing, Record, Script, Step, Upstream};

/// How the target behaves.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) service: Duration,
    /// Prompt and answer together, at most.
    pub(crate) context_tokens: Option<u64>,
    /// Request fields that it answers with 400.
    pub(crate) refuses: Vec<String>,
    /// Share of the tokens asked for that it gives.
    pub(crate) answers_share: f64,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            service: Duration::ZERO,
            context_tokens: None,
            refuses: Vec::new(),
            answers_share: 1.0,
        }
    }
}

/// Starts the target.
pub(crate) fn start(target: Target) -> Upstream {
    Upstream::start(move |record| respond(&target, record))
}

/// Requests for generated text among what a target saw, with their bodies.
pub(crate) fn generations(upstream: &Upstream) -> Vec<(Record, Value)> {
    let generation = |record: Record| {
        let body: Value = serde_json::from_slice(&record.body).ok()?;
        record
            .head
            .start
            .contains("completions")
            .then_some((record, body))
    };
    upstream
        .records()
        .into_iter()
        .filter_map(generation)
        .collect()
}

/// Tokens of a prompt, as the engine stub counts them.
pub(crate) fn prompt_tokens(body: &Value) -> u64 {
    if body.get("messages").is_some() {
        return tokens::count(&tokens::render_chat(body));
    }
    match body.get("prompt") {
        Some(Value::String(prompt)) => tokens::count(&tokens::render_completion(prompt)),
        Some(Value::Array(ids)) => ids.len() as u64,
        _ => 0,
    }
}

fn respond(target: &Target, record: &Record) -> Script {
    if record.head.start.contains("/models") {
        let model =
            json!({"id": "syn-model", "object": "model", "max_model_len": target.context_tokens});
        return Script::json(200, &json!({"object": "list", "data": [model]}));
    }
    let Ok(body) = serde_json::from_slice::<Value>(&record.body) else {
        return Script::json(404, &error("not found"));
    };
    if let Some(refused) = target
        .refuses
        .iter()
        .find(|field| body.get(*field).is_some())
    {
        return Script::json(
            400,
            &error(&format!("unrecognized request argument: {refused}")),
        );
    }
    let number = |key: &str| body.get(key).and_then(Value::as_u64);
    let output = number("max_tokens")
        .or_else(|| number("max_completion_tokens"))
        .unwrap_or(16);
    let input = prompt_tokens(&body);
    if target
        .context_tokens
        .is_some_and(|most| input + output > most)
    {
        return Script::json(400, &error("maximum context length exceeded"));
    }
    let output = (output as f64 * target.answers_share).ceil() as u64;
    let at = target.service;
    let answer = answer(&body, input, output);
    Script {
        framing: Framing::Chunked,
        ..Script::events(vec![
            Step {
                at,
                action: Action::Write(answer.into_bytes()),
            },
            Step {
                at,
                action: Action::End,
            },
        ])
    }
}

fn error(message: &str) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "code": 400}})
}

fn answer(body: &Value, input: u64, output: u64) -> String {
    let chat = body.get("messages").is_some();
    let event = |text: String, reason: Option<&str>| {
        let choice = if chat {
            json!({"index": 0, "delta": {"content": text}, "finish_reason": reason})
        } else {
            json!({"index": 0, "text": text, "finish_reason": reason})
        };
        format!(
            "data: {}\n\n",
            json!({"id": "syn", "model": "syn-model", "choices": [choice]})
        )
    };
    let mut events: String = (0..output)
        .map(|at| event(tokens::output_text(0, at), None))
        .collect();
    events += &event(String::new(), Some("length"));
    let usage = json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input + output,
    });
    events += &format!(
        "data: {}\n\ndata: [DONE]\n\n",
        json!({"choices": [], "usage": usage})
    );
    events
}
