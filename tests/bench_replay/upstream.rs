//! The server behind every subject. It notes when each request's first bytes were read, by the
//! machine's monotonic clock, and streams as many events as were asked for.

use crate::poll::{self, Poll, now_ns};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Number of the listener among the sockets.
const LISTENER: usize = usize::MAX - 1;

/// How often the loop looks whether it is to end.
const TICK_NS: u64 = 50_000_000;

/// Longest read.
const READ_BYTES: usize = 64 * 1024;

/// Connections that may wait: a burst opens hundreds.
const BACKLOG: i32 = 4096;

/// Marks what is not of the run: it is answered and not noted.
const PROBE: &[u8] = b"x-truetape-probe";

/// A running server.
pub(crate) struct Upstream {
    pub(crate) addr: SocketAddr,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    thread: JoinHandle<Vec<u64>>,
}

impl Upstream {
    /// Starts one. Events of a stream come `every_us` apart; at 0 all at once.
    pub(crate) fn start(every_us: u64, core: Option<usize>) -> Self {
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let listener = listener.expect("a socket");
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        listener.bind(&any.into()).expect("a port");
        listener.listen(BACKLOG).expect("it is bound");
        let listener = TcpListener::from(listener);
        let addr = listener.local_addr().expect("it is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let (stopping, counted) = (Arc::clone(&stop), Arc::clone(&answered));
        let thread = std::thread::spawn(move || {
            if let Some(core) = core {
                crate::process::pin(core);
            }
            poll::exact_wakes();
            Server::new(listener, every_us * 1000, counted).run(&stopping)
        });
        Self {
            addr,
            stop,
            answered,
            thread,
        }
    }

    /// Streams that were begun.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// Ends it: when each request came, in the order they came in.
    pub(crate) fn stop(self) -> Vec<u64> {
        self.stop.store(true, Relaxed);
        self.thread.join().expect("the upstream goes on")
    }
}

struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
    first_ns: u64,
    left: u32,
    chat: bool,
    output_tokens: u32,
}

struct Server {
    listener: TcpListener,
    poll: Poll,
    peers: Vec<Option<Peer>>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    every_ns: u64,
    arrivals: Vec<u64>,
    answered: Arc<AtomicU64>,
}

/// What a request asks for.
struct Asked {
    is_inference: bool,
    noted: bool,
    streams: bool,
    chat: bool,
    output_tokens: u32,
}

impl Server {
    fn new(listener: TcpListener, every_ns: u64, answered: Arc<AtomicU64>) -> Self {
        let poll = Poll::new();
        poll.add(&listener, LISTENER);
        listener.set_nonblocking(true).expect("it is a socket");
        Self {
            listener,
            poll,
            peers: Vec::new(),
            due: BinaryHeap::new(),
            every_ns,
            arrivals: Vec::new(),
            answered,
        }
    }

    fn run(mut self, stop: &AtomicBool) -> Vec<u64> {
        let mut ready = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        while !stop.load(Relaxed) {
            let tick_ns = (now_ns() / TICK_NS + 1) * TICK_NS;
            let next = self.due.peek();
            let next_ns = next.map_or(tick_ns, |Reverse((at, _))| tick_ns.min(*at));
            self.poll.wait(next_ns, &mut ready);
            // Requests first: what is late here would be taken for the subject's lateness.
            for number in &ready {
                if *number == LISTENER {
                    self.accept();
                } else {
                    self.read(*number, &mut buffer);
                }
            }
            self.send_due();
        }
        self.arrivals
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nodelay(true).expect("it was just accepted");
            self.poll.add(&stream, self.peers.len());
            self.peers.push(Some(Peer {
                stream,
                received: Vec::new(),
                first_ns: 0,
                left: 0,
                chat: false,
                output_tokens: 0,
            }));
        }
    }

    fn read(&mut self, number: usize, buffer: &mut [u8]) {
        let now_ns = now_ns();
        let Some(Some(peer)) = self.peers.get_mut(number) else {
            return;
        };
        match peer.stream.read(buffer) {
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => return,
            Ok(0) | Err(_) => {
                self.peers[number] = None;
                return;
            }
            Ok(read) => {
                if peer.received.is_empty() {
                    peer.first_ns = now_ns;
                }
                peer.received.extend_from_slice(&buffer[..read]);
            }
        }
        let Some(asked) = asked(&peer.received) else {
            return;
        };
        peer.received.clear();
        if asked.noted {
            self.arrivals.push(peer.first_ns);
        }
        self.answer(number, &asked);
    }

    fn answer(&mut self, number: usize, asked: &Asked) {
        let Some(Some(peer)) = self.peers.get_mut(number) else {
            return;
        };
        (peer.chat, peer.output_tokens) = (asked.chat, asked.output_tokens);
        let bytes = match (asked.is_inference, asked.streams) {
            (false, _) => document(r#"{"object":"list","data":[{"id":"bench","object":"model"}]}"#),
            (true, false) => document(&whole(asked)),
            (true, true) if self.every_ns == 0 => {
                let tokens = token(asked.chat).repeat(asked.output_tokens as usize);
                [stream_head(), tokens, end(asked.output_tokens)].concat()
            }
            (true, true) => {
                peer.left = asked.output_tokens;
                let first_ns = now_ns() + self.every_ns;
                self.due.push(Reverse((first_ns, number)));
                stream_head()
            }
        };
        if peer.stream.write_all(&bytes).is_err() {
            self.peers[number] = None;
        }
        if asked.noted {
            self.answered.fetch_add(1, Relaxed);
        }
    }

    fn send_due(&mut self) {
        let now_ns = now_ns();
        while let Some(Reverse((at_ns, number))) = self.due.peek().copied() {
            if at_ns > now_ns {
                return;
            }
            self.due.pop();
            let Some(Some(peer)) = self.peers.get_mut(number) else {
                continue;
            };
            peer.left = peer.left.saturating_sub(1);
            let mut event = token(peer.chat);
            if peer.left == 0 {
                event.extend(end(peer.output_tokens));
            }
            if peer.stream.write_all(&event).is_err() {
                self.peers[number] = None;
            } else if peer.left > 0 {
                self.due.push(Reverse((at_ns + self.every_ns, number)));
            }
        }
    }
}

/// What a whole request asks for; none where more is to come.
fn asked(received: &[u8]) -> Option<Asked> {
    let head_end = memchr::memmem::find(received, b"\r\n\r\n")? + 4;
    let (head, body) = received.split_at(head_end);
    let lower = head.to_ascii_lowercase();
    let length = memchr::memmem::find(&lower, b"\r\ncontent-length:").map_or(0, |at| {
        digits(
            lower
                .get(at + b"\r\ncontent-length:".len()..)
                .unwrap_or_default(),
        )
    });
    if body.len() < length as usize {
        return None;
    }
    let is_inference =
        head.starts_with(b"POST") && memchr::memmem::find(&lower, b"completions").is_some();
    let limits: [&[u8]; 2] = [b"\"max_completion_tokens\":", b"\"max_tokens\":"];
    let limit = limits.into_iter().find_map(|name| {
        let at = memchr::memmem::find(body, name)? + name.len();
        Some(digits(body.get(at..)?))
    });
    let streams: [&[u8]; 2] = [b"\"stream\":true", b"\"stream\": true"];
    Some(Asked {
        is_inference,
        noted: is_inference && memchr::memmem::find(&lower, PROBE).is_none(),
        streams: streams
            .into_iter()
            .any(|flag| memchr::memmem::find(body, flag).is_some()),
        chat: memchr::memmem::find(&lower, b"chat/completions").is_some(),
        output_tokens: limit.unwrap_or(1).max(1),
    })
}

fn digits(text: &[u8]) -> u32 {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
}

fn chunk(data: &str) -> Vec<u8> {
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}

fn token(chat: bool) -> Vec<u8> {
    chunk(if chat {
        "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1764500000,\
         \"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\
         \"finish_reason\":null}]}\n\n"
    } else {
        "data: {\"id\":\"cmpl-bench\",\"object\":\"text_completion\",\"created\":1764500000,\
         \"model\":\"bench\",\"choices\":[{\"index\":0,\"text\":\" token\",\"finish_reason\":null}]}\n\n"
    })
}

fn end(output_tokens: u32) -> Vec<u8> {
    let data = format!(
        "data: {{\"id\":\"cmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1764500000,\
         \"model\":\"bench\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"text\":\"\",\
         \"finish_reason\":\"length\"}}]}}\n\n\
         data: {{\"id\":\"cmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1764500000,\
         \"model\":\"bench\",\"choices\":[],\"usage\":{}}}\n\ndata: [DONE]\n\n",
        usage(output_tokens)
    );
    [chunk(&data), b"0\r\n\r\n".to_vec()].concat()
}

fn usage(output_tokens: u32) -> String {
    let input_tokens = crate::schedule::INPUT_TOKENS;
    let total = input_tokens + output_tokens;
    format!(
        "{{\"prompt_tokens\":{input_tokens},\"completion_tokens\":{output_tokens},\"total_tokens\":{total}}}"
    )
}

fn whole(asked: &Asked) -> String {
    format!(
        "{{\"id\":\"cmpl-bench\",\"object\":\"chat.completion\",\"created\":1764500000,\
         \"model\":\"bench\",\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\
         \"content\":\"token\"}},\"text\":\"token\",\"finish_reason\":\"length\"}}],\"usage\":{}}}",
        usage(asked.output_tokens)
    )
}

fn document(body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nserver: bench\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn stream_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nserver: bench\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
      transfer-encoding: chunked\r\n\r\n"
        .to_vec()
}
