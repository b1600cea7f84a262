//! A client that notes when every byte came, and how the answer ended.

use crate::http1::{BodyReader, Framing, Head};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Longest wait for an answer: a test that needs longer hangs.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// As its framing says.
    Clean,
    /// The connection ended before the answer did.
    Cut(String),
    /// This client went away.
    Aborted,
    /// Nothing more came in time.
    TimedOut,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// When the request was fully written.
    pub sent_at: Instant,
    /// Interim answers (1xx) before the final one.
    pub interim: Vec<Head>,
    /// The final head, when one came.
    pub head: Option<Head>,
    /// The body, out of its framing.
    pub body: Vec<u8>,
    /// Trailer lines.
    pub trailers: Vec<String>,
    /// After each read: when it was, and how long the body then was.
    pub arrivals: Vec<(Instant, usize)>,
    /// How it ended.
    pub end: End,
    /// When it ended.
    pub ended_at: Instant,
}

impl Answer {
    /// The status; 0 when no head came.
    pub fn status(&self) -> u16 {
        self.head.as_ref().map_or(0, Head::status)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Client {
    /// Connects.
    pub fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("the server accepts");
        stream.set_nodelay(true).expect("a socket option");
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// Writes bytes as they are, in one write.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Waits for an interim answer (1xx), and says whether one came before a final one.
    pub fn await_interim(&mut self, within: Duration) -> Option<Head> {
        let deadline = Instant::now() + within;
        loop {
            if let Some((head, used)) = Head::split(&self.unread) {
                let interim = head.status() < 200;
                if interim {
                    self.unread.drain(..used);
                }
                return interim.then_some(head);
            }
            if !matches!(self.read_some(deadline), Some(Ok(read)) if read > 0) {
                return None;
            }
        }
    }

    /// Reads the answer to a `method` request; goes away at `abort_at`, when that comes first.
    pub fn read_answer(&mut self, method: &str, abort_at: Option<Instant>) -> Answer {
        let sent_at = Instant::now();
        let deadline = abort_at.unwrap_or(sent_at + ANSWER_WITHIN);
        let timed_out = if abort_at.is_some() {
            End::Aborted
        } else {
            End::TimedOut
        };
        let mut answer = Answer {
            sent_at,
            interim: Vec::new(),
            head: None,
            body: Vec::new(),
            trailers: Vec::new(),
            arrivals: Vec::new(),
            end: End::Clean,
            ended_at: sent_at,
        };
        let mut reader: Option<BodyReader> = None;
        answer.end = loop {
            self.take_heads(method, &mut answer, &mut reader);
            if let Some(body) = &mut reader {
                let used = body.push(&self.unread);
                self.unread.drain(..used);
                answer.arrivals.push((Instant::now(), body.body.len()));
                if body.is_done() {
                    break End::Clean;
                }
                if body.is_broken() {
                    break End::Cut("chunked framing is broken".to_owned());
                }
            }
            match self.read_some(deadline) {
                None => break timed_out,
                Some(Ok(0)) if reader.as_ref().is_some_and(BodyReader::is_whole_at_close) => {
                    break End::Clean;
                }
                Some(Ok(0)) => break End::Cut("closed".to_owned()),
                Some(Ok(_)) => {}
                Some(Err(kind)) => break End::Cut(format!("{kind:?}")),
            }
        };
        answer.ended_at = Instant::now();
        if answer.end == End::Aborted {
            // A failure to shut down means that the other side was faster.
            drop(self.stream.shutdown(Shutdown::Both));
        }
        if let Some(body) = reader {
            answer.body = body.body;
            answer.trailers = body.trailers;
        }
        answer
    }

    fn take_heads(&mut self, method: &str, answer: &mut Answer, reader: &mut Option<BodyReader>) {
        while reader.is_none() {
            let Some((head, used)) = Head::split(&self.unread) else {
                return;
            };
            self.unread.drain(..used);
            let status = head.status();
            if status < 200 && status != 101 {
                answer.interim.push(head);
                continue;
            }
            let framing = if status == 101 {
                Framing::Length(0)
            } else {
                head.response_framing(method)
            };
            *reader = Some(BodyReader::new(framing));
            answer.head = Some(head);
        }
    }

    /// Reads exactly so many bytes that follow an answer, as in an upgraded connection.
    pub fn read_raw(&mut self, length: usize, within: Duration) -> Vec<u8> {
        let deadline = Instant::now() + within;
        while self.unread.len() < length {
            if !matches!(self.read_some(deadline), Some(Ok(read)) if read > 0) {
                break;
            }
        }
        self.unread.drain(..length.min(self.unread.len())).collect()
    }

    /// `None` when the deadline came first.
    fn read_some(&mut self, deadline: Instant) -> Option<Result<usize, ErrorKind>> {
        let left = deadline
            .checked_duration_since(Instant::now())
            .filter(|d| !d.is_zero())?;
        self.stream
            .set_read_timeout(Some(left))
            .expect("a socket option");
        let mut buffer = vec![0; 64 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(read) => {
                self.unread.extend(buffer.iter().take(read));
                Some(Ok(read))
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            Err(e) if e.kind() == ErrorKind::Interrupted => self.read_some(deadline),
            Err(e) => Some(Err(e.kind())),
        }
    }
}

/// A request whose body has a length.
pub fn request(method: &str, path: &str, headers: &[(String, String)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nhost: model.test\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    let framed = headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let bodyless = body.is_empty() && matches!(method, "GET" | "HEAD");
    if !framed && !bodyless {
        bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// A chat or completions request.
pub fn post_json(path: &str, body: &serde_json::Value) -> Vec<u8> {
    let json = ("content-type".to_owned(), "application/json".to_owned());
    request("POST", path, &[json], body.to_string().as_bytes())
}

/// Sends one request on a connection of its own and reads the answer.
pub fn exchange(addr: SocketAddr, request: &[u8], abort_after: Option<Duration>) -> Answer {
    let mut client = Client::connect(addr);
    client.write(request);
    let method = Head::split(request).map(|(head, _)| head.method().to_owned());
    let abort_at = abort_after.map(|after| Instant::now() + after);
    client.read_answer(&method.unwrap_or_default(), abort_at)
}
