//! The proxy as a process, between raw sockets: what the traffic sees, what is recorded of it, and
//! what is left when something breaks.
#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot go on fails the test that holds it"
)]

mod faults;
mod http2;
mod http2_ends;
mod lifecycle;
mod mixed;
mod pairing;
mod recording;
mod redirected;
mod reload;
mod routes;
mod stream;
mod support;
mod tls;
mod transparency;
mod tunnels;
