//! The promises, kept by real processes on loopback. Each file is one promise.
//!
//! Read in this order: [`round_trip`] (capture, set, run, and back), [`transparency`] (P1),
//! [`determinism`], [`bad_input`],
//! [`schedule`] (R3, R4), [`clock`], [`crash`] (P3), [`killed`], [`probe`], [`ship`], [`privacy`] (P4), [`shutdown`], [`demo`], [`page`] (in a [`browser`]), [`formats`], [`exit_codes`], [`readme`].
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
mod browser;
mod canaries;
mod clock;
mod crash;
mod demo;
mod determinism;
mod exit_codes;
mod formats;
mod killed;
mod page;
mod privacy;
mod probe;
mod readme;
mod round_trip;
mod schedule;
#[path = "../cases/server.rs"]
mod server;
mod ship;
mod shutdown;
mod support;
mod transparency;
