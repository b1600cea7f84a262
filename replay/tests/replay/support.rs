//! A server and a set small enough to be read, so that every expected number is known.

use super::spoken;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use truetape_replay::cli::ReplayArgs;
use truetape_schemas::file::Writer;
use truetape_schemas::set::manifest::Manifest;
use truetape_schemas::set::{Content, ContentKind, Turn, store};
use truetape_schemas::wire::session::{PROBE_HEADER, RUN_HEADER};

/// How the server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Answers every request with one token after the service time.
    Good,
    /// The same, but answers 400 to a body with `ignore_eos`.
    Strict,
    /// Answers the first few, then 500.
    Failing { after: usize },
    /// Answers 500 to a request that holds this text.
    FailingOn(&'static str),
    /// Says what it has cached: a prompt it has seen, under the same salt if it honours salts.
    Caching { honours_salt: bool },
    /// Never answers the first request of a run, and answers 500 to the others.
    Stuck,
    /// Answers every request with this page and status 200.
    Page(&'static str),
    /// Answers the first few, then closes its port.
    Leaving { after: usize },
    /// Answers every request with this status.
    Storm(u16),
    /// Answers every request with what is no HTTP.
    Garbage,
    /// Begins every answer, and closes the connection in it.
    Halves,
    /// The same of an answer in chunks, inside one.
    HalfChunks,
    /// Begins every answer, and then neither sends nor closes: a peer that is gone.
    Vanishing,
    /// Accepts connections and answers nothing at all, not even questions.
    Mute,
    /// Sends its answers in many pieces, each after the service time.
    Slow,
    /// Says ten tokens, each after the service time.
    Ten,
    /// Answers with events that are no JSON.
    BrokenEvents,
    /// Reads every request, keeps the connection open, and says nothing.
    Silent,
    /// Counts under vLLM's names.
    Counting,
}

/// One request as the server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: serde_json::Value,
    pub(crate) bytes: Vec<u8>,
    /// Which connection it came over, in the order in which they were opened.
    pub(crate) connection: usize,
}

impl Seen {
    fn is_measured(&self) -> bool {
        self.header(RUN_HEADER).is_some() && self.header(PROBE_HEADER).is_none()
    }

    /// The path that was asked for.
    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    fn says(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.bytes).contains(text)
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let line = self.head.lines().find(|line| {
            line.split_once(':')
                .is_some_and(|(found, _)| found.eq_ignore_ascii_case(name))
        });
        line.and_then(|line| line.split_once(": "))
            .map(|(_, value)| value.to_owned())
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _tasks: JoinSet<()>,
}

#[derive(Clone)]
struct Scene {
    mood: Mood,
    service: Duration,
    measured: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Seen>>>,
    leave: tokio_util::sync::CancellationToken,
}

impl Server {
    pub(crate) async fn start(mood: Mood, service_ms: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::default();
        let scene = Scene {
            mood,
            service: Duration::from_millis(service_ms),
            measured: Arc::default(),
            seen: Arc::clone(&seen),
            leave: tokio_util::sync::CancellationToken::new(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, scene));
        Self {
            address,
            seen,
            _tasks: tasks,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Inference requests, in the order of arrival, questions before the run included.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests of the run itself.
    pub(crate) fn measured(&self) -> Vec<Seen> {
        let all = self.seen();
        all.into_iter().filter(Seen::is_measured).collect()
    }

    /// Waits until so many requests of a run have arrived.
    pub(crate) async fn has_measured(&self, count: usize) {
        self.counts(count, || self.measured().len()).await;
    }

    /// Waits until so many inference requests have arrived, questions before the run included.
    pub(crate) async fn has_seen(&self, count: usize) {
        self.counts(count, || self.seen().len()).await;
    }

    async fn counts(&self, count: usize, counted: impl Fn() -> usize) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while counted() < count {
            assert!(Instant::now() < deadline, "only {} requests", counted());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn accept(listener: TcpListener, scene: Scene) {
    let mut connections = JoinSet::new();
    let mut opened = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.unwrap();
                connections.spawn(serve(stream, opened, scene.clone()));
                opened += 1;
            }
            () = scene.leave.cancelled() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve(mut stream: TcpStream, connection: usize, scene: Scene) {
    while let Some(request) = read_request(&mut stream).await {
        let request = Seen {
            connection,
            ..request
        };
        if scene.mood == Mood::Mute {
            return std::future::pending().await;
        }
        let (answer, wait) = answer(&request, &scene);
        if scene.mood == Mood::Slow && request.is_measured() {
            return dribble(&mut stream, &answer, scene.service).await;
        }
        if scene.mood == Mood::Ten {
            say_ten(&mut stream, scene.service).await;
            return;
        }
        tokio::time::sleep(wait).await;
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        match scene.mood {
            Mood::Vanishing if request.is_measured() => return std::future::pending().await,
            Mood::Garbage | Mood::Halves | Mood::HalfChunks => return,
            _ if scene.leave.is_cancelled() => return,
            _ => {}
        }
    }
}

/// Says ten tokens, each after a pause, and closes.
async fn say_ten(stream: &mut TcpStream, pause: Duration) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let token = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n";
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for piece in std::iter::once(head).chain([token; 10]).chain([end]) {
        if stream.write_all(piece.as_bytes()).await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Writes an answer piece by piece, each after a pause.
async fn dribble(stream: &mut TcpStream, answer: &str, pause: Duration) {
    for piece in answer.as_bytes().chunks(40) {
        tokio::time::sleep(pause).await;
        if stream.write_all(piece).await.is_err() {
            return;
        }
    }
}

fn answer(request: &Seen, scene: &Scene) -> (String, Duration) {
    if request.head.starts_with("GET /v1/models ") {
        return (
            json(200, r#"{"data":[{"id":"lab","max_model_len":4096}]}"#),
            Duration::ZERO,
        );
    }
    if request.head.starts_with("GET /version ") {
        return (json(200, r#"{"version":"0.9"}"#), Duration::ZERO);
    }
    if request.head.starts_with("POST /reset_prefix_cache ") {
        return (json(404, "{}"), Duration::ZERO);
    }
    if request.head.starts_with("GET /metrics ") {
        let counted = scene.seen.lock().unwrap().len();
        let answer = match scene.mood {
            Mood::Counting => json(200, &counters(counted)),
            _ => json(404, "{}"),
        };
        return (answer, Duration::ZERO);
    }
    let mut seen = scene.seen.lock().unwrap();
    let cached = match scene.mood {
        Mood::Caching { honours_salt } => seen.iter().any(|earlier: &Seen| {
            let same = |field: &str| earlier.body[field] == request.body[field];
            let prompt = ["messages", "prompt", "input", "text"]
                .into_iter()
                .all(same);
            prompt && (!honours_salt || ["cache_salt", "extra_key"].into_iter().all(same))
        }),
        _ => false,
    };
    seen.push(request.clone());
    // Questions before the run do not count.
    let counted = usize::from(request.is_measured());
    let nth = counted + scene.measured.fetch_add(counted, Ordering::Relaxed);
    drop(seen);
    match scene.mood {
        Mood::Strict if request.body.get("ignore_eos").is_some() => (
            json(400, r#"{"error":{"message":"unknown field ignore_eos"}}"#),
            Duration::ZERO,
        ),
        Mood::Stuck if 1 < nth => (json(500, r#"{"error":{"message":"down"}}"#), Duration::ZERO),
        Mood::Storm(status) => (
            json(status, r#"{"error":{"message":"busy"}}"#),
            Duration::ZERO,
        ),
        Mood::Garbage => (
            "\u{1}\u{2} no HTTP at all\r\n\r\n".to_owned(),
            Duration::ZERO,
        ),
        Mood::Halves => {
            let whole = spoken::answer(request, false);
            let (half, _) = whole.split_at(whole.len() - 40);
            (half.to_owned(), Duration::ZERO)
        }
        Mood::Vanishing => {
            let whole = spoken::answer(request, false);
            let (half, _) = whole.split_at(whole.len() - 40);
            (half.to_owned(), Duration::ZERO)
        }
        Mood::HalfChunks => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            (
                format!("{head}ff\r\ndata: {{\"choices\":[{{"),
                Duration::ZERO,
            )
        }
        Mood::BrokenEvents => {
            let broken = "data: {\"choices\":[{\"delta\n\ndata: ]]\n\ndata: [DONE]\n\n";
            (spoken::whole(broken), Duration::ZERO)
        }
        Mood::Silent => (String::new(), Duration::from_secs(3_600)),
        Mood::Page(page) => (json(200, page), Duration::ZERO),
        Mood::FailingOn(text) if request.says(text) => {
            (json(500, r#"{"error":{"message":"down"}}"#), Duration::ZERO)
        }
        Mood::Failing { after } if after < nth => {
            (json(500, r#"{"error":{"message":"down"}}"#), Duration::ZERO)
        }
        Mood::Leaving { after } => {
            if after <= nth {
                scene.leave.cancel();
            }
            (spoken::answer(request, cached), scene.service)
        }
        _ => (spoken::answer(request, cached), scene.service),
    }
}

fn json(status: u16, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\nserver: tiny/1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Eight tokens of prompt and two of them cached for each request.
fn counters(requests: usize) -> String {
    let (queries, hits) = (8 * requests, 2 * requests);
    format!(
        "# TYPE vllm:cache_config_info gauge\n\
         vllm:cache_config_info{{block_size=\"16\",num_gpu_blocks=\"4\"}} 1\n\
         # TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 2\n\
         # TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.25\n\
         # TYPE vllm:prefix_cache_queries counter\nvllm:prefix_cache_queries_total {queries}\n\
         # TYPE vllm:prefix_cache_hits counter\nvllm:prefix_cache_hits_total {hits}\n"
    )
}

async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if at + 4 + length <= bytes.len() {
                let body = bytes[at + 4..at + 4 + length].to_vec();
                return Some(Seen {
                    head,
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                    bytes: body,
                    connection: 0,
                });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// A turn of one token.
pub(crate) fn turn(turn_id: i64, session: &str, start_ms: i64) -> Turn {
    Turn {
        turn_id,
        session: session.to_owned(),
        turn: 1,
        start_us: start_ms * 1_000,
        method: "POST".into(),
        path: "/v1/chat/completions".into(),
        dialect: "openai_chat".into(),
        model: Some("prod".into()),
        stream: Some(true),
        input_tokens: Some(8),
        output_tokens: Some(1),
        content: vec![part().content_id],
        upstream: "10.1.2.3:80".into(),
        exchange_id: format!("e{turn_id}"),
        ..Turn::default()
    }
}

fn part() -> Content {
    content(ContentKind::Message, r#"{"role":"user","content":"ping"}"#)
}

/// A part of a set.
pub(crate) fn content(kind: ContentKind, body: &str) -> Content {
    let body = body.as_bytes().to_vec();
    Content {
        content_id: truetape_schemas::ids::content_id(&body),
        kind,
        tokens: None,
        body,
    }
}

/// Writes a set to a directory.
pub(crate) fn write_set(dir: &Path, turns: &[Turn]) -> PathBuf {
    write_set_of(dir, turns, vec![part()])
}

/// The same with its content.
pub(crate) fn write_set_of(dir: &Path, turns: &[Turn], contents: Vec<Content>) -> PathBuf {
    let set = dir.join("set");
    std::fs::create_dir_all(&set).unwrap();
    let mut writer = Writer::<Turn>::create(&set.join(store::TURNS)).unwrap();
    writer.write(turns).unwrap();
    writer.finish(&[]).unwrap();
    let mut writer = Writer::<Content>::create(&set.join(store::CONTENT)).unwrap();
    writer.write(&contents).unwrap();
    writer.finish(&[]).unwrap();
    let recipe = serde_json::json!({});
    let mut manifest = Manifest {
        format: truetape_schemas::set::FORMAT.to_string(),
        name: "tiny".into(),
        digest: store::digest(&recipe, &[], turns, &contents),
        recipe,
        ..Manifest::default()
    };
    manifest.semantics.content = "verbatim".into();
    std::fs::write(
        set.join(store::MANIFEST),
        serde_json::to_vec(&manifest).unwrap(),
    )
    .unwrap();
    set
}

/// Parses a command line of `truetape replay`.
pub(crate) fn args(set: &Path, url: &str, out: &Path, more: &[&str]) -> ReplayArgs {
    use clap::{Args as _, FromArgMatches as _};
    let command = ReplayArgs::augment_args(clap::Command::new("replay").no_binary_name(true));
    let (set, out) = (set.to_str().unwrap(), out.to_str().unwrap());
    let always = [set, "--target", url, "--out", out];
    let matches = command
        .try_get_matches_from(always.iter().chain(more))
        .unwrap();
    ReplayArgs::from_arg_matches(&matches).unwrap()
}
