//! A connection that can be closed, half closed and reset, with or without TLS above it.

use std::net::{Shutdown, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// What messages are written to and read from.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// One side of a connection.
pub struct Socket {
    /// What carries the messages.
    pub io: Box<dyn Io>,
    control: Control,
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket").finish_non_exhaustive()
    }
}

/// The socket below, for what TLS knows nothing of.
#[derive(Debug)]
pub struct Control(std::net::TcpStream);

impl Socket {
    /// Over TCP alone.
    pub fn new(stream: TcpStream) -> std::io::Result<Self> {
        let (stream, control) = control(stream)?;
        Ok(Self {
            io: Box::new(stream),
            control,
        })
    }

    /// With something above TCP.
    pub fn above(io: impl Io + 'static, control: Control) -> Self {
        Self {
            io: Box::new(io),
            control,
        }
    }

    /// Connects over TCP alone.
    pub async fn connect(addr: SocketAddr) -> std::io::Result<Self> {
        Self::new(TcpStream::connect(addr).await?)
    }

    /// Both parts.
    pub fn split(self) -> (Box<dyn Io>, Control) {
        (self.io, self.control)
    }
}

/// Keeps a second descriptor of a socket.
pub fn control(stream: TcpStream) -> std::io::Result<(TcpStream, Control)> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let control = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, Control(control)))
}

impl Control {
    /// Ends both directions; what was written still arrives.
    pub fn close(&self) {
        // It may be over already.
        drop(self.0.shutdown(Shutdown::Both));
    }

    /// Ends the direction of this side.
    pub fn half_close(&self) {
        drop(self.0.shutdown(Shutdown::Write));
    }

    /// Makes the close that follows a reset.
    pub fn reset(&self) {
        let socket = socket2::SockRef::from(&self.0);
        drop(socket.set_linger(Some(Duration::ZERO)));
    }
}
