//! A proxy in front of a server whose script changes, and the same server without it.

use crate::compare::{self, Difference, Played};
use crate::corpus::Entry;
use crate::rows::Recorded;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use truetape_testkit::authority::{Authority, Identity};
use truetape_testkit::capture;
use truetape_testkit::process::Process;
use truetape_testkit::talk::dial::{Accept, Dial, NAME};
use truetape_testkit::talk::server::Server;
use truetape_testkit::talk::{Act, Protocol, client, client2};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::tls;

/// The variable that names another proxy.
const PROXY: &str = "TRUETAPE_PROXY";

/// A proxy, and servers of its own for both ways.
pub(crate) struct Stage {
    dir: TempDir,
    /// None, for a control: then both ways are the same.
    process: Option<Process>,
    direct: Server,
    behind: Server,
    addr: SocketAddr,
    trust: Option<Trust>,
}

/// Who trusts whom where TLS is spoken.
struct Trust {
    authority: Authority,
    identity: Identity,
}

/// What came of an entry on one protocol.
pub(crate) struct Came {
    pub(crate) entry: Arc<Entry>,
    pub(crate) protocol: Protocol,
    pub(crate) differences: Vec<Difference>,
    /// From the client's leaving to the upstream's knowing, without and with the proxy.
    pub(crate) gone: Option<(Duration, Duration)>,
}

impl Stage {
    pub(crate) async fn start(between: Between) -> Self {
        let dir = TempDir::new("differential");
        let trust = (between == Between::ProxyWithTls).then(|| {
            let authority = Authority::new("differential");
            let identity = authority.issue(&[NAME]);
            Trust {
                authority,
                identity,
            }
        });
        let accept = || match &trust {
            Some(trust) => Accept::tls(tls::server(&trust.identity, None, &["h2", "http/1.1"])),
            None => Accept::clear(),
        };
        let direct = Server::start(accept()).await;
        let behind = Server::start(accept()).await;
        let (process, addr) = match between {
            Between::Nothing => (None, behind.addr),
            Between::Proxy | Between::ProxyWithTls => {
                let (process, listen) = proxy(&dir, behind.addr, trust.as_ref());
                (Some(process), listen)
            }
        };
        Self {
            dir,
            process,
            direct,
            behind,
            addr,
            trust,
        }
    }

    fn dial(&self, addr: SocketAddr, protocol: Protocol) -> Dial {
        let alpn = match protocol {
            Protocol::Http1 => "http/1.1",
            Protocol::Http2 => "h2",
        };
        match &self.trust {
            Some(trust) => Dial::tls(addr, tls::client(&trust.authority, None, &[alpn])),
            None => Dial::clear(addr),
        }
    }

    /// Plays an entry both ways.
    pub(crate) async fn play(&self, entry: &Arc<Entry>, protocol: Protocol) -> Came {
        let tagged = Entry {
            client: tag(entry, protocol),
            ..Entry::clone(entry)
        };
        let direct_dial = &self.dial(self.direct.addr, protocol);
        let proxy_dial = &self.dial(self.addr, protocol);
        let servers = (&self.direct, &self.behind);
        let (direct, proxied) = if entry.slow {
            // It mostly waits: both ways at once, and nobody knows how the other came out.
            tokio::join!(
                one_way(direct_dial, servers.0, &tagged, protocol, None),
                one_way(proxy_dial, servers.1, &tagged, protocol, None),
            )
        } else {
            let direct = one_way(direct_dial, servers.0, &tagged, protocol, None).await;
            let closes = Some(!direct.client.kept);
            let proxied = one_way(proxy_dial, servers.1, &tagged, protocol, closes).await;
            (direct, proxied)
        };
        let gone = |played: &Played| {
            let (left, gone) = played.client.left_at.zip(played.server.gone_at)?;
            Some(gone.saturating_duration_since(left))
        };
        Came {
            entry: Arc::clone(entry),
            protocol,
            differences: compare::compare(&direct, &proxied),
            gone: gone(&direct).zip(gone(&proxied)),
        }
    }

    /// Ends the proxy, and reads what it sealed.
    pub(crate) fn stop(self) -> Option<Recorded> {
        let ended = self.process.map(Process::stop);
        ended.map(|ended| Recorded {
            rows: capture::rows(&self.dir.join("capture")),
            code: ended.code,
            log: ended.stderr,
        })
    }
}

/// What stands between the client and the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    /// The proxy.
    Proxy,
    /// The proxy, with TLS on both sides.
    ProxyWithTls,
    /// Nothing: what differs then is the harness's own.
    Nothing,
}

fn proxy(dir: &TempDir, upstream: SocketAddr, trust: Option<&Trust>) -> (Process, SocketAddr) {
    let (program, mut args) = program();
    args.extend(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"].map(OsString::from));
    args.extend(["--out".into(), dir.join("capture").into_os_string()]);
    let url = match trust {
        Some(trust) => {
            let ca = trust.authority.write(dir.path(), "ca.pem");
            let (cert, key) = trust.identity.write(dir.path(), "server");
            let flags = ["--tls-cert", "--tls-key", "--upstream-ca"].map(OsString::from);
            let files = [cert, key, ca].map(OsString::from);
            args.extend(
                flags
                    .into_iter()
                    .zip(files)
                    .flat_map(|(flag, file)| [flag, file]),
            );
            format!("https://{NAME}:{}", upstream.port())
        }
        None => format!("http://{upstream}"),
    };
    args.extend(["--upstream".into(), url.into()]);
    let process = Process::start(program.as_ref(), args, &[]);
    let listen = process.listening().listen;
    (process, listen)
}

/// The binary to put between, and its first words.
fn program() -> (OsString, Vec<OsString>) {
    match std::env::var_os(PROXY) {
        Some(program) => (program, Vec::new()),
        None => (env!("CARGO_BIN_EXE_truetape").into(), vec!["record".into()]),
    }
}

async fn one_way(
    dial: &Dial,
    server: &Server,
    entry: &Entry,
    protocol: Protocol,
    closes: Option<bool>,
) -> Played {
    let scene = server.begin(&entry.server);
    let client = match protocol {
        Protocol::Http1 => client::play(dial, &entry.client, closes).await,
        Protocol::Http2 => client2::play(dial, &entry.client, closes).await,
    };
    let ended = server.end(&scene).await;
    let seen = scene.seen().clone();
    Played {
        client,
        server: seen,
        hung: ended.err(),
    }
}

/// Marks the targets of an entry whose rows are looked at, so that they are found.
fn tag(entry: &Entry, protocol: Protocol) -> Vec<Act> {
    let mark = mark(entry, protocol);
    let tagged = |act: &Act| match act {
        Act::Request {
            method,
            target,
            fields,
        } if entry.row.is_some() && target.starts_with('/') => Act::Request {
            method: method.clone(),
            target: format!(
                "{target}{}{mark}",
                if target.contains('?') { '&' } else { '?' }
            ),
            fields: fields.clone(),
        },
        other => other.clone(),
    };
    entry.client.iter().map(tagged).collect()
}

/// What marks the rows of an entry.
pub(crate) fn mark(entry: &Entry, protocol: Protocol) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = entry.name.chars().map(letter).collect();
    format!("entry={name}.{}", protocol.name())
}
