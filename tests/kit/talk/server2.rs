//! A server of HTTP/2 that does what its script says, frame by frame.

use super::client2::{HEADER_LIST_BYTES_MAX, fields, read, response, send};
use super::server::{Part, Scene};
use super::socket::Socket;
use super::{Act, Awaited, End, Message, PROBE, Protocol, WITHIN};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::Request;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// What a stream asks of its connection.
enum Order {
    GoAway(Reason),
    HangUp,
}

/// A window that no script fills by accident.
const WINDOW_BYTES: u32 = 1 << 20;

/// Serves one connection to its end.
pub async fn serve(socket: Socket, scene: &Arc<Scene>) {
    let mut builder = h2::server::Builder::new();
    builder
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .enable_connect_protocol();
    let (io, control) = socket.split();
    let Ok(mut connection) = builder.handshake::<_, Bytes>(io).await else {
        return;
    };
    let (orders, mut ordered) = mpsc::channel(1);
    let mut streams = JoinSet::new();
    let mut counted = false;
    loop {
        let accepted = tokio::select! {
            // An order comes before what its stream does when it is dropped.
            biased;
            Some(order) = ordered.recv() => {
                match order {
                    Order::GoAway(reason) => connection.abrupt_shutdown(reason),
                    Order::HangUp => {
                        control.close();
                        break;
                    }
                }
                continue;
            }
            accepted = connection.accept() => accepted,
        };
        let Some(Ok((request, answer))) = accepted else {
            break;
        };
        if request.uri().path() == PROBE {
            probe(answer);
            continue;
        }
        if !counted {
            scene.connection(Protocol::Http2);
            counted = true;
        }
        let number = scene.begin();
        let (scene, orders) = (Arc::clone(scene), orders.clone());
        streams.spawn(async move { stream(request, answer, number, &scene, orders).await });
    }
    // Whoever reads a request learns that its connection is over.
    while tokio::time::timeout(WITHIN, streams.join_next())
        .await
        .is_ok_and(|joined| joined.is_some())
    {}
}

fn probe(mut answer: SendResponse<Bytes>) {
    if let Some(kept) = response(204, &Vec::new()) {
        // A client that has gone needs no answer.
        drop(answer.send_response(kept, true));
    }
}

async fn stream(
    request: Request<RecvStream>,
    answer: SendResponse<Bytes>,
    number: usize,
    scene: &Scene,
    orders: mpsc::Sender<Order>,
) {
    let (parts, body) = request.into_parts();
    let (told, request) = watch::channel(Message {
        start: format!("{} {}", parts.method, parts.uri),
        fields: fields(&parts.headers),
        ..Message::default()
    });
    let part = scene.next();
    let mut acting = Acting {
        answer,
        sending: None,
        held: None,
        request: request.clone(),
        orders,
        gate: watch::Sender::new(true),
        ended: false,
    };
    let gate = acting.gate.subscribe();
    tokio::join!(read(body, &told, gate), acting.play(&part, scene));
    let seen = request.borrow().clone();
    scene.note(number, seen);
}

struct Acting {
    answer: SendResponse<Bytes>,
    sending: Option<SendStream<Bytes>>,
    held: Option<http::Response<()>>,
    request: watch::Receiver<Message>,
    orders: mpsc::Sender<Order>,
    /// Whether the request's body is read.
    gate: watch::Sender<bool>,
    ended: bool,
}

impl Acting {
    async fn play(&mut self, part: &Part, scene: &Scene) {
        if !part.at_head {
            self.request.wait_for(Message::is_over).await.ok();
        }
        for act in &part.acts {
            self.flush(matches!(act, Act::End));
            self.act(act, scene).await;
        }
        self.flush(false);
        if !self.ended {
            self.gone(Duration::ZERO).await;
        }
    }

    fn flush(&mut self, ends: bool) {
        if let Some(head) = self.held.take() {
            self.sending = self.answer.send_response(head, ends).ok();
        } else if let (true, Some(sending)) = (ends, &mut self.sending) {
            drop(sending.send_data(Bytes::new(), true));
        }
        self.ended |= ends;
    }

    async fn act(&mut self, act: &Act, scene: &Scene) {
        match act {
            Act::Response { status, fields, .. } => self.head(*status, fields),
            Act::Data(bytes) => {
                if let Some(sending) = &mut self.sending {
                    send(sending, bytes.clone(), std::future::pending()).await;
                }
            }
            Act::Trailers(fields) => {
                if let Some(sending) = &mut self.sending {
                    drop(sending.send_trailers(super::client2::map(fields)));
                }
                self.ended = true;
            }
            Act::Pause(time) => tokio::time::sleep(*time).await,
            Act::Stall(time) => {
                self.gate.send_replace(false);
                tokio::time::sleep(*time).await;
                self.gate.send_replace(true);
            }
            Act::Await(Awaited::Gone) => {
                if let Some(at) = self.gone(WITHIN).await {
                    scene.gone(at);
                }
            }
            Act::Await(what) => self.await_what(*what).await,
            Act::Leave => self.reset(Reason::INTERNAL_ERROR),
            Act::Reset(code) => self.reset(Reason::from(*code)),
            Act::GoAway(code) => self.order(Order::GoAway(Reason::from(*code))).await,
            Act::HangUp => self.order(Order::HangUp).await,
            Act::End => {
                scene.seen().sent_at = Some(Instant::now());
            }
            Act::Request { .. } | Act::Raw(_) | Act::HalfClose => {}
        }
    }

    fn head(&mut self, status: u16, fields: &super::Fields) {
        let Some(head) = response(status, fields) else {
            return;
        };
        if status < 200 {
            // Refused once the stream is over.
            drop(self.answer.send_informational(head));
        } else {
            self.held = Some(head);
        }
    }

    fn reset(&mut self, reason: Reason) {
        match &mut self.sending {
            Some(sending) => sending.send_reset(reason),
            None => self.answer.send_reset(reason),
        }
        self.ended = true;
    }

    async fn order(&mut self, order: Order) {
        self.ended = true;
        // The connection is over when nobody takes orders.
        self.orders.send(order).await.ok();
    }

    async fn await_what(&mut self, what: Awaited) {
        let wanted = |message: &Message| {
            message.is_over()
                || match what {
                    Awaited::Bytes(count) | Awaited::Tunnelled(count) => {
                        message.body.len() >= count
                    }
                    Awaited::Head | Awaited::Interim => true,
                    Awaited::Message | Awaited::Gone => false,
                }
        };
        drop(tokio::time::timeout(WITHIN, self.request.wait_for(wanted)).await);
    }

    /// Waits for a reset of the stream, or for the end of its connection.
    async fn gone(&mut self, within: Duration) -> Option<Instant> {
        let (answer, sending) = (&mut self.answer, &mut self.sending);
        let reset = poll_fn(|cx| match sending {
            Some(sending) => sending.poll_reset(cx),
            None => answer.poll_reset(cx),
        });
        let request = &mut self.request;
        let cut = async {
            let gone = |message: &Message| !matches!(message.end, End::Open | End::Whole);
            if request.wait_for(gone).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let either = async {
            tokio::select! {
                _ = reset => {}
                () = cut => {}
            }
            Instant::now()
        };
        tokio::time::timeout(within, either).await.ok()
    }
}
