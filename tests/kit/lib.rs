//! What the end-to-end tests and the case driver stand on.
//!
//! Read in this order:
//!
//! 1. [`http1`]: heads and bodies of HTTP/1.1 as bytes, with nothing normalised away;
//! 2. [`upstream`]: a model server that is a script;
//! 3. [`client`]: a client that notes when every byte came and how the answer ended;
//! 4. [`process`]: one of our binaries, awaited by its log and killed on drop;
//! 5. [`capture`]: the rows a directory holds;
//! 6. [`trace`]: seeded traffic whose sessions, lengths and sharing are known;
//! 7. [`shared`]: public traces and cases beside the repository;
//! 8. [`tempdir`]: scratch folders that stay when asked.
//!
//! Everything binds port 0, awaits events with a deadline, and knows no network beyond loopback.
#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a fixture that cannot go on fails the test that holds it"
)]

pub mod capture;
pub mod client;
pub mod http1;
pub mod process;
pub mod shared;
pub mod tempdir;
pub mod trace;
pub mod upstream;
