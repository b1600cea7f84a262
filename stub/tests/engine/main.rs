//! The engine stub as a client sees it, over loopback.

mod cache;
mod counters;
mod lifecycle;
mod refusals;
mod support;
mod wire;
