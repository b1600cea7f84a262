//! TLS and HTTP/2, against servers of hyper's.

use super::*;

/// A server of hyper's that answers every request with one token, and says which HTTP it heard.
async fn spoken(
    tls: Option<std::sync::Arc<rustls::ServerConfig>>,
    http2: bool,
) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let tls = tls.clone();
            connections.spawn(async move {
                match tls {
                    None => serve_http(hyper_util::rt::TokioIo::new(stream), http2).await,
                    Some(config) => {
                        let acceptor = tokio_rustls::TlsAcceptor::from(config);
                        let Ok(stream) = acceptor.accept(stream).await else {
                            return;
                        };
                        serve_http(hyper_util::rt::TokioIo::new(stream), http2).await;
                    }
                }
            });
        }
    });
    (address, tasks)
}

async fn serve_http<I>(io: I, http2: bool)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let service =
        hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async move {
            let heard = format!("{:?} {}", request.version(), request.uri().path());
            let sent = request.into_body().collect().await.unwrap().to_bytes();
            let body = format!("{}{}{}{DONE}", event(ROLE), token("a"), event(FINISH));
            let response = http::Response::builder()
                .header("content-type", "text/event-stream")
                .header("x-heard", format!("{heard} {}", sent.len()))
                .body(Full::new(Bytes::from(body)));
            Ok::<_, std::convert::Infallible>(response.unwrap())
        });
    if http2 {
        let executor = hyper_util::rt::TokioExecutor::new();
        let served = hyper::server::conn::http2::Builder::new(executor);
        served.serve_connection(io, service).await.ok();
    } else {
        let served = hyper::server::conn::http1::Builder::new();
        served.serve_connection(io, service).await.ok();
    }
}

async fn heard(client: &Client) -> Result<String, Failure> {
    for _ in 0..2 {
        let exchanged = client.send(&request()).await;
        if let Some(failure) = exchanged.failure {
            return Err(failure);
        }
        assert_eq!(exchanged.facts.outcome, Outcome::Complete);
        assert!(exchanged.request_end_us.unwrap() <= exchanged.facts.first_token_us.unwrap());
    }
    let fetched = client.fetch(&request()).await?;
    assert!(client.send(&request()).await.conn_reused);
    Ok(fetched.headers["x-heard"].to_str().unwrap().to_owned())
}

#[tokio::test]
async fn http2_is_spoken_with_prior_knowledge() {
    let (address, _tasks) = spoken(None, true).await;
    let target = Target::resolve(&format!("http://{address}")).unwrap();
    let client = Client::open(target, &Trust::default(), Http::Two, Reuse::Pool).unwrap();
    let heard = heard(&client).await.unwrap();
    assert_eq!(heard, "HTTP/2.0 /v1/chat/completions 15");
}

#[tokio::test]
async fn tls_agrees_on_the_http_that_both_speak() {
    let authority = truetape_testkit::authority::Authority::new("test");
    let identity = authority.issue(&["127.0.0.1"]);
    let scratch = tempfile::tempdir().unwrap();
    let trust = Trust {
        ca_file: Some(authority.write(scratch.path(), "ca.pem")),
        anybody: false,
    };
    let both: &[&str] = &["h2", "http/1.1"];
    let cases = [
        (both, true, Http::Auto, "HTTP/2.0"),
        (&both[1..], false, Http::Auto, "HTTP/1.1"),
        (&both[1..], false, Http::One, "HTTP/1.1"),
        (&both[..1], true, Http::Two, "HTTP/2.0"),
    ];
    for (alpn, http2, http, version) in cases {
        let config = truetape_testkit::tls::server(&identity, None, alpn);
        let (address, _tasks) = spoken(Some(config), http2).await;
        let target = Target::resolve(&format!("https://{address}")).unwrap();
        let client = Client::open(target, &trust, http, Reuse::Pool).unwrap();
        let heard = heard(&client).await.unwrap();
        assert_eq!(
            heard,
            format!("{version} /v1/chat/completions 15"),
            "{http:?}"
        );
    }
}

#[tokio::test]
async fn a_stranger_is_trusted_only_when_that_is_said() {
    let identity = truetape_testkit::authority::Authority::new("theirs").issue(&["127.0.0.1"]);
    let config = truetape_testkit::tls::server(&identity, None, &["http/1.1"]);
    let (address, _tasks) = spoken(Some(config), false).await;
    let scratch = tempfile::tempdir().unwrap();
    let ours = truetape_testkit::authority::Authority::new("ours");
    let careful = Trust {
        ca_file: Some(ours.write(scratch.path(), "ca.pem")),
        anybody: false,
    };
    let careless = Trust {
        ca_file: None,
        anybody: true,
    };
    for (trust, trusted) in [(careful, false), (careless, true)] {
        let target = Target::resolve(&format!("https://{address}")).unwrap();
        let client = Client::open(target, &trust, Http::One, Reuse::Pool).unwrap();
        let heard = heard(&client).await;
        assert_eq!(heard.is_ok(), trusted, "{heard:?}");
        if let Err(failure) = heard {
            assert_eq!(failure.name(), "connect");
            assert!(failure.to_string().contains("TLS"), "{failure}");
        }
    }
    let missing = Trust {
        ca_file: Some(scratch.path().join("none.pem")),
        anybody: false,
    };
    let target = Target::resolve(&format!("https://{address}")).unwrap();
    let error = Client::open(target, &missing, Http::One, Reuse::Pool).unwrap_err();
    assert!(error.to_string().starts_with("--ca-file"), "{error}");
}
