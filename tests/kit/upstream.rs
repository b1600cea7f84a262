//! A model server that is a script: what it writes and when is known to the microsecond.

use crate::http1::{BodyReader, Head, LAST_CHUNK, chunk};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// One thing the server does, so long after it has read the whole request.
#[derive(Clone, Debug)]
pub struct Step {
    /// When.
    pub at: Duration,
    /// What.
    pub action: Action,
}

/// What the server does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Writes body bytes and flushes them.
    Write(Vec<u8>),
    /// Ends the body as its framing says.
    End,
    /// Closes the connection as it is.
    Close,
    /// Resets the connection.
    Reset,
    /// Does nothing for so long, with the connection open.
    Hold(Duration),
}

/// Where the body ends, as far as the writes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each write is a chunk; the end is the last chunk.
    Chunked,
    /// Writes go out as they are: by length, as raw bytes, or without a body.
    Plain,
    /// Writes go out as they are; the end is the end of the connection.
    Close,
}

/// What the server does for one request.
#[derive(Clone, Debug)]
pub struct Script {
    /// Written when the head says `expect: 100-continue`, before the body is read.
    pub interim: Option<Vec<u8>>,
    /// Status line and header fields, with the empty line; goes out with the first step.
    pub head: Vec<u8>,
    /// How writes are framed.
    pub framing: Framing,
    /// In order.
    pub steps: Vec<Step>,
    /// What follows the head is a tunnel: bytes from the peer are kept, not parsed.
    pub tunnel: bool,
}

impl Script {
    /// Writes bytes as they are, at once, then does `then`.
    pub fn raw(bytes: &[u8], then: Action) -> Self {
        let at = Duration::ZERO;
        Self {
            interim: None,
            head: bytes.to_vec(),
            framing: Framing::Plain,
            steps: vec![Step { at, action: then }],
            tunnel: false,
        }
    }

    /// Answers with a JSON body, at once.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        let body = body.to_string();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        Self::raw(head.as_bytes(), Action::End)
    }

    /// Answers with a stream of events.
    pub fn events(steps: Vec<Step>) -> Self {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
            transfer-encoding: chunked\r\n\r\n";
        let framing = Framing::Chunked;
        Self {
            interim: None,
            head: head.to_vec(),
            framing,
            steps,
            tunnel: false,
        }
    }
}

/// One request as the server saw it, and what it did.
#[derive(Clone, Debug)]
pub struct Record {
    /// Of all requests, from 0, in order of completion.
    pub index: usize,
    /// The connection it came on, from 0.
    pub connection: usize,
    /// Its head.
    pub head: Head,
    /// Its body, out of its framing.
    pub body: Vec<u8>,
    /// When its first byte was read.
    pub first_byte_at: Instant,
    /// When it was fully read: zero of the schedule.
    pub read_at: Instant,
    /// When the head went out.
    pub head_at: Option<Instant>,
    /// For each step that was done, in order: when its bytes were handed to the kernel.
    pub done_at: Vec<Instant>,
    /// When the peer closed, if it did before the script ended.
    pub peer_closed_at: Option<Instant>,
    /// What the peer sent after the head of a tunnel.
    pub tunnelled: Vec<u8>,
    /// Whether the script ran to its end.
    pub finished: bool,
}

#[derive(Debug, Default)]
struct Shared {
    records: Mutex<Vec<Record>>,
    changed: Condvar,
    stopping: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
    connections: Mutex<Vec<JoinHandle<()>>>,
}

impl Shared {
    fn records(&self) -> MutexGuard<'_, Vec<Record>> {
        self.records
            .lock()
            .expect("no thread panics while it holds the records")
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.records().get_mut(index) {
            change(record);
        }
        self.changed.notify_all();
    }

    /// Waits until `at`; true when the peer closed or the server stops before.
    fn gone_before(&self, index: usize, at: Instant) -> bool {
        let gone = |records: &mut Vec<Record>| {
            let closed = records
                .get(index)
                .is_none_or(|r| r.peer_closed_at.is_some());
            closed || self.stopping.load(Ordering::Relaxed)
        };
        let left = at.saturating_duration_since(Instant::now());
        let wait = self
            .changed
            .wait_timeout_while(self.records(), left, |r| !gone(r));
        gone(&mut wait.expect("no thread panics while it holds the records").0)
    }
}

type Respond = dyn Fn(&Record) -> Script + Send + Sync;

/// A running server.
pub struct Upstream {
    /// Where it listens.
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    accept: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream")
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

impl Upstream {
    /// Starts a server that asks `respond` for the script of each request.
    ///
    /// It is asked once the head is read (the body of the record is empty then when the request
    /// expects an interim answer), so that a script can hold the interim answer too.
    pub fn start(respond: impl Fn(&Record) -> Script + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let respond: Arc<Respond> = Arc::new(respond);
        let accept = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || accept(&listener, &shared, &respond))
        };
        Self {
            addr,
            shared,
            accept: Some(accept),
        }
    }

    /// `http://host:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What was seen so far.
    pub fn records(&self) -> Vec<Record> {
        self.shared.records().clone()
    }

    /// Waits until the records are as wanted; panics with `what` at the deadline.
    pub fn await_records<T>(
        &self,
        what: &str,
        within: Duration,
        mut wanted: impl FnMut(&[Record]) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + within;
        let mut records = self.shared.records();
        loop {
            if let Some(found) = wanted(&records) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "the upstream never saw {what}; it saw {records:#?}"
            );
            records = self
                .shared
                .changed
                .wait_timeout(records, left)
                .expect("no panics")
                .0;
        }
    }

    /// Waits until the script of request `index` has run, or its peer is gone.
    pub fn await_finished(&self, index: usize, within: Duration) -> Record {
        self.await_records(&format!("the end of request {index}"), within, |records| {
            records
                .get(index)
                .filter(|r| r.finished || r.peer_closed_at.is_some())
                .cloned()
        })
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
        // Wakes the accept loop; it may have ended already.
        drop(TcpStream::connect(self.addr));
        if let Some(accept) = self.accept.take() {
            drop(accept.join());
        }
        for stream in self.shared.streams.lock().expect("no panics").drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
        let connections = std::mem::take(&mut *self.shared.connections.lock().expect("no panics"));
        for connection in connections {
            drop(connection.join());
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, respond: &Arc<Respond>) {
    for (connection, stream) in listener.incoming().enumerate() {
        if shared.stopping.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { return };
        stream.set_nodelay(true).expect("a socket option");
        let clone = stream.try_clone().expect("a descriptor");
        shared.streams.lock().expect("no panics").push(clone);
        let (held, respond) = (Arc::clone(shared), Arc::clone(respond));
        let handle = std::thread::spawn(move || serve(stream, connection, &held, &*respond));
        shared.connections.lock().expect("no panics").push(handle);
    }
}

/// Reads requests until the peer closes. The answer is written by a thread of its own, so that
/// this one goes on reading and notices a peer that goes away in the middle.
fn serve(mut stream: TcpStream, connection: usize, shared: &Arc<Shared>, respond: &Respond) {
    let mut unread = Vec::new();
    let mut answering: Option<JoinHandle<()>> = None;
    let mut current = None;
    let mut first_byte_at = None;
    let mut pending: Option<(Record, BodyReader, Option<Script>)> = None;
    let mut tunnel = false;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = stream.read(&mut buffer).unwrap_or(0);
        let now = Instant::now();
        if read == 0 {
            break;
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        if let (true, Some(index)) = (tunnel, current) {
            shared.change(index, |record| record.tunnelled.extend_from_slice(bytes));
            continue;
        }
        first_byte_at.get_or_insert(now);
        unread.extend_from_slice(bytes);
        if pending.is_none() {
            let Some((head, used)) = Head::split(&unread) else {
                continue;
            };
            unread.drain(..used);
            let body = BodyReader::new(head.request_framing());
            let record = new_record(connection, head, first_byte_at.take().unwrap_or(now));
            let script = record
                .head
                .value("expect")
                .is_some()
                .then(|| respond(&record));
            if let Some(interim) = script.as_ref().and_then(|s| s.interim.as_ref()) {
                drop(stream.write_all(interim));
            }
            pending = Some((record, body, script));
        }
        let Some((_, body, _)) = &mut pending else {
            continue;
        };
        let used = body.push(&unread);
        unread.drain(..used);
        if !body.is_done() {
            continue;
        }
        let Some((mut record, body, script)) = pending.take() else {
            continue;
        };
        if let Some(previous) = answering.take() {
            drop(previous.join());
        }
        record.body = body.body;
        record.read_at = now;
        let script = script.unwrap_or_else(|| respond(&record));
        tunnel = script.tunnel;
        let index = {
            let mut records = shared.records();
            record.index = records.len();
            records.push(record);
            records.len() - 1
        };
        shared.changed.notify_all();
        current = Some(index);
        let (out, held) = (
            stream.try_clone().expect("a descriptor"),
            Arc::clone(shared),
        );
        answering = Some(std::thread::spawn(move || {
            answer(out, &script, index, now, &held)
        }));
    }
    if let Some(index) = current {
        shared.change(index, |record| {
            if !record.finished || record.peer_closed_at.is_none() {
                record.peer_closed_at.get_or_insert(Instant::now());
            }
        });
    }
    if let Some(answering) = answering {
        drop(answering.join());
    }
    // The clone that `Upstream` keeps would hold the connection open.
    drop(stream.shutdown(Shutdown::Both));
}

fn new_record(connection: usize, head: Head, first_byte_at: Instant) -> Record {
    Record {
        index: 0,
        connection,
        head,
        body: Vec::new(),
        first_byte_at,
        read_at: first_byte_at,
        head_at: None,
        done_at: Vec::new(),
        peer_closed_at: None,
        tunnelled: Vec::new(),
        finished: false,
    }
}

fn answer(mut out: TcpStream, script: &Script, index: usize, zero: Instant, shared: &Shared) {
    let mut unsent = script.head.clone();
    let ended = run_steps(&mut out, script, &mut unsent, index, zero, shared);
    if ended.is_none() {
        // The peer is gone: nothing is left to say to it.
        drop(out.shutdown(Shutdown::Both));
    }
    shared.change(index, |record| record.finished = ended.is_some());
}

fn run_steps(
    out: &mut TcpStream,
    script: &Script,
    unsent: &mut Vec<u8>,
    index: usize,
    zero: Instant,
    shared: &Shared,
) -> Option<()> {
    for step in &script.steps {
        if shared.gone_before(index, zero + step.at) {
            return None;
        }
        let head_at = (!unsent.is_empty()).then(Instant::now);
        let mut bytes = std::mem::take(unsent);
        match &step.action {
            Action::Write(body) if script.framing == Framing::Chunked => bytes.extend(chunk(body)),
            Action::Write(body) => bytes.extend_from_slice(body),
            Action::End if script.framing == Framing::Chunked => bytes.extend(LAST_CHUNK),
            Action::End | Action::Close | Action::Reset | Action::Hold(_) => {}
        }
        // Read before the write: what the peer does with the bytes comes after.
        let now = Instant::now();
        out.write_all(&bytes).ok()?;
        shared.change(index, |record| {
            record.done_at.push(now);
            record.head_at = record.head_at.or(head_at);
        });
        match &step.action {
            Action::Hold(time) if shared.gone_before(index, now + *time) => return None,
            Action::End if script.framing == Framing::Close => {
                drop(out.shutdown(Shutdown::Write));
            }
            Action::Close => drop(out.shutdown(Shutdown::Both)),
            Action::Reset => reset(out),
            Action::Write(_) | Action::End | Action::Hold(_) => {}
        }
    }
    Some(())
}

/// A close with a linger of zero is a reset; the other descriptors of the socket must go too.
fn reset(out: &TcpStream) {
    let socket = socket2::SockRef::from(out);
    socket
        .set_linger(Some(Duration::ZERO))
        .expect("a socket option");
    drop(out.shutdown(Shutdown::Both));
}
