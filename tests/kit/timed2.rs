//! One exchange over HTTP/2 with its times: what [`crate::upstream`] and [`crate::client`] are to
//! HTTP/1.1, with the same scripts, records and answers.

use crate::client::{ANSWER_WITHIN, Answer, End};
use crate::http1::Head;
use crate::talk::client2::{self, HEADER_LIST_BYTES_MAX, ending, map};
use crate::talk::{self, Fields};
use crate::upstream::{Action, Record, Script};
use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::{HeaderMap, Request};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Both windows, of either side: no script fills them.
const WINDOW_BYTES: u32 = 1 << 30;

/// More than a peer takes before it has read some of it.
const WINDOWFUL_BYTES: usize = 256 * 1024;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// A server that answers the one request it gets by a script.
#[derive(Debug)]
pub struct Upstream2 {
    /// Where it listens.
    pub addr: SocketAddr,
    record: watch::Receiver<Option<Record>>,
    runtime: Runtime,
}

impl Upstream2 {
    /// Starts it.
    pub fn start(script: Script) -> Self {
        let runtime = runtime();
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a free port");
        let addr = listener
            .local_addr()
            .expect("a bound socket has an address");
        let (told, record) = watch::channel(None);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn_on(
            async move {
                // What went wrong shows as a record that never came.
                drop(serve(listener, script, told).await);
            },
            runtime.handle(),
        );
        tasks.detach_all();
        Self {
            addr,
            record,
            runtime,
        }
    }

    /// `http://host:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Waits until its script has run, or its peer is gone.
    pub fn await_finished(&self, within: Duration) -> Record {
        let mut record = self.record.clone();
        let over = |record: &Option<Record>| {
            record
                .as_ref()
                .is_some_and(|r| r.finished || r.peer_closed_at.is_some())
        };
        let waited = async {
            tokio::time::timeout(within, record.wait_for(over))
                .await
                .is_ok()
        };
        let came = self.runtime.block_on(waited);
        assert!(
            came,
            "the upstream never finished: {:?}",
            self.record.borrow()
        );
        self.record.borrow().clone().expect("it is over")
    }
}

async fn serve(
    listener: TcpListener,
    script: Script,
    told: watch::Sender<Option<Record>>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_header_list_size(HEADER_LIST_BYTES_MAX);
    let mut connection = builder.handshake::<_, Bytes>(stream).await?;
    let Some(accepted) = connection.accept().await else {
        return Ok(());
    };
    let (request, answer) = accepted?;
    let first_byte_at = Instant::now();
    let one = one(request, answer, &script, first_byte_at, &told);
    let mut one = std::pin::pin!(one);
    let mut answered = false;
    loop {
        tokio::select! {
            biased;
            () = one.as_mut(), if !answered => answered = true,
            more = connection.accept() => if more.is_none() {
                break;
            },
        }
    }
    told.send_if_modified(|record| match record {
        Some(record) if !record.finished => {
            record.peer_closed_at.get_or_insert(Instant::now());
            true
        }
        _ => false,
    });
    Ok(())
}

async fn one(
    request: Request<h2::RecvStream>,
    mut answer: SendResponse<Bytes>,
    script: &Script,
    first_byte_at: Instant,
    told: &watch::Sender<Option<Record>>,
) {
    let (parts, mut body) = request.into_parts();
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = body.data().await {
        // Fails once the stream is over.
        drop(body.flow_control().release_capacity(frame.len()));
        bytes.extend_from_slice(&frame);
    }
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    told.send_replace(Some(Record {
        index: 0,
        connection: 0,
        head: head(format!("{} {path} HTTP/2", parts.method), &parts.headers),
        body: bytes,
        first_byte_at,
        read_at: Instant::now(),
        waited: Duration::ZERO,
        head_at: None,
        done_at: Vec::new(),
        peer_closed_at: None,
        tunnelled: Vec::new(),
        finished: false,
    }));
    let gone = steps(&mut answer, script, told).await;
    told.send_modify(|record| {
        if let Some(record) = record {
            record.finished = !gone;
            record.peer_closed_at = gone.then(Instant::now);
        }
    });
}

/// Runs the script; true when the peer went away before its end.
async fn steps(
    answer: &mut SendResponse<Bytes>,
    script: &Script,
    told: &watch::Sender<Option<Record>>,
) -> bool {
    let zero = told
        .borrow()
        .as_ref()
        .map_or_else(Instant::now, |r| r.read_at);
    let Some((written, used)) = Head::split(&script.head) else {
        return true;
    };
    let beside = Bytes::copy_from_slice(script.head.get(used..).unwrap_or_default());
    let mut sending = None;
    let mut ended = false;
    for step in &script.steps {
        if ended || gone_before(answer, sending.as_mut(), zero + step.at).await {
            return !ended;
        }
        if sending.is_none() {
            let head = client2::response(written.status(), &written.headers);
            let sent = head.and_then(|head| answer.send_response(head, false).ok());
            told.send_modify(|record| {
                if let Some(record) = record {
                    record.head_at = Some(Instant::now());
                }
            });
            sending = sent;
            if let (Some(stream), false) = (&mut sending, beside.is_empty()) {
                // What a script of HTTP/1.1 writes along with the head. A failure shows below.
                drop(stream.send_data(beside.clone(), false));
            }
        }
        let Some(stream) = sending.as_mut() else {
            return true;
        };
        // Read before the write: what the peer does with the bytes comes after.
        let mut now = Instant::now();
        let done = match &step.action {
            Action::Write(bytes) => {
                let all = Bytes::copy_from_slice(bytes);
                let sent = client2::send(stream, all, std::future::pending()).await;
                // What no window holds is written as fast as it is read.
                if bytes.len() > WINDOWFUL_BYTES {
                    now = Instant::now();
                }
                sent
            }
            Action::End => {
                ended = true;
                stream.send_data(Bytes::new(), true).is_ok()
            }
            Action::Close | Action::Reset => {
                ended = true;
                // A reset discards what was not written yet.
                tokio::time::sleep(Duration::from_millis(5)).await;
                stream.send_reset(Reason::INTERNAL_ERROR);
                true
            }
            Action::Hold(time) => !gone_before(answer, Some(stream), now + *time).await,
        };
        told.send_modify(|record| {
            if let Some(record) = record {
                record.done_at.push(now);
            }
        });
        if !done {
            return true;
        }
    }
    false
}

async fn gone_before(
    answer: &mut SendResponse<Bytes>,
    sending: Option<&mut h2::SendStream<Bytes>>,
    at: Instant,
) -> bool {
    let reset = async {
        match sending {
            Some(sending) => drop(poll_fn(|cx| sending.poll_reset(cx)).await),
            None => drop(poll_fn(|cx| answer.poll_reset(cx)).await),
        }
    };
    tokio::time::timeout_at(at.into(), reset).await.is_ok()
}

fn head(start: String, map: &HeaderMap) -> Head {
    let mut headers = client2::fields(map);
    let raw = talk::wire::head(&start, &headers);
    headers.retain(|(name, _)| name != "host");
    Head {
        start,
        headers,
        raw,
    }
}

/// Sends one request on a connection of its own and reads the answer; goes away after a while when
/// that is asked for.
pub fn exchange2(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &Fields,
    body: &[u8],
    abort_after: Option<Duration>,
) -> Answer {
    runtime().block_on(async {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://model.test{path}"))
            .body(())
            .expect("a request");
        *request.headers_mut() = map(headers);
        let now = Instant::now();
        let mut answer = Answer {
            sent_at: now,
            interim: Vec::new(),
            head: None,
            body: Vec::new(),
            trailers: Vec::new(),
            arrivals: Vec::new(),
            end: End::Clean,
            ended_at: now,
        };
        let within = abort_after.unwrap_or(ANSWER_WITHIN);
        let talking = talk_to(addr, request, body, &mut answer);
        let ended = tokio::time::timeout(within, talking).await;
        answer.end = match ended {
            Ok(Ok(())) => End::Clean,
            Ok(Err(cause)) => End::Cut(format!("{:?}", ending(&cause))),
            Err(_) if abort_after.is_some() => End::Aborted,
            Err(_) => End::TimedOut,
        };
        answer.ended_at = Instant::now();
        answer
    })
}

async fn talk_to(
    addr: SocketAddr,
    request: Request<()>,
    body: &[u8],
    answer: &mut Answer,
) -> Result<(), h2::Error> {
    let stream = TcpStream::connect(addr).await.expect("the server accepts");
    stream.set_nodelay(true).expect("a socket option");
    let mut builder = h2::client::Builder::new();
    builder
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_header_list_size(HEADER_LIST_BYTES_MAX);
    let (mut requests, connection) = builder.handshake::<_, Bytes>(stream).await?;
    let exchange = async {
        let (response, mut sending) = requests.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            let body = Bytes::copy_from_slice(body);
            client2::send(&mut sending, body, std::future::pending()).await;
            sending.send_data(Bytes::new(), true)?;
        }
        answer.sent_at = Instant::now();
        let (parts, mut body) = response.await?.into_parts();
        answer.head = Some(head(
            format!("HTTP/2 {}", parts.status.as_u16()),
            &parts.headers,
        ));
        while let Some(frame) = body.data().await {
            let frame = frame?;
            // Fails once the stream is over.
            drop(body.flow_control().release_capacity(frame.len()));
            answer.body.extend_from_slice(&frame);
            answer.arrivals.push((Instant::now(), answer.body.len()));
        }
        let trailers = body.trailers().await?.unwrap_or_default();
        let line = |(name, value): (String, String)| format!("{name}: {value}");
        answer.trailers = client2::fields(&trailers).into_iter().map(line).collect();
        Ok(())
    };
    let connection = async {
        drop(connection.await);
        // The exchange says how it ended.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = exchange => ended,
        () = connection => Ok(()),
    }
}
