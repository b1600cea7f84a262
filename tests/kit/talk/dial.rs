//! How a client connects and a server accepts: in clear, or with TLS and ALPN.

use super::Protocol;
use super::socket::{Socket, control};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The name that a server's certificate must have.
pub const NAME: &str = "localhost";

/// Window of a client's streams, where nothing else is asked for.
pub const WINDOW_BYTES: u32 = 1 << 20;

/// How a client reaches a server.
#[derive(Clone)]
pub struct Dial {
    /// Where it is.
    pub addr: SocketAddr,
    /// What its streams may hold unread.
    pub window_bytes: u32,
    tls: Option<Arc<ClientConfig>>,
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dial")
            .field("addr", &self.addr)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

impl Dial {
    /// In clear.
    pub fn clear(addr: SocketAddr) -> Self {
        Self {
            addr,
            window_bytes: WINDOW_BYTES,
            tls: None,
        }
    }

    /// With TLS, to a server that is named [`NAME`].
    pub fn tls(addr: SocketAddr, config: Arc<ClientConfig>) -> Self {
        Self {
            tls: Some(config),
            ..Self::clear(addr)
        }
    }

    /// The scheme of its URLs.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Connects.
    pub async fn connect(&self) -> std::io::Result<Socket> {
        let stream = TcpStream::connect(self.addr).await?;
        let Some(config) = &self.tls else {
            return Socket::new(stream);
        };
        let (stream, control) = control(stream)?;
        let name = ServerName::try_from(NAME).map_err(std::io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(config));
        Ok(Socket::above(
            connector.connect(name, stream).await?,
            control,
        ))
    }
}

/// How a server takes a connection.
#[derive(Clone)]
pub struct Accept(Option<TlsAcceptor>);

impl std::fmt::Debug for Accept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Accept").field(&self.0.is_some()).finish()
    }
}

impl Accept {
    /// In clear; the first bytes tell the protocol.
    pub fn clear() -> Self {
        Self(None)
    }

    /// With TLS; ALPN tells the protocol.
    pub fn tls(config: Arc<ServerConfig>) -> Self {
        Self(Some(TlsAcceptor::from(config)))
    }

    /// Takes a connection, and says what is spoken on it.
    pub async fn accept(&self, stream: TcpStream) -> std::io::Result<(Socket, Protocol)> {
        let Some(acceptor) = &self.0 else {
            let protocol = sniff(&stream).await?;
            return Ok((Socket::new(stream)?, protocol));
        };
        let (stream, control) = control(stream)?;
        let stream = acceptor.accept(stream).await?;
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(H2) => Protocol::Http2,
            _ => Protocol::Http1,
        };
        Ok((Socket::above(stream, control), protocol))
    }
}

/// HTTP/2 in ALPN.
const H2: &[u8] = b"h2";

/// Looks at the first bytes and leaves them.
async fn sniff(stream: &TcpStream) -> std::io::Result<Protocol> {
    const PREFACE: &[u8] = b"PRI";
    let mut first = [0; PREFACE.len()];
    let seen = stream.peek(&mut first).await?;
    let is_h2 = seen > 0 && PREFACE.starts_with(first.get(..seen).unwrap_or_default());
    Ok(if is_h2 {
        Protocol::Http2
    } else {
        Protocol::Http1
    })
}
