//! A model server that is a script: what it writes and when is known to the microsecond.

use crate::http1::Head;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

mod serve;

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
    /// How long this server's own threads waited for a processor before they had read it.
    pub waited: Duration,
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
            std::thread::spawn(move || serve::accept(&listener, &shared, &respond))
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
