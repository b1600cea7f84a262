//! A client of HTTP/1.1 that does what its script says.

use super::dial::Dial;
use super::reader::Reader;
use super::socket::Socket;
use super::wire::{Sending, Wire, head};
use super::{Act, Awaited, ClientSeen, End, Message, PROBE, WITHIN};
use std::time::{Duration, Instant};

/// How long a connection is watched for its end when nobody knows whether it will end.
pub const QUIET: Duration = Duration::from_millis(150);

struct Player<'a> {
    dial: &'a Dial,
    wire: Option<Wire>,
    /// Requests on this connection.
    asked: usize,
    /// A head that goes out with what follows it.
    held: Vec<u8>,
    sending: Sending,
    /// A request was not sent to its end: nothing can follow it.
    stopped: bool,
    seen: ClientSeen,
}

/// Plays a script. `closes` says whether the connection is known to end afterwards.
pub async fn play(dial: &Dial, acts: &[Act], closes: Option<bool>) -> ClientSeen {
    let mut player = Player {
        dial,
        wire: None,
        asked: 0,
        held: Vec::new(),
        sending: Sending::Plain,
        stopped: false,
        seen: ClientSeen::default(),
    };
    for act in acts {
        player.act(act).await;
    }
    player.flush(&[]).await;
    player.finish(closes).await;
    player.seen
}

impl Player<'_> {
    async fn act(&mut self, act: &Act) {
        match act {
            Act::Request {
                method,
                target,
                fields,
            } => {
                self.flush(&[]).await;
                self.connect().await;
                self.ask(method);
                self.sending = Sending::of(fields, None, 200);
                self.held = head(&format!("{method} {target} HTTP/1.1"), fields);
            }
            Act::Data(bytes) => self.flush(&self.sending.piece(bytes)).await,
            Act::Trailers(fields) => self.flush(&self.sending.end(fields)).await,
            Act::End => self.flush(&self.sending.end(&Vec::new())).await,
            Act::Raw(bytes) => {
                self.connect().await;
                if let Some(method) = raw_method(bytes) {
                    self.ask(&method);
                }
                self.flush(bytes).await;
            }
            Act::Pause(time) => {
                self.flush(&[]).await;
                self.read(*time, |_| false).await;
            }
            Act::Stall(time) => {
                self.flush(&[]).await;
                tokio::time::sleep(*time).await;
                self.seen.resumed_at = Some(Instant::now());
            }
            Act::Await(what) => {
                self.flush(&[]).await;
                self.await_what(*what).await;
            }
            Act::HalfClose => {
                self.flush(&[]).await;
                if let Some(wire) = &mut self.wire {
                    wire.half_close().await;
                }
            }
            Act::Leave | Act::HangUp => self.leave(Wire::close).await,
            Act::Reset(_) => self.leave(Wire::reset).await,
            Act::Response { .. } | Act::GoAway(_) => {}
        }
    }

    fn ask(&mut self, method: &str) {
        if let Some(wire) = &mut self.wire {
            wire.reader.ask(method);
            self.asked += 1;
        }
    }

    async fn leave(&mut self, how: fn(Wire) -> Reader) {
        self.flush(&[]).await;
        if let Some(wire) = self.wire.take() {
            self.seen.left_at = Some(Instant::now());
            let mut reader = how(wire);
            reader.end("left");
            self.collect(reader);
        }
    }

    /// A connection that can be written to: the one there is, or a new one.
    async fn connect(&mut self) {
        if self.wire.as_ref().is_some_and(|wire| wire.over.is_none()) {
            return;
        }
        self.let_go();
        match self.dial.connect().await {
            Ok(socket) => self.wire = Some(self.take(socket)),
            Err(cause) => self.seen.answers.push(Message {
                end: End::Cut(format!("no connection: {cause}")),
                ..Message::default()
            }),
        }
    }

    fn take(&mut self, socket: Socket) -> Wire {
        self.seen.connections += 1;
        self.asked = 0;
        self.stopped = false;
        Wire::new(socket, Reader::of_answers())
    }

    fn let_go(&mut self) {
        if let Some(wire) = self.wire.take() {
            let how = wire.over.map_or("no end in time", |(_, how)| how);
            let mut reader = wire.close();
            reader.end(how);
            self.collect(reader);
        }
    }

    fn collect(&mut self, reader: Reader) {
        self.seen.answers.extend(reader.over);
        self.seen.tunnelled.extend(reader.tunnelled);
    }

    async fn flush(&mut self, bytes: &[u8]) {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let asked = self.asked;
        if let Some(wire) = &mut self.wire {
            // An answer to what is still being sent ends the sending, unless the script waited
            // for it and goes on.
            let waited = wire.reader.over.len() >= asked;
            let whole = wire
                .write(&all, |reader| !waited && reader.over.len() >= asked)
                .await;
            self.stopped |= !whole;
        }
    }

    async fn read(&mut self, within: Duration, wanted: impl Fn(&Reader) -> bool) -> bool {
        match &mut self.wire {
            Some(wire) => {
                let until = tokio::time::Instant::now() + within;
                let came = wire.until(within, wanted).await;
                if !came && within < WITHIN && wire.over.is_some() {
                    tokio::time::sleep_until(until).await;
                }
                came
            }
            None => false,
        }
    }

    async fn await_what(&mut self, what: Awaited) {
        let last = self.asked.saturating_sub(1);
        let wanted = |reader: &Reader| match what {
            Awaited::Head => reader.heads() > last,
            Awaited::Interim => reader.interims() > 0 || reader.heads() > last,
            Awaited::Bytes(count) => reader.body_bytes(last) >= count,
            Awaited::Message => reader.over.len() > last,
            Awaited::Gone => false,
            Awaited::Tunnelled(count) => reader.tunnelled.len() >= count,
        };
        self.read(WITHIN, wanted).await;
    }

    /// Waits for what is missing, and finds out whether the connection could go on.
    async fn finish(&mut self, closes: Option<bool>) {
        let asked = self.asked;
        self.read(WITHIN, |reader| reader.over.len() >= asked).await;
        let Some(wire) = &mut self.wire else { return };
        let watched = match closes {
            Some(true) => WITHIN,
            Some(false) => Duration::ZERO,
            None => QUIET,
        };
        wire.until(watched, |_| false).await;
        if wire.over.is_none() && wire.reader.tunnelled.is_empty() && !self.stopped {
            let probe = head(
                &format!("GET {PROBE} HTTP/1.1"),
                &vec![("Host".to_owned(), "kept".to_owned())],
            );
            wire.reader.ask("GET");
            wire.write(&probe, |_| false).await;
            wire.until(WITHIN, |reader| reader.over.len() > asked).await;
            if let Some((_, how)) = wire.over {
                wire.reader.end(how);
            }
            if wire.reader.over.len() > asked {
                let probed = wire.reader.over.remove(asked);
                self.seen.kept = probed.end == End::Whole && probed.start.contains(" 204");
            }
        }
        self.let_go();
    }
}

/// The method of raw bytes that begin a request.
fn raw_method(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes.get(..bytes.len().min(16))?).ok()?;
    let (method, _) = text.split_once(' ')?;
    let upper = !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase());
    upper.then(|| method.to_owned())
}
