//! Where a redirected connection was sent, and which ones would come back to us.
//!
//! The kernel keeps the address before a REDIRECT. A connection that was sent to one of our own
//! listeners was not redirected, and following it would be a loop; so would following one that we
//! opened ourselves, which a rule without an exclusion sends back.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::net::TcpStream;

/// What this process listens on and has opened, by which loops are told.
#[derive(Debug, Default)]
pub struct Own {
    listeners: OnceLock<Vec<SocketAddr>>,
    /// From where to where. The kernel gives one port to several connections that go to different
    /// places, of this process or another.
    opened: Mutex<HashSet<(SocketAddr, SocketAddr)>>,
}

/// A connection of ours, as long as it lasts.
#[derive(Debug)]
pub struct Opened {
    own: Arc<Own>,
    ends: (SocketAddr, SocketAddr),
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut opened = self
            .own
            .opened
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        opened.remove(&self.ends);
    }
}

impl Own {
    /// Learns what is listened on, once all of it is known.
    pub fn listen(&self, listeners: &[SocketAddr]) {
        // It is told once, at the start.
        self.listeners.set(listeners.to_vec()).ok();
    }

    /// Remembers a connection to an upstream.
    pub fn open(self: &Arc<Self>, stream: &TcpStream) -> io::Result<Opened> {
        let ends = (plain(stream.local_addr()?), plain(stream.peer_addr()?));
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.insert(ends);
        Ok(Opened {
            own: Arc::clone(self),
            ends,
        })
    }

    /// Whether a client of such a destination is this process: one of its connections was redirected
    /// back to it.
    ///
    /// Asked once a request is to be forwarded: by then whoever sent it knows its own address.
    pub fn is_client(&self, client: SocketAddr, destination: SocketAddr) -> bool {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.contains(&(plain(client), plain(destination)))
    }

    /// Whether a connection was sent to a listener of this process.
    pub fn is_destination(&self, destination: SocketAddr) -> bool {
        let listeners = self.listeners.get().map_or(&[][..], Vec::as_slice);
        leads_back(destination, listeners, is_local)
    }
}

/// A listener on every address is met at each that is this machine's.
fn leads_back(
    destination: SocketAddr,
    listeners: &[SocketAddr],
    is_local: impl Fn(IpAddr) -> bool,
) -> bool {
    listeners
        .iter()
        .filter(|listener| listener.port() == destination.port())
        .any(|listener| {
            listener.ip() == destination.ip()
                || listener.ip().is_unspecified() && is_local(destination.ip())
        })
}

/// Only addresses of this machine can be bound.
fn is_local(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Where a connection was sent before it was redirected; an error where it was not.
pub fn original_destination(stream: &TcpStream) -> io::Result<SocketAddr> {
    let socket = socket2::SockRef::from(stream);
    let found = match stream.local_addr()? {
        SocketAddr::V4(_) => socket.original_dst_v4(),
        // A listener of both families has v4 clients under v6 addresses.
        SocketAddr::V6(local) if local.ip().to_ipv4_mapped().is_some() => socket.original_dst_v4(),
        SocketAddr::V6(_) => socket.original_dst_v6(),
    };
    found?
        .as_socket()
        .map(plain)
        .ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))
}

/// An IPv4 address as such, not in the form of an IPv6 one.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::{Own, leads_back, original_destination, plain};
    use std::net::{IpAddr, SocketAddr};
    use std::sync::Arc;
    use tokio::net::{TcpListener, TcpStream};

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_was_sent_to_a_listener_of_ours_leads_back() {
        let here: IpAddr = "10.0.0.5".parse().unwrap();
        for (destination, listener, back) in [
            ("10.0.0.5:4143", "0.0.0.0:4143", true),
            ("10.0.0.5:4143", "[::]:4143", true),
            ("10.0.0.5:4143", "10.0.0.5:4143", true),
            // The same port of another pod is where its client wants to go.
            ("10.0.0.6:4143", "0.0.0.0:4143", false),
            ("10.0.0.5:8000", "0.0.0.0:4143", false),
            ("10.0.0.5:4143", "127.0.0.1:4143", false),
        ] {
            let found = leads_back(address(destination), &[address(listener)], |ip| ip == here);
            assert_eq!(found, back, "{destination} {listener}");
        }
    }

    #[test]
    fn a_mapped_address_is_the_plain_one() {
        assert_eq!(
            plain(address("[::ffff:10.0.0.5]:80")),
            address("10.0.0.5:80")
        );
        assert_eq!(plain(address("[fd00::1]:80")), address("[fd00::1]:80"));
    }

    #[tokio::test]
    async fn a_connection_of_ours_is_known_while_it_lasts() {
        let own = Arc::new(Own::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let stream = TcpStream::connect(there).await.unwrap();
        let (_, client) = listener.accept().await.unwrap();
        assert!(!own.is_client(client, there));
        let opened = own.open(&stream).unwrap();
        assert!(own.is_client(client, there));
        // Another process has the same port, on its way to another place.
        assert!(!own.is_client(client, address("127.0.0.2:1")));
        drop(opened);
        assert!(!own.is_client(client, there));
    }

    #[tokio::test]
    async fn a_connection_that_was_not_redirected_leads_back_or_has_no_destination() {
        let own = Own::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listening = listener.local_addr().unwrap();
        own.listen(&[listening]);
        let _client = TcpStream::connect(listening).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        // The kernel says either, by whether it tracks connections.
        if let Ok(destination) = original_destination(&stream) {
            assert!(own.is_destination(destination), "{destination}");
        }
    }
}
