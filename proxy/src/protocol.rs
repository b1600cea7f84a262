//! The two versions of HTTP that are served.

/// What is spoken over one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, and HTTP/1.0 from clients.
    Http1,
    /// HTTP/2.
    Http2,
}
