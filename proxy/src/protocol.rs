//! Which version of HTTP is spoken on which side.

use crate::tls::Offer;
use std::fmt;

/// What is spoken over one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, and HTTP/1.0 from clients.
    Http1,
    /// HTTP/2.
    Http2,
}

/// The setting `upstream_protocol`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpstreamProtocol {
    /// HTTP/1.1 always.
    Http1,
    /// HTTP/2 always.
    Http2,
    /// What the client speaks, as far as the upstream is known to speak it.
    #[default]
    Mirror,
}

impl UpstreamProtocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Http1, Self::Http2, Self::Mirror];

    /// Its name in the setting.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::Mirror => "mirror",
        }
    }
}

impl fmt::Display for UpstreamProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one client connection asks of its connections to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// HTTP/1.1, and nothing else is offered.
    Http1,
    /// HTTP/2, and nothing else is offered.
    Http2,
    /// HTTP/2, or HTTP/1.1 where the TLS handshake chooses that.
    Either,
}

/// How a client came to speak what it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// What it speaks.
    pub protocol: Protocol,
    /// Whether it was agreed upon in a TLS handshake with us. In cleartext HTTP/2 begins with prior
    /// knowledge, which is the client's claim about its server.
    pub tls: bool,
}

impl Wanted {
    /// Applies the setting to a client and an upstream.
    pub fn of(setting: UpstreamProtocol, client: Client, upstream_tls: bool) -> Self {
        match (setting, client.protocol) {
            (UpstreamProtocol::Http1, _) | (UpstreamProtocol::Mirror, Protocol::Http1) => {
                Self::Http1
            }
            (UpstreamProtocol::Http2, _) => Self::Http2,
            (UpstreamProtocol::Mirror, Protocol::Http2) if upstream_tls => Self::Either,
            // It was our certificate that offered HTTP/2, and nobody said that the upstream has it.
            (UpstreamProtocol::Mirror, Protocol::Http2) if client.tls => Self::Http1,
            (UpstreamProtocol::Mirror, Protocol::Http2) => Self::Http2,
        }
    }

    /// What a TLS handshake offers.
    pub fn offer(self) -> Offer {
        match self {
            Self::Http1 => Offer::Http1,
            Self::Http2 => Offer::Http2,
            Self::Either => Offer::Both,
        }
    }

    /// What is spoken in cleartext, where nothing can be agreed upon.
    pub fn in_cleartext(self) -> Protocol {
        match self {
            Self::Http1 => Protocol::Http1,
            Self::Http2 | Self::Either => Protocol::Http2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Client, Protocol, UpstreamProtocol, Wanted};

    #[test]
    fn the_upstream_is_spoken_to_as_the_client_speaks_where_that_is_known_to_work() {
        let wanted = |setting, protocol, tls, upstream_tls| {
            Wanted::of(setting, Client { protocol, tls }, upstream_tls)
        };
        let mirror = UpstreamProtocol::Mirror;
        for both in [(false, false), (false, true), (true, false), (true, true)] {
            let (tls, upstream_tls) = both;
            let of = |setting, protocol| wanted(setting, protocol, tls, upstream_tls);
            assert_eq!(of(mirror, Protocol::Http1), Wanted::Http1);
            for protocol in [Protocol::Http1, Protocol::Http2] {
                assert_eq!(of(UpstreamProtocol::Http1, protocol), Wanted::Http1);
                assert_eq!(of(UpstreamProtocol::Http2, protocol), Wanted::Http2);
            }
        }
        assert_eq!(wanted(mirror, Protocol::Http2, false, false), Wanted::Http2);
        assert_eq!(wanted(mirror, Protocol::Http2, true, false), Wanted::Http1);
        assert_eq!(wanted(mirror, Protocol::Http2, true, true), Wanted::Either);
        assert_eq!(wanted(mirror, Protocol::Http2, false, true), Wanted::Either);
    }
}
