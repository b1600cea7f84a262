//! An object store in this process that speaks as much of S3 as a shipper asks for, and that can be
//! slow, refuse, cut and lie.

use crate::http1::Head;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

mod operations;

use operations::handle;

/// The one bucket there is.
pub const BUCKET: &str = "tapes";

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It is answered with this status and error code, and has no effect.
    Status(u16, &'static str),
    /// The connection is reset in the middle of its body, and it has no effect.
    Reset,
    /// It has its effect, and the connection is closed before the answer.
    Unanswered,
    /// Half of the answer's body is sent, and the connection closed.
    Truncated,
    /// One bit of the answer's body is another.
    Corrupt,
    /// It is answered after this long.
    Slow(Duration),
}

/// A request, before it has an effect.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its method.
    pub method: String,
    /// Its path and query, as sent.
    pub target: String,
    /// Its head.
    pub head: Head,
}

type Rule = Box<dyn FnMut(&Asked) -> Fault + Send>;

struct State {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    uploads: Mutex<BTreeMap<String, Upload>>,
    begun: AtomicU64,
    asked: Mutex<Vec<Asked>>,
    overwritten: Mutex<Vec<String>>,
    rule: Mutex<Rule>,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Upload {
    key: String,
    parts: BTreeMap<u32, Vec<u8>>,
}

/// A running store; it ends when dropped.
pub struct FakeS3 {
    addr: SocketAddr,
    state: Arc<State>,
}

impl std::fmt::Debug for FakeS3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FakeS3").field(&self.addr).finish()
    }
}

impl FakeS3 {
    /// Starts a store whose requests go wrong by a rule.
    pub fn start(rule: impl FnMut(&Asked) -> Fault + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            objects: Mutex::default(),
            uploads: Mutex::default(),
            begun: AtomicU64::new(0),
            asked: Mutex::default(),
            overwritten: Mutex::default(),
            rule: Mutex::new(Box::new(rule)),
            ended: AtomicBool::new(false),
        });
        let serving = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.ended.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), state) = (stream, Arc::clone(&serving)) else {
                    return;
                };
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { addr, state }
    }

    /// The variables that lead a client here, and nowhere else.
    pub fn env(&self) -> Vec<(String, String)> {
        env(&format!("http://{}", self.addr))
    }

    /// Requests go wrong by another rule from now on.
    pub fn set_rule(&self, rule: impl FnMut(&Asked) -> Fault + Send + 'static) {
        *lock(&self.state.rule) = Box::new(rule);
    }

    /// Every object, by key.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        lock(&self.state.objects).clone()
    }

    /// Puts an object there.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        lock(&self.state.objects).insert(key.to_owned(), bytes.to_vec());
    }

    /// Parts of uploads that were neither completed nor aborted.
    pub fn parts_left(&self) -> usize {
        lock(&self.state.uploads)
            .values()
            .map(|upload| upload.parts.len())
            .sum()
    }

    /// Every request so far.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.state.asked).clone()
    }

    /// Keys that were written over.
    pub fn overwritten(&self) -> Vec<String> {
        lock(&self.state.overwritten).clone()
    }
}

impl Drop for FakeS3 {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.addr));
    }
}

/// The variables that lead a client of S3 to an endpoint.
pub fn env(endpoint: &str) -> Vec<(String, String)> {
    [
        ("AWS_ENDPOINT", endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", "us-east-1"),
        ("NO_PROXY", "127.0.0.1"),
        ("no_proxy", "127.0.0.1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

/// The program of a real S3-compatible server: what `TRUETAPE_MOTO` names, or `moto_server` on the
/// path. Where there is none, a line says that a test does less.
pub fn moto() -> Option<PathBuf> {
    let named = std::env::var_os("TRUETAPE_MOTO").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|dir| dir.join("moto_server"));
    let found = named.or_else(|| candidates.find(|program| program.is_file()));
    if found.is_none() {
        eprintln!("moto_server is not at hand: a real S3-compatible server is not shipped to");
    }
    found
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panics")
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn of(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn error(status: u16, code: &str) -> Self {
        Self::of(
            status,
            format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>"),
        )
    }
}

fn serve(mut stream: TcpStream, state: &State) {
    let mut bytes = Vec::new();
    loop {
        let Some((head, length)) = read_head(&mut stream, &mut bytes) else {
            return;
        };
        let mut words = head.start.split(' ').skip(1);
        let asked = Asked {
            method: head.method().to_owned(),
            target: words.next().unwrap_or_default().to_owned(),
            head,
        };
        let fault = lock(&state.rule)(&asked);
        lock(&state.asked).push(asked.clone());
        if fault == Fault::Reset {
            reset(&mut stream, bytes.len(), length);
            return;
        }
        let Some(body) = read_body(&mut stream, &mut bytes, length) else {
            return;
        };
        let answer = match fault {
            Fault::Status(status, code) => Answer::error(status, code),
            Fault::Slow(wait) => {
                std::thread::sleep(wait);
                handle(state, &asked, body)
            }
            _ => handle(state, &asked, body),
        };
        if fault == Fault::Unanswered || !send(&mut stream, &asked, answer, fault) {
            return;
        }
    }
}

fn read_head(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(Head, usize)> {
    loop {
        if let Some((head, used)) = Head::split(bytes) {
            bytes.drain(..used);
            let length = head
                .value("content-length")
                .and_then(|text| text.parse().ok());
            return Some((head, length.unwrap_or(0)));
        }
        fill(stream, bytes)?;
    }
}

fn read_body(stream: &mut TcpStream, bytes: &mut Vec<u8>, length: usize) -> Option<Vec<u8>> {
    while bytes.len() < length {
        fill(stream, bytes)?;
    }
    Some(bytes.drain(..length).collect())
}

fn fill(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = vec![0; 64 << 10];
    let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
    bytes.extend_from_slice(&buffer[..read]);
    Some(())
}

/// Reads half of the body, unless it came with the head, and resets the connection.
fn reset(stream: &mut TcpStream, here: usize, length: usize) {
    let mut here = here;
    let mut buffer = vec![0; 64 << 10];
    while here < length / 2 {
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => here += read,
            _ => return,
        }
    }
    let socket = socket2::SockRef::from(&*stream);
    socket.set_linger(Some(Duration::ZERO)).ok();
}

fn send(stream: &mut TcpStream, asked: &Asked, mut answer: Answer, fault: Fault) -> bool {
    let mut head = format!("HTTP/1.1 {} x\r\n", answer.status);
    let bodyless = asked.method == "HEAD" || answer.status == 204;
    let mut has_length = false;
    for (name, value) in &answer.headers {
        has_length |= *name == "Content-Length";
        write!(head, "{name}: {value}\r\n").expect("a string");
    }
    if !has_length && answer.status != 204 {
        write!(head, "Content-Length: {}\r\n", answer.body.len()).expect("a string");
    }
    head.push_str("\r\n");
    let mut keep = true;
    match fault {
        Fault::Truncated => {
            answer.body.truncate(answer.body.len() / 2);
            keep = false;
        }
        Fault::Corrupt => answer.body.iter_mut().take(1).for_each(|byte| *byte ^= 1),
        _ => {}
    }
    if bodyless {
        answer.body.clear();
    }
    let sent = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&answer.body));
    sent.is_ok() && keep
}
