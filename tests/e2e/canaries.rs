//! Canaries of every kind in every place of an exchange, under each content policy; then everything
//! that a recorder leaves is searched: its spool and its segments, raw and read, its log and its
//! pages.

use crate::support::{Recorder, WITHIN};
use serde_json::json;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use truetape_schemas::capture::Exchange;
use truetape_testkit::capture;
use truetape_testkit::client::{exchange, request};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::upstream::{Action, Framing, Script, Step, Upstream};

/// A credential: nobody but the server may see it.
const SECRET: &str = "CANARY-SECRET-51c9";

/// What users and models say: it may stand in bodies, where bodies are kept.
const WORDS: &str = "CANARY-WORDS-0e7a";

/// A name that a client or a server chose: it may stand in columns, where text is kept.
const NAME: &str = "CANARY-NAME-b4d2";

const CANARIES: [&str; 3] = [SECRET, WORDS, NAME];

/// Exchanges of the traffic that become rows.
const ROWS: usize = 9;

fn credentials() -> Vec<(String, String)> {
    [
        ("authorization", format!("Bearer {SECRET}")),
        ("proxy-authorization", format!("Bearer {SECRET}")),
        ("cookie", format!("a={SECRET}; b=1")),
        ("api-key", SECRET.to_owned()),
        ("x-api-key", SECRET.to_owned()),
        ("x-session-token", SECRET.to_owned()),
        ("x-custom-secret", SECRET.to_owned()),
        ("forwarded", format!("for={NAME}; host={NAME}")),
        ("referer", format!("http://{NAME}/?{WORDS}")),
        ("user-agent", format!("{NAME}/1.0 {SECRET}")),
        ("baggage", format!("session.id={NAME}")),
        ("x-session-id", NAME.to_owned()),
        ("x-parent-session-id", format!("{NAME}-parent")),
        ("x-truetape-run", NAME.to_owned()),
        ("content-type", format!("application/json; note={NAME}")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

fn chat(stream: bool) -> Vec<u8> {
    let arguments = json!({"password": format!("{WORDS} {SECRET}")}).to_string();
    let call = json!({"id": NAME, "type": "function",
        "function": {"name": NAME, "arguments": arguments}});
    let image = format!("data:image/{WORDS};base64,{}", "QUJD".repeat(1500));
    let body = json!({
        "model": NAME, "stream": stream, "stop": [NAME], "user": NAME,
        "response_format": {"type": NAME, "json_schema": {"name": NAME}},
        "metadata": {"user_id": NAME}, "prompt_cache_key": NAME,
        "previous_response_id": NAME, "max_tokens": 7,
        "tools": [{"type": "function", "function": {"name": NAME, "description": WORDS}}],
        "messages": [
            {"role": "system", "content": WORDS},
            {"role": NAME, "content": WORDS},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "user", "content": [
                {"type": "text", "text": WORDS},
                {"type": "image_url", "image_url": {"url": image}},
            ]},
        ],
    });
    body.to_string().into_bytes()
}

fn error() -> serde_json::Value {
    json!({"error": {"message": format!("{WORDS}: key {SECRET} of {NAME}"),
        "type": NAME, "code": SECRET}})
}

fn respond(target: &str) -> Script {
    let json = |status, body: &serde_json::Value| {
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} {WORDS}\r\ncontent-type: application/json; note={NAME}\r\n\
             set-cookie: s={SECRET}\r\nx-request-id: {NAME}\r\nserver: {NAME}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        Script::raw(head.as_bytes(), Action::End)
    };
    if target.contains("refused") {
        return json(401, &error());
    }
    if target.contains("coded") {
        let body = zstd_of(error().to_string().as_bytes());
        let mut head = format!(
            "HTTP/1.1 403 No\r\ncontent-type: application/json\r\ncontent-encoding: zstd\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        head.extend_from_slice(&body);
        return Script::raw(&head, Action::End);
    }
    if target.contains("socket") {
        let head =
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
        return Script::raw(format!("{head}{WORDS}").as_bytes(), Action::Close);
    }
    if target.contains("stream") {
        let chunk = json!({"id": NAME, "choices": [{"index": 0, "finish_reason": NAME, "delta":
            {"content": WORDS, "tool_calls": [{"index": 0, "id": NAME,
                "function": {"name": NAME, "arguments": WORDS}}]}}]});
        let error = format!("data: {chunk}\n\ndata: {}\n\n", error());
        let at = Duration::ZERO;
        let steps = [Action::Write(error.into_bytes()), Action::End];
        return Script {
            framing: Framing::Chunked,
            ..Script::events(steps.map(|action| Step { at, action }).to_vec())
        };
    }
    let message = json!({"role": "assistant", "content": WORDS});
    let choice = json!({"index": 0, "message": message, "finish_reason": NAME});
    json(
        200,
        &json!({"id": NAME, "model": NAME, "choices": [choice]}),
    )
}

fn zstd_of(body: &[u8]) -> Vec<u8> {
    // A frame of one raw block: magic, no flags, a window of 1 KiB, the last block's head.
    let length = u32::try_from(body.len()).unwrap();
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0];
    frame.extend_from_slice(&(length << 3 | 1).to_le_bytes()[..3]);
    frame.extend_from_slice(body);
    frame
}

/// What is sent; each on a connection of its own.
fn traffic() -> Vec<Vec<u8>> {
    let post = |path: &str, body: &[u8]| request("POST", path, &credentials(), body);
    let chats = "/v1/chat/completions";
    let mut chunked = credentials();
    chunked.push(("transfer-encoding".to_owned(), "chunked".to_owned()));
    chunked.push(("trailer".to_owned(), "x-secret".to_owned()));
    let trailers = String::from_utf8(request("POST", chats, &chunked, b"")).unwrap();
    let trailers = trailers.replace("content-length: 0\r\n", "");
    let trailers = format!("{trailers}2\r\n{{}}\r\n0\r\nx-secret: {SECRET}\r\n\r\n");
    let mut upgrade = credentials();
    upgrade.push(("connection".to_owned(), "upgrade".to_owned()));
    upgrade.push(("upgrade".to_owned(), "websocket".to_owned()));
    let socket = format!("/v1/realtime/{NAME}/socket?key={SECRET}&{WORDS}");
    let names = format!("/openai/deployments/{NAME}/chat/completions");
    vec![
        post(chats, &chat(false)),
        post(
            &format!("{names}?api_key={SECRET}&note={SECRET}"),
            &chat(false),
        ),
        post(&format!("{chats}?stream"), &chat(true)),
        post(&format!("{chats}?refused&{NAME}"), &chat(false)),
        post(&format!("{chats}?coded"), &chat(false)),
        post(
            &format!("http://{NAME}:{SECRET}@model.test{chats}"),
            &chat(false),
        ),
        post(&format!("/v1/{NAME}"), WORDS.as_bytes()),
        post(chats, format!("{{\"model\": \"{WORDS}").as_bytes()),
        trailers.into_bytes(),
        request("GET", &socket, &upgrade, b""),
        request(
            "GET",
            &format!("/v1/models/{NAME}?key={SECRET}"),
            &credentials(),
            b"",
        ),
    ]
}

fn page(admin: SocketAddr, path: &str) -> String {
    exchange(admin, &request("GET", path, &[], b""), None).text()
}

/// Waits until all rows are in the spool.
fn await_recorded(admin: SocketAddr) {
    let deadline = Instant::now() + WITHIN;
    let line = format!("\ntruetape_records_recorded_total {ROWS}\n");
    loop {
        let metrics = page(admin, "/metrics");
        if metrics.contains(&line) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "never recorded {ROWS}:\n{metrics}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a recorder left.
struct Left {
    /// Files while it ran, as they are: the spool.
    spool: String,
    /// Files after it ended, as they are.
    files: String,
    rows: Vec<Exchange>,
    footers: String,
    /// What it said and showed.
    talk: String,
}

fn run(content: &str) -> Left {
    let dir = TempDir::new(&format!("canaries-{content}"));
    let out = dir.join("capture");
    let upstream = Upstream::start(|record| respond(&record.head.start));
    let flags = ["--content", content, "--proxy-id", "p"];
    let start =
        || Recorder::start_with(&upstream.url(), &out, &flags, &[("TRUETAPE_LOG", "trace")]);
    let recorder = start();
    for sent in traffic() {
        exchange(recorder.at.listen, &sent, None);
    }
    await_recorded(recorder.admin());
    let mut talk = String::new();
    for path in [
        "/metrics", "/capture", "/version", "/readyz", "/livez", "/nowhere",
    ] {
        talk += &page(recorder.admin(), path);
    }
    let spool = raw(&out);
    // Killed, so that the spool is what the next one finds.
    let ended = recorder.process.kill();
    write!(talk, "{}{}", ended.stdout, ended.stderr).unwrap();
    let ended = start().process.stop().expect_code(0);
    write!(talk, "{}{}", ended.stdout, ended.stderr).unwrap();
    Left {
        spool,
        files: raw(&out),
        rows: capture::rows(&out),
        footers: format!("{:?}", capture::footers(&out)),
        talk,
    }
}

fn raw(dir: &Path) -> String {
    let read = |path: std::path::PathBuf| {
        let name = path.display().to_string();
        // The directory of the test is no part of what it leaves.
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        name + &String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default())
    };
    capture::files(dir).into_iter().map(read).collect()
}

/// A row without its bodies, and its bodies.
fn apart(mut row: Exchange) -> (String, String) {
    let bodies = [row.request_body.take(), row.response_body.take()];
    let blobs = row.request_blobs.take();
    let text = |body: Vec<u8>| String::from_utf8_lossy(&body).into_owned();
    let mut body: String = bodies.into_iter().flatten().map(text).collect();
    for blob in blobs.into_iter().flatten() {
        body += &blob.mime;
        body += &text(blob.data.unwrap_or_default());
    }
    (format!("{row:?}"), body)
}

#[track_caller]
fn clean(what: &str, text: &str, canaries: &[&str]) {
    for canary in canaries {
        let found = text.find(canary).map(|at| {
            let around = text.as_bytes();
            let around = around
                .get(at.saturating_sub(120)..at + 40)
                .unwrap_or(around);
            String::from_utf8_lossy(around).into_owned()
        });
        assert_eq!(found, None, "{what} holds {canary}");
    }
}

#[test]
fn under_full_words_are_in_bodies_and_secrets_of_heads_are_nowhere() {
    let left = run("full");
    assert_eq!(left.rows.len(), ROWS);
    clean("the talk", &left.talk, &CANARIES);
    clean("a footer", &left.footers, &CANARIES);
    let (mut columns, mut bodies) = (String::new(), String::new());
    for row in left.rows.iter().cloned() {
        let is_error = row.status.is_some_and(|status| status >= 400);
        let answer = row.response_body.clone().unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if is_error {
            assert!(answer.contains(WORDS), "the error is kept: {answer}");
        }
        clean("an answer", &answer, &[SECRET]);
        let (column, body) = apart(row);
        columns += &column;
        bodies += &body;
    }
    clean("a column beside the bodies", &columns, &[SECRET, WORDS]);
    // The search finds what is there.
    for canary in CANARIES {
        assert!(bodies.contains(canary), "bodies are kept: {canary}");
        assert!(
            left.spool.contains(canary),
            "the spool is searched: {canary}"
        );
    }
    assert!(columns.contains(NAME), "names are kept");
}

#[test]
fn under_digest_no_word_is_anywhere() {
    let left = withheld("digest");
    let hashed = left.rows.iter().filter(|row| row.segments.is_some());
    assert_eq!(
        hashed.count(),
        ROWS - 3,
        "all but the trailers' {{}}, the torn, the unknown"
    );
    let first = left.rows.first().unwrap();
    assert_eq!(first.segments.as_ref().map(Vec::len), Some(5));
    assert_eq!((first.max_tokens, first.tool_count), (Some(7), Some(1)));
}

#[test]
fn under_none_no_word_is_anywhere() {
    let left = withheld("none");
    assert!(
        left.rows
            .iter()
            .all(|row| row.segments.is_none() && row.answer_hash.is_none())
    );
}

fn withheld(content: &str) -> Left {
    let left = run(content);
    assert_eq!(left.rows.len(), ROWS);
    clean("the talk", &left.talk, &CANARIES);
    clean("the spool", &left.spool, &CANARIES);
    clean("a file", &left.files, &CANARIES);
    clean("a footer", &left.footers, &CANARIES);
    for row in left.rows.iter().cloned() {
        assert!(row.request_bytes.is_some_and(|bytes| bytes > 0), "{row:?}");
        let (columns, bodies) = apart(row);
        assert_eq!(bodies, "");
        clean("a column", &columns, &CANARIES);
    }
    assert!(
        left.footers.contains(&format!("{content}/1")),
        "{}",
        left.footers
    );
    assert!(
        left.footers.contains("digest_key_fingerprint: Some"),
        "{}",
        left.footers
    );
    left
}
