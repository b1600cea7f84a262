use super::{Changed, ClientAuth, Inbound, InboundFiles, Keeper, Offer, Outbound, OutboundFiles};
use crate::metrics::{Metric, Metrics};
use rustls::HandshakeKind;
use rustls::pki_types::{CertificateDer, ServerName};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::{client, server};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use truetape_testkit::authority::{Authority, Identity};
use truetape_testkit::tempdir::TempDir;

const WITHIN: Duration = Duration::from_secs(20);

type Shaken = (
    server::TlsStream<tokio::io::DuplexStream>,
    client::TlsStream<tokio::io::DuplexStream>,
);

/// Shakes hands in memory. In TLS 1.3 a client believes to be through before it is refused, so it is
/// asked for a byte.
async fn shake(
    inbound: &Inbound,
    outbound: &Outbound,
    offer: Offer,
    name: &str,
) -> io::Result<Shaken> {
    let (near, far) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let (accepted, connected) = tokio::join!(
        inbound.shake_hands(near, WITHIN),
        outbound.shake_hands(far, name, offer, WITHIN)
    );
    Ok((accepted?, connected?))
}

fn shown(shaken: &Shaken) -> CertificateDer<'static> {
    let (_, session) = shaken.1.get_ref();
    session.peer_certificates().unwrap()[0].clone().into_owned()
}

fn inbound(directory: &TempDir, identities: &[&Identity]) -> InboundFiles {
    let write = |(index, identity): (usize, &&Identity)| {
        identity.write(directory.path(), &format!("server{index}"))
    };
    InboundFiles {
        identities: identities.iter().enumerate().map(write).collect(),
        ..InboundFiles::default()
    }
}

fn trusting(path: &Path) -> OutboundFiles {
    OutboundFiles {
        ca: Some(path.to_owned()),
        ..OutboundFiles::default()
    }
}

#[tokio::test]
async fn both_sides_agree_on_what_both_offer() {
    let (directory, authority) = (TempDir::new("alpn"), Authority::new("one"));
    let files = inbound(&directory, &[&authority.issue(&["a.test"])]);
    let ca = authority.write(directory.path(), "ca.pem");
    let outbound = Outbound::load(trusting(&ca)).unwrap();
    for (server, client, agreed) in [
        (Offer::Both, Offer::Both, &b"h2"[..]),
        (Offer::Both, Offer::Http1, b"http/1.1"),
        (Offer::Both, Offer::Http2, b"h2"),
        (Offer::Http1, Offer::Both, b"http/1.1"),
    ] {
        let inbound = Inbound::load(files.clone(), server).unwrap();
        let shaken = shake(&inbound, &outbound, client, "a.test").await.unwrap();
        let spoken = shaken.0.get_ref().1.alpn_protocol();
        assert_eq!(spoken, Some(agreed), "{server:?} {client:?}");
    }
    let inbound = Inbound::load(files, Offer::Http1).unwrap();
    let refused = shake(&inbound, &outbound, Offer::Http2, "a.test").await;
    assert!(refused.is_err(), "nothing in common");
}

#[tokio::test]
async fn a_peer_that_falls_silent_does_not_hold_a_handshake() {
    let (directory, authority) = (TempDir::new("silent"), Authority::new("one"));
    let files = inbound(&directory, &[&authority.issue(&["a.test"])]);
    let ca = authority.write(directory.path(), "ca.pem");
    let inbound = Inbound::load(files, Offer::Both).unwrap();
    let outbound = Outbound::load(trusting(&ca)).unwrap();
    let soon = Duration::from_millis(20);
    let (near, _silent) = tokio::io::duplex(1 << 16);
    let accepted = inbound.shake_hands(near, soon).await;
    assert_eq!(accepted.unwrap_err().kind(), io::ErrorKind::TimedOut);
    let (far, _silent) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("a.test").unwrap();
    let connected = outbound.shake_hands(far, name, Offer::Both, soon).await;
    assert_eq!(connected.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_certificate_is_chosen_by_its_names_and_the_first_is_the_default() {
    let (directory, authority) = (TempDir::new("names"), Authority::new("one"));
    let identities = [
        authority.issue(&["a.test", "127.0.0.1"]),
        authority.issue(&["b.test", "*.wild.test"]),
    ];
    let files = inbound(&directory, &[&identities[0], &identities[1]]);
    let inbound = Inbound::load(files, Offer::Both).unwrap();
    let ca = authority.write(directory.path(), "ca.pem");
    let outbound = Outbound::load(trusting(&ca)).unwrap();
    // An address is never named in a handshake.
    for (name, index) in [
        ("a.test", 0),
        ("b.test", 1),
        ("x.wild.test", 1),
        ("127.0.0.1", 0),
    ] {
        let shaken = shake(&inbound, &outbound, Offer::Both, name).await.unwrap();
        assert_eq!(shown(&shaken), identities[index].der(), "{name}");
    }
    let unknown = shake(&inbound, &outbound, Offer::Both, "c.test").await;
    assert!(unknown.is_err(), "the default does not have the name");
}

#[tokio::test]
async fn a_client_is_known_by_its_certificate_when_one_is_asked_for() {
    let directory = TempDir::new("clients");
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let others = Authority::new("others");
    let ca = servers.write(directory.path(), "servers.pem");
    let client_ca = clients.write(directory.path(), "clients.pem");
    let files = inbound(&directory, &[&servers.issue(&["a.test"])]);
    let client = |authority: &Authority, name: &str| OutboundFiles {
        identity: Some(authority.issue(&[]).write(directory.path(), name)),
        ..trusting(&ca)
    };
    let (known, wrong) = (client(&clients, "known"), client(&others, "wrong"));
    let expired = OutboundFiles {
        identity: Some(
            clients
                .issue_expired(&[])
                .write(directory.path(), "expired"),
        ),
        ..trusting(&ca)
    };
    for (auth, with, passes) in [
        (ClientAuth::Require, &known, true),
        (ClientAuth::Require, &trusting(&ca), false),
        (ClientAuth::Require, &wrong, false),
        (ClientAuth::Require, &expired, false),
        (ClientAuth::Request, &known, true),
        (ClientAuth::Request, &trusting(&ca), true),
        (ClientAuth::Request, &wrong, false),
    ] {
        let files = InboundFiles {
            client_ca: Some(client_ca.clone()),
            client_auth: auth,
            ..files.clone()
        };
        let inbound = Inbound::load(files, Offer::Both).unwrap();
        let outbound = Outbound::load(with.clone()).unwrap();
        let shaken = shake(&inbound, &outbound, Offer::Both, "a.test").await;
        assert_eq!(shaken.is_ok(), passes, "{auth:?} {with:?}");
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_whom_it_should_be_is_refused() {
    let directory = TempDir::new("upstreams");
    let (authority, others) = (Authority::new("one"), Authority::new("others"));
    let ca = authority.write(directory.path(), "ca.pem");
    let outbound = Outbound::load(trusting(&ca)).unwrap();
    for (identity, name, passes) in [
        (authority.issue(&["a.test"]), "a.test", true),
        (authority.issue(&["127.0.0.1"]), "127.0.0.1", true),
        (authority.issue(&["a.test"]), "b.test", false),
        (authority.issue(&["a.test"]), "127.0.0.1", false),
        (authority.issue_expired(&["a.test"]), "a.test", false),
        (others.issue(&["a.test"]), "a.test", false),
    ] {
        let inbound = Inbound::load(inbound(&directory, &[&identity]), Offer::Both).unwrap();
        let shaken = shake(&inbound, &outbound, Offer::Both, name).await;
        assert_eq!(shaken.is_ok(), passes, "{name}");
    }
}

#[test]
fn a_file_that_cannot_be_used_is_named_and_never_quoted() {
    let (directory, authority) = (TempDir::new("bad"), Authority::new("one"));
    let (one, other) = (authority.issue(&["a.test"]), authority.issue(&["a.test"]));
    let (certificate, key) = one.write(directory.path(), "one");
    let (_, foreign) = other.write(directory.path(), "other");
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let half = write("half.key", one.key.split_at(one.key.len() / 2).0);
    let canary = "canarycanarycanarycanary";
    let garbled = format!("-----BEGIN PRIVATE KEY-----\n!{canary}!\n-----END PRIVATE KEY-----\n");
    let garbled = write("garbled.key", &garbled);
    let empty = write("empty.pem", "");
    let absent = directory.join("absent.pem");
    let no_key = PathBuf::from(&certificate);
    for (certificate, key, subject, problem) in [
        (
            &certificate,
            &foreign,
            "tls_key",
            "is not the key of the first certificate",
        ),
        (&certificate, &half, "tls_key", "cut short"),
        (&certificate, &garbled, "tls_key", "not sound PEM"),
        (&certificate, &no_key, "tls_key", "holds no private key"),
        (&empty, &key, "tls_cert", "holds no certificate"),
        (&absent, &key, "tls_cert", "No such file"),
    ] {
        let files = InboundFiles {
            identities: vec![(certificate.clone(), key.clone())],
            ..InboundFiles::default()
        };
        let error = Inbound::load(files, Offer::Both).unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(
            said.starts_with(subject) && said.contains(problem),
            "{said}"
        );
        assert!(!said.contains(canary), "{said}");
        let body = one.key.lines().nth(1).unwrap();
        assert!(!said.contains(body), "{said}");
    }
}

#[tokio::test]
async fn a_reload_is_met_by_the_next_handshake_and_not_by_open_connections() {
    let (directory, authority) = (TempDir::new("renew"), Authority::new("one"));
    let (first, second) = (authority.issue(&["a.test"]), authority.issue(&["a.test"]));
    let side = Inbound::load(inbound(&directory, &[&first]), Offer::Both).unwrap();
    let side = Arc::new(side);
    let ca = authority.write(directory.path(), "ca.pem");
    let outbound = Arc::new(Outbound::load(trusting(&ca)).unwrap());
    let metrics = Arc::new(Metrics::default());
    let (sides, outbounds) = (vec![Arc::clone(&side)], vec![Arc::clone(&outbound)]);
    let keeper = Keeper::new(sides, outbounds, Arc::clone(&metrics)).unwrap();
    let mut open = shake(&side, &outbound, Offer::Both, "a.test")
        .await
        .unwrap();
    assert_eq!(keeper.reload().unwrap(), Changed { files: 0 });

    second.write(directory.path(), "server0");
    assert_eq!(keeper.reload().unwrap(), Changed { files: 2 });
    let new = shake(&side, &outbound, Offer::Both, "a.test")
        .await
        .unwrap();
    assert_eq!(shown(&new), second.der());
    pass_a_byte(&mut open).await;

    // Half of a pair is no pair: everything stays as it was, the authorities too.
    std::fs::write(directory.join("server0.key"), &first.key).unwrap();
    let others = Authority::new("others");
    others.write(directory.path(), "ca.pem");
    let error = keeper.reload().unwrap_err().to_string();
    assert!(error.contains("is not the key"), "{error}");
    let new = shake(&side, &outbound, Offer::Both, "a.test")
        .await
        .unwrap();
    assert_eq!(shown(&new), second.der());
    assert_eq!(metrics.get(Metric::TlsReloads), 2);
    assert_eq!(metrics.get(Metric::TlsReloadFailures), 1);
}

async fn pass_a_byte(shaken: &mut Shaken) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    shaken.0.write_all(b"x").await.unwrap();
    shaken.0.flush().await.unwrap();
    assert_eq!(shaken.1.read_u8().await.unwrap(), b'x');
}

#[tokio::test]
async fn a_session_of_before_a_reload_is_not_resumed_after_it() {
    let directory = TempDir::new("resumed");
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let ca = servers.write(directory.path(), "servers.pem");
    let files = InboundFiles {
        client_ca: Some(clients.write(directory.path(), "clients.pem")),
        ..inbound(&directory, &[&servers.issue(&["a.test"])])
    };
    let side = Arc::new(Inbound::load(files, Offer::Both).unwrap());
    let outbound = Outbound::load(OutboundFiles {
        identity: Some(clients.issue(&[]).write(directory.path(), "client")),
        ..trusting(&ca)
    });
    let outbound = outbound.unwrap();
    for resumed in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut shaken = shake(&side, &outbound, Offer::Both, "a.test")
            .await
            .unwrap();
        assert_eq!(shaken.1.get_ref().1.handshake_kind(), Some(resumed));
        pass_a_byte(&mut shaken).await;
    }
    // Its authority is trusted no more: what was established under it ends here.
    Authority::new("others").write(directory.path(), "clients.pem");
    let keeper = Keeper::new(vec![Arc::clone(&side)], vec![], Arc::default()).unwrap();
    keeper.reload().unwrap();
    let refused = shake(&side, &outbound, Offer::Both, "a.test").await;
    assert!(refused.is_err(), "a client that is trusted no more came in");
}

#[tokio::test]
async fn a_link_that_is_replaced_is_seen_without_being_told() {
    let (directory, authority) = (TempDir::new("link"), Authority::new("one"));
    let (first, second) = (authority.issue(&["a.test"]), authority.issue(&["a.test"]));
    // As Kubernetes mounts a secret: each file is a link through `..data`, which is replaced.
    for (version, identity) in [("1", &first), ("2", &second)] {
        let version = directory.join(version);
        std::fs::create_dir(&version).unwrap();
        identity.write(&version, "tls");
    }
    let point_to = |version: &str| {
        let aside = directory.join("..new");
        std::os::unix::fs::symlink(version, &aside).unwrap();
        std::fs::rename(aside, directory.join("..data")).unwrap();
    };
    point_to("1");
    let data = directory.join("..data");
    let files = InboundFiles {
        identities: vec![(data.join("tls.pem"), data.join("tls.key"))],
        ..InboundFiles::default()
    };
    let side = Arc::new(Inbound::load(files, Offer::Both).unwrap());
    let metrics = Arc::new(Metrics::default());
    let keeper = Keeper::new(vec![Arc::clone(&side)], vec![], Arc::clone(&metrics)).unwrap();
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let every = Duration::from_millis(5);
    drop(tasks.spawn(Arc::new(keeper).watch(every, stop.clone())));
    point_to("2");
    let reloaded = async {
        while metrics.get(Metric::TlsReloads) == 0 {
            tokio::time::sleep(every).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reloaded)
        .await
        .unwrap();
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    let ca = authority.write(directory.path(), "ca.pem");
    let outbound = Outbound::load(trusting(&ca)).unwrap();
    let shaken = shake(&side, &outbound, Offer::Both, "a.test")
        .await
        .unwrap();
    assert_eq!(shown(&shaken), second.der());
}
