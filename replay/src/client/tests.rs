use super::*;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use truetape_schemas::capture::Outcome;

mod spoken;

/// What a scripted upstream does after it has read a whole request.
#[derive(Clone, Debug)]
enum Step {
    Write(Vec<u8>),
    Pause(u64),
    Close,
}

/// A server that plays one script per request, in order of arrival over all connections.
struct Upstream {
    address: SocketAddr,
    requests: tokio::sync::mpsc::Receiver<Vec<u8>>,
    _tasks: JoinSet<()>,
}

async fn upstream(scripts: Vec<Vec<Step>>) -> Upstream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = tokio::sync::mpsc::channel(64);
    let scripts = std::sync::Arc::new(Mutex::new(scripts.into_iter()));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream, std::sync::Arc::clone(&scripts), seen.clone()));
        }
    });
    Upstream {
        address,
        requests,
        _tasks: tasks,
    }
}

async fn serve(
    mut stream: TcpStream,
    scripts: std::sync::Arc<Mutex<std::vec::IntoIter<Vec<Step>>>>,
    seen: tokio::sync::mpsc::Sender<Vec<u8>>,
) {
    while let Some(request) = read_request(&mut stream).await {
        seen.send(request).await.unwrap();
        let Some(script) = scripts.lock().unwrap().next() else {
            return;
        };
        for step in script {
            match step {
                Step::Write(bytes) => stream.write_all(&bytes).await.unwrap(),
                Step::Pause(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                Step::Close => return,
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        let head_end = request.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(at) = head_end {
            let head = String::from_utf8_lossy(&request[..at]).to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if at + 4 + length <= request.len() {
                return Some(request);
            }
        }
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}

fn text(text: &str) -> Step {
    Step::Write(text.as_bytes().to_vec())
}

fn chunk(data: &str) -> Step {
    text(&format!("{:x}\r\n{data}\r\n", data.len()))
}

fn event(json: &str) -> String {
    format!("data: {json}\n\n")
}

fn token(content: &str) -> String {
    event(&format!(
        r#"{{"id":"c","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"content":"{content}"}},"finish_reason":null}}]}}"#
    ))
}

const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const ROLE: &str =
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const FINISH: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str =
    r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}"#;
const DONE: &str = "data: [DONE]\n\n";

fn stream(first_token_after_ms: u64) -> Vec<Step> {
    vec![
        text(STREAM_HEAD),
        chunk(&event(ROLE)),
        Step::Pause(first_token_after_ms),
        chunk(&token("a")),
        Step::Pause(50),
        chunk(&token("b")),
        chunk(&format!("{}{}{DONE}", event(FINISH), event(USAGE))),
        text("0\r\n\r\n"),
    ]
}

fn client(address: SocketAddr) -> Client {
    let target = Target::resolve(&format!("http://{address}")).unwrap();
    Client::new(target)
}

fn request() -> Request {
    Request {
        method: http::Method::POST,
        path: "/v1/chat/completions".into(),
        body: Bytes::from_static(br#"{"messages":[]}"#),
        dialect: Dialect::OpenaiChat,
        ..Request::default()
    }
}

#[tokio::test]
async fn first_and_last_token_are_timed_and_the_role_is_not_a_token() {
    let server = upstream(vec![stream(100)]).await;
    let exchanged = client(server.address).send(&request()).await;
    assert_eq!(exchanged.failure, None);
    assert_eq!(exchanged.status, Some(200));
    assert_eq!(exchanged.facts.outcome, Outcome::Complete);
    assert_eq!(exchanged.facts.output_tokens, Some(2));
    // The machine may read any event late, so that only the time since the start has a least value.
    let first_us = exchanged.facts.first_token_us.unwrap();
    let last_us = exchanged.facts.last_token_us.unwrap();
    assert!(100_000 <= first_us && 150_000 <= last_us, "{exchanged:?}");
    let ttft_us = exchanged.ttft_us().unwrap();
    assert_eq!(ttft_us, first_us - exchanged.request_end_us.unwrap());
    assert!(exchanged.first_byte_us.unwrap() <= first_us && first_us <= last_us);
    assert!(last_us <= exchanged.end_us);
    let message = exchanged.facts.assistant_message().unwrap();
    assert_eq!(message["content"], "ab");
}

#[tokio::test]
async fn a_connection_is_used_again_and_says_so() {
    let mut server = upstream(vec![stream(0), stream(0)]).await;
    let client = client(server.address);
    let first = client.send(&request()).await;
    let second = client.send(&request()).await;
    assert_eq!([first.conn_reused, second.conn_reused], [false, true]);
    let sent = server.requests.recv().await.unwrap();
    let sent = String::from_utf8(sent).unwrap();
    assert!(
        sent.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
        "{sent}"
    );
    assert!(
        sent.contains(&format!("host: {}\r\n", server.address)),
        "{sent}"
    );
    assert!(sent.ends_with(r#"{"messages":[]}"#), "{sent}");
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_not_used() {
    let mut first = stream(0);
    first.push(Step::Close);
    let server = upstream(vec![first, stream(0)]).await;
    let client = client(server.address);
    for _ in 0..2 {
        let exchanged = client.send(&request()).await;
        assert_eq!(exchanged.facts.outcome, Outcome::Complete, "{exchanged:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_a_failure_with_a_name() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let exchanged = client(address).send(&request()).await;
    assert_eq!(exchanged.failure.as_ref().unwrap().name(), "connect");
    assert_eq!(exchanged.facts.outcome, Outcome::Error);
    assert_eq!(exchanged.status, None);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_truncated_and_keeps_what_came() {
    let cut = vec![text(STREAM_HEAD), chunk(&token("a")), Step::Close];
    let server = upstream(vec![cut, vec![Step::Close]]).await;
    let client = client(server.address);
    let exchanged = client.send(&request()).await;
    assert_eq!(exchanged.failure.as_ref().unwrap().name(), "cut");
    assert_eq!(exchanged.facts.outcome, Outcome::Truncated);
    assert!(exchanged.facts.first_token_us.is_some());
    let unanswered = client.send(&request()).await;
    assert_eq!(unanswered.failure.as_ref().unwrap().name(), "no_answer");
    assert_eq!(unanswered.facts.outcome, Outcome::Truncated);
}

#[tokio::test]
async fn a_time_limit_and_a_stop_end_an_exchange() {
    let slow = || vec![text(STREAM_HEAD), chunk(&token("a")), Step::Pause(60_000)];
    let server = upstream(vec![slow(), slow()]).await;
    let client = client(server.address);
    let limited = Request {
        timeout: Some(Duration::from_millis(100)),
        ..request()
    };
    let exchanged = client.send(&limited).await;
    assert_eq!(exchanged.facts.outcome, Outcome::Timeout);
    assert!(100_000 <= exchanged.end_us);
    let cut = CancellationToken::new();
    let endless = request();
    let (exchanged, ()) = tokio::join!(client.send_until(client.prepare(endless), &cut), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cut.cancel();
    });
    assert_eq!(exchanged.facts.outcome, Outcome::ClientAborted);
}

#[tokio::test]
async fn a_body_left_open_after_the_end_marker_does_not_hold_the_exchange() {
    let open = vec![
        text(STREAM_HEAD),
        chunk(&token("a")),
        chunk(&format!("{}{DONE}", event(FINISH))),
        Step::Pause(60_000),
    ];
    let server = upstream(vec![open]).await;
    let before = Instant::now();
    let exchanged = client(server.address).send(&request()).await;
    let took_us = i64::try_from(before.elapsed().as_micros()).unwrap();
    assert_eq!(exchanged.facts.outcome, Outcome::Complete);
    // It was given up some time after the marker, and its end is the marker.
    let waited_us = i64::try_from(END_AFTER_DONE_MAX.as_micros()).unwrap();
    assert!(
        exchanged.end_us + waited_us <= took_us,
        "{} {took_us}",
        exchanged.end_us
    );
}

#[tokio::test]
async fn an_error_status_is_an_error_with_its_code() {
    let body = r#"{"error":{"message":"busy","type":"overloaded","code":"rate"}}"#;
    let answer = format!(
        "HTTP/1.1 429 Too Many\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let server = upstream(vec![vec![text(&answer)]]).await;
    let exchanged = client(server.address).send(&request()).await;
    assert_eq!(exchanged.failure, None);
    assert_eq!(
        (exchanged.status, exchanged.facts.outcome),
        (Some(429), Outcome::Error)
    );
    assert_eq!(exchanged.facts.error_code.as_deref(), Some("rate"));
}

#[tokio::test]
async fn a_question_is_answered_whole() {
    let body = r#"{"data":[{"id":"m"}]}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nserver: s/1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let server = upstream(vec![vec![text(&answer)]]).await;
    let question = Request {
        path: "/v1/models".into(),
        ..Request::default()
    };
    let fetched = client(server.address).fetch(&question).await.unwrap();
    assert_eq!(
        (fetched.status, fetched.body.as_slice()),
        (200, body.as_bytes())
    );
    assert_eq!(fetched.headers["server"], "s/1");
}

#[tokio::test]
async fn a_large_request_is_timed_from_its_last_byte() {
    // The server does not read for 150 ms, and 64 MiB do not fit into socket buffers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = client(address);
    let large = Request {
        body: vec![b'x'; 64 << 20].into(),
        ..request()
    };
    let (exchanged, ()) = tokio::join!(client.send(&large), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
        read_request(&mut stream).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
    });
    let request_end_us = exchanged.request_end_us.unwrap();
    assert!(150_000 <= request_end_us, "{request_end_us}");
    assert!(request_end_us <= exchanged.head_us.unwrap());
}

#[tokio::test]
async fn a_client_that_left_in_production_leaves_at_the_same_token() {
    let answer = || {
        let mut script = vec![text(STREAM_HEAD)];
        for content in ["a", "b", "c", "d"] {
            script.push(chunk(&token(content)));
            script.push(Step::Pause(30));
        }
        script.push(Step::Pause(60_000));
        script
    };
    let server = upstream(vec![answer(), answer()]).await;
    let client = client(server.address);
    let leaving = |cancel| Request {
        cancel: Some(cancel),
        ..request()
    };
    let by_token = client.send(&leaving(Cancel::AfterEvents(2))).await;
    assert_eq!(by_token.failure, Some(Failure::RecordedCancel));
    assert_eq!(by_token.facts.outcome, Outcome::ClientAborted);
    let events = by_token.facts.token_event_offsets_us.len();
    assert!((2..4).contains(&events), "{events}");
    let by_time = client.send(&leaving(Cancel::AfterUs(300_000))).await;
    assert_eq!(by_time.failure.as_ref().unwrap().name(), "recorded_cancel");
    assert!(300_000 <= by_time.end_us);
}
