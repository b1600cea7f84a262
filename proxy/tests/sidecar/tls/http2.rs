//! The version of HTTP that both handshakes agree on.

use super::{Trust, read_request, refs, rows};
use crate::stream::{connect, post, soon};
use crate::support::Sidecar;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use truetape_schemas::capture::Outcome;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::tls::{self, Server};

type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// An engine that says in which version it was asked, for each connection on a task of its own.
async fn serve(listener: TcpListener, config: Arc<rustls::ServerConfig>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = TlsAcceptor::from(Arc::clone(&config));
        connections.spawn(async move {
            let stream = acceptor.accept(stream).await?;
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let (io, service) = (TokioIo::new(stream), service_fn(say_version));
            if http2 {
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                builder.serve_connection(io, service).await?;
            } else {
                let builder = hyper::server::conn::http1::Builder::new();
                builder.serve_connection(io, service).await?;
            }
            Ok::<(), Boxed>(())
        });
    }
}

async fn say_version(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let version = request.version();
    // The answer comes once the request is whole.
    request.into_body().collect().await.ok();
    let text = format!("{{\"version\":\"{version:?}\"}}");
    Ok(Response::new(Full::new(Bytes::from(text))))
}

/// Asks in the version that the handshake agrees on; gives both versions, the client's first.
async fn ask(
    addr: SocketAddr,
    config: Arc<rustls::ClientConfig>,
) -> Result<(Version, String), Boxed> {
    let name = ServerName::try_from("front.test")?;
    let stream = TcpStream::connect(addr).await?;
    let stream = TlsConnector::from(config).connect(name, stream).await?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(stream);
    let body = Full::new(Bytes::from_static(b"{\"model\":\"m\",\"messages\":[]}"));
    let request = Request::post("https://front.test/v1/chat/completions");
    let mut connections = tokio::task::JoinSet::new();
    let response = if http2 {
        let (mut sender, connection) = conn::http2::handshake(TokioExecutor::new(), io).await?;
        connections.spawn(connection);
        sender.send_request(request.body(body)?).await?
    } else {
        let (mut sender, connection) = conn::http1::handshake(io).await?;
        connections.spawn(connection);
        let request = Request::post("/v1/chat/completions").header("host", "front.test");
        sender.send_request(request.body(body)?).await?
    };
    let version = response.version();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((version, String::from_utf8_lossy(&body).into_owned()))
}

#[test]
fn each_side_speaks_what_its_handshake_agreed_on() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let both: &[&str] = &["h2", "http/1.1"];
    for (client, engine, spoken, passed_on) in [
        (both, both, Version::HTTP_2, "HTTP/2.0"),
        (both, &["http/1.1"][..], Version::HTTP_2, "HTTP/1.1"),
        // A client that does not speak it has claimed nothing about its server.
        (&["http/1.1"][..], both, Version::HTTP_11, "HTTP/1.1"),
        (&[][..], both, Version::HTTP_11, "HTTP/1.1"),
    ] {
        let trust = Trust::new("alpn");
        let (_, mut flags) = trust.shown("front", &["front.test"]);
        flags.extend(["--upstream-ca".to_owned(), trust.file("ca.pem")]);
        let config = tls::server(&trust.authority.issue(&["localhost"]), None, engine);
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!(
            "https://localhost:{}",
            listener.local_addr().unwrap().port()
        );
        let mut engines = tokio::task::JoinSet::new();
        engines.spawn_on(serve(listener, config), runtime.handle());
        let out = TempDir::new("alpn");
        let sidecar = Sidecar::start(&url, &out.join("captures"), &refs(&flags));
        let asked = ask(sidecar.listen, trust.client(client));
        let (version, body) = runtime.block_on(asked).unwrap();
        assert_eq!(version, spoken, "{client:?} {engine:?}");
        assert!(body.contains(passed_on), "{client:?} {engine:?}: {body}");
        let rows = rows(sidecar, &out);
        assert_eq!((rows.len(), rows[0].outcome), (1, Outcome::Complete));
        assert_eq!(rows[0].response_body.as_deref(), Some(body.as_bytes()));
    }
}

#[test]
fn a_torn_body_ends_in_a_reset_for_a_client_of_http2() {
    for in_order in [true, false] {
        let trust = Trust::new("torn");
        let (_, mut flags) = trust.shown("front", &["front.test"]);
        flags.extend(["--upstream-ca".to_owned(), trust.file("ca.pem")]);
        let config = tls::server(&trust.authority.issue(&["localhost"]), None, &["http/1.1"]);
        let engine = Server::start(config, move |mut stream| {
            read_request(&mut stream)?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}")?;
            if in_order {
                tls::end(stream)
            } else {
                tls::tear(stream)
            }
        });
        let out = TempDir::new("torn");
        let url = engine.url("localhost");
        let sidecar = Sidecar::start(&url, &out.join("captures"), &refs(&flags));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let asked = runtime.block_on(ask(sidecar.listen, trust.client(&["h2"])));
        assert_eq!(asked.is_ok(), in_order, "{asked:?}");
        let expected = if in_order {
            Outcome::Complete
        } else {
            Outcome::Truncated
        };
        assert_eq!(rows(sidecar, &out)[0].outcome, expected);
    }
}

#[test]
fn links_to_an_engine_without_http2_are_opened_side_by_side() {
    let trust = Trust::new("side-by-side");
    let flags = ["--upstream-ca".to_owned(), trust.file("ca.pem")];
    let config = tls::server(&trust.authority.issue(&["localhost"]), None, &["http/1.1"]);
    let out = TempDir::new("side-by-side");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sidecar = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("https://localhost:{port}");
        let sidecar = Sidecar::start(&url, &out.join("captures"), &refs(&flags));
        let mut connection = tokio::task::JoinSet::new();
        let builder = h2::client::Builder::new();
        let mut client = connect(sidecar.listen, &builder, &mut connection).await;
        let mut answers = vec![client.send_request(post(&[]), true).unwrap()];
        // The first shows what the engine speaks.
        let (first, _) = soon("a link", listener.accept()).await.unwrap();
        let shaking = TlsAcceptor::from(config).accept(first);
        let mut first = soon("its handshake", shaking).await.unwrap();
        let mut byte = [0];
        soon("its request", first.read_exact(&mut byte))
            .await
            .unwrap();
        // Of the others, none has to shake hands before the next is here.
        let mut held = Vec::new();
        for _ in 0..3 {
            answers.push(client.send_request(post(&[]), true).unwrap());
        }
        for _ in 0..3 {
            held.push(soon("a link", listener.accept()).await.unwrap());
        }
        sidecar
    });
    drop(runtime);
    sidecar.stop();
}
