//! From a listener to an upstream: what a connection is accepted with, and where it goes.

use crate::config::{Config, RouteConfig, Target, Upstream};
use crate::error::Error;
use crate::limits;
use crate::link;
use crate::metrics::Metrics;
use crate::tls::{Inbound, Keeper, Offer, Outbound};
use crate::transparent::{self, Own};
use crate::upward::UpstreamIo;
use http::uri::Scheme;
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::net::{TcpSocket, TcpStream};

/// What clients are offered: what [`crate::accept`] serves.
const SERVED: Offer = Offer::Both;

/// One listener and where it leads, ready to serve.
#[derive(Debug)]
pub struct Route {
    /// The address that was asked for.
    pub listen: String,
    /// TLS towards clients.
    pub inbound: Option<Arc<Inbound>>,
    target: Target,
    outbound: Option<Arc<Outbound>>,
    name: Arc<str>,
    so_mark: Option<u32>,
    own: Arc<Own>,
}

/// All routes of a process.
#[derive(Debug)]
pub struct Routes {
    /// Each of them, in the order of the settings.
    pub all: Vec<Arc<Route>>,
    /// Renews their certificates.
    pub keeper: Arc<Keeper>,
    own: Arc<Own>,
}

impl Routes {
    /// Reads every certificate and key of the settings.
    pub fn load(config: &Config, metrics: &Arc<Metrics>) -> Result<Self, Error> {
        let own = Arc::new(Own::default());
        if let Some(mark) = config.so_mark {
            may_mark(mark)?;
        }
        let load = |route: &RouteConfig| Route::load(route, config.so_mark, &own).map(Arc::new);
        let all = config
            .routes
            .iter()
            .map(load)
            .collect::<Result<Vec<_>, _>>()?;
        let inbound = all.iter().filter_map(|route| route.inbound.clone());
        let outbound = all.iter().filter_map(|route| route.outbound.clone());
        let keeper = Keeper::new(inbound.collect(), outbound.collect(), Arc::clone(metrics))?;
        Ok(Self {
            all,
            keeper: Arc::new(keeper),
            own,
        })
    }

    /// Learns what is listened on.
    pub fn listen(&self, listeners: &[SocketAddr]) {
        self.own.listen(listeners);
    }
}

impl Route {
    fn load(config: &RouteConfig, so_mark: Option<u32>, own: &Arc<Own>) -> Result<Self, Error> {
        let inbound = config.inbound.clone();
        let inbound = inbound.map(|files| Inbound::load(files, SERVED));
        let outbound = config.outbound.clone().map(Outbound::load);
        Ok(Self {
            listen: config.listen.clone(),
            inbound: inbound.transpose()?.map(Arc::new),
            target: config.target.clone(),
            outbound: outbound.transpose()?.map(Arc::new),
            name: config.target.name().into(),
            so_mark,
            own: Arc::clone(own),
        })
    }

    /// Where it leads, in words.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says where a connection goes. None where that would be here, or is unknown.
    pub fn destination(self: &Arc<Self>, stream: &TcpStream) -> Option<Destination> {
        let address = match self.target {
            Target::Server(_) => None,
            Target::OriginalDestination => Some(
                transparent::original_destination(stream)
                    .ok()
                    .filter(|address| !self.own.is_destination(*address))?,
            ),
        };
        Some(Destination {
            route: Arc::clone(self),
            authority: match address {
                Some(address) => address.to_string().into(),
                None => Arc::clone(&self.name),
            },
            redirected: match address {
                Some(address) => Some((address, stream.peer_addr().ok()?)),
                None => None,
            },
            asked_name: OnceLock::new(),
        })
    }
}

/// Where the requests of one client connection go.
#[derive(Debug)]
pub struct Destination {
    route: Arc<Route>,
    /// `host:port`, as in the column `upstream`.
    pub authority: Arc<str>,
    /// Where it was sent, and who sent it, when it was redirected.
    redirected: Option<(SocketAddr, SocketAddr)>,
    /// The server that the client named in its handshake.
    asked_name: OnceLock<ServerName<'static>>,
}

/// Why there is no connection to an upstream.
#[derive(Debug, thiserror::Error)]
pub enum Unreached {
    /// Nobody took it.
    #[error("{0}")]
    Tcp(io::Error),
    /// The upstream is not whom it was to be, or broke off the handshake.
    #[error("TLS handshake: {0}{hint}", hint = hint(.0))]
    Tls(io::Error),
    /// It would lead back to us.
    #[error("the connection is one of the proxy's own; exclude it from the redirect")]
    Loop,
}

impl Unreached {
    /// What our 502 says about it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tcp(_) => "upstream connect",
            Self::Tls(_) => "upstream tls",
            Self::Loop => "upstream loop",
        }
    }

    /// The same, for another request that waited for the same connection.
    pub fn again(&self) -> Self {
        let copy = |cause: &io::Error| io::Error::new(cause.kind(), cause.to_string());
        match self {
            Self::Tcp(cause) => Self::Tcp(copy(cause)),
            Self::Tls(cause) => Self::Tls(copy(cause)),
            Self::Loop => Self::Loop,
        }
    }
}

impl Destination {
    /// The listener it came by.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// Whether the upstream is spoken to over TLS.
    pub fn is_tls(&self) -> bool {
        self.route.outbound.is_some()
    }

    /// The scheme of a request to it.
    pub fn scheme(&self) -> Scheme {
        if self.is_tls() {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        }
    }

    /// Remembers the server that the client named in its handshake: behind a redirect, it is whom
    /// the upstream must be.
    pub fn asked(&self, name: Option<&str>) {
        let name = name.and_then(|name| ServerName::try_from(name.to_owned()).ok());
        if let Some(name) = name {
            // There is one handshake.
            self.asked_name.set(name).ok();
        }
    }

    /// Connects, and shakes hands.
    pub async fn connect(&self, offer: Offer) -> Result<UpstreamIo, Unreached> {
        let stream = self.dial().await?;
        link::tune(&stream).map_err(Unreached::Tcp)?;
        let opened = match self.redirected {
            Some(_) => Some(self.route.own.open(&stream).map_err(Unreached::Tcp)?),
            None => None,
        };
        let Some(outbound) = &self.route.outbound else {
            return Ok(UpstreamIo::plain(stream, opened));
        };
        let name = self.server_name(outbound)?;
        let within = limits::TLS_HANDSHAKE_WITHIN;
        let stream = outbound
            .shake_hands(stream, name, offer, within)
            .await
            .map_err(Unreached::Tls)?;
        Ok(UpstreamIo::tls(stream, opened))
    }

    async fn dial(&self) -> Result<TcpStream, Unreached> {
        let mark = self.route.so_mark;
        let dialling = async {
            match (&self.route.target, self.redirected) {
                (_, Some((address, client))) => {
                    if self.route.own.is_client(client, address) {
                        return Err(Unreached::Loop);
                    }
                    open(address, mark).await.map_err(Unreached::Tcp)
                }
                (Target::Server(server), None) => {
                    resolve(server, mark).await.map_err(Unreached::Tcp)
                }
                (Target::OriginalDestination, None) => Err(Unreached::Loop),
            }
        };
        tokio::time::timeout(limits::CONNECT_WITHIN, dialling)
            .await
            .map_err(|_| Unreached::Tcp(io::ErrorKind::TimedOut.into()))?
    }

    fn server_name(&self, outbound: &Outbound) -> Result<ServerName<'static>, Unreached> {
        if let Some(name) = outbound.server_name() {
            return Ok(name.clone());
        }
        match (&self.route.target, self.redirected) {
            (_, Some((address, _))) => Ok(self
                .asked_name
                .get()
                .cloned()
                .unwrap_or_else(|| ServerName::from(address.ip()))),
            (Target::Server(server), None) => ServerName::try_from(server.host.clone())
                .map_err(|cause| Unreached::Tls(io::Error::other(cause))),
            (Target::OriginalDestination, None) => Err(Unreached::Loop),
        }
    }
}

/// What to do about a refusal whose words do not say it.
fn hint(cause: &io::Error) -> &'static str {
    if cause.to_string().contains("CaUsedAsEndEntity") {
        "; its certificate is that of an authority: issue it one with basicConstraints CA:FALSE"
    } else {
        ""
    }
}

async fn resolve(server: &Upstream, mark: Option<u32>) -> io::Result<TcpStream> {
    let name = (server.host.as_str(), server.port);
    if mark.is_none() {
        return TcpStream::connect(name).await;
    }
    let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in tokio::net::lookup_host(name).await? {
        match open(address, mark).await {
            Ok(stream) => return Ok(stream),
            Err(cause) => refused = cause,
        }
    }
    Err(refused)
}

async fn open(address: SocketAddr, mark: Option<u32>) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(mark) = mark {
        socket2::SockRef::from(&socket).set_mark(mark)?;
    }
    socket.connect(address).await
}

/// Said at the start: an exclusion that does not hold would be met by the first request.
fn may_mark(mark: u32) -> Result<(), Error> {
    TcpSocket::new_v4()
        .and_then(|socket| socket2::SockRef::from(&socket).set_mark(mark))
        .map_err(|cause| {
            Error::config(
                "so_mark",
                format!(
                    "{cause}; grant CAP_NET_ADMIN, or exclude the proxy by its user id instead"
                ),
            )
        })
}
