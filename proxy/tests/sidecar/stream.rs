//! Raw HTTP/2 on both sides of a proxy: what a well-behaved stack would not send or show.

use crate::support::{SOON, Sidecar, captured};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use truetape_schemas::capture::Exchange;
use truetape_schemas::ledger::Ledger;
use truetape_testkit::tempdir::TempDir;

/// A stream that the upstream took.
pub(crate) type Taken = (Request<RecvStream>, SendResponse<Bytes>);

/// Builders of both ends, to be set up by a test.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) client: Option<h2::client::Builder>,
    pub(crate) server: Option<h2::server::Builder>,
}

/// An upstream of HTTP/2, a proxy and a client.
pub(crate) struct Scene {
    pub(crate) sidecar: Sidecar,
    pub(crate) client: SendRequest<Bytes>,
    /// The client's connection, until it ends.
    pub(crate) connection: JoinSet<()>,
    pub(crate) tasks: JoinSet<()>,
    taken: mpsc::Receiver<Taken>,
    /// Each connection of the upstream; letting one go closes it.
    pub(crate) connections: mpsc::Receiver<JoinSet<()>>,
    out: TempDir,
}

impl Scene {
    pub(crate) async fn new(label: &str, more: &[&str]) -> Self {
        Self::with(label, more, Ends::default()).await
    }

    pub(crate) async fn with(label: &str, more: &[&str], ends: Ends) -> Self {
        let (listener, url) = listen().await;
        let (take, taken) = mpsc::channel(4096);
        let (keep, connections) = mpsc::channel(64);
        let server = ends.server.unwrap_or_default();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, server, take, keep));
        let out = TempDir::new(label);
        let sidecar = Sidecar::start(&url, &out.join("captures"), more);
        let builder = ends.client.unwrap_or_default();
        let mut connection = JoinSet::new();
        let client = connect(sidecar.listen, &builder, &mut connection).await;
        Self {
            sidecar,
            client,
            connection,
            tasks,
            taken,
            connections,
            out,
        }
    }

    /// Opens a stream. `last`: it has no body.
    pub(crate) async fn open(
        &mut self,
        request: Request<()>,
        last: bool,
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let mut ready = soon("the client", self.client.clone().ready())
            .await
            .unwrap();
        ready.send_request(request, last).unwrap()
    }

    /// The next stream at the upstream.
    pub(crate) async fn taken(&mut self) -> Taken {
        soon("a stream at the upstream", self.taken.recv())
            .await
            .unwrap()
    }

    /// Ends in order; gives the rows and the sum of the ledgers.
    pub(crate) async fn finish(self) -> (Vec<Exchange>, Ledger) {
        let Self {
            sidecar,
            client,
            mut connection,
            mut tasks,
            out,
            ..
        } = self;
        drop(client);
        connection.shutdown().await;
        tasks.shutdown().await;
        tokio::task::spawn_blocking(move || {
            sidecar.stop();
            captured(&out.join("captures"))
        })
        .await
        .unwrap()
    }
}

pub(crate) async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

pub(crate) async fn connect(
    address: SocketAddr,
    builder: &h2::client::Builder,
    tasks: &mut JoinSet<()>,
) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = builder.handshake(stream).await.unwrap();
    tasks.spawn(async move { drop(connection.await) });
    client
}

async fn serve(
    listener: TcpListener,
    builder: h2::server::Builder,
    take: mpsc::Sender<Taken>,
    keep: mpsc::Sender<JoinSet<()>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (builder, take) = (builder.clone(), take.clone());
        let mut connection = JoinSet::new();
        connection.spawn(async move {
            let Ok(mut serving) = builder.handshake(stream).await else {
                return;
            };
            while let Some(Ok(taken)) = serving.accept().await {
                take.send(taken).await.unwrap();
            }
        });
        keep.send(connection).await.unwrap();
    }
}

/// Waits, but not for ever.
pub(crate) async fn soon<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, waiting).await {
        Ok(done) => done,
        Err(_) => panic!("{what} took longer than {SOON:?}"),
    }
}

/// A request to the path of chats.
pub(crate) fn post(fields: &[(&str, &str)]) -> Request<()> {
    let mut builder = Request::post("http://api.test/v1/chat/completions");
    for (name, value) in fields {
        builder = builder.header(*name, *value);
    }
    builder.body(()).unwrap()
}

/// What a body was, and how it ended.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: Vec<u8>,
    pub(crate) frames: Vec<usize>,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) error: Option<h2::Error>,
}

/// Reads a body to its end.
pub(crate) async fn whole(mut body: RecvStream) -> Whole {
    let mut whole = Whole {
        bytes: Vec::new(),
        frames: Vec::new(),
        trailers: None,
        error: None,
    };
    while let Some(data) = soon("a frame", body.data()).await {
        match data {
            Ok(data) => {
                body.flow_control().release_capacity(data.len()).unwrap();
                whole.frames.push(data.len());
                whole.bytes.extend_from_slice(&data);
            }
            Err(error) => {
                whole.error = Some(error);
                return whole;
            }
        }
    }
    match soon("the trailers", body.trailers()).await {
        Ok(trailers) => whole.trailers = trailers,
        Err(error) => whole.error = Some(error),
    }
    whole
}

/// Sends bytes as far as the other side takes them.
pub(crate) async fn send(stream: &mut SendStream<Bytes>, bytes: impl Into<Bytes>, last: bool) {
    let mut bytes: Bytes = bytes.into();
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let room = soon("room", poll_fn(|cx| stream.poll_capacity(cx))).await;
        let part = bytes.split_to(room.unwrap().unwrap().min(bytes.len()));
        stream.send_data(part, false).unwrap();
    }
    if last {
        stream.send_data(Bytes::new(), true).unwrap();
    }
}

/// Answers with a head, and leaves the body to the test.
pub(crate) fn head(respond: &mut SendResponse<Bytes>, status: u16) -> SendStream<Bytes> {
    let response = Response::builder().status(status).body(()).unwrap();
    respond.send_response(response, false).unwrap()
}

/// The code of a reset that came.
pub(crate) async fn reset_of(stream: &mut SendStream<Bytes>) -> h2::Reason {
    soon("a reset", poll_fn(|cx| stream.poll_reset(cx)))
        .await
        .unwrap()
}

/// How long the propagation of a cancellation may take on a machine that is busy with other tests.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(100);
