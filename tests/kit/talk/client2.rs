//! A client of HTTP/2 that does what its script says, frame by frame.

use super::dial::Dial;
use super::{Act, Awaited, ClientSeen, End, Fields, Message, PROBE, WITHIN};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response, Version};
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Longest header list that either side takes.
pub const HEADER_LIST_BYTES_MAX: u32 = 1 << 20;

struct Stream {
    sending: SendStream<Bytes>,
    answer: watch::Receiver<Message>,
}

struct Player<'a> {
    dial: &'a Dial,
    requests: Option<SendRequest<Bytes>>,
    streams: Vec<Stream>,
    /// A request whose first body act decides how its head ends.
    held: Option<Request<()>>,
    /// Whether what comes is read.
    gate: watch::Sender<bool>,
    tasks: JoinSet<()>,
    seen: ClientSeen,
}

/// Plays a script.
pub async fn play(dial: &Dial, acts: &[Act], _closes: Option<bool>) -> ClientSeen {
    let mut player = Player {
        dial,
        requests: None,
        streams: Vec::new(),
        held: None,
        gate: watch::Sender::new(true),
        tasks: JoinSet::new(),
        seen: ClientSeen::default(),
    };
    for act in acts {
        player.act(act).await;
    }
    player.flush(false).await;
    player.finish().await
}

impl Player<'_> {
    async fn act(&mut self, act: &Act) {
        let ends = matches!(act, Act::End);
        self.flush(ends).await;
        match act {
            Act::Request {
                method,
                target,
                fields,
            } => self.held = request(self.dial.scheme(), method, target, fields),
            Act::Data(bytes) => self.send(bytes.clone()).await,
            Act::Trailers(fields) => {
                if let Some(stream) = self.streams.last_mut() {
                    drop(stream.sending.send_trailers(map(fields)));
                }
            }
            Act::Pause(time) => tokio::time::sleep(*time).await,
            Act::Stall(time) => {
                self.gate.send_replace(false);
                tokio::time::sleep(*time).await;
                self.seen.resumed_at = Some(Instant::now());
                self.gate.send_replace(true);
            }
            Act::Await(what) => self.await_what(*what).await,
            Act::Leave => self.reset(Reason::CANCEL).await,
            Act::Reset(code) => self.reset(Reason::from(*code)).await,
            Act::HangUp => {
                self.seen.left_at = Some(Instant::now());
                self.requests = None;
                self.tasks.shutdown().await;
            }
            Act::End | Act::Response { .. } | Act::Raw(_) | Act::HalfClose | Act::GoAway(_) => {}
        }
    }

    /// Sends the head that is held back, ending its stream at once where nothing follows; else
    /// ends the stream where that is asked for.
    async fn flush(&mut self, ends: bool) {
        let Some(request) = self.held.take() else {
            if let (true, Some(stream)) = (ends, self.streams.last_mut()) {
                // A stream that is over already needs no end.
                drop(stream.sending.send_data(Bytes::new(), true));
            }
            return;
        };
        self.connect().await;
        let (told, answer) = watch::channel(Message::default());
        let sent = match &mut self.requests {
            Some(requests) => requests.send_request(request, ends),
            None => return,
        };
        match sent {
            Ok((response, sending)) => {
                self.tasks
                    .spawn(receive(response, told, self.gate.subscribe()));
                self.streams.push(Stream { sending, answer });
            }
            Err(cause) => self.seen.answers.push(Message {
                end: ending(&cause),
                ..Message::default()
            }),
        }
    }

    async fn connect(&mut self) {
        if let Some(requests) = &mut self.requests {
            if poll_fn(|cx| requests.poll_ready(cx)).await.is_ok() {
                return;
            }
            self.requests = None;
        }
        let Ok(socket) = self.dial.connect().await else {
            return;
        };
        let mut builder = h2::client::Builder::new();
        builder
            .max_header_list_size(HEADER_LIST_BYTES_MAX)
            .initial_window_size(self.dial.window_bytes)
            .initial_connection_window_size(self.dial.window_bytes.max(65_535))
            .enable_push(false);
        let (io, _) = socket.split();
        if let Ok((requests, connection)) = builder.handshake::<_, Bytes>(io).await {
            self.seen.connections += 1;
            self.requests = Some(requests);
            self.tasks.spawn(async move {
                // How it ends is told to its streams.
                drop(connection.await);
            });
        }
    }

    async fn send(&mut self, bytes: Bytes) {
        if let Some(stream) = self.streams.last_mut() {
            let mut answer = stream.answer.clone();
            // An answer to what is still being sent ends the sending, unless the script waited
            // for it and goes on.
            let waited = answer.borrow().is_over();
            let enough = async {
                if waited || answer.wait_for(Message::is_over).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            send(&mut stream.sending, bytes, enough).await;
        }
    }

    async fn reset(&mut self, reason: Reason) {
        if let Some(stream) = self.streams.last_mut() {
            self.seen.left_at = Some(Instant::now());
            stream.sending.send_reset(reason);
        }
    }

    async fn await_what(&mut self, what: Awaited) {
        let Some(stream) = self.streams.last_mut() else {
            return;
        };
        let wanted = |message: &Message| {
            message.is_over()
                || match what {
                    Awaited::Head => !message.start.is_empty(),
                    Awaited::Interim => !message.interim.is_empty() || !message.start.is_empty(),
                    Awaited::Bytes(count) | Awaited::Tunnelled(count) => {
                        message.body.len() >= count
                    }
                    Awaited::Message | Awaited::Gone => false,
                }
        };
        drop(tokio::time::timeout(WITHIN, stream.answer.wait_for(wanted)).await);
    }

    async fn finish(mut self) -> ClientSeen {
        for stream in &mut self.streams {
            let whole = stream.answer.wait_for(Message::is_over);
            drop(tokio::time::timeout(WITHIN, whole).await);
            let answer = stream.answer.borrow().clone();
            self.seen.answers.push(answer);
        }
        self.streams.clear();
        self.seen.kept = self.probe().await;
        self.seen
    }

    /// Whether the connection carries another request.
    async fn probe(&mut self) -> bool {
        let host = vec![("host".to_owned(), "kept".to_owned())];
        let Some(requests) = &mut self.requests else {
            return false;
        };
        let Some(request) = request(self.dial.scheme(), "GET", PROBE, &host) else {
            return false;
        };
        if poll_fn(|cx| requests.poll_ready(cx)).await.is_err() {
            return false;
        }
        match requests.send_request(request, true) {
            Ok((answer, _)) => answer.await.is_ok_and(|answer| answer.status() == 204),
            Err(_) => false,
        }
    }
}

/// Sends bytes as the peer's window allows, until that is done or `enough`; false then.
pub async fn send(
    stream: &mut SendStream<Bytes>,
    mut bytes: Bytes,
    enough: impl Future<Output = ()>,
) -> bool {
    let mut enough = std::pin::pin!(enough);
    if bytes.is_empty() {
        return stream.send_data(bytes, false).is_ok();
    }
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let room = tokio::select! {
            room = poll_fn(|cx| stream.poll_capacity(cx)) => room,
            () = enough.as_mut() => return false,
            () = tokio::time::sleep(WITHIN) => return false,
        };
        let Some(Ok(room)) = room else { return false };
        let piece = bytes.split_to(room.min(bytes.len()));
        if !piece.is_empty() && stream.send_data(piece, false).is_err() {
            return false;
        }
    }
    true
}

async fn receive(
    mut answer: ResponseFuture,
    told: watch::Sender<Message>,
    gate: watch::Receiver<bool>,
) {
    let answered = poll_fn(|cx| {
        while let Poll::Ready(Some(Ok(interim))) = answer.poll_informational(cx) {
            let seen = (
                format!("HTTP/2 {}", interim.status().as_u16()),
                fields(interim.headers()),
            );
            told.send_modify(|message| message.interim.push(seen));
        }
        Pin::new(&mut answer).poll(cx)
    });
    match answered.await {
        Ok(response) => {
            let (parts, body) = response.into_parts();
            told.send_modify(|message| {
                message.start = format!("HTTP/2 {}", parts.status.as_u16());
                message.fields = fields(&parts.headers);
            });
            read(body, &told, gate).await;
        }
        Err(cause) => told.send_modify(|message| message.end = ending(&cause)),
    }
}

/// Reads a body to its end, while the gate is open: behind a closed one the window fills.
pub async fn read(
    mut body: RecvStream,
    told: &watch::Sender<Message>,
    mut gate: watch::Receiver<bool>,
) {
    while let Some(frame) = body.data().await {
        match frame {
            Ok(bytes) => {
                gate.wait_for(|open| *open).await.ok();
                // Fails once the stream is over, which the next frame tells.
                drop(body.flow_control().release_capacity(bytes.len()));
                told.send_modify(|message| message.body.extend_from_slice(&bytes));
            }
            Err(cause) => {
                told.send_modify(|message| message.end = ending(&cause));
                return;
            }
        }
    }
    let trailers = body.trailers().await;
    told.send_modify(|message| match &trailers {
        Ok(trailers) => {
            message.trailers = trailers.as_ref().map(fields).unwrap_or_default();
            message.end = End::Whole;
        }
        Err(cause) => message.end = ending(cause),
    });
}

/// How an error of HTTP/2 ended a message.
pub fn ending(cause: &h2::Error) -> End {
    match cause.reason() {
        Some(reason) if cause.is_go_away() => End::Cut(format!("connection: {reason:?}")),
        Some(reason) => End::Reset(reason.into()),
        None => End::Cut("connection".to_owned()),
    }
}

/// Fields as they came.
pub fn fields(map: &HeaderMap) -> Fields {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    map.iter()
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect()
}

/// Fields as HTTP/2 has them: those of one connection of HTTP/1.1 have no place here.
pub fn map(fields: &Fields) -> HeaderMap {
    const OF_HTTP1: &[&str] = &["host", "connection", "keep-alive", "transfer-encoding"];
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name = http::HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes());
        let value = http::HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value)
            && !OF_HTTP1.contains(&name.as_str())
        {
            map.append(name, value);
        }
    }
    map
}

fn request(scheme: &str, method: &str, target: &str, fields: &Fields) -> Option<Request<()>> {
    let host = super::value(fields, "host").unwrap_or("model.test");
    let uri = if method == "CONNECT" {
        target.to_owned()
    } else {
        format!("{scheme}://{host}{target}")
    };
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .version(Version::HTTP_2);
    let mut request = request.body(()).ok()?;
    *request.headers_mut() = map(fields);
    Some(request)
}

/// An answer with these fields.
pub fn response(status: u16, fields: &Fields) -> Option<Response<()>> {
    let mut response = Response::builder().status(status).body(()).ok()?;
    *response.headers_mut() = map(fields);
    Some(response)
}
