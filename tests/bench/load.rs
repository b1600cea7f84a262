//! The three loads: as many requests as go, requests at a rate, and streams.

use crate::poll::{Poll, now_ns};
use crate::wire;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// Longest read of an answer.
const READ_BYTES: usize = 64 * 1024;

/// No subject may keep a request for longer.
const ANSWER_WITHIN_NS: u64 = 20_000_000_000;

const NS_PER_S: u64 = 1_000_000_000;

/// One client connection, with at most one request on it.
struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    /// When the request was due that is being answered.
    due_ns: Option<u64>,
}

impl Client {
    fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("the subject listens");
        stream.set_nodelay(true).expect("it is connected");
        Self {
            stream,
            received: Vec::new(),
            due_ns: None,
        }
    }

    fn send(&mut self, request: &[u8], due_ns: u64) {
        self.received.clear();
        self.due_ns = Some(due_ns);
        self.stream
            .write_all(request)
            .expect("the subject takes requests");
    }

    fn read(&mut self, buffer: &mut [u8]) {
        let read = self.stream.read(buffer).expect("the subject answers");
        assert!(
            read > 0,
            "the subject closed a connection in the middle of an answer"
        );
        self.received.extend_from_slice(&buffer[..read]);
    }

    /// Whether the answer is whole that ends so; it must be a good one.
    fn has(&self, end: &[u8]) -> bool {
        let whole = self.received.ends_with(end);
        if whole && end == wire::RESPONSE_END {
            let good = self.received.starts_with(b"HTTP/1.1 200");
            assert!(
                good,
                "an answer: {}",
                String::from_utf8_lossy(&self.received)
            );
        }
        whole
    }
}

/// Connections, and the numbers of those that have something to read.
struct Clients {
    all: Vec<Client>,
    poll: Poll,
    buffer: Vec<u8>,
}

impl Clients {
    fn connect(addr: SocketAddr, connections: usize) -> Self {
        let mut clients = Self {
            all: Vec::new(),
            poll: Poll::new(),
            buffer: vec![0; READ_BYTES],
        };
        for _ in 0..connections {
            clients.open(addr);
        }
        clients
    }

    fn open(&mut self, addr: SocketAddr) -> usize {
        let (client, number) = (Client::connect(addr), self.all.len());
        self.poll.add(&client.stream, number);
        self.all.push(client);
        number
    }

    fn read(&mut self, number: usize) -> Option<&mut Client> {
        let client = self.all.get_mut(number)?;
        client.read(&mut self.buffer);
        Some(client)
    }

    fn none_is_stuck(&self) {
        let now_ns = now_ns();
        let stuck = |client: &Client| {
            client
                .due_ns
                .is_some_and(|due| now_ns > due + ANSWER_WITHIN_NS)
        };
        assert!(
            !self.all.iter().any(stuck),
            "a request was not answered in time"
        );
    }
}

/// How long is counted, after how long a warm-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) warm_s: f64,
    pub(crate) seconds: f64,
}

impl Span {
    /// From now on: once all connections are open.
    fn begin(self) -> Window {
        let begin_ns = now_ns() + ns(self.warm_s);
        Window {
            begin_ns,
            end_ns: begin_ns + ns(self.seconds),
        }
    }
}

/// A stretch of time in which things are counted: what happens before warms up.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin_ns: u64,
    end_ns: u64,
}

impl Window {
    fn holds(self, at_ns: u64) -> bool {
        (self.begin_ns..self.end_ns).contains(&at_ns)
    }
}

fn ns(seconds: f64) -> u64 {
    std::time::Duration::from_secs_f64(seconds)
        .as_nanos()
        .try_into()
        .unwrap_or(u64::MAX)
}

/// What is done besides, when its time comes: readings of the subject's account.
pub(crate) trait Observer {
    /// The window begins.
    fn begin(&mut self);
    /// The window is over.
    fn end(&mut self);
    /// From time to time, within it.
    fn tick(&mut self) {}
}

/// Calls an observer as time passes.
struct Clock<'a> {
    window: Window,
    observer: &'a mut dyn Observer,
    begun: bool,
    ticked_ns: u64,
}

impl<'a> Clock<'a> {
    /// Time between ticks.
    const TICK_NS: u64 = 100_000_000;

    fn new(window: Window, observer: &'a mut dyn Observer) -> Self {
        Self {
            window,
            observer,
            begun: false,
            ticked_ns: 0,
        }
    }

    /// The next instant at which this must be called.
    fn next_ns(&self) -> u64 {
        if self.begun {
            self.window.end_ns.min(self.ticked_ns + Self::TICK_NS)
        } else {
            self.window.begin_ns
        }
    }

    /// Whether the window is over.
    fn passes(&mut self) -> bool {
        let now_ns = now_ns();
        if !self.begun && now_ns >= self.window.begin_ns {
            self.begun = true;
            self.observer.begin();
        }
        if self.begun && now_ns >= self.window.end_ns {
            self.observer.end();
            return true;
        }
        if self.begun && now_ns >= self.ticked_ns + Self::TICK_NS {
            self.ticked_ns = now_ns;
            self.observer.tick();
        }
        false
    }
}

/// Every connection sends its next request as soon as it has its answer. Says how many were
/// answered.
pub(crate) fn saturate(
    addr: SocketAddr,
    connections: usize,
    span: Span,
    observer: &mut dyn Observer,
) -> u64 {
    let request = wire::small_request();
    let mut clients = Clients::connect(addr, connections);
    let window = span.begin();
    let mut clock = Clock::new(window, observer);
    for client in &mut clients.all {
        client.send(&request, now_ns());
    }
    let (mut ready, mut answered) = (Vec::new(), 0);
    while !clock.passes() {
        clients.poll.wait(clock.next_ns(), &mut ready);
        for number in &ready {
            let Some(client) = clients.read(*number) else {
                continue;
            };
            if client.has(wire::RESPONSE_END) {
                answered += u64::from(clock.begun);
                client.send(&request, now_ns());
            }
        }
        clients.none_is_stuck();
    }
    answered
}

/// Latencies from the instant a request was due, in nanoseconds, and how late it was sent.
#[derive(Debug, Default)]
pub(crate) struct Paced {
    pub(crate) latency_ns: Vec<u64>,
    pub(crate) late_ns: Vec<u64>,
}

/// Requests on an absolute schedule, each over a connection that is idle, or over a new one. Nothing
/// for a subject that falls behind for good: its latency is as long as one measures.
pub(crate) fn pace(
    addr: SocketAddr,
    per_s: u64,
    span: Span,
    observer: &mut dyn Observer,
) -> Option<Paced> {
    /// Connections that are opened before the first request.
    const CONNECTIONS: usize = 16;
    /// Connections that wait for an answer once a subject has fallen behind by a quarter of a second.
    const BEHIND: usize = 256;
    let request = wire::small_request();
    let every_ns = NS_PER_S / per_s;
    let mut clients = Clients::connect(addr, CONNECTIONS);
    let window = span.begin();
    let mut idle: Vec<usize> = (0..CONNECTIONS).collect();
    let mut clock = Clock::new(window, observer);
    let (mut ready, mut paced) = (Vec::new(), Paced::default());
    let mut due_ns = now_ns() + every_ns;
    while !clock.passes() {
        clients.poll.wait(clock.next_ns().min(due_ns), &mut ready);
        while now_ns() >= due_ns {
            if idle.is_empty() && clients.all.len() >= BEHIND {
                return None;
            }
            let number = idle.pop().unwrap_or_else(|| clients.open(addr));
            if window.holds(due_ns) {
                paced.late_ns.push(now_ns() - due_ns);
            }
            if let Some(client) = clients.all.get_mut(number) {
                client.send(&request, due_ns);
            }
            due_ns += every_ns;
        }
        for number in &ready {
            let Some(client) = clients.read(*number) else {
                continue;
            };
            if client.has(wire::RESPONSE_END) {
                let due_ns = client.due_ns.take().unwrap_or(0);
                if window.holds(due_ns) {
                    paced.latency_ns.push(now_ns() - due_ns);
                }
                idle.push(*number);
            }
        }
        clients.none_is_stuck();
    }
    Some(paced)
}

/// What streams are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    pub(crate) count: usize,
    pub(crate) events: u32,
    pub(crate) every_us: u64,
}

/// What was seen of the events of streams, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) transit_ns: Vec<u64>,
    pub(crate) jitter_ns: Vec<u64>,
}

/// Streams next to each other; each that ends is followed by another on its connection.
pub(crate) fn stream(
    addr: SocketAddr,
    streams: Streams,
    span: Span,
    observer: &mut dyn Observer,
) -> Seen {
    let request = wire::stream_request(streams.events, streams.every_us);
    let mut clients = Clients::connect(addr, streams.count);
    let window = span.begin();
    let mut clock = Clock::new(window, observer);
    // Streams that began together would send together.
    let (start_ns, spread_ns) = (now_ns(), streams.every_us * 1000 / streams.count as u64);
    let (mut started, mut ready, mut seen) = (0, Vec::new(), Seen::default());
    let mut last: Vec<Option<(u64, u64)>> = vec![None; streams.count];
    while !clock.passes() {
        let next_ns = if started < streams.count {
            start_ns + started as u64 * spread_ns
        } else {
            u64::MAX
        };
        clients.poll.wait(clock.next_ns().min(next_ns), &mut ready);
        if let Some(client) = clients.all.get_mut(started)
            && now_ns() >= next_ns
        {
            client.send(&request, now_ns());
            started += 1;
        }
        for number in &ready {
            let Some(client) = clients.read(*number) else {
                continue;
            };
            let received_ns = now_ns();
            let mut taken = 0;
            while let Some((sent_ns, length)) = wire::next_stamp(&client.received[taken..]) {
                taken += length;
                if window.holds(sent_ns) {
                    seen.transit_ns.push(received_ns.saturating_sub(sent_ns));
                    if let Some((sent_before, received_before)) = last[*number] {
                        let (sent, received) =
                            (sent_ns - sent_before, received_ns - received_before);
                        seen.jitter_ns.push(sent.abs_diff(received));
                    }
                }
                last[*number] = Some((sent_ns, received_ns));
            }
            if client.has(wire::STREAM_END) {
                last[*number] = None;
                client.send(&request, received_ns);
            } else {
                client.received.drain(..taken);
                client.due_ns = client.due_ns.map(|due| due.max(received_ns));
            }
        }
        clients.none_is_stuck();
    }
    seen
}
