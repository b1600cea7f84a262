//! A client connection of HTTP/2: its streams are exchanges, each in a task of its own.

use crate::body::{Inbound, Stream, Torn};
use crate::connection::{Connection, Side};
use crate::forward::{self, ResponseBody};
use crate::http1::{Step, next_order};
use crate::interim::{Front, Interim};
use crate::io::{self, Traffic};
use crate::limits;
use crate::metrics::Metric;
use crate::pump::{Cause, Pump, Stopped};
use bytes::Bytes;
use h2::server::{self, Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use hyper::body::Body as _;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Serves it until it ends, drains or is cut. `first`: what was read of it to learn what it speaks.
pub async fn serve<I>(io: I, first: Bytes, stream: &TcpStream, connection: Arc<Connection>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let _alive = connection.guard();
    let shared = Arc::clone(&connection.shared);
    let front = Front::new(io, first, Arc::default());
    let shaking = shared.cut.run_until_cancelled(builder().handshake(front));
    let mut serving = match shaking.await {
        Some(Ok(serving)) => serving,
        Some(Err(cause)) => return ended(&connection, &cause),
        None => return,
    };
    let failed = Arc::new(Failed::default());
    let pair = Arc::clone(&connection.pair);
    let mut gone = pin!(io::left(stream));
    let mut left = pin!(pair.over(&connection.traffic));
    let mut order = pin!(next_order(&shared.drain, &shared.cut, Step::Drain));
    let (mut watching, mut paired, mut ending, mut sequence) = (true, true, Step::Drain, 0);
    loop {
        let next = poll_fn(|cx| poll_next(&mut serving, &failed, &connection.traffic, cx));
        tokio::select! {
            biased;
            next = next => match next {
                Some(Ok((request, respond))) => {
                    let exchange = exchange(&connection, &failed, sequence, request, respond);
                    sequence += 1;
                    connection.spawn(exchange);
                }
                Some(Err(cause)) => return ended(&connection, &cause),
                None if matches!(failed.torn(), Some(Torn::Reset)) => return io::reset(stream),
                None => return,
            },
            () = order.as_mut() => match ending {
                Step::Drain => {
                    serving.graceful_shutdown();
                    ending = Step::Cut;
                    order.set(next_order(&shared.drain, &shared.cut, Step::Cut));
                }
                Step::Cut => return,
            },
            _ = gone.as_mut(), if watching => {
                // Its tasks end with it, and with them what they ask of the upstream.
                if connection.traffic.is_busy() {
                    return;
                }
                watching = false;
            }
            () = left.as_mut(), if paired => {
                serving.graceful_shutdown();
                paired = false;
            }
        }
    }
}

/// The server's side of HTTP/2.
fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits::STREAMS_MAX)
        .max_header_list_size(limits::HEADER_LIST_BYTES_MAX)
        .max_send_buffer_size(limits::STREAM_SEND_BYTES_MAX);
    builder
}

fn ended(connection: &Connection, cause: &h2::Error) {
    if !cause.is_io() && !cause.is_remote() {
        connection.shared.metrics.count(Metric::ProtocolErrors);
    }
    tracing::debug!(%cause, "a client connection ended early");
}

type Serving<I> = server::Connection<Front<I>, Bytes>;
type Accepted = Option<Result<(Request<RecvStream>, SendResponse<Bytes>), h2::Error>>;

/// Streams whose body failed. A reset drops what h2 has not yet written, so it waits until the
/// connection has written what came before.
#[derive(Debug, Default)]
struct Failed(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    streams: Vec<(SendStream<Bytes>, Reason)>,
    /// How the upstream's connection ended under its streams: so does the client's.
    torn: Option<Torn>,
    /// The streams that it ended under: letting go of one would reset it.
    held: Vec<Half>,
    waiting: Option<Waker>,
}

/// Our half of a stream.
#[derive(Debug)]
enum Half {
    Head(#[expect(dead_code, reason = "held")] SendResponse<Bytes>),
    Body(#[expect(dead_code, reason = "held")] SendStream<Bytes>),
}

impl Failed {
    fn push(&self, stream: SendStream<Bytes>, reason: Reason) {
        let mut state = self.state();
        state.streams.push((stream, reason));
        Self::tell(state);
    }

    fn tear(&self, half: Half, torn: Torn) {
        let mut state = self.state();
        state.torn.get_or_insert(torn);
        state.held.push(half);
        Self::tell(state);
    }

    fn tell(mut state: MutexGuard<'_, State>) {
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    fn take(&self, cx: &Context<'_>) -> Vec<(SendStream<Bytes>, Reason)> {
        let mut state = self.state();
        let known = state.waiting.as_ref();
        if !known.is_some_and(|known| known.will_wake(cx.waker())) {
            state.waiting = Some(cx.waker().clone());
        }
        std::mem::take(&mut state.streams)
    }

    fn torn(&self) -> Option<Torn> {
        self.state().torn
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drives the connection until its next stream.
fn poll_next<I>(
    serving: &mut Serving<I>,
    failed: &Failed,
    traffic: &Traffic,
    cx: &mut Context<'_>,
) -> Poll<Accepted>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    // What is taken here failed before the poll, which writes all that came before it.
    let due = failed.take(cx);
    let polled = serving.poll_accept(cx);
    match failed.torn().filter(|_| !traffic.is_stalled()) {
        Some(Torn::GivenUp(reason)) => {
            serving.abrupt_shutdown(reason);
            return serving.poll_accept(cx);
        }
        Some(Torn::Closed | Torn::Reset) => return Poll::Ready(None),
        None => {}
    }
    if due.is_empty() {
        return polled;
    }
    if polled.is_ready() || traffic.is_stalled() {
        // A stalled socket wakes this task once it has taken more.
        failed.state().streams.extend(due);
        return polled;
    }
    for (mut stream, reason) in due {
        stream.send_reset(reason);
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Makes the exchange of one stream.
fn exchange(
    connection: &Arc<Connection>,
    failed: &Arc<Failed>,
    sequence: i32,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> impl Future<Output = ()> + Send + 'static {
    let (connection, failed) = (Arc::clone(connection), Arc::clone(failed));
    async move {
        let side = Side {
            interim: Arc::<Interim>::default(),
            cause: Arc::<Cause>::default(),
            stall: Traffic::new(),
        };
        let request = request.map(|frames| Inbound::Http2(Stream::new(frames)));
        let answered = answer(&connection, sequence, request, &mut respond, &side).await;
        match answered {
            None => {}
            Some(Err(gone)) => match gone.torn.filter(|_| connection.pair.has_ended()) {
                Some(torn) => failed.tear(Half::Head(respond), torn),
                None => respond.send_reset(gone.reason),
            },
            Some(Ok(response)) => send(&connection, &failed, respond, response, &side).await,
        }
    }
}

/// Waits for the head of the response, and passes interim ones on. `None`: the client reset it.
async fn answer(
    connection: &Arc<Connection>,
    sequence: i32,
    request: Request<Inbound>,
    respond: &mut SendResponse<Bytes>,
    side: &Side,
) -> Option<Result<Response<ResponseBody>, forward::Gone>> {
    let exchange = forward::exchange(Arc::clone(connection), sequence, side.clone(), request);
    let mut exchange = pin!(exchange);
    poll_fn(|cx| {
        if let Poll::Ready(reset) = respond.poll_reset(cx) {
            if let Ok(reason) = reset {
                side.cause.set(reason);
            }
            return Poll::Ready(None);
        }
        let polled = exchange.as_mut().poll(cx);
        for (status, headers) in side.interim.take() {
            let mut interim = Response::new(());
            *interim.status_mut() = status;
            *interim.headers_mut() = headers;
            if respond.send_informational(interim).is_err() {
                connection.shared.metrics.count(Metric::InterimLost);
            }
        }
        polled.map(Some)
    })
    .await
}

async fn send(
    connection: &Connection,
    failed: &Failed,
    mut respond: SendResponse<Bytes>,
    response: Response<ResponseBody>,
    side: &Side,
) {
    let (parts, body) = response.into_parts();
    let last = body.is_end_stream();
    let mut to = match respond.send_response(Response::from_parts(parts, ()), last) {
        Ok(to) => to,
        Err(cause) => {
            tracing::debug!(%cause, "a response could not be passed on");
            respond.send_reset(Reason::INTERNAL_ERROR);
            return;
        }
    };
    if last {
        return;
    }
    let recorder = Arc::clone(&connection.shared.recorder);
    let mut pump = Pump::new(body, Some((Arc::clone(&side.stall), recorder)));
    match poll_fn(|cx| pump.poll(&mut to, cx)).await {
        // Whoever drops the body tells the upstream.
        Err(Stopped::Reset(reason)) => side.cause.set(reason),
        Err(Stopped::Failed(failure)) => {
            match failure.torn().filter(|_| connection.pair.has_ended()) {
                Some(torn) => failed.tear(Half::Body(to), torn),
                None => failed.push(to, failure.reason()),
            }
        }
        Ok(()) | Err(Stopped::Lost) => {}
    }
}
