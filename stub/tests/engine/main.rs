//! The engine stub as a client sees it, over loopback.
#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot go on fails the test that holds it"
)]

mod cache;
mod counters;
mod lifecycle;
mod refusals;
mod support;
mod wire;
