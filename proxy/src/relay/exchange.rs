//! One request and its response, both directions at once.

use crate::account::Exclusion;
use crate::connection::Connection;
use crate::forward;
use crate::io::{self, Left};
use crate::limits;
use crate::metrics::Metric;
use crate::redact;
use crate::relay::asked::Asked;
use crate::relay::flow::Flow;
use crate::relay::framing::Framing;
use crate::relay::head::{self, Found, Response};
use crate::relay::lane::Lane;
use crate::tap::Recording;
use crate::tape::{Fate, Tape};
use crate::track::TrackEnd;
use crate::upward::UpstreamIo;
use bytes::{Bytes, BytesMut};
use http::Method;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How an exchange ended, and with it what becomes of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Both messages passed whole: another may follow.
    Whole,
    /// Nothing follows. `unread`: the client may still be sending.
    Last {
        /// See there.
        unread: bool,
    },
    /// The upstream reset its connection.
    Reset,
    /// The upstream's connection broke under what lies upon it: TLS did not say its end.
    Torn,
    /// The client went away.
    Left,
    /// The connections are a tunnel from now on.
    Tunnel,
    /// It is not known any more what is said: whatever comes passes unread.
    Unread,
}

/// Pieces of a request that pass before the response has its turn: a fast upload must not keep its
/// refusal from coming back.
const ROUNDS_MAX: usize = 16;

/// An exchange whose request has begun to come.
#[derive(Debug)]
pub struct Exchange<'c> {
    pub(super) connection: &'c Connection,
    pub(super) tape: Option<Arc<Tape>>,
    pub(super) asked: Asked,
    pub(super) up: Flow,
    /// The head of the request, until it is put up: how long it is as it came, and what goes out
    /// instead.
    pub(super) ahead: Option<(usize, Option<Vec<u8>>)>,
    down: Down,
    /// The body of the response, once its head has come.
    answer: Flow,
    /// What became of the request: it was sent, or the upstream takes no more of it.
    sent: Option<Result<(), Refused>>,
    left: Option<Left>,
    told_end: bool,
    told: bool,
    /// Runs once the request has broken off: the upstream may still say something about it.
    broken_off: Option<Pin<Box<tokio::time::Sleep>>>,
}

/// The upstream takes no more of a request.
#[derive(Clone, Copy, Debug)]
struct Refused {
    /// Because it reset the connection. Whoever writes is told, and whoever reads then sees an end.
    reset: bool,
}

/// Where a response is.
#[derive(Clone, Copy, Debug)]
enum Down {
    /// Before its head, of which so much was seen.
    Head(usize),
    /// In its body.
    Body,
    /// Over, so.
    Over(Ended),
}

impl<'c> Exchange<'c> {
    /// Begins with the head of a request that was seen to be whole.
    pub fn begin(
        connection: &'c Connection,
        sequence: i32,
        arrival_us: i64,
        bytes: &[u8],
    ) -> Option<Self> {
        let begun = head::request(bytes, |request| {
            let upgrade = request.method == Method::CONNECT.as_str() || request.head.is_upgrade();
            let asked = Asked::of(&request, upgrade);
            let tape = if asked.uncounted {
                None
            } else {
                forward::begin(
                    connection,
                    sequence,
                    arrival_us,
                    request.method,
                    request.head.fields,
                    || redact::target_as_sent(request.target),
                )
            };
            let ahead = (request.head.bytes.len(), request.head.edited(false));
            (tape, asked, ahead, request.framing)
        });
        let Found::Head((tape, asked, ahead, framing)) = begun else {
            return None;
        };
        let body_max = connection.shared.config.body_bytes_max;
        let recording = |tape: &Arc<Tape>| Recording::of_request(Arc::clone(tape), body_max);
        Some(Self {
            connection,
            up: Flow::new(framing, tape.as_ref().map(recording)),
            tape,
            asked,
            ahead: Some(ahead),
            down: Down::Head(0),
            answer: Flow::new(Framing::NONE, None),
            sent: None,
            left: None,
            told_end: false,
            told: false,
            broken_off: None,
        })
    }

    /// Passes both messages on.
    pub async fn run<I>(
        mut self,
        client: &mut Lane<I>,
        upstream: &mut Lane<UpstreamIo>,
        stream: &TcpStream,
    ) -> Ended
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut leaving, mut breaking) = (pin!(io::left(stream)), pin!(io::broken(stream)));
        let ended = poll_fn(|cx| {
            let (leaving, breaking) = (leaving.as_mut(), breaking.as_mut());
            self.poll(client, upstream, leaving, breaking, cx)
        })
        .await;
        self.tell(ended);
        ended
    }

    fn poll<I>(
        &mut self,
        client: &mut Lane<I>,
        upstream: &mut Lane<UpstreamIo>,
        leaving: Pin<&mut impl Future<Output = Left>>,
        breaking: Pin<&mut impl Future<Output = ()>>,
        cx: &mut Context<'_>,
    ) -> Poll<Ended>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        if self.left.is_none()
            && let Poll::Ready(left) = leaving.poll(cx)
        {
            self.left = Some(left);
        }
        let ended_first = self.left == Some(Left::Ended);
        if self.left == Some(Left::Reset) || ended_first && breaking.poll(cx).is_ready() {
            return Poll::Ready(Ended::Left);
        }
        if let Poll::Ready(Err(_)) = self.poll_up(client, upstream, cx) {
            return Poll::Ready(Ended::Left);
        }
        if let Some(within) = &mut self.broken_off
            && within.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Ended::Left);
        }
        let down = self.poll_down(client, upstream, cx);
        if self.up.is_lost() || self.answer.is_lost() {
            return Poll::Ready(Ended::Unread);
        }
        let unread = !matches!(self.sent, Some(Ok(())));
        Poll::Ready(match ready!(down) {
            Ended::Whole if self.connection.shared.drain.is_cancelled() => Ended::Last { unread },
            Ended::Whole if unread => ready!(self.poll_late(upstream, cx)),
            Ended::Last { .. } => Ended::Last { unread },
            ended => ended,
        })
    }

    /// The response was whole before the request: its rest goes on, unless the upstream has left.
    fn poll_late(&self, upstream: &mut Lane<UpstreamIo>, cx: &mut Context<'_>) -> Poll<Ended> {
        if !upstream.read.is_empty() {
            return Poll::Ready(Ended::Unread);
        }
        if self.sent.is_some() {
            return Poll::Ready(Ended::Last { unread: true });
        }
        match ready!(upstream.poll_read(cx)) {
            Ok(0) | Err(_) => Poll::Ready(Ended::Last { unread: true }),
            // It answers something else than we know of.
            Ok(_) => Poll::Ready(Ended::Unread),
        }
    }

    /// Passes the request on. An error is the client's.
    fn poll_up<I>(
        &mut self,
        client: &mut Lane<I>,
        upstream: &mut Lane<UpstreamIo>,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        for _ in 0..ROUNDS_MAX {
            if matches!(self.sent, Some(Err(_))) {
                return Poll::Ready(Ok(()));
            }
            if let Err(cause) = ready!(upstream.poll_write(cx)) {
                let reset = cause.kind() == ErrorKind::ConnectionReset;
                self.sent = Some(Err(Refused { reset }));
                continue;
            }
            if let Some((length, edited)) = self.ahead.take() {
                let bytes = pass_head(&mut self.up, &mut client.read, length, edited);
                upstream.put(bytes);
                continue;
            }
            if self.up.is_lost() {
                return Poll::Ready(Ok(()));
            }
            if self.up.is_over() {
                if self.sent.is_none() {
                    // A prompt's buffer must not be kept for as long as its answer takes.
                    client.rest();
                }
                self.sent = Some(Ok(()));
                if self.left.is_some() && !self.told_end {
                    ready!(self.poll_end(client, upstream, cx))?;
                    continue;
                }
                return Poll::Ready(Ok(()));
            }
            if !client.read.is_empty() {
                upstream.put(self.up.take(&mut client.read, 0));
            } else if ready!(client.poll_read(cx))? == 0 {
                // It broke off: the upstream is told the same.
                self.up.end(TrackEnd::Failed);
                self.left = self.left.or(Some(Left::Ended));
                let within = tokio::time::sleep(limits::LINGER_WITHIN);
                self.broken_off = Some(Box::pin(within));
            }
        }
        // The other direction has its turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The client has ended its side: so is ours to the upstream, after whatever came before.
    fn poll_end<I>(
        &mut self,
        client: &mut Lane<I>,
        upstream: &mut Lane<UpstreamIo>,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        while !client.ended && client.read.len() < limits::AHEAD_BYTES_MAX {
            ready!(client.poll_read(cx))?;
        }
        if !client.ended || matches!(head::is_request(&client.read, 0), Found::Head(())) {
            // Its next request is answered first.
            self.told_end = true;
        } else if client.read.is_empty() {
            // An upstream that is gone has told so otherwise.
            drop(ready!(upstream.poll_end(cx)));
            self.told_end = true;
        } else {
            upstream.put(client.read.split().freeze());
        }
        Poll::Ready(Ok(()))
    }

    /// Passes the response on.
    fn poll_down<I>(
        &mut self,
        client: &mut Lane<I>,
        upstream: &mut Lane<UpstreamIo>,
        cx: &mut Context<'_>,
    ) -> Poll<Ended>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        loop {
            if ready!(client.poll_write(cx)).is_err() {
                return Poll::Ready(Ended::Left);
            }
            let passed = match self.down {
                Down::Over(ended) => return Poll::Ready(ended),
                Down::Body if self.answer.is_over() => return Poll::Ready(Ended::Whole),
                Down::Head(_) => self.read_head(client, &mut upstream.read),
                Down::Body if upstream.read.is_empty() => false,
                Down::Body => {
                    client.put(self.answer.take(&mut upstream.read, 0));
                    true
                }
            };
            if passed {
                continue;
            }
            match ready!(upstream.poll_read(cx)) {
                Ok(0) if matches!(self.sent, Some(Err(Refused { reset: true }))) => {
                    self.end(client, &mut upstream.read, Ended::Reset);
                }
                Ok(0) => self.end(client, &mut upstream.read, Ended::Last { unread: false }),
                Ok(_) => {}
                // TLS that ends without its own end, or is not TLS any more.
                Err(cause)
                    if matches!(
                        cause.kind(),
                        ErrorKind::UnexpectedEof | ErrorKind::InvalidData
                    ) =>
                {
                    self.end(client, &mut upstream.read, Ended::Torn);
                }
                Err(_) => self.end(client, &mut upstream.read, Ended::Reset),
            }
        }
    }

    /// Reads the next head from what came, if it is there.
    fn read_head<I>(&mut self, client: &mut Lane<I>, read: &mut BytesMut) -> bool
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let Down::Head(looked) = self.down else {
            return false;
        };
        if read.len() == looked {
            return false;
        }
        let found = head::when_whole(read, looked, |bytes| {
            head::response(bytes, |response| self.heard(&response))
        });
        match found {
            Found::Part => {
                self.down = Down::Head(read.len());
                return false;
            }
            Found::Foreign => {
                self.broke();
                self.down = Down::Over(Ended::Unread);
            }
            Found::Head(Heard::Interim(length)) => {
                client.put(read.split_to(length).freeze());
                self.down = Down::Head(0);
            }
            Found::Head(Heard::Tunnel(length, edited)) => {
                let head = read.split_to(length).freeze();
                client.put(edited.map_or(head, Bytes::from));
                self.down = Down::Over(Ended::Tunnel);
            }
            Found::Head(Heard::Final(length, edited, flow)) => {
                self.answer = flow;
                self.down = Down::Body;
                client.put(pass_head(&mut self.answer, read, length, edited));
            }
        }
        true
    }

    /// What a head says, and the recorder of it.
    fn heard(&self, response: &Response<'_>) -> Heard {
        let (status, head) = (response.status, &response.head);
        let length = head.bytes.len();
        let switches = status == 101 || (self.asked.connect && (200..300).contains(&status));
        if (100..200).contains(&status) && !switches {
            return Heard::Interim(length);
        }
        let shared = &self.connection.shared;
        if let Some(tape) = &self.tape {
            tape.head(forward::head(shared, tape, status, head.fields));
        }
        if switches {
            return Heard::Tunnel(length, head.edited(false));
        }
        let recording = self.tape.as_ref().map(|tape| {
            let traffic = Arc::clone(&self.connection.traffic);
            Recording::of_response(Arc::clone(tape), shared.config.body_bytes_max, traffic)
        });
        let framing = head::framing_of_response(status, head.fields, self.asked.to_head);
        // A proxy that drains closes the connection after this response, and says so.
        let last = shared.drain.is_cancelled();
        Heard::Final(length, head.edited(last), Flow::new(framing, recording))
    }

    /// The upstream has ended its side, so.
    fn end<I>(&mut self, client: &mut Lane<I>, rest: &mut BytesMut, ended: Ended)
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        match self.down {
            Down::Body => {
                let orderly = matches!(ended, Ended::Last { .. });
                let clean = self.answer.ends_with_connection() && orderly;
                self.answer.end(match self.left {
                    // It gave up because its client did.
                    Some(_) if !clean => TrackEnd::Dropped,
                    _ if clean => TrackEnd::Clean,
                    _ => TrackEnd::Failed,
                });
            }
            Down::Head(_) => {
                self.broke();
                if !rest.is_empty() {
                    client.put(rest.split().freeze());
                }
            }
            Down::Over(_) => {}
        }
        self.down = Down::Over(ended);
    }

    /// There is no response, or none that can be read, and the client has not left.
    fn broke(&self) {
        if self.left.is_none() {
            self.connection.shared.metrics.count(Metric::UpstreamBroken);
            if let Some(tape) = &self.tape {
                tape.fate(Fate::Broken);
            }
        }
    }

    /// Says what became of an exchange that might have become a tunnel.
    pub(super) fn tell(&mut self, ended: Ended) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let shared = &self.connection.shared;
        let uncounted = self.asked.uncounted;
        if ended == Ended::Tunnel {
            shared.metrics.count(Metric::Tunnels);
            match &self.tape {
                Some(tape) => tape.fate(Fate::Upgraded),
                None if uncounted => shared.recorder.skip(Exclusion::Upgrade),
                None => {}
            }
        } else if uncounted {
            shared.recorder.skip(Exclusion::NotInference);
        }
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        // However it ended: it is counted once.
        self.tell(Ended::Left);
    }
}

/// What a head of the upstream is, its length, and what goes out instead of it.
#[expect(clippy::large_enum_variant, reason = "it lives as long as one call")]
enum Heard {
    Interim(usize),
    Tunnel(usize, Option<Vec<u8>>),
    Final(usize, Option<Vec<u8>>, Flow),
}

/// The head of a message with what came of its body, in one piece.
pub(super) fn pass_head(
    flow: &mut Flow,
    read: &mut BytesMut,
    length: usize,
    edited: Option<Vec<u8>>,
) -> Bytes {
    let bytes = flow.take(read, length);
    match edited {
        None => bytes,
        Some(mut head) => {
            head.extend_from_slice(bytes.get(length..).unwrap_or_default());
            head.into()
        }
    }
}
