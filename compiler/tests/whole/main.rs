//! The compiler from files to files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]
#![allow(clippy::expect_used, reason = "the same")]

mod content;
mod determinism;
mod fixture;
mod mooncake;
mod retold;
mod traces;
mod verifying;
