//! TLS on both sides: what it is made of, and how it is renewed while traffic passes.
//!
//! Every side holds its settings behind a [`crate::swap::Swap`]: a handshake takes what is there when it begins,
//! a reload puts other ones in place, and no connection notices. The crypto provider is passed to
//! each builder: the process's default is never asked for.

mod files;
mod inbound;
mod keeper;
mod outbound;

pub use inbound::{ClientAuth, Inbound, InboundFiles};
pub use keeper::{Changed, Keeper};
pub use outbound::{Outbound, OutboundFiles};

use rustls::crypto::CryptoProvider;
use std::io;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The name of HTTP/2 in a handshake.
pub const H2: &[u8] = b"h2";

/// The name of HTTP/1.1 in a handshake.
pub const HTTP1: &[u8] = b"http/1.1";

/// What a side agrees to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2 alone.
    Http2,
    /// HTTP/2, or else HTTP/1.1.
    Both,
}

impl Offer {
    fn names(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http1 => vec![HTTP1.to_vec()],
            Self::Http2 => vec![H2.to_vec()],
            Self::Both => vec![H2.to_vec(), HTTP1.to_vec()],
        }
    }
}

/// A handshake that does not end holds a connection, and on the way out a request.
async fn within<T>(
    within: Duration,
    shaking: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    tokio::time::timeout(within, shaking)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    Arc::clone(&PROVIDER)
}

#[cfg(test)]
mod tests;
