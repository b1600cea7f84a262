//! Lines that hold what was said, and not only how long it was.
//!
//! They become exchanges with bodies, as a recorder in front of the server would have kept them:
//! sessions, tokens and blocks are then found as in any other capture.

use super::format::TraceFormat;
use super::line::{TraceRow, Unusable, count, missing, session_id, timestamp_us, unusable};
use serde_json::{Map, Value, json};
use truetape_schemas::capture::{Exchange, Header, LengthSource, Outcome};
use truetape_schemas::time::parse_utc;
use truetape_schemas::wire::{self, Dialect, RequestFacts};

/// What was asked and answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spoken {
    /// Where it was sent to.
    pub path: &'static str,
    /// The request body.
    pub request: Vec<u8>,
    /// The answer's body, where it was written as JSON.
    pub response: Option<Vec<u8>>,
    /// The provider's id of the answer.
    pub response_id: Option<String>,
    /// When it ended, after its timestamp.
    pub end_us: Option<i64>,
    /// Whether it failed.
    pub failed: bool,
}

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

/// Reads a line of a format that holds text.
pub(super) fn read(format: TraceFormat, object: &Map<String, Value>) -> Result<TraceRow, Unusable> {
    if format == TraceFormat::Lmcache {
        return lmcache(object);
    }
    litellm(object)
}

fn lmcache(object: &Map<String, Value>) -> Result<TraceRow, Unusable> {
    let Some(Value::String(input)) = object.get("input") else {
        return missing("no input, or not a text");
    };
    let output = object.get("output").and_then(Value::as_str);
    let response = output
        .map(|text| json!({"object": "text_completion", "choices": [{"index": 0, "text": text}]}));
    Ok(TraceRow {
        timestamp_us: timestamp_us(object, "timestamp", TraceFormat::Lmcache.unit_us())?,
        session_id: session_id(object)?,
        spoken: Some(Box::new(Spoken {
            path: COMPLETIONS,
            request: bytes(&json!({ "prompt": input })),
            response: response.as_ref().map(bytes),
            ..Spoken::default()
        })),
        ..TraceRow::default()
    })
}

fn litellm(object: &Map<String, Value>) -> Result<TraceRow, Unusable> {
    let start_us = match object.get("timestamp") {
        Some(_) => instant_us(object, "timestamp")?,
        None => instant_us(object, "startTime")?,
    };
    let end_us = match object.get("endTime") {
        Some(_) => Some(instant_us(object, "endTime")?.saturating_sub(start_us)),
        None => None,
    };
    let response = object.get("response");
    let id = response.and_then(|response| response.get("id")?.as_str());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(TraceRow {
        timestamp_us: start_us,
        input_tokens: count(object, "prompt_tokens")?,
        output_tokens: count(object, "completion_tokens")?,
        session_id: session_id(object)?,
        spoken: Some(Box::new(Spoken {
            path: CHAT,
            request: bytes(&request(object)?),
            response: response.filter(|response| is_json(response)).map(bytes),
            response_id: id.map(str::to_owned),
            end_us: end_us.filter(|end_us| *end_us >= 0),
            failed: object
                .get("status")
                .and_then(text)
                .is_some_and(|status| status != "success"),
        })),
        ..TraceRow::default()
    })
}

/// An instant as text, or as seconds.
fn instant_us(object: &Map<String, Value>, key: &str) -> Result<i64, Unusable> {
    match object.get(key) {
        Some(Value::String(text)) => parse_utc(text).map_or_else(
            || {
                let problem = format!("{key} `{text}`, wanted RFC 3339 with an offset, or seconds");
                unusable("not_a_number", problem)
            },
            Ok,
        ),
        _ => timestamp_us(object, key, TraceFormat::Litellm.unit_us()),
    }
}

/// The body as it was sent, or put together from the fields of a log.
fn request(object: &Map<String, Value>) -> Result<Value, Unusable> {
    if let Some(request @ Value::Object(_)) = object.get("request") {
        return Ok(request.clone());
    }
    let Some(messages @ Value::Array(_)) = object.get("messages") else {
        return missing("no request, and no list of messages");
    };
    let parameters = object.get("model_parameters").and_then(Value::as_object);
    let mut body = parameters.cloned().unwrap_or_default();
    if let Some(model) = object.get("model") {
        body.insert("model".to_owned(), model.clone());
    }
    body.insert("messages".to_owned(), messages.clone());
    Ok(Value::Object(body))
}

/// Some logs hold choices as Python prints them, which nobody can read back.
fn is_json(response: &Value) -> bool {
    let choices = response.get("choices").and_then(Value::as_array);
    choices.is_some_and(|choices| !choices.is_empty() && choices.iter().all(Value::is_object))
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Puts what a request asks for into a row.
pub(super) fn asked(row: Exchange, dialect: Dialect, facts: RequestFacts) -> Exchange {
    Exchange {
        dialect: dialect.name().to_owned(),
        model: facts.model,
        stream: facts.stream,
        max_tokens: facts.max_tokens,
        min_tokens: facts.min_tokens,
        temperature: facts.temperature,
        top_p: facts.top_p,
        n: facts.n,
        stop: facts.stop,
        ignore_eos: facts.ignore_eos,
        seed: facts.seed,
        response_format: facts.response_format,
        tool_count: facts.tool_count,
        parse_status: facts.parse_status,
        ..row
    }
}

impl Spoken {
    /// Puts what was said into the row of a trace.
    pub(super) fn put(self, row: Exchange) -> Exchange {
        let dialect = Dialect::of("POST", self.path);
        let facts = wire::read_request(dialect, &self.request);
        let bytes = |body: &[u8]| i64::try_from(body.len()).ok();
        let source = |length: Option<i64>| match length {
            Some(_) => LengthSource::Usage,
            None => LengthSource::Absent,
        };
        Exchange {
            path: self.path.to_owned(),
            request_bytes: bytes(&self.request),
            request_body: Some(self.request),
            response_bytes: self.response.as_deref().and_then(bytes),
            response_headers: vec![Header {
                name: "content-type".to_owned(),
                value: "application/json".to_owned(),
            }],
            response_body: self.response,
            response_id: self.response_id,
            end_us: self.end_us,
            status: (!self.failed).then_some(200),
            outcome: if self.failed {
                Outcome::Error
            } else {
                Outcome::Complete
            },
            input_tokens_source: source(row.input_tokens),
            output_tokens_source: source(row.output_tokens),
            ..asked(row, dialect, facts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::import::format::TraceFormat;
    use crate::import::line::TraceRow;
    use serde_json::{Value, json};
    use truetape_schemas::capture::{Exchange, Outcome};

    fn litellm(line: &Value) -> Result<TraceRow, &'static str> {
        read(TraceFormat::Litellm, line.as_object().unwrap()).map_err(|bad| bad.reason)
    }

    #[test]
    fn a_prompt_and_its_answer_become_bodies() {
        let line = json!({"timestamp": 1_760_000_000_000_007_i64, "input": "a\nb", "output": "c"});
        let row = read(TraceFormat::Lmcache, line.as_object().unwrap()).unwrap();
        assert_eq!(row.timestamp_us, 1_760_000_000_000_007);
        assert_eq!((row.input_tokens, row.output_tokens), (None, None));
        let exchange = row.spoken.unwrap().put(Exchange::default());
        assert_eq!(exchange.dialect, "openai_completions");
        assert_eq!(exchange.request_body.unwrap(), br#"{"prompt":"a\nb"}"#);
        let answer: Value = serde_json::from_slice(&exchange.response_body.unwrap()).unwrap();
        assert_eq!(answer["choices"][0]["text"], "c");
    }

    #[test]
    fn a_log_keeps_its_body_its_usage_and_its_times() {
        let messages = json!([{"role": "user", "content": "x"}]);
        let line = json!({"startTime": 10.5, "endTime": 12.0, "status": "success", "model": "m",
            "messages": messages, "model_parameters": {"temperature": 0.5, "max_tokens": 9},
            "prompt_tokens": 7, "completion_tokens": 3,
            "response": {"id": "r1", "choices": [{"message": {"role": "assistant", "content": "y"}}]}});
        let row = litellm(&line).unwrap();
        assert_eq!((row.timestamp_us, row.input_tokens), (10_500_000, Some(7)));
        let spoken = row.spoken.unwrap();
        assert_eq!(spoken.response_id.as_deref(), Some("r1"));
        let exchange = spoken.put(Exchange::default());
        assert_eq!(exchange.end_us, Some(1_500_000));
        assert_eq!(
            (exchange.max_tokens, exchange.temperature),
            (Some(9), Some(0.5))
        );
        assert!(exchange.response_body.is_some());
        assert_eq!(
            (exchange.status, exchange.outcome),
            (Some(200), Outcome::Complete)
        );
    }

    #[test]
    fn what_python_printed_is_no_answer_and_a_failure_is_one() {
        let line = json!({"timestamp": "2026-04-23T17:42:22.901430+00:00", "status": "failure",
            "request": {"model": "m", "messages": []}, "response": {"choices": ["Choices(x)"]}});
        let spoken = *litellm(&line).unwrap().spoken.unwrap();
        assert_eq!((spoken.response.as_ref(), spoken.failed), (None, true));
        assert_eq!(spoken.put(Exchange::default()).outcome, Outcome::Error);
    }

    #[test]
    fn what_cannot_be_used_has_a_reason() {
        let cases = [
            (json!({"model": "m"}), "missing_field"),
            (
                json!({"timestamp": "yesterday", "messages": []}),
                "not_a_number",
            ),
            (json!({"timestamp": 1, "messages": "x"}), "missing_field"),
            (
                json!({"timestamp": 1, "messages": [], "prompt_tokens": -1}),
                "negative",
            ),
        ];
        for (line, reason) in cases {
            assert_eq!(litellm(&line), Err(reason), "{line}");
        }
        let no_prompt = json!({"timestamp": 1, "input": 7});
        let read = read(TraceFormat::Lmcache, no_prompt.as_object().unwrap());
        assert_eq!(read.unwrap_err().reason, "missing_field");
    }
}
