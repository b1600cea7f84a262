//! TLS on both sides of the real proxy: who is trusted, what is shown, and how it ends.

mod ends;
mod http2;
mod renewal;
mod trust;

use crate::support::{Sidecar, captured, chat};
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use truetape_schemas::capture::Exchange;
use truetape_testkit::authority::{Authority, Identity};
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::tls::{self, ClientStream, Server, ServerStream};

/// An authority, and a folder with its certificate.
struct Trust {
    authority: Authority,
    folder: TempDir,
}

impl Trust {
    fn new(label: &str) -> Self {
        let (authority, folder) = (Authority::new(label), TempDir::new(label));
        authority.write(folder.path(), "ca.pem");
        Self { authority, folder }
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Flags for a certificate that clients are shown.
    fn shown(&self, name: &str, names: &[&str]) -> (Identity, Vec<String>) {
        let identity = self.authority.issue(names);
        identity.write(self.folder.path(), name);
        let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
        let flags = [
            "--tls-cert".to_owned(),
            self.file(&certificate),
            "--tls-key".to_owned(),
            self.file(&key),
        ];
        (identity, flags.to_vec())
    }

    fn client(&self, alpn: &[&str]) -> Arc<rustls::ClientConfig> {
        tls::client(&self.authority, None, alpn)
    }
}

fn refs(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

/// Sends a request over TLS, and reads until the connection ends.
fn ask(mut stream: ClientStream, request: &[u8]) -> (String, io::Result<()>) {
    let mut answer = Vec::new();
    let read = stream
        .write_all(request)
        .and_then(|()| stream.read_to_end(&mut answer));
    (
        String::from_utf8_lossy(&answer).into_owned(),
        read.map(drop),
    )
}

fn closing_chat() -> Vec<u8> {
    let text = String::from_utf8(chat()).unwrap();
    text.replacen("\r\n", "\r\nConnection: close\r\n", 1)
        .into_bytes()
}

/// Reads one request, its body by its length.
fn read_request(stream: &mut ServerStream) -> io::Result<(String, Vec<u8>)> {
    let head = tls::read_head(stream)?;
    let length = head.to_ascii_lowercase();
    let length = length
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body)?;
    Ok((head, body))
}

/// An upstream over TLS that answers `{}` to everything.
fn answering(identity: &Identity, clients: Option<&Authority>) -> Server {
    let config = tls::server(identity, clients, &["http/1.1"]);
    Server::start(config, |mut stream| {
        loop {
            let (head, _) = read_request(&mut stream)?;
            let answer =
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(answer)?;
            if head.contains("Connection: close") {
                return tls::end(stream);
            }
        }
    })
}

fn rows(sidecar: Sidecar, out: &TempDir) -> Vec<Exchange> {
    sidecar.stop();
    captured(&out.join("captures")).0
}
