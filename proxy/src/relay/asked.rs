//! How a request was asked, as far as its answer depends on it.

use crate::fields::{Fields as _, is_last};
use crate::relay::head::Request;
use http::Method;

/// What an answer depends on of how it was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Without a body.
    pub to_head: bool,
    /// For a tunnel through the upstream.
    pub connect: bool,
    /// It may turn the connection into a tunnel, and is counted once that is known.
    pub uncounted: bool,
    /// By a client that waits to be told to send.
    pub expects: bool,
    /// As the last request of its connection.
    pub last: bool,
}

impl Asked {
    /// Reads it off the request. `upgrade`: it asks for another protocol.
    pub fn of(request: &Request<'_>, upgrade: bool) -> Self {
        Self {
            to_head: request.method == Method::HEAD.as_str(),
            connect: request.method == Method::CONNECT.as_str(),
            uncounted: upgrade && request.method != Method::POST.as_str(),
            expects: request.head.fields.field("expect").is_some(),
            last: is_last(request.head.minor == 0, request.head.fields),
        }
    }
}
