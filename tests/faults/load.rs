//! A server that answers without end, and clients that check every byte of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// A thread that waits most of the time.
const STACK_BYTES: usize = 128 * 1024;

/// Longest wait for an answer on loopback, on a machine that does much else.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// What the server answers to everything but a stream.
const ANSWER: &str = r#"{"id":"r","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#;

/// One event of a stream.
pub(crate) const EVENT: &str = "data: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" a token of some length\"},\"finish_reason\":null}]}\n\n";

/// How a stream goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) events: usize,
    pub(crate) every: Duration,
}

/// Starts a server; it ends with the test's process. `bytes` counts what it wrote of streams.
pub(crate) fn server(stream: Stream, bytes: &Arc<AtomicU64>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let bytes = Arc::clone(bytes);
    thread("server", move || {
        for peer in listener.incoming() {
            let (peer, bytes) = (peer.unwrap(), Arc::clone(&bytes));
            thread("serve", move || {
                // A peer that is gone ends it.
                drop(serve(&peer, stream, &bytes));
            });
        }
    });
    addr
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let builder = Builder::new().name(name.to_owned());
    builder.stack_size(STACK_BYTES).spawn(run).unwrap()
}

fn serve(mut peer: &TcpStream, stream: Stream, bytes: &AtomicU64) -> std::io::Result<()> {
    peer.set_nodelay(true)?;
    let mut reader = BufReader::new(peer);
    while let Some(head) = head(&mut reader)? {
        let mut body = vec![0; length(&head)];
        reader.read_exact(&mut body)?;
        if !head.starts_with("POST /v1/chat/completions/stream") {
            let length = ANSWER.len();
            write!(
                peer,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{ANSWER}"
            )?;
            continue;
        }
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
        let chunk = format!("{:x}\r\n{EVENT}\r\n", EVENT.len());
        for _ in 0..stream.events {
            peer.write_all(chunk.as_bytes())?;
            bytes.fetch_add(chunk.len() as u64, Relaxed);
            if !stream.every.is_zero() {
                std::thread::sleep(stream.every);
            }
        }
        peer.write_all(b"0\r\n\r\n")?;
    }
    Ok(())
}

/// The next head, or the end of the connection.
fn head(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Option<String>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(head))
}

fn length(head: &str) -> usize {
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok())?
    };
    head.lines().find_map(field).unwrap_or(0)
}

/// A request with a mark that its row can be told by.
pub(crate) fn request(path: &str, mark: u64, filler: usize) -> Vec<u8> {
    let filler = "x".repeat(filler);
    let body = format!(
        "{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":\"mark {mark} {filler}\"}}]}}"
    );
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// What clients saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) sent: AtomicU64,
    /// Marks of requests that were answered whole and right, and when.
    pub(crate) answered: Mutex<Vec<(u64, Instant)>>,
    pub(crate) failures: Mutex<Vec<String>>,
    stop: AtomicBool,
}

/// Clients that ask again and again.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

/// How clients ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    pub(crate) clients: u64,
    pub(crate) every: Duration,
    pub(crate) filler: usize,
    /// The first mark; each client counts on from its own.
    pub(crate) from: u64,
}

impl Load {
    pub(crate) fn start(addr: SocketAddr, asking: Asking) -> Self {
        let seen = Arc::new(Seen::default());
        let client = |n: u64| {
            let seen = Arc::clone(&seen);
            thread("client", move || {
                if let Err(cause) = ask_on(addr, asking, n, &seen) {
                    seen.failures.lock().unwrap().push(cause);
                }
            })
        };
        Self {
            threads: (0..asking.clients).map(client).collect(),
            seen,
        }
    }

    pub(crate) fn answered(&self) -> u64 {
        self.seen.answered.lock().unwrap().len() as u64
    }

    /// Waits until so many more are answered; traffic that stands still fails.
    #[track_caller]
    pub(crate) fn await_more(&self, requests: u64) {
        let (from, deadline) = (self.answered(), Instant::now() + ANSWER_WITHIN);
        while self.answered() < from + requests {
            self.expect_no_failure();
            assert!(Instant::now() < deadline, "traffic stands still");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    pub(crate) fn expect_no_failure(&self) {
        let failures = self.seen.failures.lock().unwrap();
        assert!(failures.is_empty(), "{failures:?}");
    }

    /// Lets the clients end after the answers that they wait for.
    pub(crate) fn end(self) -> Arc<Seen> {
        self.seen.stop.store(true, Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.seen
    }
}

fn ask_on(addr: SocketAddr, asking: Asking, client: u64, seen: &Seen) -> Result<(), String> {
    let failed = |cause: std::io::Error| format!("client {client}: {cause}");
    let mut stream = TcpStream::connect(addr).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    stream
        .set_read_timeout(Some(ANSWER_WITHIN))
        .map_err(failed)?;
    let mut mark = asking.from + client * 1_000_000;
    while !seen.stop.load(Relaxed) {
        let request = request("/v1/chat/completions", mark, asking.filler);
        seen.sent.fetch_add(1, Relaxed);
        stream.write_all(&request).map_err(failed)?;
        let mut reader = BufReader::new(&stream);
        let head = head(&mut reader).map_err(failed)?.unwrap_or_default();
        let mut body = vec![0; length(&head)];
        reader.read_exact(&mut body).map_err(failed)?;
        if !head.starts_with("HTTP/1.1 200 OK\r\n") || body != ANSWER.as_bytes() {
            return Err(format!("client {client}: {head:?}"));
        }
        seen.answered.lock().unwrap().push((mark, Instant::now()));
        mark += 1;
        std::thread::sleep(asking.every);
    }
    Ok(())
}

/// Reads one stream to its end; says how many bytes of events came.
pub(crate) fn read_stream(addr: SocketAddr, mark: u64) -> std::io::Result<usize> {
    let stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(2 * ANSWER_WITHIN))?;
    (&stream).write_all(&request("/v1/chat/completions/stream", mark, 0))?;
    let mut reader = BufReader::with_capacity(1024, &stream);
    head(&mut reader)?;
    let (mut bytes, mut line) = (0, String::new());
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim_end(), 16);
        let size = size.map_err(|_| std::io::Error::other(format!("{line:?} is no chunk")))?;
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk)?;
        if size == 0 {
            return Ok(bytes);
        }
        bytes += size;
    }
}
