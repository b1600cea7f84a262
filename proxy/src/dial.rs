//! Opens connections to the upstream.

use crate::link::Link;
use crate::protocol::{Protocol, Wanted};
use crate::route::{Destination, Unreached};
use crate::trunk::Trunk;
use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection that was just opened.
#[derive(Debug)]
pub enum Fresh {
    /// It speaks HTTP/1.1.
    Link(Link),
    /// It speaks HTTP/2, as long as somebody drives it.
    Trunk(Trunk, Driver),
}

/// What a trunk lives by.
pub struct Driver(pub Pin<Box<dyn Future<Output = Result<(), h2::Error>> + Send>>);

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Driver")
    }
}

/// Opens a connection that speaks what is wanted.
pub async fn connect(destination: &Destination, wanted: Wanted) -> Result<Fresh, Unreached> {
    let io = destination.connect(wanted.offer()).await?;
    let protocol = match io.agreed_on_http2() {
        Some(true) => Protocol::Http2,
        // An upstream that does not choose is taken at the setting's word.
        Some(false) if wanted != Wanted::Http2 => Protocol::Http1,
        Some(false) | None => wanted.in_cleartext(),
    };
    speak(io, protocol).await.map_err(Unreached::Tcp)
}

/// Begins to speak over a connection that is open.
async fn speak<I>(io: I, protocol: Protocol) -> io::Result<Fresh>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match protocol {
        Protocol::Http1 => Link::handshake(io).await.map(Fresh::Link),
        Protocol::Http2 => {
            let (trunk, driver) = Trunk::handshake(io).await?;
            Ok(Fresh::Trunk(trunk, Driver(Box::pin(driver))))
        }
    }
}
