//! HTTP/1.1 as bytes on a connection, read while it is written.

use super::reader::Reader;
use super::socket::{Control, Io, Socket};
use super::{Fields, WITHIN, value};
use crate::http1::chunk;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};

/// The end of a connection that was closed in order.
pub const CLOSED: &str = "closed";

/// The end of a connection that was reset.
pub const RESET: &str = "reset";

/// One side of a connection.
pub struct Wire {
    reading: ReadHalf<Box<dyn Io>>,
    writing: WriteHalf<Box<dyn Io>>,
    control: Control,
    buffer: Vec<u8>,
    /// What came.
    pub reader: Reader,
    /// When and how the peer ended it.
    pub over: Option<(Instant, &'static str)>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Wire {
    /// Takes a connection.
    pub fn new(socket: Socket, reader: Reader) -> Self {
        let (io, control) = socket.split();
        let (reading, writing) = tokio::io::split(io);
        Self {
            reading,
            writing,
            control,
            buffer: vec![0; 64 * 1024],
            reader,
            over: None,
        }
    }

    fn take(&mut self, read: std::io::Result<usize>) {
        let over = match read {
            Ok(0) => CLOSED,
            // TLS without its own end: what the connection carried may have been cut.
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => "closed below TLS",
            Err(_) => RESET,
            Ok(read) => {
                let bytes = self.buffer.get(..read).unwrap_or_default();
                self.reader.feed(bytes);
                return;
            }
        };
        self.over = Some((Instant::now(), over));
    }

    /// Reads until what came is as wanted; false when the connection or the time ends before.
    pub async fn until(&mut self, within: Duration, wanted: impl Fn(&Reader) -> bool) -> bool {
        let deadline = tokio::time::Instant::now() + within;
        while !wanted(&self.reader) {
            if self.over.is_some() {
                return false;
            }
            match tokio::time::timeout_at(deadline, self.reading.read(&mut self.buffer)).await {
                Ok(read) => self.take(read),
                Err(_) => return false,
            }
        }
        true
    }

    /// Writes, reading meanwhile, until all is written or enough has come; false when the peer
    /// takes no more.
    pub async fn write(&mut self, bytes: &[u8], enough: impl Fn(&Reader) -> bool) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() {
            if enough(&self.reader) {
                return false;
            }
            let reads = self.over.is_none();
            tokio::select! {
                biased;
                wrote = self.writing.write(rest) => match wrote {
                    Ok(wrote) if wrote > 0 => rest = rest.get(wrote..).unwrap_or_default(),
                    _ => return false,
                },
                read = self.reading.read(&mut self.buffer), if reads => self.take(read),
                () = tokio::time::sleep(WITHIN) => return false,
            }
        }
        self.writing.flush().await.is_ok()
    }

    /// Says, in TLS too, that nothing more will be written.
    pub async fn half_close(&mut self) {
        // A peer that has gone needs not be told.
        drop(self.writing.shutdown().await);
    }

    /// Ends what is written as a process that died does: TLS is not told.
    pub fn tear(&self) {
        self.control.half_close();
    }

    /// Ends the connection; gives what came.
    pub fn close(mut self) -> Reader {
        self.control.close();
        std::mem::take(&mut self.reader)
    }

    /// Makes the end of the connection a reset.
    pub fn reset_on_close(&self) {
        self.control.reset();
    }

    /// Resets the connection; gives what came.
    pub fn reset(mut self) -> Reader {
        self.reset_on_close();
        std::mem::take(&mut self.reader)
    }
}

/// How a side sends the body that it has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sending {
    /// Bytes as they are: by length, or none at all.
    #[default]
    Plain,
    /// Each piece is a chunk.
    Chunked,
    /// Bytes as they are, up to the end of the connection.
    UpToClose,
}

impl Sending {
    /// How a head says that its body is sent.
    pub fn of(fields: &Fields, answer_to: Option<&str>, status: u16) -> Self {
        if value(fields, "transfer-encoding").is_some_and(|v| v.contains("chunked")) {
            return Self::Chunked;
        }
        let bodyless = answer_to.is_none_or(|method| method == "HEAD")
            || status < 200
            || matches!(status, 204 | 304);
        if bodyless || value(fields, "content-length").is_some() {
            Self::Plain
        } else {
            Self::UpToClose
        }
    }

    /// Frames a piece.
    pub fn piece(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Chunked if !bytes.is_empty() => chunk(bytes),
            // A chunk of no bytes would be the last.
            _ => bytes.to_vec(),
        }
    }

    /// Frames the end.
    pub fn end(self, trailers: &Fields) -> Vec<u8> {
        match self {
            Self::Chunked => head("0", trailers),
            Self::Plain | Self::UpToClose => Vec::new(),
        }
    }
}

/// A start line and fields, with the empty line.
pub fn head(start: &str, fields: &Fields) -> Vec<u8> {
    let mut text = format!("{start}\r\n");
    for (name, value) in fields {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    text.into_bytes()
}
