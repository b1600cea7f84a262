//! What is read off the wire: golden exchanges, and what becomes of them when they are damaged.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a golden file that cannot be read fails its test"
)]

mod golden;
mod hostile;
mod support;
