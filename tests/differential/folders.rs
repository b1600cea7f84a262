//! The acceptance cases that are bytes, scripts and bodies instead of streams, as entries: the same
//! exchange on either protocol, and over HTTP/1.1 the case's own writes.

use crate::case::{Case, Kind};
use crate::corpus::Entry;
use crate::stream;
use serde_json::Value;
use std::time::Duration;
use truetape_testkit::http1::{BodyReader, Framing, Head};
use truetape_testkit::talk::server::Part;
use truetape_testkit::talk::{Act, Awaited, Fields, Protocol};

/// Between the writes of a client that sends in pieces.
const PAUSE: Act = Act::Pause(Duration::from_millis(30));

/// What a reset of a stream says that was one of a connection.
const INTERNAL_ERROR: u32 = 2;

/// Exchanges of the case about a process that is killed: what passes before and after must be whole.
const PASSING: usize = 25;

/// What a case plays; none for one that says nothing about exchanges.
pub(crate) fn entries(case: &Case) -> Result<Vec<Entry>, String> {
    match case.kind() {
        Some(Kind::Raw) => raw(case),
        Some(Kind::Script) => script(case),
        _ if case.has("request.gen.json") => generated(case).map(|entry| vec![entry]),
        Some(Kind::Json) => json(case),
        _ if case.has("plan.json") => Ok(vec![passing(case)]),
        _ if case.has("values.json") => values(case).map(|entry| vec![entry]),
        _ => Ok(Vec::new()),
    }
}

fn entry(case: &Case, name: &str, client: Vec<Act>, server: Vec<Part>) -> Entry {
    let wanted = case.expect.get(name).unwrap_or(&Value::Null);
    let column = |key: &str, column: &str| {
        let value = wanted.get(key).filter(|value| !value.is_null())?;
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        Some((column.to_owned(), text))
    };
    let row: Vec<_> = [
        column("http_status", "status"),
        column("request_body_bytes", "request_bytes"),
        column("outcome", "outcome"),
        column("prompt_tokens", "input_tokens"),
    ]
    .into_iter()
    .flatten()
    .collect();
    Entry {
        name: format!("{} {name}", case.id).trim_end().to_owned(),
        protocols: vec![Protocol::Http1, Protocol::Http2],
        row: (!row.is_empty()).then_some(row),
        client,
        server,
        ..Entry::default()
    }
}

fn on(protocol: Protocol, entry: Entry) -> Entry {
    Entry {
        protocols: vec![protocol],
        ..entry
    }
}

fn part(acts: Vec<Act>) -> Part {
    let at_head = false;
    Part { at_head, acts }
}

/// A request that is bytes: its head, and the rest of them.
fn request(bytes: &[u8]) -> Result<(Act, Vec<u8>, Framing), String> {
    let (head, used) = Head::split(bytes).ok_or("a request without a head")?;
    let framing = head.request_framing();
    let begun = Act::Request {
        method: head.method().to_owned(),
        target: head.start.split(' ').nth(1).unwrap_or_default().to_owned(),
        fields: head.headers,
    };
    Ok((
        begun,
        bytes.get(used..).unwrap_or_default().to_vec(),
        framing,
    ))
}

/// An answer that is bytes: its head, the rest of them, and the body in it.
fn answer(bytes: &[u8], method: &str) -> Result<(Act, Vec<u8>, Vec<u8>), String> {
    let (head, used) = Head::split(bytes).ok_or("an answer without a head")?;
    let rest = bytes.get(used..).unwrap_or_default();
    let body = unframed(rest, head.response_framing(method));
    let begun = Act::Response {
        status: head.status(),
        reason: head
            .start
            .splitn(3, ' ')
            .nth(2)
            .unwrap_or_default()
            .to_owned(),
        fields: head.headers,
    };
    Ok((begun, rest.to_vec(), body))
}

fn unframed(bytes: &[u8], framing: Framing) -> Vec<u8> {
    let mut body = BodyReader::new(framing);
    body.push(bytes);
    body.body
}

fn raw(case: &Case) -> Result<Vec<Entry>, String> {
    let files: Vec<String> = case.files().map(str::to_owned).collect();
    if case.has("request.raw") {
        let ((ask, sent, framing), (head, wire, body)) = (
            request(&case.bytes("request.raw")?)?,
            answer(&case.bytes("response.raw")?, "POST")?,
        );
        let content = Act::Data(unframed(&sent, framing).into());
        let (first, second) = (
            vec![ask.clone(), Act::Raw(sent.into())],
            vec![ask, content, Act::End],
        );
        let own = vec![head.clone(), Act::Raw(wire.into()), Act::End];
        let framed = vec![head, Act::Data(body.into()), Act::End];
        return Ok(both(case, "", (first, own), (second, framed)));
    }
    if files.iter().any(|file| file.contains("_client_")) {
        return ["a", "b"]
            .into_iter()
            .map(|name| in_pieces(case, &files, name))
            .try_fold(Vec::new(), |mut all, entries| {
                all.extend(entries?);
                Ok(all)
            });
    }
    let mut all = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(".raw")) {
        let asked = stream::request(case, "")?;
        let (head, wire, body) = answer(&case.bytes(file)?, &asked.method)?;
        // A length that is not reached ends in a reset, chunks end in a close.
        let reset = file.contains("length");
        let ends = |reset: bool| {
            if reset {
                Act::Reset(INTERNAL_ERROR)
            } else {
                Act::Leave
            }
        };
        let name = file.split('_').next().unwrap_or_default();
        let own = vec![head.clone(), Act::Raw(wire.into()), PAUSE, ends(reset)];
        let framed = vec![head, Act::Data(body.into()), PAUSE, ends(reset)];
        let client = whole(&asked);
        all.extend(both(case, name, (client.clone(), own), (client, framed)));
    }
    Ok(all)
}

/// The case's own bytes over HTTP/1.1, and what they say over HTTP/2.
fn both(
    case: &Case,
    name: &str,
    own: (Vec<Act>, Vec<Act>),
    framed: (Vec<Act>, Vec<Act>),
) -> Vec<Entry> {
    let make = |(client, server)| entry(case, name, client, vec![part(server)]);
    vec![
        on(Protocol::Http1, make(own)),
        on(Protocol::Http2, make(framed)),
    ]
}

fn whole(asked: &stream::Request) -> Vec<Act> {
    let mut fields: Fields = vec![("Host".to_owned(), "model.test".to_owned())];
    fields.extend(asked.headers.iter().cloned());
    fields.push(("Content-Length".to_owned(), asked.body.len().to_string()));
    let begun = Act::Request {
        method: asked.method.clone(),
        target: asked.path.clone(),
        fields,
    };
    vec![begun, Act::Data(asked.body.clone().into()), Act::End]
}

fn in_pieces(case: &Case, files: &[String], name: &str) -> Result<Vec<Entry>, String> {
    let mut pieces: Vec<&String> = files
        .iter()
        .filter(|file| file.starts_with(&format!("{name}_client_")))
        .collect();
    pieces.sort_unstable();
    let waits = pieces.iter().position(|file| file.contains("after_100"));
    let writes: Vec<Vec<u8>> = pieces
        .iter()
        .map(|file| case.bytes(file))
        .collect::<Result<_, _>>()?;
    let (ask, _, framing) = request(&writes.concat())?;
    let (_, sent, _) = request(writes.first().ok_or("no writes")?)?;
    let mut client = vec![ask.clone(), Act::Raw(sent.into())];
    for (at, bytes) in writes.iter().enumerate().skip(1) {
        client.push(if waits == Some(at) {
            Act::Await(Awaited::Interim)
        } else {
            PAUSE
        });
        client.push(Act::Raw(bytes.clone().into()));
    }
    let all = writes.concat();
    let (_, content, _) = request(&all)?;
    let content = unframed(&content, framing);
    let (head, wire, body) = answer(&case.bytes("upstream_final.raw")?, "POST")?;
    let mut own = vec![head.clone(), Act::Raw(wire.into()), Act::End];
    let interim = format!("{name}_upstream_interim.raw");
    let at_head = case.has(&interim);
    if at_head {
        let before = [
            Act::Raw(case.bytes(&interim)?.into()),
            Act::Await(Awaited::Message),
        ];
        own.splice(0..0, before);
    }
    let first = entry(case, name, client, vec![Part { at_head, acts: own }]);
    let pieces = content.chunks(content.len().div_ceil(3).max(1));
    let data = pieces.flat_map(|piece| [Act::Data(piece.to_vec().into()), PAUSE]);
    let second = [ask].into_iter().chain(data).chain([Act::End]).collect();
    let framed = vec![head, Act::Data(body.into()), Act::End];
    let second = entry(case, name, second, vec![part(framed)]);
    Ok(vec![
        on(Protocol::Http1, first),
        on(Protocol::Http2, second),
    ])
}

fn script(case: &Case) -> Result<Vec<Entry>, String> {
    let script = case.json("script.json")?;
    let text = |value: &Value, key: &str| {
        let text = value.get(key).and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| format!("no {key}"))
    };
    if let Some(steps) = script.get("steps").and_then(Value::as_array) {
        let (mut client, mut server) = (Vec::new(), Vec::new());
        for step in steps {
            let (ask, _, _) = request(text(step, "request")?.as_bytes())?;
            let method = text(step, "request")?;
            let method = method.split(' ').next().unwrap_or_default();
            let (head, _, body) = answer(text(step, "upstream")?.as_bytes(), method)?;
            client.extend([ask, Act::End, Act::Await(Awaited::Message)]);
            let data = (!body.is_empty()).then(|| Act::Data(body.into()));
            server.push(part(
                [head].into_iter().chain(data).chain([Act::End]).collect(),
            ));
        }
        return Ok(vec![entry(case, "", client, server)]);
    }
    let ask = text(&script["ok"], "client")?;
    let hex = |key: &str| {
        stream::unhex(&text(&script["ok"], key)?).ok_or_else(|| "no hexadecimal".to_owned())
    };
    let (down, up) = (
        hex("then_hex_upstream_to_client")?,
        hex("then_hex_client_to_upstream")?,
    );
    let said = |bytes: &[u8]| Act::Raw(bytes.to_vec().into());
    let heard = |bytes: &[u8]| Act::Await(Awaited::Tunnelled(bytes.len()));
    let client = vec![said(ask.as_bytes()), heard(&down), said(&up), Act::Leave];
    let server = vec![
        said(text(&script["ok"], "upstream")?.as_bytes()),
        said(&down),
        heard(&up),
        Act::Await(Awaited::Gone),
    ];
    let (head, _, body) = answer(text(&script["refused"], "upstream")?.as_bytes(), "GET")?;
    let refused = vec![head, Act::Data(body.into()), Act::End];
    let tunnel = entry(case, "ok", client, vec![part(server)]);
    let other = entry(
        case,
        "refused",
        vec![said(ask.as_bytes())],
        vec![part(refused)],
    );
    // HTTP/2 has no upgrades.
    Ok(vec![
        on(Protocol::Http1, tunnel),
        on(Protocol::Http1, other),
    ])
}

/// An answer of JSON.
fn answered(body: Vec<u8>) -> Vec<Act> {
    let field = |name: &str, value: String| (name.to_owned(), value);
    let head = Act::Response {
        status: 200,
        reason: "OK".to_owned(),
        fields: vec![
            field("Content-Type", "application/json".to_owned()),
            field("Content-Length", body.len().to_string()),
        ],
    };
    vec![head, Act::Data(body.into()), Act::End]
}

fn json(case: &Case) -> Result<Vec<Entry>, String> {
    let mut all = Vec::new();
    for (name, _) in case.named("request", ".json") {
        let asked = stream::request(case, &name)?;
        let own = stream::own(case, "response", &name, ".json");
        let file = own.unwrap_or_else(|| "response_a.json".to_owned());
        let server = vec![part(answered(case.bytes(&file)?))];
        all.push(entry(case, &name, whole(&asked), server));
    }
    Ok(all)
}

/// A body that is described: the text of the image is as long as the case says.
fn generated(case: &Case) -> Result<Entry, String> {
    let plan = case.json("request.gen.json")?;
    let bytes = plan["BASE64"]["random_bytes"].as_u64().ok_or("no length")?;
    let chars = usize::try_from(bytes.div_ceil(3) * 4).map_err(|e| e.to_string())?;
    let text: String = "iVBORw0KGgoAAAANSUhEUg"
        .chars()
        .cycle()
        .take(chars)
        .collect();
    let body = plan["body_template"].to_string().replace("<BASE64>", &text);
    let asked = stream::Request {
        method: "POST".to_owned(),
        path: "/v1/chat/completions".to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.into_bytes(),
    };
    let server = vec![part(answered(case.bytes("response.json")?))];
    Ok(Entry {
        row: Some(vec![
            ("status".to_owned(), "200".to_owned()),
            (
                "input_tokens".to_owned(),
                case.expect["prompt_tokens"].to_string(),
            ),
        ]),
        ..entry(case, "", whole(&asked), server)
    })
}

fn chat(body: &str) -> Vec<Act> {
    whole(&stream::Request {
        method: "POST".to_owned(),
        path: "/v1/chat/completions".to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.as_bytes().to_vec(),
    })
}

fn passing(case: &Case) -> Entry {
    let one = || {
        let mut acts = chat(r#"{"model":"m","messages":[]}"#);
        acts.push(Act::Await(Awaited::Message));
        acts
    };
    let client = (0..PASSING).flat_map(|_| one()).collect();
    let server = (0..PASSING)
        .map(|_| part(answered(b"{}".to_vec())))
        .collect();
    entry(case, "", client, server)
}

/// Numbers that columns may not hold pass as they are.
fn values(case: &Case) -> Result<Entry, String> {
    let values = case.json("values.json")?;
    let ids = values["ids"].as_array().ok_or("no ids")?;
    let ids: Vec<&str> = ids.iter().filter_map(Value::as_str).collect();
    let body = format!(
        r#"{{"created":{},"ids":[{}],"choices":[]}}"#,
        values["epoch_us"],
        ids.join(",")
    );
    let client = chat(&format!(
        r#"{{"model":"m","seed":{},"messages":[]}}"#,
        ids.join("")
    ));
    Ok(entry(
        case,
        "",
        client,
        vec![part(answered(body.into_bytes()))],
    ))
}
