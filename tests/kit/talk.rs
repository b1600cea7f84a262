//! Exchanges as scripts: what each side does, in order, whichever protocol carries it.
//!
//! A script is played by a raw client ([`client`]) and a raw server ([`server`]). Over HTTP/1.1 they
//! write the bytes that the script says, over HTTP/2 the frames; nothing is normalised, and what
//! each side saw comes back as [`Message`]s. So one script shows what a proxy changes, on either
//! protocol.
//!
//! Read in this order: [`socket`], [`dial`], [`reader`], [`wire`], [`client`], [`server`] with
//! [`server1`] (HTTP/1.1); then [`client2`] and [`server2`] (HTTP/2).

use bytes::Bytes;
use std::time::{Duration, Instant};

pub mod client;
pub mod client2;
pub mod dial;
pub mod reader;
pub mod server;
pub mod server1;
pub mod server2;
pub mod socket;
pub mod wire;

/// Longest wait for anything that a script awaits.
pub const WITHIN: Duration = Duration::from_secs(20);

/// The target of the request that asks whether a connection was kept; no script sees it.
pub const PROBE: &str = "/-/kept";

/// Header fields in wire order.
pub type Fields = Vec<(String, String)>;

/// What carries an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1.x, as bytes.
    Http1,
    /// HTTP/2, as frames, by prior knowledge or ALPN.
    Http2,
}

impl Protocol {
    /// Its name in scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
        }
    }
}

/// One thing that a side does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A client begins a request.
    Request {
        /// GET, POST ...
        method: String,
        /// As it stands in the request line.
        target: String,
        /// `host` among them.
        fields: Fields,
    },
    /// A server begins an answer; below 200 it is an interim one.
    Response {
        /// Status.
        status: u16,
        /// Reason phrase, which HTTP/2 does not have.
        reason: String,
        /// Fields.
        fields: Fields,
    },
    /// Body bytes, in one write or frame.
    Data(Bytes),
    /// Ends the body, with trailer fields.
    Trailers(Fields),
    /// Ends the body.
    End,
    /// Bytes as they are; HTTP/1.1 only.
    Raw(Bytes),
    /// Does nothing for so long, but reads.
    Pause(Duration),
    /// Does nothing for so long, and does not read either.
    Stall(Duration),
    /// Waits.
    Await(Awaited),
    /// Says that nothing more will be written, and reads on; HTTP/1.1 only.
    HalfClose,
    /// Goes away in the middle: closes the connection, or resets the stream (a client with CANCEL,
    /// a server with INTERNAL_ERROR).
    Leave,
    /// Resets the connection, or the stream with this code.
    Reset(u32),
    /// A server ends its connection with this code; HTTP/2 only.
    GoAway(u32),
    /// Closes the connection, in order in HTTP/1.1, under all of its streams in HTTP/2.
    HangUp,
}

/// What a side waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The head of the peer's current message.
    Head,
    /// An interim answer.
    Interim,
    /// So many body bytes of the peer's current message.
    Bytes(usize),
    /// The whole of the peer's current message.
    Message,
    /// The peer's end of the connection, or of the stream.
    Gone,
    /// So many bytes that follow an upgrade.
    Tunnelled(usize),
}

/// How a message ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// It has not, yet.
    #[default]
    Open,
    /// As its framing says.
    Whole,
    /// Its connection ended before it.
    Cut(String),
    /// Its stream was reset.
    Reset(u32),
}

/// A message as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Request line or status line; the pseudo fields in HTTP/2.
    pub start: String,
    /// Interim answers before it.
    pub interim: Vec<(String, Fields)>,
    /// Fields in wire order.
    pub fields: Fields,
    /// Body, out of its framing.
    pub body: Vec<u8>,
    /// Trailer fields.
    pub trailers: Fields,
    /// How it ended.
    pub end: End,
}

impl Message {
    /// Whether nothing more will come of it.
    pub fn is_over(&self) -> bool {
        self.end != End::Open
    }
}

/// What a client saw.
#[derive(Clone, Debug, Default)]
pub struct ClientSeen {
    /// One for each request; those that nothing came of are empty and cut.
    pub answers: Vec<Message>,
    /// Connections it opened.
    pub connections: usize,
    /// Whether the last connection could carry another request afterwards.
    pub kept: bool,
    /// Bytes that followed an upgrade.
    pub tunnelled: Vec<u8>,
    /// When it went away, if it did.
    pub left_at: Option<Instant>,
    /// When it read again after it had not.
    pub resumed_at: Option<Instant>,
}

/// What a server saw.
#[derive(Clone, Debug, Default)]
pub struct ServerSeen {
    /// In order of arrival.
    pub requests: Vec<Message>,
    /// Connections that carried any.
    pub connections: usize,
    /// Bytes that followed an upgrade.
    pub tunnelled: Vec<u8>,
    /// When it learnt that its peer had gone, where the script waits for that.
    pub gone_at: Option<Instant>,
    /// When the last answer was written to its end.
    pub sent_at: Option<Instant>,
    /// The protocol of each connection.
    pub protocols: Vec<Protocol>,
}

/// The value of a field, names without case.
pub fn value<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    let same = |(n, _): &&(String, String)| n.eq_ignore_ascii_case(name);
    fields.iter().find(same).map(|(_, value)| value.as_str())
}
