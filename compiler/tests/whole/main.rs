//! The compiler from files to files.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it stands"
)]

mod bad_input;
mod budget;
mod choosing;
mod content;
mod control;
mod determinism;
mod fixture;
mod hashed;
mod images;
mod labelled;
mod mooncake;
mod portrait;
mod recorded;
mod retold;
mod traces;
mod verifying;
mod versions;
mod vocabulary;
