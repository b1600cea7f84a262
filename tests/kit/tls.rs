//! Both ends of TLS over blocking sockets, with every byte and every end in the test's hand.

use crate::authority::{Authority, Identity};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use rustls::{ConnectionCommon, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// A client's side.
pub type ClientStream = StreamOwned<ClientConnection, TcpStream>;

/// A server's side.
pub type ServerStream = StreamOwned<ServerConnection, TcpStream>;

/// Longest wait for anything that is read or written.
const WITHIN: Duration = Duration::from_secs(20);

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots(authority: &Authority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der()).expect("an authority");
    roots
}

fn names(alpn: &[&str]) -> Vec<Vec<u8>> {
    alpn.iter().map(|name| name.as_bytes().to_vec()).collect()
}

/// A client that trusts one authority, shows a certificate or none, and offers protocols.
pub fn client(
    trusted: &Authority,
    identity: Option<&Identity>,
    alpn: &[&str],
) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots(trusted));
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder
            .with_client_auth_cert(vec![identity.der()], identity.key_der())
            .expect("a pair"),
    };
    config.alpn_protocols = names(alpn);
    Arc::new(config)
}

/// A server with a certificate, which requires one of the client when it trusts an authority.
pub fn server(
    identity: &Identity,
    trusted: Option<&Authority>,
    alpn: &[&str],
) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions");
    let builder = match trusted {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let roots = Arc::new(roots(authority));
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            builder.with_client_cert_verifier(verifier.build().expect("authorities"))
        }
    };
    let mut config = builder
        .with_single_cert(vec![identity.der()], identity.key_der())
        .expect("a pair");
    config.alpn_protocols = names(alpn);
    Arc::new(config)
}

/// Connects, and shakes hands with a server that has the name.
pub fn connect(
    addr: SocketAddr,
    config: &Arc<ClientConfig>,
    name: &str,
) -> io::Result<ClientStream> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, patient(TcpStream::connect(addr)?)?);
    shake(&mut stream.conn, &mut stream.sock)?;
    Ok(stream)
}

fn patient(socket: TcpStream) -> io::Result<TcpStream> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(WITHIN))?;
    socket.set_write_timeout(Some(WITHIN))?;
    Ok(socket)
}

fn shake<D>(connection: &mut ConnectionCommon<D>, socket: &mut TcpStream) -> io::Result<()> {
    while connection.is_handshaking() {
        connection.complete_io(socket)?;
    }
    while connection.wants_write() {
        connection.write_tls(socket)?;
    }
    Ok(())
}

/// The certificate that the server showed.
pub fn shown(stream: &ClientStream) -> Option<CertificateDer<'static>> {
    let chain = stream.conn.peer_certificates()?;
    Some(chain.first()?.clone().into_owned())
}

/// Reads a head, up to and with its empty line.
pub fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    String::from_utf8(head).map_err(io::Error::other)
}

/// Ends in order: what was written is all there is.
pub fn end(mut stream: ServerStream) -> io::Result<()> {
    stream.conn.send_close_notify();
    stream.flush()?;
    stream.sock.shutdown(Shutdown::Write)
}

/// Ends as a process that died: the socket closes, and nothing says that it was all.
pub fn tear(mut stream: ServerStream) -> io::Result<()> {
    stream.flush()?;
    stream.sock.shutdown(Shutdown::Write)
}

/// A server on a port of its own.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub addr: SocketAddr,
}

impl Server {
    /// Serves each connection on a thread; a handshake that fails is a connection that ends.
    pub fn start(
        config: Arc<ServerConfig>,
        serve: impl Fn(ServerStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (config, serve) = (Arc::clone(&config), Arc::clone(&serve));
                std::thread::spawn(move || accept(config, socket).and_then(|stream| serve(stream)));
            }
        });
        Self { addr }
    }

    /// Its URL by a name.
    pub fn url(&self, host: &str) -> String {
        format!("https://{host}:{}", self.addr.port())
    }
}

fn accept(config: Arc<ServerConfig>, socket: TcpStream) -> io::Result<ServerStream> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, patient(socket)?);
    shake(&mut stream.conn, &mut stream.sock)?;
    Ok(stream)
}
