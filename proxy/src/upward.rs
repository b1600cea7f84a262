//! The socket to an upstream, in clear or over TLS.

use crate::tls::H2;
use crate::transparent::Opened;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// An open connection to an upstream.
#[derive(Debug)]
pub struct UpstreamIo {
    io: Io,
    /// By which loops are told, as long as it is open.
    _opened: Option<Opened>,
}

#[derive(Debug)]
enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl UpstreamIo {
    pub(crate) fn plain(stream: TcpStream, opened: Option<Opened>) -> Self {
        Self {
            io: Io::Plain(stream),
            _opened: opened,
        }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, opened: Option<Opened>) -> Self {
        Self {
            io: Io::Tls(Box::new(stream)),
            _opened: opened,
        }
    }

    /// Has the connection reset once it is let go, instead of ended.
    pub fn reset(&self) {
        crate::io::reset(match &self.io {
            Io::Plain(stream) => stream,
            Io::Tls(stream) => stream.get_ref().0,
        });
    }

    /// Whether both sides agreed on HTTP/2 in the handshake. None where there was none.
    pub fn agreed_on_http2(&self) -> Option<bool> {
        match &self.io {
            Io::Plain(_) => None,
            Io::Tls(stream) => Some(stream.get_ref().1.alpn_protocol() == Some(H2)),
        }
    }
}

impl AsyncRead for UpstreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            // The end without a close_notify is an error: what came may not be all.
            Io::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for UpstreamIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Io::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Io::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(stream) => stream.is_write_vectored(),
            Io::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Io::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Io::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
