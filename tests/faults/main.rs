//! What breaks around a recorder, on purpose, with the real program: traffic must not notice, and
//! the account must say what was lost. `docs/reliability.md` lists the results.
//!
//! Read in this order: [`load`] (clients and a server that count), [`stage`] (a recorder under
//! load), [`volume`] (file systems that can be broken), then the faults: [`disk`], [`kill`],
//! [`memory`], [`storage`].
//!
//! Mounting needs root. Without it a test does what it can, and says what it left out.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on fails, and says what it did less"
)]

mod disk;
mod kill;
mod load;
mod memory;
mod stage;
mod storage;
mod volume;
