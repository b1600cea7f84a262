//! The server behind every subject: answers at once, or streams on an absolute schedule and stamps
//! every event with the instant it was sent at.

use crate::poll::{self, Poll, now_ns};
use crate::wire::{self, Event};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Number of the listener among the sockets.
const LISTENER: usize = usize::MAX - 1;

/// How often the loop looks whether it is to end.
const TICK_NS: u64 = 50_000_000;

/// Longest read: a request is about 1.3 KB.
const READ_BYTES: usize = 16 * 1024;

/// A running server; it ends when dropped.
pub(crate) struct Upstream {
    pub(crate) addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("it is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            poll::exact_wakes();
            Server::new(listener).run(&stopping);
        });
        Self {
            addr,
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            assert!(
                thread.join().is_ok() || std::thread::panicking(),
                "the upstream failed"
            );
        }
    }
}

struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
    left: u32,
    every_ns: u64,
}

struct Server {
    listener: TcpListener,
    poll: Poll,
    peers: Vec<Option<Peer>>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    small: Vec<u8>,
    head: Vec<u8>,
    token: Event,
    last: Event,
}

impl Server {
    fn new(listener: TcpListener) -> Self {
        let poll = Poll::new();
        poll.add(&listener, LISTENER);
        Self {
            listener,
            poll,
            peers: Vec::new(),
            due: BinaryHeap::new(),
            small: wire::small_response(),
            head: wire::stream_head(),
            token: Event::token(),
            last: Event::last(),
        }
    }

    fn run(mut self, stop: &AtomicBool) {
        let mut ready = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        while !stop.load(Relaxed) {
            // The same for all waits of one tick.
            let tick_ns = (now_ns() / TICK_NS + 1) * TICK_NS;
            let next_ns = self
                .due
                .peek()
                .map_or(tick_ns, |Reverse((at, _))| tick_ns.min(*at));
            self.poll.wait(next_ns, &mut ready);
            self.send_due();
            for number in &ready {
                if *number == LISTENER {
                    self.accept();
                } else {
                    self.read(*number, &mut buffer);
                }
            }
        }
    }

    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else {
            return;
        };
        stream.set_nodelay(true).expect("it was just accepted");
        self.poll.add(&stream, self.peers.len());
        let peer = Peer {
            stream,
            received: Vec::new(),
            left: 0,
            every_ns: 0,
        };
        self.peers.push(Some(peer));
    }

    fn read(&mut self, number: usize, buffer: &mut [u8]) {
        let Some(slot) = self.peers.get_mut(number) else {
            return;
        };
        let Some(peer) = slot else { return };
        match peer.stream.read(buffer) {
            Ok(0) | Err(_) => {
                *slot = None;
                return;
            }
            Ok(read) => peer.received.extend_from_slice(&buffer[..read]),
        }
        if !peer.received.ends_with(wire::REQUEST_END) {
            return;
        }
        let answer = match wire::asked(&peer.received) {
            None => &self.small,
            Some((events, every_us)) => {
                peer.left = events;
                peer.every_ns = every_us * 1000;
                self.due.push(Reverse((now_ns() + peer.every_ns, number)));
                &self.head
            }
        };
        peer.received.clear();
        if peer.stream.write_all(answer).is_err() {
            *slot = None;
        }
    }

    fn send_due(&mut self) {
        while let Some(Reverse((at_ns, number))) = self.due.peek().copied() {
            let now_ns = now_ns();
            if at_ns > now_ns {
                return;
            }
            self.due.pop();
            let Some(Some(peer)) = self.peers.get_mut(number) else {
                continue;
            };
            peer.left = peer.left.saturating_sub(1);
            let event = if peer.left == 0 {
                &mut self.last
            } else {
                &mut self.token
            };
            if peer.stream.write_all(event.at(now_ns)).is_err() {
                self.peers[number] = None;
            } else if peer.left > 0 {
                self.due.push(Reverse((at_ns + peer.every_ns, number)));
            }
        }
    }
}
