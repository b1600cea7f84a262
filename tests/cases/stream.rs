//! `chunks*.jsonl`: an upstream that writes on a schedule, seen through the proxy and by the
//! replayer's own client.

use crate::case::Case;
use serde_json::Value;
use std::time::Duration;
use truetape_testkit::upstream::{Action, Framing, Script, Step};

/// One `chunks` file with what belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) request: Request,
    pub(crate) script: Script,
    /// The schedule's own time of each step, in milliseconds.
    pub(crate) nominal_ms: Vec<f64>,
    /// The sum of the writes.
    pub(crate) body: Vec<u8>,
    /// When the client goes away, after its request is sent.
    pub(crate) abort_after: Option<Duration>,
}

/// A request of a case.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn wire(&self) -> Vec<u8> {
        truetape_testkit::client::request(&self.method, &self.path, &self.headers, &self.body)
    }

    fn parse(value: &Value) -> Self {
        let text = |key: &str, default: &str| {
            value
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or(default)
                .to_owned()
        };
        let body = match value.get("body") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => text.clone().into_bytes(),
            Some(json) => json.to_string().into_bytes(),
        };
        Self {
            method: text("method", "POST"),
            path: text("path", "/v1/chat/completions"),
            headers: headers(value),
            body,
        }
    }
}

/// Pairs of `headers`, in order.
pub(crate) fn headers(value: &Value) -> Vec<(String, String)> {
    let list = value
        .get("headers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let pair = |pair: &Value| {
        let text = |index: usize| pair.get(index)?.as_str().map(str::to_owned);
        Some((text(0)?, text(1)?))
    };
    list.filter_map(pair).collect()
}

/// The request of a variant: its own file, or the common one.
pub(crate) fn request(case: &Case, variant: &str) -> Result<Request, String> {
    if let Some(raw) = own(case, "request_body", variant, ".raw") {
        return Ok(Request {
            method: "POST".to_owned(),
            path: "/v1/chat/completions".to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: case.bytes(&raw)?,
        });
    }
    let file = own(case, "request", variant, ".json").ok_or("no request file")?;
    Ok(Request::parse(&case.json(&file)?))
}

/// `<stem>_<variant><ending>`, or `<stem><ending>`.
pub(crate) fn own(case: &Case, stem: &str, variant: &str, ending: &str) -> Option<String> {
    let names = [
        format!("{stem}_{variant}{ending}"),
        format!("{stem}{ending}"),
    ];
    names.into_iter().find(|name| case.has(name))
}

/// Reads the variants of a folder.
pub(crate) fn variants(case: &Case) -> Result<Vec<Variant>, String> {
    case.named("chunks", ".jsonl")
        .iter()
        .map(|(name, file)| variant(case, name, file))
        .collect()
}

fn variant(case: &Case, name: &str, file: &str) -> Result<Variant, String> {
    let mut steps = Vec::new();
    let mut nominal_ms = Vec::new();
    let mut body = Vec::new();
    let mut open = true;
    for line in case.lines(file)? {
        let at_ms = line
            .get("t_ms")
            .and_then(Value::as_f64)
            .ok_or("a chunk without t_ms")?;
        let action = action(&line)?;
        if let Action::Write(bytes) = &action {
            body.extend_from_slice(bytes);
        }
        open &= !matches!(action, Action::End | Action::Close | Action::Reset);
        steps.push(Step {
            at: millis(at_ms),
            action,
        });
        nominal_ms.push(at_ms);
    }
    if open {
        let at_ms = nominal_ms.last().copied().unwrap_or(0.0);
        steps.push(Step {
            at: millis(at_ms),
            action: Action::End,
        });
        nominal_ms.push(at_ms);
    }
    let upstream = match own(case, "upstream", name, ".json") {
        Some(file) => case.json(&file)?,
        None => serde_json::json!({"headers": [["content-type", "text/event-stream"]]}),
    };
    let abort_ms = match own(case, "client", name, ".json") {
        Some(file) => case
            .json(&file)?
            .get("abort_after_ms")
            .and_then(Value::as_f64),
        None => None,
    };
    let script = script(&upstream, steps, body.len())?;
    Ok(Variant {
        name: name.to_owned(),
        request: request(case, name)?,
        script,
        nominal_ms,
        body,
        abort_after: abort_ms.map(millis),
    })
}

pub(crate) fn millis(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1000.0)
}

fn action(line: &Value) -> Result<Action, String> {
    if let Some(text) = line.get("utf8").and_then(Value::as_str) {
        return Ok(Action::Write(text.as_bytes().to_vec()));
    }
    if let Some(text) = line.get("hex").and_then(Value::as_str) {
        return unhex(text)
            .map(Action::Write)
            .ok_or_else(|| "hex that is not".to_owned());
    }
    if let Some(generator) = line.get("gen").and_then(Value::as_str) {
        return generate(generator, line).map(Action::Write);
    }
    match line.get("action").and_then(Value::as_str) {
        Some("fin_clean") => Ok(Action::End),
        Some("fin" | "close") => Ok(Action::Close),
        Some("rst") => Ok(Action::Reset),
        Some("hold_open") => {
            let ms = line.get("ms").and_then(Value::as_f64).unwrap_or(0.0);
            Ok(Action::Hold(millis(ms)))
        }
        other => Err(format!(
            "a chunk that is neither bytes nor a known action: {other:?}"
        )),
    }
}

/// Bytes of two hexadecimal digits each.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let byte = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    digits?.chunks(2).map(byte).collect()
}

fn generate(generator: &str, line: &Value) -> Result<Vec<u8>, String> {
    if generator != "sse_chat_content" {
        return Err(format!(
            "a generator this driver does not know: {generator}"
        ));
    }
    let one = line.get("char").and_then(Value::as_str).unwrap_or("x");
    let length = line.get("len").and_then(Value::as_u64).unwrap_or(0);
    let content = one.repeat(usize::try_from(length).unwrap_or(0));
    let event = serde_json::json!({
        "id": "cmpl-syn1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "syn-model",
        "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": null}],
    });
    Ok(format!("data: {event}\n\n").into_bytes())
}

fn script(upstream: &Value, steps: Vec<Step>, length: usize) -> Result<Script, String> {
    let status = upstream
        .get("status")
        .and_then(Value::as_u64)
        .unwrap_or(200);
    let reason = upstream
        .get("reason")
        .and_then(Value::as_str)
        .unwrap_or("OK");
    let framing = match upstream
        .get("framing")
        .and_then(Value::as_str)
        .unwrap_or("chunked")
    {
        "chunked" => Framing::Chunked,
        "content-length" | "content_length" | "length" => Framing::Plain,
        "close" | "eof" => Framing::Close,
        other => return Err(format!("a framing this driver does not know: {other}")),
    };
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
    for (name, value) in headers(upstream) {
        head += &format!("{name}: {value}\r\n");
    }
    match framing {
        Framing::Chunked => head += "transfer-encoding: chunked\r\n",
        Framing::Plain => head += &format!("content-length: {length}\r\n"),
        Framing::Close => head += "connection: close\r\n",
    }
    head += "\r\n";
    Ok(Script {
        interim: None,
        head: head.into_bytes(),
        framing,
        steps,
        tunnel: false,
    })
}
