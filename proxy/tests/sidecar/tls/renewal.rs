//! Certificates that change while traffic passes.

use super::{Trust, ask, closing_chat, refs};
use crate::support::{SOON, ok};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::tls;
use truetape_testkit::upstream::Upstream;

#[test]
fn certificates_are_renewed_under_load_and_no_request_fails() {
    let trust = Trust::new("renewed");
    let (first, flags) = trust.shown("front", &["front.test"]);
    let upstream = Upstream::start(ok);
    let out = TempDir::new("renewed");
    let (runtime, proxy) = inside(&upstream.url(), &flags, &out);
    let second = trust.authority.issue(&["front.test"]);
    let (addr, config) = (proxy.listen_addr, trust.client(&[]));
    let kept = tls::connect(addr, &config, "front.test").unwrap();
    assert_eq!(tls::shown(&kept), Some(first.der()));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (config, second) = (Arc::clone(&config), second.der());
            std::thread::spawn(move || until_shown(addr, &config, &second))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(100));
    // Half of the pair first: that must change nothing.
    std::fs::write(trust.folder.join("front.key"), &second.key).unwrap();
    assert!(proxy.reload_tls().is_err());
    second.write(trust.folder.path(), "front");
    proxy.reload_tls().unwrap();
    let mut requests = 0;
    for client in clients {
        requests += client.join().unwrap();
    }
    // It began before, and goes on.
    let (answer, end) = ask(kept, &closing_chat());
    assert!(answer.contains(" 200 ") && end.is_ok(), "{answer} {end:?}");
    let ledger = runtime.block_on(proxy.shutdown());
    assert_eq!(
        (ledger.offered, ledger.recorded),
        (requests + 1, requests + 1)
    );
}

/// Connects and asks until the certificate is the one that is waited for; every answer must be one.
fn until_shown(
    addr: SocketAddr,
    config: &Arc<rustls::ClientConfig>,
    wanted: &rustls::pki_types::CertificateDer<'_>,
) -> u64 {
    let deadline = Instant::now() + 2 * SOON;
    for requests in 1.. {
        let client = tls::connect(addr, config, "front.test").unwrap();
        let renewed = tls::shown(&client).as_ref() == Some(wanted);
        let (answer, end) = ask(client, &closing_chat());
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer} {end:?}");
        end.unwrap();
        if renewed {
            return requests;
        }
        assert!(Instant::now() < deadline, "the new certificate never came");
    }
    unreachable!("the loop ends by itself")
}

/// A proxy in this process, which can be told to reload.
fn inside(
    upstream: &str,
    flags: &[String],
    out: &TempDir,
) -> (tokio::runtime::Runtime, truetape_proxy::server::Proxy) {
    use clap::Parser as _;
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        record: truetape_proxy::cli::RecordArgs,
    }
    let arguments = crate::support::args(upstream, &out.join("captures"), &refs(flags));
    let cli = Cli::parse_from(std::iter::once("proxy".to_owned()).chain(arguments));
    let config = truetape_proxy::config::Config::resolve(&cli.record).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let proxy = runtime.block_on(truetape_proxy::start(config)).unwrap();
    (runtime, proxy)
}
